"""Transactional batches in Produce requests: what to verify, and how to refuse them."""

import struct
from collections.abc import Mapping
from typing import Final

from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.broker.txn_verification import ClientSupport, TransactionalWrite, support_by_version
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import HEADER_SIZE, TRANSACTIONAL_FLAG
from embedkafka.wire.records.record import LOG_OVERHEAD

_HEAD: Final = struct.Struct(">8xi4xb5xB")  # length, magic, lower byte of the attributes

# Of a batch: lower byte of the attributes, producer id, epoch, first sequence number.
_PRODUCER: Final = struct.Struct(">22xB20xqhi")

# Producers of any version retry NOT_ENOUGH_REPLICAS, at the same broker.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def is_transactional(records: memoryview) -> bool:
    """Whether a batch is part of a transaction. Kafka sees none in a batch that is incomplete."""
    if records.nbytes < HEADER_SIZE:
        return False
    length, magic, attributes = _HEAD.unpack_from(records)
    is_complete = length + LOG_OVERHEAD <= records.nbytes
    return bool(is_complete and magic == 2 and attributes & TRANSACTIONAL_FLAG)


def transactional_write(
    transactional_id: str | None, entries: Mapping[TopicPartition, memoryview], version: int
) -> TransactionalWrite | None:
    """The write for the coordinator to verify; None for batches without a producer id.

    Raises ApiError with the error that all partitions of the request answer.
    """
    if transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    producers: set[tuple[int, int]] = set()
    sequences: dict[TopicPartition, int] = {}
    for topic_partition, records in entries.items():
        if records.nbytes < HEADER_SIZE:
            continue
        attributes, producer_id, producer_epoch, sequence = _PRODUCER.unpack_from(records)
        if attributes & TRANSACTIONAL_FLAG and producer_id >= 0:
            producers.add((producer_id, producer_epoch))
            sequences[topic_partition] = sequence
    if not producers:
        return None
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    ((producer_id, producer_epoch),) = producers
    return TransactionalWrite(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequences=sequences,
        support=support_by_version(version, abortable=11, epoch_bumps=12),
    )


def unverified(error: ErrorCode, support: ClientSupport) -> PartitionResponse:
    """The error of a verification as a producer understands it.

    Producers that bump their epochs retry CONCURRENT_TRANSACTIONS: they meet it whenever they write
    before their last transaction has completed.
    """
    is_passing = error in _TRY_AGAIN or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and support is not ClientSupport.EPOCH_BUMPS
    )
    if is_passing:
        return PartitionResponse(
            error=ErrorCode.NOT_ENOUGH_REPLICAS,
            error_message="Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}",
        )
    if error is ErrorCode.INVALID_TXN_STATE:
        return PartitionResponse(
            error=error, error_message="Partition was not added to the transaction"
        )
    return PartitionResponse(error=error)
