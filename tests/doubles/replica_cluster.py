"""`ReplicaCluster`: the replicas of a few brokers, without the brokers.

Logs, partitions, followers and purgatories are real. A dictionary stands in for ZooKeeper and the
test for the controller. There are no sockets, no groups, no transactions, and no threads unless a
test starts them. The test moves the clock (`pass_time`) and decides when work is done (`settle`).
"""

import itertools
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.log import FetchIsolation, Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import (
    ClientMetadata,
    FetchParams,
    PartitionData,
    PartitionFetch,
    bytes_of,
)
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess, LeaderEndPoint, OnNews
from embedkafka.broker.replica.local_leader import LocalLeader
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.ports import LeaderChange, ReplicaPorts
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    INCREMENTAL,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.zk.payloads import LeaderAndIsr
from embedkafka.zk.store import ConnectionLoss, NoNode
from tests.doubles.scheduling import ManualScheduler
from tests.presence import present

TP = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=42)


class FakeStore:
    """Stands in for ZooKeeper as leaders use it: conditional writes of the ISR, and outages.

    It has no sessions and no watches. `notified` lists the changes the controller would hear of.
    """

    def __init__(self) -> None:
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.versions: dict[TopicPartition, int] = {}
        self.notified: list[TopicPartition] = []
        self.broker_epochs: dict[int, int] = {}
        self._next_epoch = itertools.count()
        self.is_reachable = True
        self.loses_answers = False
        self.takes_notes = True

    def update_isr_as_leader(
        self,
        partition: TopicPartition,
        state: LeaderAndIsr,
        *,
        topic_id: uuid.UUID | None,
        joining: Mapping[BrokerId, int],
    ) -> int | None:
        if not self.is_reachable:
            raise ConnectionLoss(str(partition))
        version = self._update_isr(partition, state, joining)
        if self.loses_answers:
            raise ConnectionLoss(str(partition))
        return version

    def _update_isr(
        self, partition: TopicPartition, state: LeaderAndIsr, joining: Mapping[BrokerId, int]
    ) -> int | None:
        version = self.versions.get(partition, 0)
        if version != state.zk_version:
            return version if self.states.get(partition) == state else None
        for broker_id, epoch in joining.items():
            known = self.broker_epochs.get(broker_id)
            if known is None or epoch not in (-1, known):
                raise NoNode(str(broker_id))
        self.versions[partition] = state.zk_version + 1
        self.states[partition] = state
        return state.zk_version + 1

    def register(self, broker_id: int) -> None:
        """Registers the next incarnation of a broker."""
        self.broker_epochs[broker_id] = next(self._next_epoch)

    def notify_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        if not self.takes_notes:
            raise ConnectionLoss
        self.notified.extend(partitions)


