"""KRaft's answers about its quorum, given by a cluster that has none.

This is a facade. The cluster keeps its state in ZooKeeper, and any broker may become controller.
For the tools of Kafka 4.x, the active controller is the leader of the quorum, and every live broker
is a voter that has caught up. There is no metadata log: its offsets are ZooKeeper's transactions.
The voters are always the live brokers, so a request to change them is refused, as by a quorum whose
`kraft.version` is 0.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import MEANING, Api, Need
from embedkafka.broker.settings.listeners import CONTROL_LISTENER
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ControllerListener,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    VoterState,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

METADATA_TOPIC: Final = "__cluster_metadata"


def describe_quorum(
    broker: "BrokerParts", request: DescribeQuorumRequest, context: "RequestContext"
) -> DescribeQuorumResponse:
    """The active controller as leader and the live brokers as voters, for `__cluster_metadata`-0.

    Left out: there is no quorum; this is what KRaft's tools want to see.
    """
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown_partitions(request)
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponse.Topic(topic_name=METADATA_TOPIC, partitions=[_leader(broker)])
        ],
        nodes=[
            DescribeQuorumResponse.Node(
                node_id=node.id,
                listeners=[
                    ControllerListener(name=name, host=endpoint.host, port=endpoint.port)
                    for name, endpoint in node.endpoints.items()
                    if name == CONTROL_LISTENER
                ],
            )
            for node in broker.metadata.snapshot.brokers.values()
        ],
    )


def _leader(broker: "BrokerParts") -> DescribeQuorumResponse.Topic.Partition:
    offset, now_ms = broker.zk.last_change(), broker.clock.now_ms()
    snapshot = broker.metadata.snapshot
    epoch, _ = broker.zk.controller_epoch()
    return DescribeQuorumResponse.Topic.Partition(
        partition_index=0,
        error_message="",
        leader_id=snapshot.controller_id,
        leader_epoch=epoch,
        high_watermark=offset,
        current_voters=[
            VoterState(
                replica_id=broker_id,
                log_end_offset=offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for broker_id in sorted(snapshot.brokers)
        ],
        observers=[],
    )


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponse.Topic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponse.Topic.Partition(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=error.message,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def add_raft_voter(
    broker: "BrokerParts", request: AddRaftVoterRequest, context: "RequestContext"
) -> AddRaftVoterResponse:
    """Refuses, like a quorum whose `kraft.version` is 0 (UNSUPPORTED_VERSION)."""
    try:
        _check_cluster(broker, request.cluster_id)
        _check_voter("Add", request.voter_id, request.voter_directory_id)
        if all(listener.name != CONTROL_LISTENER for listener in request.listeners):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Add voter request didn't include the endpoint for the default listener "
                f"{CONTROL_LISTENER}",
            )
        raise _fixed("adding")
    except ApiError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


def remove_raft_voter(
    broker: "BrokerParts", request: RemoveRaftVoterRequest, context: "RequestContext"
) -> RemoveRaftVoterResponse:
    """Refuses, like a quorum whose `kraft.version` is 0 (UNSUPPORTED_VERSION)."""
    try:
        _check_cluster(broker, request.cluster_id)
        _check_voter("Remove", request.voter_id, request.voter_directory_id)
        raise _fixed("removing")
    except ApiError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


def _check_cluster(broker: "BrokerParts", cluster_id: str | None) -> None:
    own = broker.registration.cluster_id
    if cluster_id not in (None, own):
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"',
        )


def _check_voter(operation: str, voter_id: int, directory_id: uuid.UUID) -> None:
    if voter_id < 0 or directory_id == ZERO_UUID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{operation} voter request didn't include a valid voter",
        )


def _fixed(operation: str) -> ApiError:
    return ApiError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"Cluster doesn't support {operation} voter because the kraft.version feature is 0",
    )


_ALTER: Final = Need(AclOperation.ALTER, ResourceType.CLUSTER, says=MEANING)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.DESCRIBE_QUORUM: Api(
        describe_quorum, [_ALTER._replace(operation=AclOperation.DESCRIBE)]
    ),
    ApiKey.ADD_RAFT_VOTER: Api(add_raft_voter, [_ALTER]),
    ApiKey.REMOVE_RAFT_VOTER: Api(remove_raft_voter, [_ALTER]),
}
