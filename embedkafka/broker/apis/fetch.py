"""Reading batches, for consumers and followers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import Api, Quota, by_handler
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.fetch_conversion import (
    LAST_CONVERTED,
    LAST_OF_MESSAGE_SETS,
    REFUSALS,
    for_older_client,
)
from embedkafka.broker.log.conversions import Converted, Purpose
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.fetch import (
    ClientMetadata,
    FetchParams,
    PartitionData,
    PartitionFetch,
    bytes_of,
)
from embedkafka.broker.replica.fetch_session import Answer, FetchContext, SessionAnswer, SessionKey
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET, BrokerId, TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import FetchRequest, FetchResponse
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.wire.records.conversion import count_records

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_LAST_WITH_HARD_LIMIT: Final = 2
_FIRST_WITH_RACK: Final = 11
_FIRST_BY_TOPIC_ID: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15
_FIRST_WITH_LEADERS: Final = 16

_Topic = FetchResponse.Topic
_Partition = FetchResponse.Topic.Partition


def fetch(broker: "BrokerParts", request: FetchRequest, context: "RequestContext") -> object:
    """Answers once `min_bytes` are available, after `max_wait_ms`, or at once with an error.

    Behaviour: the first batch of the first partition with data is sent whole, whatever its size.
    Versions:  v0 to v3 get message sets, converted on a separate thread; before v3 limits are hard;
    v7 sessions; v11 reads from the nearest replica; v13 topics by id; v15 followers send their
    broker epoch, and join the in-sync replicas only in the registration in which they fetched.
    """
    by_id = context.version >= _FIRST_BY_TOPIC_ID
    params = _params(broker, request, context)
    session = broker.fetches.new_context(
        session_id=request.session_id,
        epoch=request.session_epoch,
        uses_topic_ids=by_id,
        is_follower=params.is_from_follower,
        wanted=list(_wanted(request).values()),
        forgotten=list(_forgotten(request, by_id=by_id)),
        resolve=broker.metadata.snapshot.topic_names.get,
    )
    if session.error is not ErrorCode.NONE or not session.partitions:
        context.reply(_response(broker, session.update_and_generate(()), context))
        return LATER
    known: Sequence[PartitionFetch] = [
        asked for asked in session.partitions if asked.topic_partition.topic or not by_id
    ]
    if context.checks is not None:
        known = _permitted(known, params, context.checks)
    if not FetchIsolation.is_known(request.isolation_level) and any(
        broker.metadata.snapshot.find_partition(*asked.topic_partition) for asked in known
    ):
        return _failed(request, by_id=by_id)

    def reply(answers: Sequence[Answer]) -> None:
        context.reply(_response(broker, session.update_and_generate(answers), context))

    @context.answering
    def on_done(read: Sequence[PartitionData]) -> None:
        answers = _in_order(session, read, by_id=by_id)
        if context.version > LAST_CONVERTED:
            reply(answers)
            return

        def convert_and_reply() -> None:
            reply(_converted(broker, answers, context.version))

        if context.version > LAST_OF_MESSAGE_SETS or not any(data.records for data in read):
            convert_and_reply()
        else:
            broker.conversions.once("down-convert", 0, context.answering(convert_and_reply))

    if known:
        broker.replicas.reads.fetch_messages(params, known, on_done)
    else:
        on_done(())
    return LATER


def _failed(request: FetchRequest, *, by_id: bool) -> FetchResponse:
    """Kafka fails where it looks up an unknown isolation level, to read at least one partition."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return FetchResponse(
        error_code=error,
        responses=[]
        if by_id
        else [
            _Topic(
                topic=topic.topic,
                topic_id=ZERO_UUID,
                partitions=[
                    _Partition(
                        partition_index=partition.partition,
                        error_code=error,
                        high_watermark=NO_OFFSET,
                        aborted_transactions=(),
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _params(broker: "BrokerParts", request: FetchRequest, context: "RequestContext") -> FetchParams:
    replica_id = (
        request.replica_state.replica_id
        if context.version >= _FIRST_WITH_REPLICA_STATE
        else request.replica_id
    )
    limit = broker.config.broker.integer("fetch.max.bytes")
    is_consumer = replica_id < 0
    isolation = FetchIsolation.LOG_END
    if is_consumer:
        isolation = FetchIsolation.for_consumer(request.isolation_level)
    client = None
    if is_consumer and context.version >= _FIRST_WITH_RACK:
        client = ClientMetadata(
            rack_id=request.rack_id,
            client_id=context.client_id,
            client_address=context.client_host,
            listener=context.listener,
        )
    return FetchParams(
        replica_id=BrokerId(replica_id),
        broker_epoch=request.replica_state.replica_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, limit) if is_consumer else request.min_bytes,
        max_bytes=min(request.max_bytes, limit) if is_consumer else request.max_bytes,
        isolation=isolation,
        client_metadata=client,
        hard_max_bytes=context.version <= _LAST_WITH_HARD_LIMIT,
    )


def _wanted(request: FetchRequest) -> dict[SessionKey, PartitionFetch]:
    """Every partition once; the last of several wishes counts. Negative epochs mean any."""
    return {
        (topic.topic or topic.topic_id, partition.partition): PartitionFetch(
            topic_partition=TopicPartition(topic.topic, partition.partition),
            fetch_offset=partition.fetch_offset,
            max_bytes=partition.partition_max_bytes,
            log_start_offset=partition.log_start_offset,
            current_leader_epoch=max(partition.current_leader_epoch, NO_LEADER_EPOCH),
            last_fetched_epoch=partition.last_fetched_epoch,
            topic_id=topic.topic_id,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest, *, by_id: bool) -> Iterable[SessionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic, partition)


def _in_order(session: FetchContext, read: Sequence[PartitionData], *, by_id: bool) -> list[Answer]:
    """One answer for each requested partition: what was read, unknown ids, then other refusals.

    Those with unknown topic ids were not read, nor were those that the client may not read.
    """
    found = {data.topic_partition: data for data in read}

    def answer(asked: PartitionFetch) -> PartitionData:
        data = found.get(asked.topic_partition)
        if data is not None:
            return data
        forbidden = bool(asked.topic_partition.topic) or not by_id
        return PartitionData(
            asked.topic_partition,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED if forbidden else ErrorCode.UNKNOWN_TOPIC_ID,
        )

    answers = [(asked, answer(asked)) for asked in session.partitions]
    answers.sort(key=lambda one: _RANKS.get(one[1].error, 0))
    return answers


def _permitted(
    wanted: Sequence[PartitionFetch], params: FetchParams, checks: "Checks"
) -> Sequence[PartitionFetch]:
    """What a consumer, topic by topic, or a follower, all or nothing, may read."""
    if params.is_from_follower:
        return wanted if checks.may_cluster(AclOperation.CLUSTER_ACTION) else ()
    permitted, _ = checks.split(
        AclOperation.READ, ResourceType.TOPIC, wanted, lambda asked: asked.topic_partition.topic
    )
    return permitted


def _converted(broker: "BrokerParts", answers: Sequence[Answer], version: int) -> list[Answer]:
    def convert(asked: PartitionFetch, data: PartitionData) -> PartitionData:
        log = broker.logs.find(asked.topic_partition)
        began_ms = broker.clock.monotonic_ms()
        converted = for_older_client(
            data,
            version=version,
            fetch_offset=asked.fetch_offset,
            config=None if log is None else log.config,
        )
        if converted.records is not data.records and data.records and converted.records:
            total = Converted(
                records=count_records(bytes_of(data.records)),
                size=converted.size,
                ms=broker.clock.monotonic_ms() - began_ms,
            )
            broker.logs.conversions.note(Purpose.FETCH, asked.topic_partition.topic, total)
        return converted

    return [(asked, convert(asked, data)) for asked, data in answers]


def _response(
    broker: "BrokerParts", answer: SessionAnswer, context: "RequestContext"
) -> FetchResponse:
    topics: list[_Topic] = []
    partitions: list[_Partition] = []
    last: object = None
    moved: set[int] = set()
    snapshot = broker.metadata.snapshot
    for asked, data in answer.answers:
        key = asked.topic_id if asked.topic_id != ZERO_UUID else asked.topic_partition.topic
        if key != last:
            last, partitions = key, []
            topics.append(
                _Topic(
                    topic=asked.topic_partition.topic,
                    topic_id=asked.topic_id,
                    partitions=partitions,
                )
            )
        partitions.append(_partition(broker, asked, data, context, moved))
    return FetchResponse(
        error_code=answer.error,
        session_id=answer.session_id,
        responses=topics,
        node_endpoints=[
            FetchResponse.NodeEndpoint(node_id=id_, host=host, port=port, rack=rack)
            for id_, host, port, rack in snapshot.endpoints_of(moved, context.listener)
        ],
    )


def _partition(
    broker: "BrokerParts",
    asked: PartitionFetch,
    data: PartitionData,
    context: "RequestContext",
    moved: set[int],
) -> _Partition:
    diverging = data.diverging_epoch
    aborted = data.aborted_transactions
    leader = _NO_LEADER
    if data.error and context.version >= _FIRST_WITH_LEADERS:
        found = broker.metadata.snapshot.find_new_leader(asked.topic_partition, data.error)
        if found is not None:
            leader = _Partition.LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
            moved.add(found[0])
    return _Partition(
        partition_index=asked.topic_partition.partition,
        error_code=data.error,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        diverging_epoch=_NO_DIVERGENCE
        if diverging is None
        else _Partition.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        current_leader=leader,
        aborted_transactions=_no_transactions(data.error)
        if aborted is None
        else [
            _Partition.AbortedTransaction(
                producer_id=txn.producer_id, first_offset=txn.first_offset
            )
            for txn in aborted
        ],
        preferred_read_replica=data.preferred_read_replica,
        records=None if data.error in REFUSALS else data.records,
    )


def _no_transactions(error: ErrorCode) -> Sequence[_Partition.AbortedTransaction] | None:
    """Kafka leaves the list out, but not where it found no partition to read."""
    return () if error in _RANKS else None


#: The order of the answers about partitions that were not there to read.
_RANKS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 2,
}
_NO_LEADER: Final = _Partition.LeaderIdAndEpoch()
_NO_DIVERGENCE: Final = _Partition.EpochEndOffset()


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.FETCH: Api(
        fetch,
        [
            by_handler(AclOperation.READ, ResourceType.TOPIC, "for consumers"),
            by_handler(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "for followers"),
        ],
        quota=Quota.FETCHED,
    )
}