class FakeMetadata:
    """A broker's view of the cluster, as sets that the test fills."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.alive: set[int] = set()
        self.racks: dict[int, str] = {}

    def contains(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.partitions

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self.alive

    def rack(self, broker_id: BrokerId) -> str | None:
        return self.racks.get(broker_id)


class Node:
    """One broker's replicas and the parts they depend on."""

    def __init__(self, cluster: "ReplicaCluster", broker_id: BrokerId, directory: Path) -> None:
        self.id = broker_id
        self.broker_epoch = cluster.store.broker_epochs[broker_id]
        self.tasks = ManualScheduler(cluster.clock)
        self.changes: list[tuple[Sequence[LeaderChange], Sequence[LeaderChange]]] = []
        self.failed_dirs: list[str] = []
        self.postponed_count = 0
        self.cluster = cluster
        self.logs = LogManager(
            [directory / f"disk-{n}" for n in range(cluster.disks)],
            LogEnvironment(
                clock=cluster.clock,
                files=cluster.files,
                scheduler=self.tasks,
                random=random.Random(1),
                ages=RecordAges(),
            ),
            on_dir_failure=lambda failed, lost: self.manager.on_log_dir_failure(failed, lost),
        )
        self.manager = ReplicaManager(
            broker_id,
            ReplicaPorts(
                logs=self.logs,
                topic_configs=self,
                metadata=cluster.metadata,
                isr_store=cluster.store,
                leadership_listener=self,
                log_dir_events=self,
            ),
            LeaderAccess(connect=self._reach, one_thread=True, threaded=cluster.threaded),
            config=cluster.config,
            timer=self.tasks,
            scheduler=self.tasks,
            clock=cluster.clock,
            failures=cluster.failures,
        )
        self.logs.startup()
        self.manager.start()

    def log_config(self, topic: str) -> LogConfig:
        return self.cluster.topic_config

    def on_leadership_change(
        self, leading: Sequence[LeaderChange], following: Sequence[LeaderChange]
    ) -> None:
        self.changes.append((leading, following))

    def on_log_dir_failure(self, directory: str, offline: Sequence[TopicPartition]) -> None:
        self.failed_dirs.append(directory)

    def on_postponed(self) -> None:
        self.postponed_count += 1

    def partition(self, topic_partition: Any = TP) -> Partition:
        return self.manager.hosted.require(topic_partition)

    def log(self, topic_partition: TopicPartition = TP) -> Log:
        return self.partition(topic_partition).require_log()

    def values(self, topic_partition: TopicPartition = TP) -> list[str]:
        """Every value in this replica's log, up to the log end offset."""
        return values_of(self.log(topic_partition))

    def produce(
        self,
        *values: str,
        to: TopicPartition = TP,
        acks: int = -1,
        timeout_ms: float = 30_000,
        **batch: Any,
    ) -> "Produced":
        produced = Produced()
        self.manager.writes.append_records(
            timeout_ms=timeout_ms,
            required_acks=acks,
            entries={to: records(*values, **batch)},
            on_done=produced.take,
        )
        return produced

    def fetch(
        self,
        offset: int,
        *,
        of: TopicPartition = TP,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        rack: str | None = None,
        **request: Any,
    ) -> "Fetched":
        client = None
        if rack is not None:
            client = ClientMetadata(
                rack_id=rack, client_id="test", client_address="127.0.0.1", listener="PLAINTEXT"
            )
        fetched = Fetched()
        self.manager.reads.fetch_messages(
            FetchParams(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation=isolation,
                client_metadata=client,
            ),
            [PartitionFetch(of, offset, max_bytes, **request)],
            fetched.take,
        )
        return fetched

    def _reach(self, leader: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        return LocalLeader(leader, self.id, self._find_leader, on_news, lambda: self.broker_epoch)

    def _find_leader(self, leader: BrokerId) -> ReplicaManager | None:
        if not {self.id, leader}.isdisjoint(self.cluster.unreachable):
            return None
        node = self.cluster.nodes.get(leader)
        return None if node is None else node.manager


class Produced:
    """The answer to a produce request, once it arrives."""

    def __init__(self) -> None:
        self.answers: list[Mapping[TopicPartition, PartitionResponse]] = []

    def take(self, answer: Mapping[TopicPartition, PartitionResponse]) -> None:
        self.answers.append(answer)

    @property
    def is_done(self) -> bool:
        return bool(self.answers)

    @property
    def response(self) -> PartitionResponse:
        (answer,) = self.answers
        (response,) = answer.values()
        return response

    @property
    def error(self) -> ErrorCode:
        return self.response.error


class Fetched:
    """The answer to a fetch request, once it arrives."""

    def __init__(self) -> None:
        self.answers: list[list[PartitionData]] = []

    def take(self, answer: list[PartitionData]) -> None:
        self.answers.append(answer)

    @property
    def is_done(self) -> bool:
        return bool(self.answers)

    @property
    def all(self) -> list[PartitionData]:
        (answer,) = self.answers
        return answer

    @property
    def data(self) -> PartitionData:
        (data,) = self.all
        return data

    @property
    def values(self) -> list[str]:
        return values_in(self.data)


class ReplicaCluster:
    """The brokers, a stand-in for the controller, and the clock."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        config: ReplicaConfig | None = None,
        topic_config: LogConfig | None = None,
        files: SystemFiles | None = None,
        threaded: bool = False,
        disks: int = 1,
    ) -> None:
        self.threaded = threaded
        self.disks = disks
        self.clock = ManualClock()
        self.failures = Failures()
        self.files = files or SystemFiles()
        self.config = config or ReplicaConfig()
        self.topic_config = topic_config or LogConfig()
        self.metadata = FakeMetadata()
        self.store = FakeStore()
        self.directory = directory
        self.nodes: dict[int, Node] = {}
        self.unreachable: set[int] = set()
        self.controller_epoch = 1
        self._epochs: dict[TopicPartition, int] = {}
        for number in range(1, brokers + 1):
            self.start(number)

    def __getitem__(self, broker: int) -> Node:
        return self.nodes[broker]

    def start(self, broker: int) -> Node:
        self.metadata.alive.add(broker)
        self.store.register(broker)
        node = Node(self, BrokerId(broker), self.directory / f"broker-{broker}")
        self.nodes[broker] = node
        return node

    def kill(self, broker: int) -> None:
        node = self.nodes.pop(broker)
        self.metadata.alive.discard(broker)
        del self.store.broker_epochs[broker]
        node.manager.shutdown(complete=False)
        node.logs.kill()

    def elect(
        self,
        leader: int,
        replicas: Sequence[int] | None = None,
        *,
        of: TopicPartition = TP,
        isr: Sequence[int] | None = None,
        topic_id: uuid.UUID = TOPIC_ID,
        to: Sequence[int] | None = None,
        is_new: bool = False,
    ) -> dict[int, ErrorCode]:
        """Starts the next leader epoch as a controller does, and returns the brokers' errors."""
        replicas = sorted(self.nodes) if replicas is None else replicas
        epoch = self._epochs[of] = self._epochs.get(of, -1) + 1
        version = self.store.versions[of] = self.store.versions.get(of, -1) + 1
        self.metadata.partitions.add(of)
        request = leader_and_isr(
            of,
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=version,
            isr=replicas if isr is None else isr,
            replicas=replicas,
            topic_id=topic_id,
            controller_epoch=self.controller_epoch,
            is_new=is_new,
        )
        self._last_election = request
        return self.repeat_election(
            to=[b for b in replicas if b in self.nodes] if to is None else to
        )

    def repeat_election(self, *, to: Sequence[int]) -> dict[int, ErrorCode]:
        """Sends the last election to brokers that missed it."""
        request = self._last_election
        return {
            broker: partition_error(
                self.nodes[broker].manager.leadership.become_leader_or_follower(request)
            )
            for broker in to
        }

    def stop_replica(
        self, broker: int, *, delete: bool, leader_epoch: int, of: TopicPartition = TP
    ) -> StopReplicaResponse:
        return self.nodes[broker].manager.leadership.stop_replicas(
            StopReplicaRequest(
                controller_id=1,
                controller_epoch=self.controller_epoch,
                topic_states=[
                    StopReplicaRequest.TopicState(
                        topic_name=of.topic,
                        partition_states=[
                            StopReplicaRequest.TopicState.PartitionState(
                                partition_index=of.partition,
                                leader_epoch=leader_epoch,
                                delete_partition=delete,
                            )
                        ],
                    )
                ],
            )
        )

    @staticmethod
    def records(*values: str) -> memoryview:
        return records(*values)

    def settle(self) -> None:
        """Lets followers fetch and background work run until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for node in list(self.nodes.values()):
                busy |= node.manager.fetchers.run_until_idle()
                busy |= node.tasks.run_due()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.settle()

    def close(self) -> None:
        for node in self.nodes.values():
            node.manager.shutdown()
            node.logs.shutdown()
        self.failures.check()


def leader_and_isr(
    topic_partition: TopicPartition,
    *,
    leader: int,
    leader_epoch: int,
    partition_epoch: int,
    isr: Sequence[int],
    replicas: Sequence[int],
    topic_id: uuid.UUID,
    controller_epoch: int,
    is_new: bool,
    type: int = INCREMENTAL,
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.TopicState.PartitionState(
        partition_index=topic_partition.partition,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
        replicas=list(replicas),
        is_new=is_new,
    )
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        type=type,
        topic_states=[
            LeaderAndIsrRequest.TopicState(
                topic_name=topic_partition.topic, topic_id=topic_id, partition_states=[state]
            )
        ],
        live_leaders=[],
    )


def partition_error(response: LeaderAndIsrResponse) -> ErrorCode:
    if response.error_code:
        return ErrorCode(response.error_code)
    return ErrorCode(response.topics[0].partition_errors[0].error_code)


def records(*values: str, **batch: Any) -> memoryview:
    built = build_batch([(1_000 + n, None, v.encode(), ()) for n, v in enumerate(values)], **batch)
    return memoryview(bytearray(built))


def values_in(data: PartitionData) -> list[str]:
    return [
        bytes(present(record.value)).decode()
        for batch in read_batches(bytes_of(data.records))
        for record in batch.records()
    ]


def values_of(log: Log) -> list[str]:
    values: list[str] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1 << 20)
        for batch in read_batches(bytes_of(data.records)):
            values += [
                bytes(present(record.value)).decode()
                for record in batch.records()
                if record.offset >= log.log_start_offset
            ]
            offset = batch.next_offset
    return values
