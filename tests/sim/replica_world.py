"""A whole cluster without sockets and threads: controllers, replicas, their logs, one store.

`World` runs the controllers; here the brokers behind them are real as well. Clients append records
to any broker that believes it leads, followers fetch one batch at a time, and leaders change their
in-sync sets in the store. One seed interleaves all of this with elections, moves of replicas,
kills, lost sessions, delayed requests and the passing of time.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from embedkafka.broker.controller.request_batch import ControlResponse
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.log import FetchIsolation, Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import bytes_of
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess, LeaderEndPoint, OnNews
from embedkafka.broker.replica.local_leader import LocalLeader
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition.partition import ACKS_ALL, LATEST_TIMESTAMP, Partition
from embedkafka.broker.replica.ports import LeaderChange, ReplicaPorts
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from embedkafka.wire.records.batch import read_batches
from embedkafka.zk.payloads import BrokerInfo
from embedkafka.zk.store import ConnectionLoss
from tests.doubles.replica_cluster import Produced, records
from tests.doubles.scheduling import ManualScheduler
from tests.presence import present
from tests.sim.world import BROKERS, World
from tests.unit.broker.controller.harness import Cluster, Node, broker_info

TOPIC = "a"
PARTITIONS = 2
LAG_MS = 30_000
FOREVER_MS = 10_000_000_000


class ReplicaNode(Node):
    """A broker with its replicas. `cluster.cannot_reach` decides whose logs it can read."""

    def __init__(self, cluster: "ReplicaCluster", info: BrokerInfo) -> None:
        self.replica_cluster = cluster
        self.tasks = ManualScheduler(cluster.clock)
        self.logs = LogManager(
            [cluster.directory / f"broker-{info.id}"],
            LogEnvironment(
                clock=cluster.clock,
                files=SystemFiles(),
                scheduler=self.tasks,
                random=Random(1),
                ages=RecordAges(),
            ),
            on_dir_failure=_no_disk_fails,
        )
        super().__init__(cluster, info, cluster.config)
        self.manager = ReplicaManager(
            BrokerId(info.id),
            ReplicaPorts(
                logs=self.logs,
                topic_configs=self,
                metadata=self,
                isr_store=self,
                leadership_listener=self,
                log_dir_events=self,
            ),
            LeaderAccess(connect=self._connect, one_thread=True, threaded=False),
            config=cluster.replica_config,
            timer=self.tasks,
            scheduler=self.tasks,
            clock=cluster.clock,
            failures=cluster.failures,
        )
        self.logs.startup()
        self.manager.start()

    def handle(self, request: object) -> ControlResponse:
        modelled = super().handle(request)
        if modelled.error_code:
            return modelled
        if isinstance(request, LeaderAndIsrRequest):
            return self.manager.leadership.become_leader_or_follower(request)
        if isinstance(request, StopReplicaRequest):
            return self.manager.leadership.stop_replicas(request)
        assert isinstance(request, UpdateMetadataRequest)
        self.manager.isr_updates.on_brokers_changed()
        return modelled

    def die(self) -> None:
        """Keeps what was written and loses what was in memory."""
        self.manager.shutdown(complete=False)
        self.logs.kill()

    def find_log(self, partition: TopicPartition) -> Log | None:
        hosted = self.manager.hosted.find(partition)
        return None if hosted is None else hosted.log

    # --- ports of the replica manager ---

    def log_config(self, topic: str) -> LogConfig:
        return self.replica_cluster.topic_config

    def contains(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.metadata

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self.live_brokers

    def rack(self, broker_id: BrokerId) -> str | None:
        return None

    def update_isr_as_leader(
        self,
        partition: TopicPartition,
        state: Any,
        *,
        topic_id: uuid.UUID | None,
        joining: Mapping[BrokerId, int],
    ) -> int | None:
        if self.info.id in self.replica_cluster.cut_from_store:
            raise ConnectionLoss(str(partition))
        version = self.zk.update_isr_as_leader(partition, state, topic_id=topic_id, joining=joining)
        if self.info.id in self.replica_cluster.losing_answers:
            raise ConnectionLoss(str(partition))
        return version

    def notify_isr_changes(self, partitions: Any) -> None:
        if self.info.id in self.replica_cluster.cut_from_store:
            raise ConnectionLoss
        self.zk.notify_isr_changes(partitions)

    def on_leadership_change(
        self, leading: Sequence[LeaderChange], following: Sequence[LeaderChange]
    ) -> None:
        """There are no coordinators here."""

    def on_log_dir_failure(self, directory: str, offline: Sequence[TopicPartition]) -> None:
        _no_disk_fails(directory, offline)

    def on_postponed(self) -> None:
        raise AssertionError("descriptors do not run out here")

    def _connect(self, leader: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        return LocalLeader(
            leader,
            BrokerId(self.info.id),
            self._find_leader,
            on_news,
            lambda: self.core.broker_epoch,
        )

    def _find_leader(self, leader: BrokerId) -> ReplicaManager | None:
        node = self.replica_cluster.nodes.get(leader)
        if node is None or self.replica_cluster.cannot_reach(self.info.id, leader):
            return None
        assert isinstance(node, ReplicaNode)
        return node.manager


class ReplicaCluster(Cluster):
    """Controllers with replicas; all use `replica_config`, and all topics `topic_config`.

    Leaders in `cut_from_store` cannot write their in-sync sets. Leaders in `losing_answers` write
    them, but the answer is lost.
    """

    def __init__(
        self,
        brokers: int,
        directory: Path,
        topic_config: LogConfig,
        replica_config: ReplicaConfig,
    ) -> None:
        self.directory = directory
        self.replica_config = replica_config
        self.topic_config = topic_config
        self.cut_from_store: set[int] = set()
        self.losing_answers: set[int] = set()
        self.cannot_reach: Callable[[int, int], bool] = lambda one, other: False
        super().__init__(brokers)

    def start(self, broker_id: int) -> Node:
        info = broker_info(broker_id)
        self.nodes[broker_id] = ReplicaNode(self, info)
        return self.nodes[broker_id]

    def kill(self, broker_id: int) -> None:
        node = self.nodes[broker_id]
        assert isinstance(node, ReplicaNode)
        super().kill(broker_id)
        node.die()


class ReplicaWorld(World):
    """The brokers' logs and the acknowledged records, driven by one `Random`."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._min_isr = 1 + seed % 2
        self._truncates_on_fetch = seed % 3 != 0
        self._directory = directory
        self.cut_off: set[int] = set()
        self.values = 0
        self.waiting: list[tuple[TopicPartition, bytes, Produced]] = []
        self.committed: dict[TopicPartition, list[bytes]] = {}
        self._marks: dict[tuple[int, TopicPartition], tuple[Log, int]] = {}
        self._told: dict[TopicPartition, tuple[int, int]] = {}
        super().__init__(seed)
        assignment = {n: self._some_replicas(3) for n in range(PARTITIONS)}
        self.partitions = [TopicPartition(TOPIC, n) for n in assignment]
        self.cluster.create_topic(TOPIC, assignment)

    def make_cluster(self) -> Cluster:
        config = LogConfig(min_insync_replicas=self._min_isr, retention_ms=-1)
        replicas = ReplicaConfig(
            replica_fetch_max_bytes=1,
            replica_lag_time_max_ms=LAG_MS,
            truncates_on_fetch=self._truncates_on_fetch,
        )
        cluster = ReplicaCluster(len(BROKERS), self._directory, config, replicas)
        cluster.cannot_reach = self._cannot_reach
        self._replica_cluster = cluster
        return cluster

    def actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.handle_event, 20),
            (self.deliver_request, 20),
            (self.produce, 30),
            (self.fetch, 60),
            (self.work, 15),
            (self.pass_time, 6),
            (self.reassign, 1),
            (self.cancel_reassignment, 1),
            (self.elect, 2),
            (self.shut_down, 1),
            (self.kill, 2),
            (self.start, 4),
            (self.bounce, 1),
            (self.restart_all, 1),
            (self.expire_session, 2),
            (self.miss_messages, 1),
            (self.lose_answers, 2),
            (self.depose_controller, 1),
            (self.get_stuck, 1),
            (self.get_unstuck, 2),
            (self.cut, 2),
            (self.mend, 3),
            (self.cut_from_store, 3),
            (self.lose_answers, 3),
            (self.reach_store, 5),
        ]

    def close(self) -> None:
        for broker in list(self.cluster.nodes):
            self.cluster.kill(broker)

    # --- actions of clients and brokers ---

    def produce(self) -> None:
        """Sends one record to any broker that believes it leads."""
        leading = [
            (node, partition)
            for node in self._replicas()
            for partition in self.partitions
            if (hosted := node.manager.hosted.find(partition)) is not None and hosted.is_leader
        ]
        if not leading:
            return
        node, partition = self.random.choice(leading)
        self.values += 1
        value, answer = str(self.values), Produced()
        acks = self.random.choice([ACKS_ALL, ACKS_ALL, ACKS_ALL, 1])
        node.manager.writes.append_records(
            timeout_ms=FOREVER_MS,
            required_acks=acks,
            entries={partition: records(value)},
            on_done=answer.take,
        )
        self._note(f"broker {node.info.id} is sent {value} for {partition} with acks={acks}")
        if acks == ACKS_ALL:
            self.waiting.append((partition, value.encode(), answer))

    def fetch(self) -> None:
        """Lets a follower fetch from its leaders once."""
        node = self._pick_replicas()
        if node is not None and node.manager.fetchers.run_once():
            self._note(f"broker {node.info.id} fetches")

    def work(self) -> None:
        """Runs a broker's due background work: in-sync sets, checkpoints, expired delays."""
        node = self._pick_replicas()
        if node is not None and node.tasks.run_due():
            self._note(f"broker {node.info.id} works in the background")

    def pass_time(self) -> None:
        ms = self.random.choice([100, 1_000, LAG_MS // 2, LAG_MS + 1])
        self._note(f"{ms} ms pass")
        self.cluster.clock.advance(ms)

    def cut(self) -> None:
        """Cuts a broker off from the other brokers, but not from ZooKeeper and the controller."""
        broker = self.random.choice(BROKERS)
        self._note(f"broker {broker} is cut off")
        self.cut_off.add(broker)

    def mend(self) -> None:
        self.cut_off.clear()

    def cut_from_store(self) -> None:
        """Keeps a leader from writing its in-sync sets."""
        broker = self.random.choice(BROKERS)
        self._note(f"broker {broker} is cut off from the store")
        self._replica_cluster.cut_from_store.add(broker)

    def lose_answers(self) -> None:
        """Lets a leader write its in-sync sets and loses the answers."""
        broker = self.random.choice(BROKERS)
        self._note(f"broker {broker} loses the store's answers")
        self._replica_cluster.losing_answers.add(broker)

    def reach_store(self) -> None:
        self._note("all brokers reach the store")
        self._replica_cluster.cut_from_store.clear()
        self._replica_cluster.losing_answers.clear()

    # --- rules ---

    def check_always(self) -> None:
        super().check_always()
        for node in self._replicas(stuck=True):
            for partition in self.partitions:
                hosted = node.manager.hosted.find(partition)
                if hosted is not None and hosted.log is not None:
                    self._check_log(node.info.id, partition, hosted.log)
                    self._check_told(partition, hosted)
        for partition in self.partitions:
            self._check_isr_has_what_is_committed(partition)
        self._check_answers()

    def _check_answers(self) -> None:
        """An acknowledged record is committed by the time of the answer."""
        for partition, value, answer in [waits for waits in self.waiting if waits[2].is_done]:
            self.waiting.remove((partition, value, answer))
            if answer.error is ErrorCode.NONE:
                offset = answer.response.base_offset
                committed = self.committed.get(partition, [])
                assert committed[offset : offset + 1] == [value], (
                    f"{partition}: {value!r} was acknowledged at {offset}, but "
                    f"{committed[offset : offset + 1]} is committed there"
                )

    def _check_isr_has_what_is_committed(self, partition: TopicPartition) -> None:
        """Every replica in the stored ISR may be elected, so it has all committed records."""
        committed = len(self.committed.get(partition, []))
        for broker in self._stored_isr(partition):
            node = self.cluster.nodes.get(broker)
            log = node.find_log(partition) if isinstance(node, ReplicaNode) else None
            if log is not None:
                assert log.log_end_offset >= committed, (
                    f"{partition}: {committed} records are committed, but in-sync broker "
                    f"{broker} has {log.log_end_offset}"
                )

    def _stored_isr(self, partition: TopicPartition) -> Sequence[int]:
        known = self._last_states.get(partition)  # as `World.check_always` has just read it
        return () if known is None else known[1].isr

    def _check_log(self, broker: int, partition: TopicPartition, log: Log) -> None:
        """Once a record is committed, every replica that knows it agrees on it, for good."""
        mark = log.high_watermark
        known_log, known_mark = self._marks.get((broker, partition), (log, 0))
        if known_log is not log:
            known_mark = 0  # the broker restarted, or the replica moved away and back
        if mark > known_mark:
            committed = self.committed.setdefault(partition, [])
            values = _values(log, known_mark, mark)
            expected = committed[known_mark:mark]
            assert values[: len(expected)] == expected, (
                f"{partition} from {known_mark} on: broker {broker} has {values}, but {expected} "
                "was committed"
            )
            committed += values[len(expected) :]
        self._marks[broker, partition] = log, mark

    def _check_told(self, partition: TopicPartition, hosted: Partition) -> None:
        """The end offset reported to consumers never goes back (KIP-207).

        A follower's may: it adopts the mark of its new leader, which may have learned of it late.
        """
        if not hosted.is_leader:
            return
        epoch, end = self._told.get(partition, (0, 0))
        try:
            told = hosted.find_offset(LATEST_TIMESTAMP, isolation=FetchIsolation.HIGH_WATERMARK)
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                raise
            return
        assert told is not None
        if told.leader_epoch >= epoch:
            assert told.offset >= end, (
                f"{partition} reported its end as {end} in epoch {epoch}, now as {told.offset} in "
                f"epoch {told.leader_epoch}"
            )
            self._told[partition] = told.leader_epoch, told.offset

    def check_at_rest(self) -> None:
        super().check_at_rest()
        for partition in self.partitions:
            committed = self.committed.get(partition, [])
            isr = self.cluster.state(partition).isr
            replicas = self.cluster.controller.core.context.assignment(partition).replicas
            assert set(isr) == set(replicas), f"{partition}: {isr} of {replicas} are in sync"
            for broker in isr:
                node = self.cluster.nodes[broker]
                assert isinstance(node, ReplicaNode)
                log = node.find_log(partition)
                assert log is not None
                values = _values(log, 0, log.log_end_offset)
                assert values == committed, f"{partition} differs on broker {broker}"
            assert len(set(committed)) == len(committed), f"{partition} has duplicate records"

    # --- helpers ---

    def _catch_up(self) -> None:
        """Lets followers fetch and leaders review their in-sync sets until nothing changes."""
        self.mend()
        self.reach_store()
        for _ in range(6):
            busy = True
            while busy:
                busy = False
                for node in self._replicas():
                    busy |= node.manager.fetchers.run_until_idle()
                    busy |= node.tasks.run_due()
                    self.check_always()
                busy |= self.cluster.step()
            self.cluster.clock.advance(LAG_MS)

    def _replicas(self, *, stuck: bool = False) -> list[ReplicaNode]:
        nodes = self.cluster.nodes.values() if stuck else self._running()
        return [node for node in nodes if isinstance(node, ReplicaNode)]

    def _pick_replicas(self) -> ReplicaNode | None:
        nodes = self._replicas()
        return self.random.choice(nodes) if nodes else None

    def _cannot_reach(self, one: int, other: int) -> bool:
        away = self.cut_off | self.stuck
        return one in away or other in away


def _values(log: Log, start: int, end: int) -> list[bytes]:
    """Returns the values between two offsets."""
    values: list[bytes] = []
    while start < end:
        for batch in read_batches(bytes_of(log.read(start, max_bytes=1 << 20).records)):
            values += [bytes(present(r.value)) for r in batch.records() if start <= r.offset < end]
            start = batch.next_offset
    return values


def _no_disk_fails(directory: object, lost: object) -> None:
    raise AssertionError(f"a disk failed: {directory}, {lost}")
