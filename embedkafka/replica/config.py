"""The broker settings for replication."""

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Kafka's `replica.*` settings under their own names, with Kafka's defaults.

    `truncates_on_fetch` is Kafka's behaviour since 2.7: leaders detect a diverging follower when it
    fetches. Without it, followers first request the end of their last epoch, as those of Kafka 2.0
    to 2.6; `inter.broker.protocol.version` chooses. `isr_change_linger_ms` is how long no set may
    change before leaders announce changes to the controller.
    """

    lag_time_max_ms: int = 30_000
    fetch_wait_max_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 1024 * 1024
    fetch_response_max_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    selector_class: str | None = None
    truncates_on_fetch: bool = True
    isr_change_linger_ms: int = 5_000
    producer_purge_interval_requests: int = 1_000
    fetch_purge_interval_requests: int = 1_000
    delete_records_purge_interval_requests: int = 1
    quota_window_num: int = 11
    quota_window_size_ms: int = 1_000
