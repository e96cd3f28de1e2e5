"""What controllers do, for the timeline of a page: told as it happens, not looked for.

Owner: controllers' threads bring the news; `_lock` (leaf) guards what is kept.
Invariants: controllers tell nothing before `start` and after `stop`; the newest `_KEPT` are kept.
Not here: what only a look at the cluster finds (`recorder`).
"""

from collections import deque
from typing import Final

from embedkafka.broker.controller.event_log import ControllerEvent
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.state_change_log import StateChange
from embedkafka.cluster.brokers import Brokers
from embedkafka.page.state import Json
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.real_time import wall_s

_KEPT: Final = 2_000
_UNKNOWN: Final = -2
_ONLINE: Final = PartitionState.ONLINE.value
_NEW: Final = frozenset({PartitionState.NON_EXISTENT.value, PartitionState.NEW.value})
_LEAST_QUEUED_MS: Final = 0.1  # what is shorter cannot be seen


class ControllerWork:
    """The events and state changes of one cluster's controllers from `start` to `stop`."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = ranked_lock("controllers of a page", LEAF_RANK)
        self._spans: deque[Json] = deque(maxlen=_KEPT)
        self._changes: deque[Json] = deque(maxlen=_KEPT)
        self._leaders: dict[TopicPartition, int | None] = {}
        self._lost: dict[TopicPartition, Json] = {}
        self._elections: deque[Json] = deque(maxlen=_KEPT)

    def start(self) -> None:
        self._brokers.controller_event_log.listen(self._on_event)
        self._brokers.state_change_log.listen(self._on_change)

    def stop(self) -> None:
        self._brokers.controller_event_log.forget(self._on_event)
        self._brokers.state_change_log.forget(self._on_change)

    def spans(self) -> list[Json]:
        """The events that controllers handled, and their waits in the queue."""
        with self._lock:
            return list(self._spans)

    def changes(self) -> list[Json]:
        """The moves of partitions, made and refused."""
        with self._lock:
            return list(self._changes)

    def elections(self) -> list[Json]:
        """Which partitions have lost their leader or have another one."""
        with self._lock:
            return list(self._elections)

    # -- on a controller's thread

    def _on_event(self, event: ControllerEvent) -> None:
        ended_ms = wall_s() * 1000
        if not event.controller_epoch:
            return  # a candidate's
        started_ms = ended_ms - event.duration_ms
        text = f"{event.kind} of {event.about}" if event.about else event.kind
        said = f"controller {event.controller} epoch {event.controller_epoch}: {text}"
        with self._lock:
            if event.queued_ms >= _LEAST_QUEUED_MS:
                queued_ms = started_ms - event.queued_ms
                self._spans.append(_span("controller's queue", said, queued_ms, started_ms))
            self._spans.append(_span("controller", said, started_ms, ended_ms))

    def _on_change(self, change: StateChange) -> None:
        if change.replica is not None:
            return
        at = wall_s() * 1000
        kind = "state" if change.refused is None else "refused"
        with self._lock:
            self._changes.append({"lane": kind, "text": str(change), "at": at})
            if not change.topic.startswith("__"):
                self._note_leader(change, at)

    def _note_leader(self, change: StateChange, at: float) -> None:
        """Adds what has become of the partition's leader, if that is news."""
        if change.refused is not None and change.before == _ONLINE:
            return  # it keeps its leader
        partition = TopicPartition(change.topic, change.partition)
        if change.after == PartitionState.NON_EXISTENT.value:
            self._leaders.pop(partition, None)
            if lost := self._lost.pop(partition, None):
                self._elections.remove(lost)  # only for the deletion
            return
        is_led = change.refused is None and change.after == _ONLINE
        leader = change.leader if is_led else None
        is_news = self._leaders.get(partition, _UNKNOWN) != leader
        self._leaders[partition] = leader
        if not is_news or change.before in _NEW:
            return
        said = "lost its leader" if leader is None else f"is led by broker {leader}"
        election = {"lane": "election", "text": f"{partition} {said}", "at": at}
        self._lost.pop(partition, None)
        if leader is None:
            self._lost[partition] = election
        if len(self._elections) == _KEPT:
            self._lost.clear()  # the oldest is about to go
        self._elections.append(election)


def _span(lane: str, text: str, from_ms: float, to_ms: float) -> Json:
    return {"lane": lane, "text": text, "from": from_ms, "to": to_ms, "status": lane.split("'")[0]}
