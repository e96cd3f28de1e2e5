"""How much a client has used: rates over Kafka's windows, and buckets of tokens.

Owner: none; the caller locks. The time is an argument.
"""

from collections import deque


class WindowedRate:
    """An amount per second, over the last `windows` windows of `window_ms`."""

    def __init__(self, windows: int, window_ms: float) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[tuple[float, float]] = deque(maxlen=windows)

    def record(self, amount: float, now_ms: float) -> None:
        samples = self._samples
        if samples and now_ms < samples[-1][0] + self._window_ms:
            begun_ms, before = samples.pop()
            samples.append((begun_ms, before + amount))
        else:
            samples.append((now_ms, amount))

    def excess_ms(self, limit: float, now_ms: float) -> float:
        """How long to use nothing until the rate is back at the limit; 0 if it is not above.

        As in Kafka, the rate is taken over all windows but one, even if most of them were empty.
        """
        samples = self._samples
        while samples and samples[0][0] <= now_ms - self._windows * self._window_ms:
            samples.popleft()
        if not samples:
            return 0.0
        least_ms = (self._windows - 1) * self._window_ms
        elapsed_ms = max(now_ms - samples[0][0], least_ms, 1.0)
        used = sum(amount for _, amount in samples)
        return max(0.0, used * 1000 / limit - elapsed_ms)


class TokenBucket:
    """Tokens that come back at a rate, up to what all windows together allow."""

    def __init__(self, windows: int, window_ms: float) -> None:
        self._seconds = windows * window_ms / 1000
        self._tokens: float | None = None
        self._at_ms = 0.0

    def take(self, amount: float, limit: float, now_ms: float) -> None:
        """Takes tokens, even more than there are."""
        self._tokens = self._left(limit, now_ms) - amount
        self._at_ms = now_ms

    def excess_ms(self, limit: float, now_ms: float) -> float:
        """How long it takes to pay back what was taken too much; 0 if nothing was."""
        return max(0.0, -self._left(limit, now_ms) / limit * 1000)

    def _left(self, limit: float, now_ms: float) -> float:
        most = limit * self._seconds
        if self._tokens is None:
            return most
        return min(most, self._tokens + limit * (now_ms - self._at_ms) / 1000)
