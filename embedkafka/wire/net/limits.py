"""Limits on clients: the number and rate of connections, and the size of a request.

Owner: `ConnectionQuota._lock` (leaf) guards the counts; all listeners of a broker share it.
Invariants: every admitted connection is released exactly once.
Not here: closing what exceeds a limit (`acceptor.py`, `processor.py`).
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.wire_types import MAX_INT

UNLIMITED: Final = MAX_INT


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """`max.connections` and `max.connection.creation.rate` of one listener."""

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Kafka's `max.connection*`, `socket.request.max.bytes` and `connections.max.idle.ms`.

    The last two are fixed for the life of a server; the others can change.
    """

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({})
    )
    max_connection_creation_rate: int = UNLIMITED
    of_listeners: Mapping[str, ListenerLimits] = field(default_factory=lambda: MappingProxyType({}))
    """By name; those without a limit are left out."""
    spared_listener: str | None = None
    """One whose connections count but are not limited with those of others: the brokers' own."""
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    socket_request_max_bytes: int = 100 * 1024 * 1024
    connections_max_idle_ms: int | None = 10 * 60 * 1000


class ConnectionQuota:
    """Counts connections against the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = ranked_lock("connection quota", LEAF_RANK)
        self._total = 0
        self._by_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._arrivals = _Arrivals(limits.quota_window_num)
        self._arrivals_at: dict[str, _Arrivals] = {}
        self._address_rates: Mapping[str | None, int] = MappingProxyType({})
        self._by_address: dict[str, _Arrivals] = {}
        self._waiting_for_room: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """How many connections are open."""
        return self._total

    @property
    def has_excess(self) -> bool:
        """Whether more connections are open than a lowered limit allows."""
        return self._total > self._limits.max_connections

    def spares(self, listener: str) -> bool:
        """Whether the broker's limits do not hold for the connections of a listener."""
        return listener == self._limits.spared_listener

    def set_limits(self, limits: Limits) -> None:
        """Applies other limits from now on."""
        with self._lock:
            self._limits = limits
            waiting, self._waiting_for_room = self._waiting_for_room, []
        for resume in waiting:
            resume()

    def has_room(self, otherwise: Callable[[], None], listener: str = "") -> bool:
        """Whether there is room for another connection; if not, `otherwise` runs once there is."""
        with self._lock:
            if self._fits(listener):
                return True
            self._waiting_for_room.append(otherwise)
            return False

    def _fits(self, listener: str) -> bool:
        limits = self._limits
        own = limits.of_listeners.get(listener)
        if own is not None and self._by_listener[listener] >= own.max_connections:
            return False
        return self.spares(listener) or self._total < limits.max_connections

    def admit(self, host: str, listener: str = "") -> bool:
        """Counts a connection from `host`, unless that address has too many."""
        limits = self._limits
        with self._lock:
            allowed = limits.max_connections_per_ip_overrides.get(
                host, limits.max_connections_per_ip
            )
            if self._by_host[host] >= allowed:
                return False
            self._by_host[host] += 1
            self._by_listener[listener] += 1
            self._total += 1
            return True

    def note_arrival(self, now_ms: float, listener: str = "") -> float:
        """Counts a new connection; returns the milliseconds to wait before the next one.

        As in Kafka, it counts for the broker and for the listener, and the longer wait holds.
        """
        limits = self._limits
        own = limits.of_listeners.get(listener)
        with self._lock:
            wait_ms = 0.0
            if not self.spares(listener):
                rate = limits.max_connection_creation_rate
                wait_ms = _note(self._arrivals, now_ms, limits, rate)
            if own is not None:
                arrivals = self._arrivals_at.get(listener)
                if arrivals is None:
                    arrivals = self._arrivals_at[listener] = _Arrivals(limits.quota_window_num)
                rate = own.max_connection_creation_rate
                wait_ms = max(wait_ms, _note(arrivals, now_ms, limits, rate))
            return wait_ms

    def set_address_rates(self, rates: Mapping[str | None, int]) -> None:
        """Limits new connections per second by address; None stands for all other addresses."""
        with self._lock:
            self._address_rates = rates
            self._by_address.clear()

    def note_arrival_from(self, host: str, now_ms: float) -> float:
        """Counts a new connection of an address.

        Returns for how many milliseconds to hold it before it is closed, or 0 if it is welcome. As
        in Kafka, one that is not welcome does not count.
        """
        rates = self._address_rates
        allowed = rates.get(host, rates.get(None)) if rates else None
        if allowed is None:
            return 0.0
        with self._lock:
            arrivals = self._by_address.get(host)
            if arrivals is None:
                arrivals = self._by_address[host] = _Arrivals(self._limits.quota_window_num)
            wait_ms = arrivals.note(now_ms, self._limits, allowed)
            if wait_ms:
                arrivals.take_back()
            return wait_ms

    def release(self, host: str, listener: str = "") -> None:
        """Reverses one `admit`."""
        with self._lock:
            self._total -= 1
            self._by_listener[listener] -= 1
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
            waiting, self._waiting_for_room = self._waiting_for_room, []
        for resume in waiting:
            resume()


def _note(arrivals: "_Arrivals", now_ms: float, limits: Limits, rate: int) -> float:
    return 0.0 if rate >= UNLIMITED else arrivals.note(now_ms, limits, rate)


class _Arrivals:
    """Connections by window; its owner locks."""

    def __init__(self, windows: int) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=windows)

    def note(self, now_ms: float, limits: Limits, allowed: int) -> float:
        """Counts one; returns the milliseconds until the rate is back at `allowed` per second.

        As in Kafka, the rate is taken over the last windows, even if all but one were empty, and no
        wait is longer than a window.
        """
        samples, window_ms = self._samples, 1000 * limits.quota_window_size_seconds
        while samples and samples[0][0] <= now_ms - limits.quota_window_num * window_ms:
            samples.popleft()
        if samples and now_ms < samples[-1][0] + window_ms:
            samples[-1] = (samples[-1][0], samples[-1][1] + 1)
        else:
            samples.append((now_ms, 1))
        elapsed_ms = max(now_ms - samples[0][0], (limits.quota_window_num - 1) * window_ms)
        count = sum(number for _, number in samples)
        too_early_ms = count * 1000 / allowed - elapsed_ms if allowed else window_ms
        return min(max(too_early_ms, 0.0), window_ms)

    def take_back(self) -> None:
        """Undoes the last `note`."""
        begun_ms, count = self._samples.pop()
        self._samples.append((begun_ms, count - 1))
