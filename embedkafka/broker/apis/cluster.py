"""The brokers of the cluster, those that are down too, and its controllers."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.broker.apis.metadata import FOR_OPERATIONS, cluster_operations, once_informed
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import DescribeClusterRequest, DescribeClusterResponse
from embedkafka.wire.protocol.messages.quorum import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from embedkafka.wire.protocol.wire_types import OPERATIONS_OMITTED

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


class EndpointType(IntEnum):
    """Which nodes a client asks for, numbered as on the wire."""

    BROKER = 1
    CONTROLLER = 2


def describe_cluster(
    broker: "BrokerParts", request: DescribeClusterRequest, context: "RequestContext"
) -> object:
    """Brokers, controller and cluster id; on the controller listener, the controllers.

    Behaviour: every live broker is a controller or a candidate. Fenced brokers are those that are
    down and have not been unregistered.
    """
    served = EndpointType.CONTROLLER if context.is_control_plane else EndpointType.BROKER
    if request.endpoint_type != served:
        return _refused_endpoints(served, request.endpoint_type)
    return once_informed(broker, context, lambda: _cluster(broker, request, context))


def _refused_endpoints(served: EndpointType, wanted: int) -> DescribeClusterResponse:
    if wanted in list(EndpointType):
        error, message = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {served.name}, but we wanted an endpoint "
            f"of type {EndpointType(wanted).name}",
        )
    else:
        error, message = (
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {wanted}",
        )
    return DescribeClusterResponse(
        error_code=error, error_message=message, cluster_id="", brokers=[]
    )


def _cluster(
    broker: "BrokerParts", request: DescribeClusterRequest, context: "RequestContext"
) -> DescribeClusterResponse:
    snapshot, listener = broker.metadata.snapshot, context.listener
    live = [
        DescribeClusterResponse.Broker(
            broker_id=node.id,
            host=node.endpoints[listener].host,
            port=node.endpoints[listener].port,
            rack=node.rack,
        )
        for node in snapshot.brokers.values()
        if listener in node.endpoints
    ]
    wants_fenced = request.include_fenced_brokers and not context.is_control_plane
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=broker.registration.cluster_id,
        controller_id=snapshot.controller_id,
        brokers=[*live, *(_fenced_brokers(broker, listener) if wants_fenced else ())],
        cluster_authorized_operations=cluster_operations(context)
        if request.include_cluster_authorized_operations
        else OPERATIONS_OMITTED,
    )


def _fenced_brokers(
    broker: "BrokerParts", listener: str
) -> Iterator[DescribeClusterResponse.Broker]:
    live = broker.metadata.snapshot.brokers
    for info in broker.zk.fenced_brokers().values():
        for endpoint in info.endpoints:
            if endpoint.listener == listener and info.id not in live:
                yield DescribeClusterResponse.Broker(
                    broker_id=info.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=info.rack,
                    is_fenced=True,
                )


def unregister_broker(
    broker: "BrokerParts", request: UnregisterBrokerRequest, context: "RequestContext"
) -> UnregisterBrokerResponse:
    """Forgets a broker that is down; unknown ids answer BROKER_ID_NOT_REGISTERED.

    Left out: a broker that runs is INVALID_REQUEST. Kafka accepts it, and the broker then does
    nothing until it restarts.
    """
    broker_id = request.broker_id
    if broker.zk.find_broker_epoch(broker_id) is not None:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker ID {broker_id} is running; stop it before you unregister it",
        )
    if not broker.zk.forget_broker(broker_id):
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker_id} is not currently registered",
        )
    return UnregisterBrokerResponse()


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.DESCRIBE_CLUSTER: Api(describe_cluster, [FOR_OPERATIONS]),
    ApiKey.UNREGISTER_BROKER: Api(
        unregister_broker, [Need(AclOperation.ALTER, ResourceType.CLUSTER, says=REASON)]
    ),
}
