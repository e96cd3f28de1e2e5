"""Settings of the group coordinator."""

from enum import Enum

from embedkafka.runtime.values import dataclass
from embedkafka.wire.records.compression import Compression


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
    """Kafka's broker settings, under Kafka's names and with Kafka's defaults, except for one.

    Kafka waits 3 s for more members before it first rebalances a group; a test should not.
    """

    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: int = Compression.NONE
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
