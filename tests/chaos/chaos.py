"""Carries a plan out on a cluster under load, and keeps the timeline of what happened."""

import threading
import time

from embedkafka.zk import paths
from tests.chaos.checkers import EpochWatcher

HEALING_S = 20.0
"""How long a healed cluster may take to be whole again: a second when nobody else works here."""


class Timeline:
    """What was done and what went wrong, with times."""

    def __init__(self, seed):
        self.seed = seed
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._lines = []
        self.complaints = []

    def note(self, what):
        with self._lock:
            self._lines.append(f"{time.monotonic() - self._began:7.3f}  {what}")

    def complain(self, what):
        self.note(f"WRONG  {what}")
        with self._lock:
            self.complaints.append(what)

    def __str__(self):
        return f"seed {self.seed}\n" + "\n".join(self._lines)


class Chaos:
    """Does to a cluster what the steps of a plan say."""

    def __init__(self, kafka, timeline):
        self._kafka = kafka
        self._timeline = timeline
        self._epochs = EpochWatcher(kafka, timeline.complain)
        self._epochs.watch_all()

    def carry_out(self, step):
        self._timeline.note(str(step))
        getattr(self, step.act)(*step.brokers)
        self._epochs.watch_all()
        self._epochs.look_at_store()
        threading.Event().wait(step.wait_s)

    def kill(self, broker):
        self._kafka.broker(broker).kill()

    def stop(self, broker):
        self._kafka.broker(broker).stop()

    def start(self, broker):
        self._kafka.broker(broker).start()

    def restart(self, broker):
        self._kafka.broker(broker).restart()

    def pause(self, broker):
        self._kafka.broker(broker).pause()

    def resume(self, broker):
        self._kafka.broker(broker).resume()

    def partition(self, broker):
        others = {handle.id for handle in self._kafka.brokers} - {broker}
        self._kafka.partition({broker}, others)

    def heal(self):
        self._kafka.heal()

    def depose(self):
        """Another controller is elected, though the present one is well."""
        zk = self._kafka._require_nodes().zk
        if self._kafka.controller is not None:
            zk.store.delete(paths.CONTROLLER)

    def recover(self):
        self._timeline.note("recover")
        self._kafka.heal()
        for handle in self._kafka.brokers:
            if handle.is_paused:
                handle.resume()
        for handle in self._kafka.brokers:
            if not handle.is_running:
                handle.start()
        self._epochs.watch_all()
        began = time.monotonic()
        self._kafka.await_no_under_replicated(timeout_s=HEALING_S)
        self._timeline.note(f"whole again after {time.monotonic() - began:.3f} s")
        self._epochs.look_at_store()
