"""How much clients may ask for: connections, connections of one address, size of a request.

Owner: `ConnectionQuota._lock` (leaf) guards the counts; it is shared by all listeners of a broker.
Invariants: every admitted connection is released exactly once.
Not here: closing what exceeds a limit (`acceptor.py`, `processor.py`).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import dataclass, field

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Kafka's `max.connections*`, `socket.request.max.bytes` and `connections.max.idle.ms`."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({})
    )
    max_request_bytes: int = 100 * 1024 * 1024
    max_idle_ms: int | None = 10 * 60 * 1000


class ConnectionQuota:
    """Counts connections against the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = ranked_lock("connection quota", LEAF_RANK)
        self._total = 0
        self._by_host: Counter[str] = Counter()
        self._waiting_for_room: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """How many connections are open."""
        return self._total

    def has_room(self, otherwise: Callable[[], None]) -> bool:
        """Whether the broker may have another connection; if not, `otherwise` runs when it may."""
        with self._lock:
            if self._total < self._limits.max_connections:
                return True
            self._waiting_for_room.append(otherwise)
            return False

    def admit(self, host: str) -> bool:
        """Counts a connection from `host`, unless that address has too many."""
        limits = self._limits
        with self._lock:
            allowed = limits.max_connections_per_ip_overrides.get(
                host, limits.max_connections_per_ip
            )
            if self._by_host[host] >= allowed:
                return False
            self._by_host[host] += 1
            self._total += 1
            return True

    def release(self, host: str) -> None:
        """Takes back what `admit` counted."""
        with self._lock:
            self._total -= 1
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
            waiting, self._waiting_for_room = self._waiting_for_room, []
        for resume in waiting:
            resume()
