"""Says on a log what an exploration is doing, at most once a second."""

import logging
from collections.abc import Callable
from typing import Final

from embedkafka.runtime.clock import REAL_TIME

_LOG: Final = logging.getLogger(__name__)
_SILENT_MS: Final = 1000


class Progress:
    """The time since an exploration began, and the lines about it."""

    def __init__(self, now_ms: Callable[[], float] = REAL_TIME.monotonic_ms) -> None:
        self._now_ms = now_ms
        self._began_ms = self._told_ms = now_ms()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return (self._now_ms() - self._began_ms) / 1000

    def tell(self, doing: str) -> None:
        """Logs a line, unless the last one was less than a second ago."""
        now_ms = self._now_ms()
        if now_ms - self._told_ms >= _SILENT_MS:
            self._told_ms = now_ms
            _LOG.info("explore: %s", doing)
