"""Leader elections and partition reassignments, which the controller carries out.

Other brokers forward these requests to the active controller, as in KRaft. They answer
NOT_CONTROLLER only while they do not reach it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.broker.controller.events import ElectionType
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.parts import FORWARDING
from embedkafka.broker.topics.delayed import DelayedTopics
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from embedkafka.zk.payloads import ReplicaAssignment

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


def elect_leaders(
    broker: "BrokerParts", request: ElectLeadersRequest, context: "RequestContext"
) -> object:
    """Elects preferred (0) or unclean (1) leaders of the given partitions, or of all (null).

    Behaviour: a request for all names every topic, without the partitions that needed no election.
               The answer waits until this broker's metadata shows the new leaders, so that the
               client finds them. Those that it does not show in time are REQUEST_TIMED_OUT.
    """
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    asked = None
    if request.topic_partitions is not None:
        asked = list(
            dict.fromkeys(
                TopicPartition(topic.topic, partition)
                for topic in request.topic_partitions
                for partition in topic.partitions
            )
        )

    def reply_once_known(response: ElectLeadersResponse) -> None:
        is_known = _IS_KNOWN[kind]
        _reply_once_known(broker, response, is_known, deadline_ms, context.answering(context.reply))

    @context.answering
    def reply(results: Mapping[TopicPartition, int | ApiError]) -> None:
        topics = _election_topics(request, results)
        reply_once_known(ElectLeadersResponse(replica_election_results=topics))

    try:
        kind = _election_type(request.election_type)
        controller = broker.registration.require_controller()
    except ApiError as error:
        refusal = ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=_election_topics(request, dict.fromkeys(asked or (), error)),
        )
        return _forwarded(broker, request, context, error, refusal, reply_once_known)
    controller.elect_leaders(asked, kind, reply)
    return LATER


def _leads_preferred(snapshot: MetadataSnapshot, tp: TopicPartition) -> bool:
    info = snapshot.find_partition(*tp)
    return info is not None and info.leader == info.replicas[0]


def _has_leader(snapshot: MetadataSnapshot, tp: TopicPartition) -> bool:
    info = snapshot.find_partition(*tp)
    return info is not None and info.leader in snapshot.brokers


_IsKnown = Callable[[MetadataSnapshot, TopicPartition], bool]

_IS_KNOWN: Final[Mapping[ElectionType, _IsKnown]] = {
    ElectionType.PREFERRED: _leads_preferred,
    ElectionType.UNCLEAN: _has_leader,
}


def _reply_once_known(
    broker: "BrokerParts",
    response: ElectLeadersResponse,
    is_known: _IsKnown,
    deadline_ms: float,
    reply: Callable[[ElectLeadersResponse], None],
) -> None:
    """Replies when this broker's metadata shows every elected leader, or when time is up."""
    elected: dict[str, list[TopicPartition]] = {}
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            if result.error_code == ErrorCode.NONE:
                found = elected.setdefault(topic.topic, [])
                found.append(TopicPartition(topic.topic, result.partition_id))
    if not elected:
        reply(response)
        return

    def is_done(snapshot: MetadataSnapshot, topic: str) -> bool:
        return all(is_known(snapshot, tp) for tp in elected[topic])

    def on_end(unfinished: frozenset[str]) -> None:
        snapshot = broker.metadata.snapshot
        late = {tp for topic in unfinished for tp in elected[topic] if not is_known(snapshot, tp)}
        reply(_with_late(response, late) if late else response)

    operation = DelayedTopics(
        timeout_ms=max(0, int(deadline_ms - broker.clock.monotonic_ms())),
        topics=tuple(elected),
        metadata=broker.metadata,
        what="its elected leaders",
        is_done=is_done,
        reply=on_end,
    )
    broker.election_purgatory.try_complete_else_watch(operation, tuple(elected))


def _with_late(
    response: ElectLeadersResponse, late: Collection[TopicPartition]
) -> ElectLeadersResponse:
    topics = [
        replace(
            topic,
            partition_result=[
                replace(result, error_code=ErrorCode.REQUEST_TIMED_OUT)
                if (topic.topic, result.partition_id) in late
                else result
                for result in topic.partition_result
            ],
        )
        for topic in response.replica_election_results
    ]
    return replace(response, replica_election_results=topics)


def _forwarded(
    broker: "BrokerParts",
    request: object,
    context: "RequestContext",
    error: ApiError,
    refusal: object,
    reply: Callable[[Any], None] | None = None,
) -> object:
    """Has the active controller answer, if that is another broker; otherwise refuses.

    `reply` gets the controller's answer; by default it is the client's at once.
    """
    if error.code is not ErrorCode.NOT_CONTROLLER or _is_of_broker(context.client_id):
        return refusal

    @context.answering
    def answer(response: object | None) -> None:
        if response is None:
            context.reply(refusal)
        else:
            (reply or context.reply)(response)

    controller = BrokerId(broker.metadata.snapshot.controller_id)
    broker.forwarding.send(controller, request, context.version, answer)
    return LATER


