"""Real time, even where a test has replaced Python's with freezegun or time-machine.

Brokers share the process with the test, but their clients do not share its `time`: librdkafka and
the JVM read the machine's clock. A broker that believed a frozen `time.time()` would refuse their
records, and one that believed a frozen `time.monotonic()` would never end a wait.

Invariants: no reading comes from a replacement. freezegun replaces names in modules; the real
functions are attributes of a class, which it does not search. time-machine replaces what
`time.time` itself does, and keeps the original in its escape hatch.
"""

import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import ClassVar, Final

_MODULES: Final[Mapping[str, ModuleType]] = sys.modules
_freezegun = _MODULES.get("freezegun.api")  # in case time was frozen before we were imported


class RealTime:
    """Python's own functions, in seconds."""

    monotonic: ClassVar[Callable[[], float]] = staticmethod(
        getattr(_freezegun, "real_monotonic", time.monotonic)
    )
    """Never goes back. time-machine leaves it alone."""
    wall: ClassVar[Callable[[], float]] = staticmethod(getattr(_freezegun, "real_time", time.time))
    """Since 1970; of no use while time-machine travels."""


def wall_s() -> float:
    """Seconds since 1970."""
    if "time_machine" in _MODULES:
        return _wall_beside_time_machine()
    return RealTime.wall()


def _wall_beside_time_machine() -> float:
    hatch = _MODULES["time_machine"].escape_hatch
    while True:  # a journey may begin or end between two of these lines
        if hatch.is_travelling():
            try:
                return float(hatch.time.time())
            except ValueError:  # not any more
                continue
        now = RealTime.wall()
        if not hatch.is_travelling():
            return now
