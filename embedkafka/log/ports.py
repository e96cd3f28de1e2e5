"""What logs need from the rest of the broker."""

from collections.abc import Callable
from typing import Protocol


class ScheduledTask(Protocol):
    """Work that was scheduled and may be called off."""

    def cancel(self) -> None: ...


class Tasks(Protocol):
    """The broker's background thread, for what comes later or comes back every so often."""

    def once(self, name: str, delay_ms: float, run: Callable[[], None]) -> ScheduledTask: ...

    def every(
        self, name: str, period_ms: float, run: Callable[[], None], delay_ms: float | None = None
    ) -> ScheduledTask: ...