def _election_type(number: int) -> ElectionType:
    try:
        return ElectionType(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {number}") from None


def _election_topics(
    request: ElectLeadersRequest, results: Mapping[TopicPartition, int | ApiError]
) -> list[ElectLeadersResponse.Topic]:
    """Topics as requested; all topics without the partitions that needed no election."""
    if request.topic_partitions is None:
        needed = {tp for tp, result in results.items() if not _is_unneeded(result)}
        asked = [
            (topic, [tp.partition for tp in partitions if tp in needed])
            for topic, partitions in _by_topic(results)
        ]
    else:
        asked = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    return [
        ElectLeadersResponse.Topic(
            topic=topic,
            partition_result=[
                _elected(partition, results[TopicPartition(topic, partition)])
                for partition in partitions
            ],
        )
        for topic, partitions in asked
    ]


def _is_unneeded(result: int | ApiError) -> bool:
    return isinstance(result, ApiError) and result.code is ErrorCode.ELECTION_NOT_NEEDED


def _elected(partition: int, result: int | ApiError) -> ElectLeadersResponse.Topic.Partition:
    error = result if isinstance(result, ApiError) else None
    return ElectLeadersResponse.Topic.Partition(
        partition_id=partition,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message if error else None,
    )


def alter_partition_reassignments(
    broker: "BrokerParts", request: AlterPartitionReassignmentsRequest, context: "RequestContext"
) -> object:
    """Starts to move partitions to other replicas, or (null) cancels ongoing moves."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }

    @context.answering
    def reply(results: Mapping[TopicPartition, ApiError | None] | ApiError) -> None:
        context.reply(_reassignment_response(request, results))

    try:
        controller = broker.registration.require_controller()
    except ApiError as error:
        refusal = _reassignment_response(request, error)
        return _forwarded(broker, request, context, error, refusal)
    may_resize = request.allow_replication_factor_change
    controller.alter_partition_reassignments(wanted, reply, may_resize=may_resize)
    return LATER


def _reassignment_response(
    request: AlterPartitionReassignmentsRequest,
    results: Mapping[TopicPartition, ApiError | None] | ApiError,
) -> AlterPartitionReassignmentsResponse:
    _Topic = AlterPartitionReassignmentsResponse.Topic
    if isinstance(results, ApiError):
        return AlterPartitionReassignmentsResponse(
            error_code=results.code, error_message=results.message, responses=[]
        )

    def shape(tp: TopicPartition) -> AlterPartitionReassignmentsResponse.Topic.Partition:
        error = results.get(tp)
        return _Topic.Partition(
            partition_index=tp.partition,
            error_code=error.code if error else ErrorCode.NONE,
            error_message=_own_message(error) if error else None,
        )

    return AlterPartitionReassignmentsResponse(
        error_message=None if request.topics else "",
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            _Topic(
                name=topic.name,
                partitions=[
                    shape(TopicPartition(topic.name, partition.partition_index))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _own_message(error: ApiError) -> str | None:
    """The error's message, unless it only repeats the meaning of the code."""
    return None if error.message == error.code.message else error.message


def list_partition_reassignments(
    broker: "BrokerParts", request: ListPartitionReassignmentsRequest, context: "RequestContext"
) -> object:
    """Ongoing moves of the given partitions or (null) of all."""
    asked = None
    if request.topics is not None:
        asked = [
            TopicPartition(topic.name, partition)
            for topic in request.topics
            for partition in topic.partition_indexes
        ]

    @context.answering
    def reply(moving: Mapping[TopicPartition, ReplicaAssignment] | ApiError) -> None:
        context.reply(_moves_response(moving))

    try:
        controller = broker.registration.require_controller()
    except ApiError as error:
        return _forwarded(broker, request, context, error, _moves_response(error))
    controller.list_partition_reassignments(asked, reply)
    return LATER


def _moves_response(
    moving: Mapping[TopicPartition, ReplicaAssignment] | ApiError,
) -> ListPartitionReassignmentsResponse:
    _Topic = ListPartitionReassignmentsResponse.Topic
    if isinstance(moving, ApiError):
        return ListPartitionReassignmentsResponse(
            error_code=moving.code, error_message=moving.message, topics=[]
        )
    return ListPartitionReassignmentsResponse(
        topics=[
            _Topic(
                name=topic,
                partitions=[
                    _Topic.Partition(
                        partition_index=tp.partition,
                        replicas=moving[tp].replicas,
                        adding_replicas=moving[tp].adding,
                        removing_replicas=moving[tp].removing,
                    )
                    for tp in partitions
                ],
            )
            for topic, partitions in _by_topic(moving)
        ]
    )


def _by_topic(
    partitions: Iterable[TopicPartition],
) -> list[tuple[str, Sequence[TopicPartition]]]:
    return [
        (topic, list(group)) for topic, group in groupby(sorted(partitions), lambda tp: tp.topic)
    ]


def _is_of_broker(client_id: str) -> bool:
    """Whether another broker has passed the request on, taking this one for the controller."""
    return client_id.startswith("ek-b") and client_id.endswith(f"-{FORWARDING}")


def _is_not_forwarded(check: "Checks", request: object) -> bool:
    """A broker that passes a client's request on has asked for the client already."""
    is_forwarded = _is_of_broker(check.context.client_id)
    return not (is_forwarded and check.may_cluster(AclOperation.CLUSTER_ACTION, quiet=True))


_ALTER: Final = Need(AclOperation.ALTER, ResourceType.CLUSTER, when=_is_not_forwarded, says=REASON)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.ELECT_LEADERS: Api(elect_leaders, [_ALTER]),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(alter_partition_reassignments, [_ALTER]),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(
        list_partition_reassignments, [_ALTER._replace(operation=AclOperation.DESCRIBE)]
    ),
}
