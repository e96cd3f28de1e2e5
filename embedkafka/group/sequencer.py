"""Turns of a group: while a batch of it is on its way to the log, whatever else happens waits.

It would be decided on state that is about to change. Groups that change with their records
(consumer groups, and classic ones when they come and go) store through here.

Owner: the `coordinator` loop, through the shard.
Invariants: at most one such batch of a group is on its way; its records are replayed when they
are stored, and not at all when they are refused, so that memory and log stay in step.
Not here: rules. A turn runs one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.decision import Decision, Decisions
from embedkafka.protocol.errors import ErrorCode

Rule = Callable[[Decisions, int], None]
"""Decides something about a group, given where to put it and the time."""
Refusal = Callable[[ErrorCode, Decisions], None]
"""Tells whoever waits for a rule that its time does not come."""
Sequel = Callable[[Stored, Decisions], None]
"""What follows once a batch is stored or refused."""


class Sequencer:
    """Who waits for which group of one shard."""

    def __init__(self, replay: Callable[[LogRecord], None]) -> None:
        self._replay = replay
        self._waiting: dict[str, deque[tuple[Rule, Refusal | None]]] = {}

    def is_busy(self, group_id: str) -> bool:
        """Whether something about the group is on its way to the log."""
        return group_id in self._waiting

    def take(
        self, group_id: str, rule: Rule, *, now_ms: int, refuse: Refusal | None = None
    ) -> Decision:
        """Runs the rule, now or after what the group has on its way to the log."""
        out = Decisions()
        if group_id in self._waiting:
            self._waiting[group_id].append((rule, refuse))
        else:
            rule(out, now_ms)
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
        """Appends, replays, runs `then`, and lets the next rule have its turn."""
        if not records:
            then(Stored(ErrorCode.NONE, -1, now_ms), out)
            return
        assert group_id not in self._waiting, f"two batches of group {group_id} at a time"
        self._waiting[group_id] = deque()
        out.write(records, partial(self._on_stored, group_id, records, then))

    def _on_stored(
        self, group_id: str, records: Sequence[LogRecord], then: Sequel, stored: Stored
    ) -> Decision:
        out = Decisions()
        if stored.error is ErrorCode.NONE:
            for record in records:
                self._replay(record)
        waiting = self._waiting.pop(group_id, None)
        then(stored, out)
        while waiting and group_id not in self._waiting:
            rule, _ = waiting.popleft()
            rule(out, stored.now_ms)
        if waiting:
            self._waiting[group_id].extend(waiting)
        return out.done()

    def on_unloaded(self) -> Decision:
        """Another broker leads now: whoever waits for a turn must look for it."""
        out = Decisions()
        waiting, self._waiting = self._waiting, {}
        for turns in waiting.values():
            for _, refuse in turns:
                if refuse is not None:
                    refuse(ErrorCode.NOT_COORDINATOR, out)
        return out.done()
