"""Keeps events of a group in order: while a batch is on its way to the log, the next events wait.

They would be decided on state that is about to change. Groups whose state changes with their
records (consumer groups, and classic groups when they are created, deleted or migrated) store
through here.

Owner: the `coordinator` loop, through the shard.
Invariants: at most one such batch of a group is in flight. Its records are replayed when they are
stored, and dropped when they are refused, so memory and log agree.
Not here: rules. The shard runs them.
"""

from collections import deque
from collections.abc import Callable, Sequence

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.calls import GroupCall, refuse
from embedkafka.broker.coordinator.groups.decision import Decision, Decisions, Sequel, TimerKey
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode

GroupEvent = GroupCall | TimerKey


class Sequencer:
    """The events of one shard's groups, and those that wait."""

    def __init__(
        self,
        run: Callable[[GroupEvent, Decisions, int], None],
        replay: Callable[[LogRecord], None],
    ) -> None:
        self._run = run
        self._replay = replay
        self._waiting: dict[str, deque[GroupEvent]] = {}

    def is_busy(self, group_id: str) -> bool:
        """Whether a batch of the group is in flight."""
        return group_id in self._waiting

    def decide(self, event: GroupEvent, *, now_ms: int) -> Decision:
        """Runs the event now, or after the batch that its group has in flight."""
        out = Decisions()
        waiting = self._waiting.get(event.group_id)
        if waiting is None:
            self._run(event, out, now_ms)
        else:
            waiting.append(event)
        return out.done()

    def store(
        self,
        group_id: str,
        records: Sequence[LogRecord],
        then: Sequel,
        out: Decisions,
        *,
        now_ms: int,
    ) -> None:
        """Appends the records, replays them, runs `then`, and lets the waiting events run."""
        if not records:
            then(Stored(ErrorCode.NONE, -1, now_ms), out)
            return
        assert group_id not in self._waiting, f"two batches of group {group_id} at a time"
        self._waiting[group_id] = deque()
        out.write(
            records, BatchStored(sequencer=self, group_id=group_id, records=records, then=then)
        )

    def on_stored(self, batch: "BatchStored", stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            for record in batch.records:
                self._replay(record)
        waiting = self._waiting.pop(batch.group_id, None)
        batch.then(stored, out)
        while waiting and batch.group_id not in self._waiting:
            self._run(waiting.popleft(), out, stored.now_ms)
        if waiting:
            self._waiting[batch.group_id].extend(waiting)

    def on_unloaded(self, out: Decisions) -> None:
        """Another broker leads the shard: sends waiting clients to it."""
        waiting, self._waiting = self._waiting, {}
        for events in waiting.values():
            for event in events:
                if not isinstance(event, TimerKey):
                    refuse(event, ErrorCode.NOT_COORDINATOR, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStored:
    """Continues after a batch of a group."""

    sequencer: Sequencer
    group_id: str
    records: Sequence[LogRecord]
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        self.sequencer.on_stored(self, stored, out)
