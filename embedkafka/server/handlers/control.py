"""Requests on the control plane, from the controller to brokers and back.

Every request carries the broker epoch that the controller knows. A request meant for an earlier
registration of this broker is refused with STALE_BROKER_EPOCH.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.brokers import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from embedkafka.runtime.ids import TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.api_table import Api, Need
from embedkafka.server.dispatch import LATER

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext


def leader_and_isr(
    broker: "Broker", request: LeaderAndIsrRequest, context: "RequestContext"
) -> LeaderAndIsrResponse:
    """Makes this broker the leader of some partitions and a follower of others."""
    if broker.is_stale(request.broker_epoch):
        return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return broker.replicas.leadership.become_leader_or_follower(request)


def stop_replica(
    broker: "Broker", request: StopReplicaRequest, context: "RequestContext"
) -> StopReplicaResponse:
    """Stops replicas, and deletes those of deleted or moved partitions."""
    if broker.is_stale(request.broker_epoch):
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, partition_errors=[])
    return broker.replicas.leadership.stop_replicas(request)


def update_metadata(
    broker: "Broker", request: UpdateMetadataRequest, context: "RequestContext"
) -> UpdateMetadataResponse:
    """Updates the metadata that this broker serves to clients."""
    if broker.is_stale(request.broker_epoch):
        return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return UpdateMetadataResponse(error_code=broker.update_metadata(request))


def controlled_shutdown(
    broker: "Broker", request: ControlledShutdownRequest, context: "RequestContext"
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
        controller = broker.require_controller()
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
