"""Settings of the transaction coordinator. Comments give the names of Kafka's broker settings."""

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnConfig:
    """Frozen settings with Kafka's defaults."""

    num_partitions: int = 50  # transaction.state.log.num.partitions
    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000  # transactional.id.expiration.ms
    # transaction.abort.timed.out.transaction.cleanup.interval.ms
    abort_timed_out_interval_ms: int = 10_000
    # transaction.remove.expired.transaction.cleanup.interval.ms
    remove_expired_interval_ms: int = 3_600_000
    transaction_version: int = 2  # the feature transaction.version
    retry_backoff_ms: int = 20  # between attempts to send markers; Kafka waits 100 ms
