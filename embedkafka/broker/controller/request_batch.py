"""Collects updates for brokers into one request of each kind per broker.

As in Kafka, one step of the controller ends in at most one LeaderAndIsr, UpdateMetadata and
StopReplica request per broker, sent in this order; every partition that is in a LeaderAndIsr
request is in an UpdateMetadata request to all brokers. Requests carry the epoch of the broker
they address, so a broker refuses a request meant for its previous registration.

A broker that registered, and every broker under a new controller, gets both in full and drops
everything they omit: while it was away, its replicas may have moved and topics may have gone.
Full metadata thus proves that a broker knows which replicas it hosts.

Owner: the step that builds the batch, which lives no longer.
Not here: sending (`channels`).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.runtime.ids import LEADER_DURING_DELETE, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.messages.brokers import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk.payloads import BrokerInfo, LeaderAndIsr

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4
"""The versions that Kafka 3.4 and later use between brokers."""

SECURITY_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_LeaderState = LeaderAndIsrRequest.TopicState.PartitionState
_MetadataState = UpdateMetadataRequest.TopicState.PartitionState
_StopState = StopReplicaRequest.TopicState.PartitionState

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request for one broker; `deleting` lists the partitions it deletes."""

    broker: int
    request: ControlRequest
    version: int
    deleting: frozenset[TopicPartition] = frozenset()


