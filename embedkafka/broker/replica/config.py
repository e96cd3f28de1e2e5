"""The broker settings for replication."""

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Kafka's broker settings, under Kafka's names and with Kafka's defaults.

    `truncates_on_fetch` is Kafka's behaviour since 2.7: leaders detect a diverging follower when it
    fetches. Without it, followers first request the end of their last epoch, as those of Kafka 2.0
    to 2.6; `inter.broker.protocol.version` chooses.
    """

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1024 * 1024
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    replica_fetch_backoff_ms: int = 1_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replica_selector_class: str | None = None
    truncates_on_fetch: bool = True
    internal_isr_change_linger_ms: int = 5_000
    producer_purgatory_purge_interval_requests: int = 1_000
    fetch_purgatory_purge_interval_requests: int = 1_000
    delete_records_purgatory_purge_interval_requests: int = 1
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
