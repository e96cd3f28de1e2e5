"""Settings of the group coordinator. Comments give the names of Kafka's broker settings."""

from enum import Enum

from embedkafka.records.compression import Compression
from embedkafka.runtime.values import dataclass


class MigrationPolicy(Enum):
    """The direction in which groups with members may change protocols (KIP-848)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"  # classic groups become consumer groups
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Frozen settings with Kafka's defaults, except for the initial rebalance delay."""

    offsets_topic_num_partitions: int = 50  # offsets.topic.num.partitions
    offsets_topic_compression: Compression = Compression.NONE  # offsets.topic.compression.codec
    group_min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    group_max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    # group.initial.rebalance.delay.ms: Kafka waits 3 s for more members; a test should not.
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    consumer_group_max_size: int = 2**31 - 1  # group.consumer.max.size
    # group.consumer.migration.policy
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
