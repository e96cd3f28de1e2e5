"""What only brokers and controllers may send."""

from typing import Final

from embedkafka.broker.api_table import SERVED
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.messages import brokers
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.probes import PROBES

AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
EPOCH: Final = 1_000_000
BROKER_EPOCH: Final = 2**62
_Stopped = brokers.StopReplicaRequest.TopicState
_Role = brokers.LeaderAndIsrRequest.TopicState
REQUESTS: Final[dict[ApiKey, object]] = {
    **{api: probe.request for api, probe in PROBES.items() if SERVED[api].for_controllers},
    ApiKey.LEADER_AND_ISR: brokers.LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=EPOCH,
        broker_epoch=BROKER_EPOCH,
        topic_states=[
            _Role(
                topic_name="orders",
                topic_id=ZERO_UUID,
                partition_states=[
                    _Role.PartitionState(
                        partition_index=0,
                        controller_epoch=EPOCH,
                        leader=7,
                        leader_epoch=EPOCH,
                        isr=[7],
                        partition_epoch=EPOCH,
                        replicas=[7],
                    )
                ],
            )
        ],
        live_leaders=[],
    ),
    ApiKey.STOP_REPLICA: brokers.StopReplicaRequest(
        controller_id=1,
        controller_epoch=EPOCH,
        broker_epoch=BROKER_EPOCH,
        topic_states=[
            _Stopped(
                topic_name="orders",
                partition_states=[
                    _Stopped.PartitionState(
                        partition_index=0, leader_epoch=-2, delete_partition=True
                    )
                ],
            )
        ],
    ),
    ApiKey.UPDATE_METADATA: brokers.UpdateMetadataRequest(
        controller_id=1,
        type=brokers.FULL,
        controller_epoch=EPOCH,
        broker_epoch=BROKER_EPOCH,
        live_brokers=[],
    ),
    ApiKey.CONTROLLED_SHUTDOWN: brokers.ControlledShutdownRequest(
        broker_id=1, broker_epoch=BROKER_EPOCH
    ),
}
"""A request that would do harm, for every API of the control plane that asks for rights."""