class RequestBatch:
    """Requests under construction; `build` makes the messages from the context at that time."""

    def __init__(self, context: ControllerContext, *, controller_id: int, listener: str) -> None:
        self._context = context
        self._controller_id = controller_id
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._stop: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._everything: set[int] = set()

    def add_leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool
    ) -> None:
        """Sends the partition's leadership to `brokers`, and its metadata to every broker."""
        for broker in brokers:
            told = self._leader_and_isr.setdefault(broker, {})
            told[partition] = is_new or told.get(partition, False)
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Sends brokers the live brokers and the state of `partitions`."""
        self._metadata_brokers.update(dict.fromkeys(brokers))
        self._metadata.update(dict.fromkeys(partitions))

    def add_everything(self, brokers: Iterable[int]) -> None:
        """Sends brokers everything they host, then the metadata of the whole cluster."""
        for broker in brokers:
            self._everything.add(broker)
            self._leader_and_isr.setdefault(broker, {})
            self._metadata_brokers[broker] = None

    def add_stop_replica(self, broker: int, partition: TopicPartition, *, delete: bool) -> None:
        told = self._stop.setdefault(broker, {})
        told[partition] = delete or told.get(partition, False)

    def build(self) -> list[Outgoing]:
        """The requests for registered brokers, in sending order."""
        return [
            *self._build_leader_and_isr(),
            *self._build_update_metadata(),
            *self._build_stop_replica(),
        ]

    def _build_leader_and_isr(self) -> Iterable[Outgoing]:
        context = self._context
        self._complete_leader_and_isr()
        states: dict[tuple[TopicPartition, bool], _LeaderState] = {}
        for broker, told in self._leader_and_isr.items():
            if broker not in context.brokers:
                continue
            topics: dict[str, list[_LeaderState]] = {}
            leaders: dict[int, None] = {}
            for partition, is_new in told.items():
                state = states.get((partition, is_new))
                if state is None:
                    state = self._leader_and_isr_state(partition, is_new=is_new)
                    states[partition, is_new] = state
                topics.setdefault(partition.topic, []).append(state)
                leaders[state.leader] = None
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=context.epoch,
                broker_epoch=context.broker_epochs[broker],
                type=FULL if broker in self._everything else INCREMENTAL,
                topic_states=[
                    LeaderAndIsrRequest.TopicState(
                        topic_name=topic,
                        topic_id=context.topic_ids.get(topic, ZERO_UUID),
                        partition_states=listed,
                    )
                    for topic, listed in topics.items()
                ],
                live_leaders=[self._live_leader(b) for b in leaders if b in context.brokers],
            )
            yield Outgoing(broker=broker, request=request, version=LEADER_AND_ISR_VERSION)

    def _complete_leader_and_isr(self) -> None:
        """Adds the other replicas of brokers that get everything, except deleted topics."""
        if not self._everything:
            return
        context = self._context
        for partition, broker in context.replicas_on(self._everything):
            stays = not context.is_queued_for_deletion(partition.topic)
            if stays and partition in context.leadership:
                self._leader_and_isr[broker].setdefault(partition, False)

    def _leader_and_isr_state(self, partition: TopicPartition, *, is_new: bool) -> _LeaderState:
        state = self._context.leadership[partition]
        assignment = self._context.assignment(partition)
        return _LeaderState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.zk_version,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=state.leader_recovery_state,
        )

    def _live_leader(self, broker: int) -> LeaderAndIsrRequest.LiveLeader:
        endpoint = self._context.brokers[broker].endpoint(self._listener)
        return LeaderAndIsrRequest.LiveLeader(
            broker_id=broker, host_name=endpoint.host, port=endpoint.port
        )

    def _build_update_metadata(self) -> Iterable[Outgoing]:
        context = self._context
        receivers = [broker for broker in self._metadata_brokers if broker in context.brokers]
        if not receivers:
            return
        changed = self._topic_states(self._metadata)
        everything = self._topic_states(context.leadership) if self._everything else ()
        live_brokers = [_metadata_broker(info) for info in context.brokers.values()]
        for broker in receivers:
            is_full = broker in self._everything
            request = UpdateMetadataRequest(
                controller_id=self._controller_id,
                type=FULL if is_full else INCREMENTAL,
                controller_epoch=context.epoch,
                broker_epoch=context.broker_epochs[broker],
                topic_states=everything if is_full else changed,
                live_brokers=live_brokers,
            )
            yield Outgoing(broker=broker, request=request, version=UPDATE_METADATA_VERSION)

    def _topic_states(
        self, partitions: Iterable[TopicPartition]
    ) -> Sequence[UpdateMetadataRequest.TopicState]:
        context = self._context
        topics: dict[str, list[_MetadataState]] = {}
        for partition in partitions:
            state = context.leadership.get(partition)
            if state is not None:
                told = self._metadata_state(partition, state)
                topics.setdefault(partition.topic, []).append(told)
        return [
            UpdateMetadataRequest.TopicState(
                topic_name=topic,
                topic_id=context.topic_ids.get(topic, ZERO_UUID),
                partition_states=listed,
            )
            for topic, listed in topics.items()
        ]

    def _metadata_state(self, partition: TopicPartition, state: LeaderAndIsr) -> _MetadataState:
        context = self._context
        if context.is_queued_for_deletion(partition.topic):
            state = LeaderAndIsr(
                leader=LEADER_DURING_DELETE,
                isr=state.isr,
                controller_epoch=state.controller_epoch,
            )
        replicas = context.assignment(partition).replicas
        return _MetadataState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.zk_version,
            replicas=replicas,
            offline_replicas=[r for r in replicas if not context.is_online(r, partition)],
        )

    def _build_stop_replica(self) -> Iterable[Outgoing]:
        context = self._context
        for broker, told in self._stop.items():
            if broker not in context.brokers:
                continue
            topics: dict[str, list[_StopState]] = {}
            for partition, delete in told.items():
                topics.setdefault(partition.topic, []).append(
                    _StopState(
                        partition_index=partition.partition,
                        leader_epoch=context.stop_epoch(partition),
                        delete_partition=delete,
                    )
                )
            request = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=context.epoch,
                broker_epoch=context.broker_epochs[broker],
                topic_states=[
                    StopReplicaRequest.TopicState(topic_name=topic, partition_states=listed)
                    for topic, listed in topics.items()
                ],
            )
            deleting = frozenset(partition for partition, delete in told.items() if delete)
            yield Outgoing(
                broker=broker, request=request, version=STOP_REPLICA_VERSION, deleting=deleting
            )


def _metadata_broker(info: BrokerInfo) -> UpdateMetadataRequest.Broker:
    return UpdateMetadataRequest.Broker(
        id=info.id,
        endpoints=[
            UpdateMetadataRequest.Broker.Endpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in info.endpoints
        ],
        rack=info.rack,
    )
