"""Who may send what brokers and controllers send each other: those with CLUSTER_ACTION."""

from collections.abc import Callable
from typing import Any

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.brokers import (
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from embedkafka.protocol.messages.quorum import UpdateRaftVoterResponse
from embedkafka.security.acl.operations import AclOperation
from embedkafka.server.authorization.checks import Checks, Refused

_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

Guard = Callable[[Checks, Any], object]  # Any: each guard has its own request


def _for_brokers(refuse: Callable[[Any], object]) -> Guard:  # Any: as above
    def guard(check: Checks, request: Any) -> object:  # Any: as above
        if check.may_cluster(AclOperation.CLUSTER_ACTION):
            return request
        return Refused(refuse(request))

    return guard


def _roles_not_taken(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    _Topic = LeaderAndIsrResponse.Topic
    return LeaderAndIsrResponse(
        error_code=_FAILED,
        topics=[
            _Topic(
                topic_id=topic.topic_id,
                partition_errors=[
                    _Topic.PartitionError(partition_index=p.partition_index, error_code=_FAILED)
                    for p in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _replicas_not_stopped(request: StopReplicaRequest) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=_FAILED,
        partition_errors=[
            StopReplicaResponse.PartitionError(
                topic_name=topic.topic_name, partition_index=p.partition_index, error_code=_FAILED
            )
            for topic in request.topic_states
            for p in topic.partition_states
        ],
    )


leader_and_isr = _for_brokers(_roles_not_taken)
stop_replica = _for_brokers(_replicas_not_stopped)
update_metadata = _for_brokers(lambda request: UpdateMetadataResponse(error_code=_FAILED))
controlled_shutdown = _for_brokers(
    lambda request: ControlledShutdownResponse(error_code=_FAILED, remaining_partitions=[])
)
update_raft_voter = _for_brokers(lambda request: UpdateRaftVoterResponse(error_code=_FAILED))
