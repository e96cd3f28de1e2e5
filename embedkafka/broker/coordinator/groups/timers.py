"""The running timers of the groups that this broker coordinates.

Owner: the `coordinator` loop; every method runs there.
Invariants: a timer that was replaced or cancelled is never delivered, even if it is due and its
event waits in the loop's queue.
Not here: the event that a due timer causes (`shard.py`).
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from embedkafka.broker.coordinator.groups.decision import (
    CancelTimer,
    SetTimer,
    TimerChange,
    TimerKey,
    TimerKind,
)
from embedkafka.broker.coordinator.ports import CoordinatorParts
from embedkafka.runtime.scheduler import TimedCall

_PURGATORIES: Final = {
    "Heartbeat": frozenset({TimerKind.SESSION, TimerKind.CONSUMER_SESSION}),
    "Rebalance": frozenset(TimerKind) - {TimerKind.SESSION, TimerKind.CONSUMER_SESSION},
}


class GroupTimers:
    """`coordinator.ports.Effects`: sets and cancels timers, by partition and key."""

    def __init__(self, parts: CoordinatorParts, on_due: Callable[[int, TimerKey], None]) -> None:
        self._loop, self._timer = parts.loop, parts.timer
        self._on_due = on_due
        self._running: dict[int, dict[TimerKey, TimedCall]] = {}

    def carry_out(self, partition: int, shard: object, effect: TimerChange) -> None:
        running = self._running.setdefault(partition, {})
        match effect:
            case SetTimer(key=key, if_absent=True) if key in running:
                return
            case SetTimer():
                self._stop(running, effect.key)
                running[effect.key] = self._start(partition, effect)
            case CancelTimer():
                self._stop(running, effect.key)

    def cancel(self, partition: int) -> None:
        """The shard was released."""
        running = self._running.pop(partition, {})
        for key in list(running):
            self._stop(running, key)

    def count(self) -> dict[str, int]:
        """How many timers run, by Kafka's names of the coordinator's purgatories."""
        kinds = [key.kind for running in self._running.values() for key in running]
        return {
            purgatory: sum(kind in its_kinds for kind in kinds)
            for purgatory, its_kinds in _PURGATORIES.items()
        }

    def find_deadline_ms(self, partition: int, key: TimerKey) -> float | None:
        """When the timer is due, on the clock's monotonic time."""
        task = self._running.get(partition, {}).get(key)
        return None if task is None else task.deadline_ms

    def _start(self, partition: int, change: SetTimer) -> TimedCall:
        ticket: list[TimedCall] = []
        due = partial(self._deliver, partition, change.key, ticket)
        task = self._timer.add(change.delay_ms, partial(self._loop.post, due))
        ticket.append(task)
        return task

    def _stop(self, running: dict[TimerKey, TimedCall], key: TimerKey) -> None:
        task = running.pop(key, None)
        if task is not None:
            task.cancel()

    def _deliver(self, partition: int, key: TimerKey, ticket: list[TimedCall]) -> None:
        running = self._running.get(partition, {})
        if running.get(key) in ticket:
            del running[key]
            self._on_due(partition, key)
