"""Waiting for facts about the cluster, with reasons when they do not come."""

from collections.abc import Callable, Mapping

from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import AwaitTimeout
from embedkafka.server.metadata_cache import MetadataCache, MetadataSnapshot

SnapshotCheck = Callable[[MetadataSnapshot], bool]

_PATIENCE_MS = 30_000
_REAL_TIME = SystemClock()  # a caller's patience is not the cluster's time


def await_all(
    what: str,
    caches: Mapping[int, MetadataCache],
    holds: SnapshotCheck,
    *,
    describe: Callable[[], str],
    timeout_ms: float = _PATIENCE_MS,
) -> None:
    """Returns when `holds` is true of every broker's metadata, or raises with what was seen."""
    deadline_ms = _REAL_TIME.monotonic_ms() + timeout_ms
    for broker_id, cache in caches.items():
        if not cache.await_snapshot(holds, _REAL_TIME, deadline_ms):
            raise AwaitTimeout(
                f"waited {timeout_ms / 1000:g} s for {what}; broker {broker_id} has not seen it:\n"
                f"{describe()}"
            )
