"""Nothing acknowledged is lost while brokers are killed, paused, cut off and deposed.

    python -m pytest tests/chaos --chaos-seed=7 --chaos-rounds=20

A failure prints the seed and the timeline of what was done and seen.
"""

import threading
import time

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.zk import paths
from tests.chaos.checkers import (
    EndOffsetWatcher,
    EpochWatcher,
    VerifyingConsumer,
    check_acknowledged,
    check_replicas,
)
from tests.chaos.plan import Plan
from tests.cluster.traffic import Sender

TOPICS = {"orders": 20, "prices": 12}
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
    """Carries a plan out on a cluster under load."""

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
        zk = self._kafka._require_nodes()._zk
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


def run_round(seed, *, brokers, most_down, steps=14):
    timeline = Timeline(seed)
    with EmbeddedKafka(brokers=brokers, seed=seed) as kafka:
        config = {"min.insync.replicas": 2}
        for topic, partitions in TOPICS.items():
            kafka.topic(topic, partitions=partitions, replication=3, config=config)
        senders = [
            Sender(
                kafka, topic, partitions, name=f"{topic}-{n}", pause_s=0.002, strict=bool(n)
            ).start()
            for n in range(2)
            for topic, partitions in TOPICS.items()
        ]
        verifier = VerifyingConsumer(kafka, TOPICS, timeline.complain)
        ends_watcher = EndOffsetWatcher(kafka, TOPICS, timeline.complain)
        chaos = Chaos(kafka, timeline)
        try:
            for sender in senders:
                sender.await_acks(10)
            for step in Plan(seed, brokers, steps, most_down):
                chaos.carry_out(step)
            chaos.recover()
            for sender in senders:
                sender.await_acks(10)
                sender.stop()
                timeline.note(f"{sender.name}: {sender.count} of {sender.sent} acknowledged")
                for death in sender.deaths:
                    timeline.note(f"{sender.name} needed another client: {death}")
                for error in sender.errors:
                    timeline.complain(f"{sender.name} was refused: {error}")
            ends_watcher.stop()
            ends = check_replicas(kafka, TOPICS, timeline.complain)
            verifier.await_end(ends)
            check_acknowledged(senders, verifier.seen, timeline.complain)
            kafka.check()
        except BaseException as error:
            timeline.note(f"FAILED {error!r}")
            error.add_note(f"{timeline}\n{kafka.describe()}")
            raise
    assert not timeline.complaints, f"{timeline.complaints[:5]}\n{timeline}"
    return timeline


@pytest.mark.timeout(120)
def test_three_brokers_lose_nothing(seed):
    run_round(seed, brokers=3, most_down=1)


@pytest.mark.timeout(120)
def test_five_brokers_lose_nothing_with_two_away(seed):
    run_round(1000 + seed, brokers=5, most_down=2)
