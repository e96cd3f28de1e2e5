"""Appends batches."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.log.log import AppendOrigin
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.core import ProduceRequest, ProduceResponse
from embedkafka.records.batch import next_batch_size
from embedkafka.replica.produce import PartitionResponse
from embedkafka.replica.writes import VALID_ACKS, OnProduced
from embedkafka.runtime.ids import TopicPartition
from embedkafka.server.dispatch import LATER
from embedkafka.server.handlers.current_leader import find_leader, node_endpoints
from embedkafka.server.handlers.transactional_writes import (
    is_transactional,
    transactional_write,
    unverified,
)

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

_FIRST_BY_TOPIC_ID: Final = 13
_FIRST_WITH_LEADERS: Final = 10
_NO_ACK: Final = 0

_Topic = ProduceResponse.Topic
_Partition = ProduceResponse.Topic.Partition


def produce(broker: "Broker", request: ProduceRequest, context: "RequestContext") -> object:
    """Appends one batch per partition and answers as `acks` demands.

    Behaviour: each partition succeeds or fails alone. With acks=0 there is no answer; an error
    closes the connection, because the client has no other way to notice it. The leader asks the
    coordinator before the first batch of a transaction, and validates every record, compressed
    ones too.
    Versions:  v0 to v2 carry message sets of magic 0 and 1; v8 names the refused records; v10 names
    the new leader; v11 knows TRANSACTION_ABORTABLE; v12 adds partitions to transactions (KIP-890);
    v13 topics by id.
    Left out:  Kafka inflates a batch to any size. Here the limit is 64 MiB or 16 times
    `max.message.bytes`, whichever is greater; beyond it the answer is MESSAGE_TOO_LARGE.
    """
    snapshot = broker.metadata.snapshot
    by_id = context.version >= _FIRST_BY_TOPIC_ID
    names = [
        snapshot.topic_names.get(topic.topic_id) if by_id else topic.name
        for topic in request.topic_data
    ]
    entries: dict[TopicPartition, memoryview] = {}
    refused: dict[tuple[object, int], PartitionResponse] = {}
    has_transactions = False
    for topic, name in zip(request.topic_data, names, strict=True):
        for partition in topic.partition_data:
            key = (topic.topic_id if by_id else name, partition.index)
            if name is None:
                refused[key] = PartitionResponse(error=ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            refusal = _refusal(partition.records, context.version)
            is_wrong = refusal is not None or request.acks not in VALID_ACKS
            if is_wrong and snapshot.find_partition(name, partition.index) is None:
                refusal = _NO_PARTITION
            if refusal is not None:
                refused[key] = refusal
            elif partition.records is not None:
                entries[TopicPartition(name, partition.index)] = partition.records
                has_transactions = has_transactions or is_transactional(partition.records)

    @context.answering
    def on_done(results: Mapping[TopicPartition, PartitionResponse]) -> None:
        if request.acks == _NO_ACK:
            _finish_unacknowledged([*results.values(), *refused.values()], context)
        else:
            context.reply(_response(broker, request, names, results, refused, context))

    if not has_transactions:
        _append(broker, request, context, entries, on_done)
        return LATER
    try:
        write = transactional_write(request.transactional_id, entries, context.version)
    except ApiError as error:
        refused = dict.fromkeys(refused, PartitionResponse(error=error.code))
        on_done(dict.fromkeys(entries, PartitionResponse(error=error.code)))
        return LATER
    if write is None:
        _append(broker, request, context, entries, on_done)
        return LATER

    @context.answering
    def on_verified(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        failed = {one: unverified(error, write.support) for one, error in errors.items()}
        accepted = {one: records for one, records in entries.items() if one not in failed}
        _append(broker, request, context, accepted, lambda done: on_done({**failed, **done}))

    broker.txn_verification.verify(write, on_verified, patient=True)
    return LATER


def _append(
    broker: "Broker",
    request: ProduceRequest,
    context: "RequestContext",
    entries: Mapping[TopicPartition, memoryview],
    on_done: OnProduced,
) -> None:
    broker.replicas.writes.append_records(
        timeout_ms=request.timeout_ms,
        required_acks=request.acks,
        entries=entries,
        on_done=on_done,
        origin=AppendOrigin.CLIENT,
        internal_topics_allowed=context.client_id == _ADMIN_CLIENT_ID,
    )


_ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""

_LENGTH_END: Final = 12
_NEWEST_MAGIC: Final = 2
_HEAD: Final = struct.Struct(">8xi4xb5xB")  # length, magic, lower byte of the attributes
_CODEC_MASK, _ZSTD = 0x07, 4
_FIRST_WITH_BATCHES: Final = 3
_FIRST_WITH_ZSTD: Final = 7


def _refusal(records: memoryview | None, version: int) -> PartitionResponse | None:
    """Checks what this version of Produce may carry; the log checks the rest."""
    if records is None or (not records and version >= _FIRST_WITH_BATCHES):
        return _INVALID
    if version < _FIRST_WITH_BATCHES:
        return None if _begins_whole(records) else _NOTHING_APPENDED
    if records.nbytes < _HEAD.size:
        return _INVALID
    length, magic, attributes = _HEAD.unpack_from(records)
    if magic < 2:
        return _INVALID
    if magic > _NEWEST_MAGIC:
        message = f"Invalid magic found in record: {magic}"
        return PartitionResponse(error=ErrorCode.CORRUPT_MESSAGE, error_message=message)
    if _LENGTH_END + length != records.nbytes:  # several batches, or a part of one
        return _INVALID
    if version < _FIRST_WITH_ZSTD and attributes & _CODEC_MASK == _ZSTD:
        return PartitionResponse(
            error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            error_message=f"Produce v{version} cannot carry batches compressed with zstd",
        )
    return None


def _begins_whole(message_set: memoryview) -> bool:
    """False if a message set holds only part of a message, which Kafka drops."""
    try:
        size = next_batch_size(message_set, 0, message_set.nbytes)
    except ApiError:
        return True  # the length is right but the content is not: the log will refuse it
    return size is not None and size <= message_set.nbytes


_NOTHING_APPENDED: Final = PartitionResponse()


_INVALID: Final = PartitionResponse(error=ErrorCode.INVALID_RECORD)
_NO_PARTITION: Final = PartitionResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _finish_unacknowledged(results: Iterable[PartitionResponse], context: "RequestContext") -> None:
    if any(result.error for result in results):
        context.close_connection("a produce request with acks=0 failed")
    else:
        context.no_reply()


def _response(
    broker: "Broker",
    request: ProduceRequest,
    names: Sequence[str | None],
    results: Mapping[TopicPartition, PartitionResponse],
    refused: Mapping[tuple[object, int], PartitionResponse],
    context: "RequestContext",
) -> ProduceResponse:
    """`names` are the topic names when the request arrived; the topics may be gone by now."""
    by_id = context.version >= _FIRST_BY_TOPIC_ID
    moved: set[int] = set()
    topics = []
    for topic, name in zip(request.topic_data, names, strict=True):
        partitions = []
        for partition in topic.partition_data:
            result = None
            if name is not None:
                result = results.get(TopicPartition(name, partition.index))
            if result is None:
                result = refused[topic.topic_id if by_id else name, partition.index]
            leader = _NO_LEADER
            if result.error and name is not None and context.version >= _FIRST_WITH_LEADERS:
                found = find_leader(broker, TopicPartition(name, partition.index), result.error)
                if found is not None:
                    leader = _Partition.LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
                    moved.add(found[0])
            partitions.append(_partition(partition.index, result, leader))
        topics.append(
            _Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
        )
    return ProduceResponse(
        responses=topics,
        node_endpoints=[
            ProduceResponse.NodeEndpoint(node_id=id_, host=host, port=port, rack=rack)
            for id_, host, port, rack in node_endpoints(broker, moved, context.listener)
        ],
    )


_NO_LEADER: Final = _Partition.LeaderIdAndEpoch()


def _partition(
    index: int, result: PartitionResponse, leader: _Partition.LeaderIdAndEpoch
) -> _Partition:
    return _Partition(
        index=index,
        error_code=result.error,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[
            _Partition.RecordError(batch_index=e.batch_index, batch_index_error_message=e.message)
            for e in result.record_errors
        ],
        error_message=result.error_message,
        current_leader=leader,
    )
