"""Appends batches."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from embedkafka.broker.api_table import Api, Need, Quota
from embedkafka.broker.apis.transactional_writes import (
    is_transactional,
    transactional_write,
    unverified,
)
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.log.log import AppendOrigin
from embedkafka.broker.replica.leader_writes import VALID_ACKS, OnProduced
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.ids import TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.core import ProduceRequest, ProduceResponse
from embedkafka.wire.records.batch import next_batch_size

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_FIRST_BY_TOPIC_ID: Final = 13
_FIRST_WITH_LEADERS: Final = 10
_NO_ACK: Final = 0

_Key = tuple[str, UUID, int]
"""A partition as the request names it: the topic's name or its id, and the index."""
_Topic = ProduceResponse.Topic
_Partition = ProduceResponse.Topic.Partition


def produce(broker: "BrokerParts", request: ProduceRequest, context: "RequestContext") -> object:
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
    refused: dict[_Key, PartitionResponse] = {}
    has_transactions = False
    for topic, name in zip(request.topic_data, names, strict=True):
        if name not in snapshot.topics:
            broker.auto_creation.on_write(topic.topic_id if by_id else topic.name)
        for partition in topic.partition_data:
            key = (topic.name, topic.topic_id, partition.index)
            records = partition.records
            if records is not None and not has_transactions:
                damage = _damage(records)
                if damage is not None:
                    return _all_refused(broker, request, names, damage, context)
                has_transactions = is_transactional(records)
            if name is None:
                refused[key] = PartitionResponse(error=ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            refusal = _refusal(records, context.version)
            if refusal is None and records is not None and request.acks in VALID_ACKS:
                entries[TopicPartition(name, partition.index)] = records
            elif snapshot.find_partition(name, partition.index) is None:
                refused[key] = _NO_PARTITION
            else:
                refused[key] = refusal or PartitionResponse(error=ErrorCode.INVALID_REQUIRED_ACKS)

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

    broker.find_txn_verification().verify(write, on_verified, patient=True)
    return LATER


def _append(
    broker: "BrokerParts",
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
_LEAST_LENGTH: Final = 14  # of a message of magic 0
_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")
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
    if not 0 <= magic <= _NEWEST_MAGIC:
        return PartitionResponse(error=ErrorCode.CORRUPT_MESSAGE)
    size = _LENGTH_END + length
    if magic < _NEWEST_MAGIC or size > records.nbytes:
        return _INVALID
    if version < _FIRST_WITH_ZSTD and attributes & _CODEC_MASK == _ZSTD:
        return PartitionResponse(
            error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            error_message=f"Produce v{version} cannot carry batches compressed with zstd",
        )
    return None if size == records.nbytes else _refusal_of_rest(records[size:])


def _refusal_of_rest(rest: memoryview) -> PartitionResponse | None:
    """A second batch is too many; the log drops a part of one."""
    try:
        size = next_batch_size(rest, 0, rest.nbytes)
    except ApiError as error:
        return PartitionResponse(error=error.code)
    return None if size is None or size > rest.nbytes else _INVALID


def _damage(records: memoryview) -> PartitionResponse | None:
    """What is wrong with the head of the first batch.

    Kafka looks at it to find transactions, and then refuses all partitions of the request.
    """
    if records.nbytes < _LENGTH_AND_MAGIC.size:
        return None
    length, magic = _LENGTH_AND_MAGIC.unpack_from(records)
    if length < _LEAST_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
    elif not 0 <= magic <= _NEWEST_MAGIC:
        message = f"Invalid magic found in record: {magic}"
    else:
        return None
    return PartitionResponse(error=ErrorCode.CORRUPT_MESSAGE, error_message=message)


def _all_refused(
    broker: "BrokerParts",
    request: ProduceRequest,
    names: Sequence[str | None],
    refusal: PartitionResponse,
    context: "RequestContext",
) -> object:
    if request.acks == _NO_ACK:
        _finish_unacknowledged([refusal], context)
        return LATER
    refused = {
        (topic.name, topic.topic_id, partition.index): refusal
        for topic in request.topic_data
        for partition in topic.partition_data
    }
    return _response(broker, request, names, {}, refused, context)


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
    broker: "BrokerParts",
    request: ProduceRequest,
    names: Sequence[str | None],
    results: Mapping[TopicPartition, PartitionResponse],
    refused: Mapping[_Key, PartitionResponse],
    context: "RequestContext",
) -> ProduceResponse:
    """`names` are the topic names when the request arrived; the topics may be gone by now."""
    snapshot = broker.metadata.snapshot
    moved: set[int] = set()
    topics: dict[tuple[str, UUID], dict[int, _Partition]] = {}
    for topic, name in zip(request.topic_data, names, strict=True):
        for partition in topic.partition_data:
            result = refused.get((topic.name, topic.topic_id, partition.index))
            if result is None:
                assert name is not None, f"no answer for topic {topic.topic_id}"
                result = results[TopicPartition(name, partition.index)]
            leader = _NO_LEADER
            if result.error and name is not None and context.version >= _FIRST_WITH_LEADERS:
                found = snapshot.find_new_leader(
                    TopicPartition(name, partition.index), result.error
                )
                if found is not None:
                    leader = _Partition.LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
                    moved.add(found[0])
            answered = _partition(partition.index, result, leader)
            topics.setdefault((topic.name, topic.topic_id), {})[partition.index] = answered
    return ProduceResponse(
        responses=[
            _Topic(name=name, topic_id=topic_id, partition_responses=list(partitions.values()))
            for (name, topic_id), partitions in topics.items()
        ],
        node_endpoints=[
            ProduceResponse.NodeEndpoint(node_id=id_, host=host, port=port, rack=rack)
            for id_, host, port, rack in snapshot.endpoints_of(moved, context.listener)
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


def _has_transactions(check: "Checks", request: ProduceRequest) -> bool:
    return any(
        partition.records is not None and is_transactional(partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    )


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.PRODUCE: Api(
        produce,
        [
            Need(
                AclOperation.WRITE,
                ResourceType.TRANSACTIONAL_ID,
                "for transactional batches",
                when=_has_transactions,
            ),
            Need(AclOperation.WRITE, ResourceType.TOPIC),
        ],
        quota=Quota.PRODUCED,
    )
}
