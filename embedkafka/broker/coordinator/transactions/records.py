"""Records of `__transaction_state`, byte for byte as Kafka writes them."""

from typing import Final

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.broker.coordinator.transactions.states import STATES_BY_NUMBER, TxnState
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.codec import decode_versioned, encode_versioned, leading_version
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.messages.internal import TransactionLogKey, TransactionLogValue

_KEY_VERSION: Final = 0
_FLEXIBLE_VALUE_VERSION: Final = 1


def transaction_record(transaction: Transaction, *, transaction_version: int) -> LogRecord:
    """The state of a transactional id; transaction version 0 wrote no tagged fields."""
    version = _FLEXIBLE_VALUE_VERSION if transaction_version >= 1 else 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
        client_transaction_version=transaction.client_version,
    )
    return LogRecord(_key(transaction.transactional_id), encode_versioned(value, version))


def tombstone(transactional_id: str) -> LogRecord:
    return LogRecord(_key(transactional_id), None)


def read_transactional_id(key: bytes) -> str | None:
    """The record's transactional id; None for an unknown kind of record."""
    if leading_version(key) != _KEY_VERSION:
        return None
    return decode_versioned(TransactionLogKey, key).transactional_id


def read_transaction(transactional_id: str, value: bytes) -> Transaction:
    body = decode_versioned(TransactionLogValue, value)
    state = STATES_BY_NUMBER.get(body.transaction_status)
    if state is None:
        raise ProtocolError(f"transactions have no state {body.transaction_status}")
    return Transaction(
        transactional_id=transactional_id,
        producer_id=body.producer_id,
        previous_producer_id=body.previous_producer_id,
        next_producer_id=body.next_producer_id,
        producer_epoch=body.producer_epoch,
        timeout_ms=body.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in body.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_timestamp_ms=body.transaction_start_timestamp_ms,
        last_update_timestamp_ms=body.transaction_last_update_timestamp_ms,
        client_version=body.client_transaction_version,
    )


def _key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def _partitions(transaction: Transaction) -> list[TransactionLogValue.Topic] | None:
    """The partitions by topic; an id without a transaction has null, not an empty list."""
    if transaction.state is TxnState.EMPTY:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [
        TransactionLogValue.Topic(topic=topic, partition_ids=partitions)
        for topic, partitions in by_topic.items()
    ]
