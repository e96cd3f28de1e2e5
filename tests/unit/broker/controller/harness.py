"""A cluster of controllers without threads: a test moves events, requests and answers.

Every broker has a session, a `ControllerCore` and a queue of events; requests to brokers wait in
one queue per channel. `settle()` runs everything until nothing is left to do. Brokers are modelled
just enough to answer: they keep the last state they received, refuse old controllers, delete what
they are ordered to delete, and drop what a full request does not list.
"""

import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from embedkafka.broker.controller import events
from embedkafka.broker.controller.core import ControllerConfig, ControllerCore
from embedkafka.broker.controller.events import ElectionTrigger, ElectionType, Event
from embedkafka.broker.controller.request_batch import ControlResponse, Outgoing
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import LEADER_DURING_DELETE, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    FULL,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemorySession, MemoryZk
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo, LeaderAndIsr, ReplicaAssignment
from embedkafka.zk.retrying import RetryingStore
from embedkafka.zk.store import SessionState

LeaderState = LeaderAndIsrRequest.TopicState.PartitionState
MetadataState = UpdateMetadataRequest.TopicState.PartitionState


def tp(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


def broker_info(broker_id: int, rack: str | None = None) -> BrokerInfo:
    endpoint = BrokerEndpoint(host="127.0.0.1", port=9000 + broker_id)
    return BrokerInfo(id=broker_id, endpoints=(endpoint,), rack=rack)


class ManualTimers:
    """Keeps scheduled tasks until a test runs them."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float, Callable[[], object]]] = []

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> "ManualTimers":
        self.tasks.append((name, delay_ms, run))
        return self

    def every(
        self, name: str, period_ms: float, run: Callable[[], object], delay_ms: float | None = None
    ) -> "ManualTimers":
        raise NotImplementedError

    def cancel(self) -> None:
        self.tasks.clear()

    def fire(self) -> None:
        tasks, self.tasks = self.tasks, []
        for _, _, run in tasks:
            run()


class QueuedChannels:
    """The controller's channels as queues, which the cluster empties."""

    def __init__(self, owner: "Node") -> None:
        self.owner = owner
        self.queues: dict[int, deque[Outgoing]] = {}

    def add_broker(self, info: BrokerInfo) -> None:
        self.queues.setdefault(info.id, deque())

    def remove_broker(self, broker_id: int) -> None:
        self.queues.pop(broker_id, None)

    def send(self, outgoing: Outgoing) -> None:
        self.owner.cluster.sent.append(outgoing)
        if outgoing.broker in self.queues:
            self.queues[outgoing.broker].append(outgoing)

    def close(self) -> None:
        self.queues.clear()


class Node:
    """One broker: its session, its controller, and the state it has received."""

    def __init__(self, cluster: "Cluster", info: BrokerInfo, config: ControllerConfig) -> None:
        self.cluster = cluster
        self.info = info
        self.events: deque[Event] = deque()
        self.timers = ManualTimers()
        self.session: MemorySession = cluster.server.connect()
        self.zk = KafkaZk(self.session, cluster.clock)
        self.channels: QueuedChannels | None = None
        self.leaders: dict[TopicPartition, LeaderState] = {}
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self.metadata: dict[TopicPartition, MetadataState] = {}
        self.live_brokers: set[int] = set()
        self.highest_controller_epoch = 0
        self.storage_errors: set[TopicPartition] = set()
        self.unanswered: dict[TopicPartition, LeaderAndIsr] = {}
        self.alive = True
        self.zk.make_persistent_paths()
        self.core = ControllerCore(
            info,
            self.zk.register_broker(info),
            KafkaZk(RetryingStore(self.session), cluster.clock),
            config,
            channels=self._open_channels,
            scheduler=self.timers,
            post=self.events.append,
        )
        self.session.on_session_change(self._on_session)
        self.events.append(events.Startup())

    def handle(self, request: object) -> ControlResponse:
        """Answers a control request as a broker does."""
        assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
        error = ErrorCode.NONE
        if request.controller_epoch < self.highest_controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        elif request.broker_epoch < self.core.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        else:
            self.highest_controller_epoch = request.controller_epoch
        if isinstance(request, UpdateMetadataRequest):
            return self._update_metadata(request, error)
        if isinstance(request, LeaderAndIsrRequest):
            return self._lead_or_follow(request, error)
        return self._stop_replicas(request, error)

    def _lead_or_follow(
        self, request: LeaderAndIsrRequest, error: ErrorCode
    ) -> LeaderAndIsrResponse:
        topics = []
        if request.type == FULL and error is ErrorCode.NONE:
            hosted = {
                TopicPartition(topic.topic_name, state.partition_index)
                for topic in request.topic_states
                for state in topic.partition_states
            }
            self.leaders = {p: state for p, state in self.leaders.items() if p in hosted}
            self.storage_errors &= hosted
        for topic in request.topic_states if error is ErrorCode.NONE else ():
            answers = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if self.topic_ids.get(partition) != topic.topic_id:
                    self.leaders.pop(partition, None)
                known = self.leaders.get(partition)
                code = ErrorCode.NONE
                if partition in self.storage_errors:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                elif known is not None and state.leader_epoch <= known.leader_epoch:
                    code = ErrorCode.STALE_CONTROLLER_EPOCH
                else:
                    self.leaders[partition] = state
                    self.topic_ids[partition] = topic.topic_id
                answers.append(
                    LeaderAndIsrResponse.Topic.PartitionError(
                        partition_index=state.partition_index, error_code=code
                    )
                )
            topics.append(
                LeaderAndIsrResponse.Topic(topic_id=topic.topic_id, partition_errors=answers)
            )
        return LeaderAndIsrResponse(error_code=error, topics=topics)

    def _update_metadata(
        self, request: UpdateMetadataRequest, error: ErrorCode
    ) -> UpdateMetadataResponse:
        if error is ErrorCode.NONE:
            self.live_brokers = {broker.id for broker in request.live_brokers}
            if request.type == FULL:
                self.metadata.clear()
            for topic in request.topic_states:
                for state in topic.partition_states:
                    partition = TopicPartition(topic.topic_name, state.partition_index)
                    self.metadata[partition] = state
                    if state.leader == LEADER_DURING_DELETE:
                        del self.metadata[partition]
        return UpdateMetadataResponse(error_code=error)

    def _stop_replicas(self, request: StopReplicaRequest, error: ErrorCode) -> StopReplicaResponse:
        answers = []
        for topic in request.topic_states if error is ErrorCode.NONE else ():
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                failed = partition in self.storage_errors and state.delete_partition
                if state.delete_partition:
                    self.leaders.pop(partition, None)
                    self.storage_errors.discard(partition)
                answers.append(
                    StopReplicaResponse.PartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE,
                    )
                )
        return StopReplicaResponse(error_code=error, partition_errors=answers)

    def _open_channels(self) -> QueuedChannels:
        self.channels = QueuedChannels(self)
        return self.channels

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.events.append(events.SessionLost())


