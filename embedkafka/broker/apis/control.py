"""Requests on the control plane, from the controller to brokers and back.

Every request carries the broker epoch that the controller knows. A request meant for an earlier
registration of this broker is refused with STALE_BROKER_EPOCH.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import Api, Need
from embedkafka.broker.dispatch import LATER
from embedkafka.runtime.ids import TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


def leader_and_isr(
    broker: "BrokerParts", request: LeaderAndIsrRequest, context: "RequestContext"
) -> LeaderAndIsrResponse:
    """Makes this broker the leader of some partitions and a follower of others."""
    if broker.registration.is_stale(request.broker_epoch):
        return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return broker.replicas.leadership.become_leader_or_follower(request)


def stop_replica(
    broker: "BrokerParts", request: StopReplicaRequest, context: "RequestContext"
) -> StopReplicaResponse:
    """Stops replicas, and deletes those of deleted or moved partitions."""
    if broker.registration.is_stale(request.broker_epoch):
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, partition_errors=[])
    return broker.replicas.leadership.stop_replicas(request)


def update_metadata(
    broker: "BrokerParts", request: UpdateMetadataRequest, context: "RequestContext"
) -> UpdateMetadataResponse:
    """Updates the metadata that this broker serves to clients."""
    if broker.registration.is_stale(request.broker_epoch):
        return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    if not broker.replicas.leadership.accept_controller(request.controller_epoch):
        return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    known_brokers = broker.metadata.snapshot.brokers.keys()
    removed = broker.metadata.update(request)
    if broker.metadata.snapshot.brokers.keys() != known_brokers:
        broker.replicas.isr_updates.on_brokers_changed()
    _forget(broker, removed)
    _complete_waiting(broker, [state.topic_name for state in request.topic_states])
    return UpdateMetadataResponse(error_code=ErrorCode.NONE)


def _forget(broker: "BrokerParts", removed: Collection[TopicPartition]) -> None:
    """Drops offsets of partitions that are gone, and settings of their topics."""
    if removed and broker.group_coordinator.made is not None:
        broker.group_coordinator.made.on_partitions_deleted(sorted(removed))
    for topic in {topic for topic, _ in removed}:
        broker.config.forget_topic(topic)


def _complete_waiting(broker: "BrokerParts", topics: Iterable[str]) -> None:
    """Answers CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders.

    They wait until this broker knows of what they have asked for. So does FindCoordinator.
    """
    for topic in topics:
        broker.topic_purgatory.check_and_complete(topic)
        broker.election_purgatory.check_and_complete(topic)


def controlled_shutdown(
    broker: "BrokerParts", request: ControlledShutdownRequest, context: "RequestContext"
) -> object:
    """Moves leaders off a broker that is about to stop; for the active controller only."""

    @context.answering
    def reply(remaining: Sequence[TopicPartition] | ApiError) -> None:
        context.reply(
            ControlledShutdownResponse(
                error_code=remaining.code if isinstance(remaining, ApiError) else ErrorCode.NONE,
                remaining_partitions=[]
                if isinstance(remaining, ApiError)
                else [
                    ControlledShutdownResponse.Partition(topic_name=topic, partition_index=index)
                    for topic, index in remaining
                ],
            )
        )

    try:
        controller = broker.registration.require_controller()
    except ApiError as error:
        reply(error)
        return LATER
    controller.controlled_shutdown(request.broker_id, request.broker_epoch, reply)
    return LATER


_FOR_BROKERS: Final = [
    Need(
        AclOperation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        "on the control plane, for brokers only",
    )
]

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.LEADER_AND_ISR: Api(leader_and_isr, _FOR_BROKERS),
    ApiKey.STOP_REPLICA: Api(stop_replica, _FOR_BROKERS),
    ApiKey.UPDATE_METADATA: Api(update_metadata, _FOR_BROKERS),
    ApiKey.CONTROLLED_SHUTDOWN: Api(controlled_shutdown, _FOR_BROKERS),
}
