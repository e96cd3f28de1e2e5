"""The topic-level settings of a log."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.wire_types import MAX_LONG

_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's topic configs, under Kafka's names and with Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Reads Kafka's names and typed values; ignores names that do not concern logs.

        `cleanup.policy` may be the text `compact,delete` or a list of its parts.
        """
        # The parser of the settings has checked the types of the values.
        chosen: dict[str, Any] = {
            name: settings[key] for key, name in _NAMES.items() if key in settings
        }
        if "cleanup_policy" in chosen:
            chosen["cleanup_policy"] = _policies(chosen["cleanup_policy"])
        return cls(**chosen)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The greatest age of the active segment; compaction waits until it is rolled."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


def _policies(value: str | Iterable[str]) -> frozenset[str]:
    parts = value.split(",") if isinstance(value, str) else value
    return frozenset(part.strip() for part in parts if part.strip())


_NAMES: Final[Mapping[str, str]] = {
    name.replace("_", "."): name for name in LogConfig.__annotations__
}
