"""How large a part of the time went into one thing, such as work.

Owner: the thread that calls `begin` and `end`; any thread may ask for the share.
Not here: whether to measure. A part that is not asked for its share has no such object.
"""


class TimeShare:
    """The part of the time since `now_ms` that lies between `begin` and `end`."""

    __slots__ = ("_began_ms", "_spent_ms", "_started_ms")

    def __init__(self, now_ms: float) -> None:
        self._started_ms = now_ms
        self._spent_ms = 0.0
        self._began_ms: float | None = None

    def begin(self, now_ms: float) -> None:
        self._began_ms = now_ms

    def end(self, now_ms: float) -> None:
        """Without a `begin` before, it has no effect."""
        began_ms, self._began_ms = self._began_ms, None
        if began_ms is not None:
            self._spent_ms += now_ms - began_ms

    def share(self, now_ms: float) -> float:
        """From 0 to 1."""
        elapsed_ms = now_ms - self._started_ms
        if elapsed_ms <= 0:
            return 0.0
        began_ms = self._began_ms
        spent_ms = self._spent_ms + (0.0 if began_ms is None else now_ms - began_ms)
        return min(1.0, max(0.0, spent_ms / elapsed_ms))
