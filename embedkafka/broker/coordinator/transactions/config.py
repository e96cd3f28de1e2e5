"""Settings of the transaction coordinator."""

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnConfig:
    """Kafka's broker settings, under Kafka's names and with Kafka's defaults."""

    transaction_state_log_num_partitions: int = 50
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_version: int = 2
    """The level of the feature transaction.version."""
    retry_backoff_ms: int = 20
    """The time between attempts to send markers; Kafka waits 100 ms."""