class Cluster:
    """Brokers on one in-process ZooKeeper."""

    def __init__(self, brokers: int = 3, config: ControllerConfig | None = None) -> None:
        self.clock = ManualClock()
        self.failures = Failures()
        self.server = MemoryZk(self.clock, self.failures)
        self.config = config or ControllerConfig()
        self.nodes: dict[int, Node] = {}
        self.sent: list[Outgoing] = []
        self.loses_answers = False
        """Whether channels send every request twice, because its first answer is lost."""
        self.admin = KafkaZk(self.server.connect(), self.clock)
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)
        self.settle()

    # --- brokers ---

    def start(self, broker_id: int) -> Node:
        self.nodes[broker_id] = Node(self, broker_info(broker_id), self.config)
        return self.nodes[broker_id]

    def kill(self, broker_id: int) -> None:
        """Removes a broker and ends its session."""
        node = self.nodes.pop(broker_id)
        node.alive = False
        node.events.clear()
        if node.channels is not None:
            node.channels.close()
        node.session.close()

    def restart(self, broker_id: int) -> Node:
        self.kill(broker_id)
        return self.start(broker_id)

    @property
    def controller(self) -> Node:
        active = [node for node in self.nodes.values() if node.core.is_active]
        assert len(active) == 1, f"active controllers: {[n.info.id for n in active]}"
        return active[0]

    # --- running ---

    def settle(self) -> None:
        """Handles events and delivers requests until there are none."""
        for _ in range(100_000):
            if not self.step():
                self.failures.check()
                return
        raise AssertionError("the cluster does not settle")

    def step(self) -> bool:
        return self.handle_events() or self.deliver()

    def handle_events(self) -> bool:
        """Handles one event of each broker that has any."""
        busy = [node for node in self.nodes.values() if node.events]
        for node in busy:
            if node.events:
                node.core.handle(node.events.popleft())
        return bool(busy)

    def deliver(self) -> bool:
        """Delivers one request per channel, if its broker is running."""
        done = False
        for node in list(self.nodes.values()):
            queues = node.channels.queues if node.channels is not None else {}
            for broker_id, queue in list(queues.items()):
                target = self.nodes.get(broker_id)
                if queue and target is not None:
                    outgoing = queue.popleft()
                    if self.loses_answers:
                        target.handle(outgoing.request)
                    response = target.handle(outgoing.request)
                    node.events.append(events.ResponseReceived(outgoing, response))
                    done = True
        return done

    # --- actions of clients and leaders ---

    def create_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.admin.create_topic(name, assignment, topic_id=uuid.uuid4(), config=config or {})
        self.settle()

    def delete_topic(self, name: str) -> None:
        self.admin.request_topic_deletion(name)
        self.settle()

    def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, ApiError | None]:
        answer = self.ask_reassign(self.controller.info.id, wanted)
        assert not isinstance(answer, ApiError)
        return answer

    def ask_reassign(
        self, broker_id: int, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, ApiError | None] | ApiError:
        answers: list[Mapping[TopicPartition, ApiError | None] | ApiError] = []
        event = events.ApiPartitionReassignment(wanted, answers.append)
        self.nodes[broker_id].events.append(event)
        self.settle()
        (answer,) = answers
        return answer

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        answers: list[Mapping[TopicPartition, ReplicaAssignment] | ApiError] = []
        event = events.ListPartitionReassignments(partitions, answers.append)
        self.controller.events.append(event)
        self.settle()
        (answer,) = answers
        assert not isinstance(answer, ApiError)
        return answer

    def elect(
        self, partitions: Collection[TopicPartition] | None, kind: ElectionType
    ) -> Mapping[TopicPartition, int | ApiError]:
        answers: list[Mapping[TopicPartition, int | ApiError]] = []
        event = events.ReplicaLeaderElection(
            partitions, kind, ElectionTrigger.ADMIN, answers.append
        )
        self.controller.events.append(event)
        self.settle()
        (answer,) = answers
        return answer

    def shut_down(self, broker_id: int, epoch: int = -1) -> Sequence[TopicPartition] | ApiError:
        """Sends ControlledShutdown and returns the controller's answer."""
        answers: list[Sequence[TopicPartition] | ApiError] = []
        event = events.ControlledShutdown(broker_id, epoch, answers.append)
        self.controller.events.append(event)
        self.settle()
        (answer,) = answers
        return answer

    def set_isr(self, partition: TopicPartition, isr: Sequence[int]) -> None:
        """Changes the ISR as its leader does, and notifies the controller."""
        state = self.state(partition)
        changed = LeaderAndIsr(
            leader=state.leader,
            isr=tuple(isr),
            leader_epoch=state.leader_epoch,
            controller_epoch=state.controller_epoch,
            leader_recovery_state=state.leader_recovery_state,
            zk_version=state.zk_version,
        )
        assert self.admin.update_isr_as_leader(partition, changed) is not None
        self.admin.notify_isr_changes([partition])
        self.settle()

    def state(self, partition: TopicPartition) -> LeaderAndIsr:
        return self.admin.partition_states([partition])[partition]

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.state(tp(topic, partition)).leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return self.state(tp(topic, partition)).isr
