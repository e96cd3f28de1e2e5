"""The quotas of a broker's clients: limits from the store, and what each client has used.

Owner: `_lock` (leaf) guards the meters; limits are replaced whole.
Not here: which requests count (`broker.throttling`), quotas in the store (`broker.quota_store`).
"""

from collections.abc import Iterable, Mapping

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import dataclass
from embedkafka.security.quotas.limits import Owner, QuotaLimits, QuotaType
from embedkafka.security.quotas.meters import TokenBucket, WindowedRate


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """Kafka's `quota.window.*` and `controller.quota.window.*`."""

    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1


class ClientQuotas:
    """Records what clients use, and says how long they shall wait."""

    def __init__(self, clock: Clock, config: QuotaWindows) -> None:
        self._clock = clock
        self._config = config
        self._lock = ranked_lock("client quotas", LEAF_RANK)
        self._rates: dict[tuple[QuotaType, Owner], WindowedRate] = {}
        self._buckets: dict[Owner, TokenBucket] = {}
        self._limits = {quota: QuotaLimits.of(quota, ()) for quota in QuotaType}

    def set_limits(
        self, entities: Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]]
    ) -> None:
        """Replaces all quotas; what was used before still counts."""
        known = list(entities)
        self._limits = {quota: QuotaLimits.of(quota, known) for quota in QuotaType}

    @property
    def is_active(self) -> bool:
        """Whether there is any quota."""
        return any(self._limits.values())

    def record(self, quota: QuotaType, user: str, client: str, amount: float) -> float:
        """Counts what a client used; returns the milliseconds that it shall wait."""
        found = self._limits[quota].find(user, client)
        if found is None:
            return 0.0
        limit, owner = found
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            rate = self._rates.get((quota, owner))
            if rate is None:
                rate = WindowedRate(
                    self._config.quota_window_num, 1000 * self._config.quota_window_size_seconds
                )
                self._rates[quota, owner] = rate
            rate.record(amount, now_ms)
            wait_ms = rate.excess_ms(limit, now_ms)
        # A request of the broker's own making must not keep a client out for longer than a window.
        return (
            min(wait_ms, 1000 * self._config.quota_window_size_seconds)
            if quota is QuotaType.REQUEST
            else wait_ms
        )

    def take_back(self, quota: QuotaType, user: str, client: str, amount: float) -> None:
        """Undoes a `record`, for an answer that was not sent after all."""
        self.record(quota, user, client, -amount)

    def largest_fetch(self, user: str, client: str) -> float | None:
        """The bytes that are never throttled on their own; None without a quota."""
        found = self._limits[QuotaType.FETCH].find(user, client)
        if found is None:
            return None
        return (
            found[0] * (self._config.quota_window_num - 1) * self._config.quota_window_size_seconds
        )

    def mutate(self, user: str, client: str, partitions: int, *, strict: bool) -> float:
        """Counts partitions to create or delete; returns the milliseconds to wait.

        If `strict`, a client that has to wait has done nothing: nothing is counted.
        """
        found = self._limits[QuotaType.CONTROLLER_MUTATION].find(user, client)
        if found is None:
            return 0.0
        limit, owner = found
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            bucket = self._buckets.get(owner)
            if bucket is None:
                config = self._config
                bucket = TokenBucket(
                    config.controller_quota_window_num,
                    1000 * config.controller_quota_window_size_seconds,
                )
                self._buckets[owner] = bucket
            if strict and (wait_ms := bucket.excess_ms(limit, now_ms)):
                return wait_ms
            bucket.take(partitions, limit, now_ms)
            return 0.0 if strict else bucket.excess_ms(limit, now_ms)
