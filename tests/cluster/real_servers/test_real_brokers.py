"""Two Apache Kafka 3.9 brokers obey our controller and serve a stock client.

Their inter-broker protocol is 2.6, in which leaders write ISR changes to ZooKeeper, as ours do. The
controller's broker, number 9, is a stub: it has no partitions and accepts every request.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedkafka.broker.controller.controller import Controller
from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.broker.controller.events import ElectionType
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.wire.net.broker_channel import BrokerConnection
from embedkafka.wire.net.client import BrokerClient
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.kazoo_store import KazooZk
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo, LeaderAndIsr, ReplicaAssignment
from tests.java_tools.jvm import QUICK_START, JavaProcess
from tests.java_tools.oracle import kafka_classpath
from tests.java_tools.ports import free_ports
from tests.java_tools.zookeeper import ZooKeeperServer
from tests.unit.broker.controller.harness import tp
from tests.unit.broker.controller.obedient_brokers import Answer, ObedientBroker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

KAFKA = "3.9.1"
NOWHERE = BrokerEndpoint(host="127.0.0.1", port=1)


class RealCluster:
    """A real ZooKeeper, two real brokers, and our controller."""

    def __init__(self, zookeeper: ZooKeeperServer, class_path: str, directory: Path) -> None:
        self.clock = SystemClock()
        self.failures = Failures()
        self.scheduler = ThreadScheduler("ek-b9-background", self.clock, self.failures)
        self.store = KazooZk(zookeeper.connect_string, failures=self.failures)
        self.zk = KafkaZk(self.store, self.clock)
        self.refused: list[object] = []
        self._class_path = class_path
        self._directory = directory
        self._zookeeper = zookeeper
        self.ports = dict(zip((1, 2), free_ports(2), strict=True))
        self.brokers: dict[int, JavaProcess] = {}
        info = BrokerInfo(id=9, endpoints=(NOWHERE,))
        self.zk.make_persistent_paths()
        self.controller = Controller(
            info,
            self.zk.register_broker(info),
            self.zk,
            clock=self.clock,
            failures=self.failures,
            config=ControllerConfig(auto_leader_rebalance_enable=False),
            scheduler=self.scheduler,
            connect=self._connect,
        )
        self.controller.start()

    def start(self, broker: int) -> None:
        settings = self._directory / f"{broker}.properties"
        settings.write_text(
            f"broker.id={broker}\nlisteners=PLAINTEXT://127.0.0.1:{self.ports[broker]}\n"
            f"log.dirs={self.log_dir(broker)}\nzookeeper.connect={self._zookeeper.connect_string}\n"
            "inter.broker.protocol.version=2.6\nzookeeper.session.timeout.ms=3000\n"
            "auto.create.topics.enable=false\nfile.delete.delay.ms=0\n"
        )
        self.brokers[broker] = JavaProcess(
            [*QUICK_START, "-Xmx512m", "-cp", self._class_path, "kafka.Kafka", str(settings)],
            log=self._directory / f"{broker}.out",
        )

    def log_dir(self, broker: int) -> Path:
        return self._directory / f"logs-{broker}"

    def await_fact(self, what: str, is_so: Callable[[], bool]) -> None:
        """Polls for a fact as long as broker 2 lives, which is never killed."""
        self.brokers[2].await_answer(is_so, what=what, timeout_s=60)

    def state(self, partition: TopicPartition) -> LeaderAndIsr:
        return self.zk.partition_states([partition])[partition]

    def close(self) -> None:
        self.controller.stop()
        self.store.close()
        self.scheduler.shutdown()
        for broker in self.brokers.values():
            broker.kill()

    def _connect(self, endpoint: BrokerEndpoint) -> BrokerConnection:
        if endpoint == NOWHERE:
            return ObedientBroker(endpoint)
        client = BrokerClient(endpoint.host, endpoint.port, self.clock, "controller-9")
        return Listening(client, self.refused)


class Listening:
    """Keeps the answers that contain an error."""

    def __init__(self, client: BrokerClient, refused: list[object]) -> None:
        self._client = client
        self._refused = refused

    def call(self, request: Any, version: int) -> Any:
        response = self._client.call(request, version)
        if response.error_code:
            self._refused.append((request, response))
        return response

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    class_path = kafka_classpath(KAFKA)
    with ZooKeeperServer() as zookeeper:
        cluster = RealCluster(zookeeper, class_path, tmp_path)
        yield cluster
        cluster.close()
        cluster.failures.check()


def produce(cluster: RealCluster, *brokers: int, count: int) -> None:
    from confluent_kafka import Producer

    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": ",".join(f"127.0.0.1:{cluster.ports[b]}" for b in brokers),
            "acks": "all",
            "log_level": 0,
        }
    )
    for number in range(count):
        producer.produce(
            "orders",
            str(number),
            partition=0,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(60) == 0
    assert errors == [None] * count


def test_real_brokers_obey(cluster: RealCluster) -> None:
    first, second = tp("orders", 0), tp("orders", 1)
    for broker in (1, 2):
        cluster.start(broker)
    cluster.await_fact("both register", lambda: sorted(cluster.zk.brokers()) == [1, 2, 9])

    cluster.zk.create_topic("orders", {0: [1, 2], 1: [2, 1]}, topic_id=uuid.uuid4(), config={})
    cluster.await_fact("leaders", lambda: len(cluster.zk.partition_states([first, second])) == 2)
    produce(cluster, 1, 2, count=100)

    cluster.brokers[1].kill()
    cluster.await_fact("broker 2 leads", lambda: cluster.state(first).leader == 2)
    produce(cluster, 2, count=50)

    cluster.start(1)
    cluster.await_fact("broker 1 caught up", lambda: set(cluster.state(first).isr) == {1, 2})
    elected = Answer()
    cluster.controller.elect_leaders([first], ElectionType.PREFERRED, elected)
    assert elected.get() == {first: 1}
    produce(cluster, 1, 2, count=10)

    moved = Answer()
    cluster.controller.alter_partition_reassignments({second: [1]}, moved)
    assert moved.get() == {second: None}
    cluster.await_fact("partition 1 moved", lambda: cluster.state(second).isr == (1,))
    topic = cluster.zk.find_topic("orders")
    assert topic is not None
    assert topic.partitions[1] == ReplicaAssignment(replicas=(1,))
    moved_away = cluster.log_dir(2) / "orders-1"
    cluster.await_fact("the old log is gone", lambda: not moved_away.exists())

    cluster.zk.request_topic_deletion("orders")
    cluster.await_fact("the topic is gone", lambda: not cluster.zk.topic_exists("orders"))
    assert [path for broker in (1, 2) for path in cluster.log_dir(broker).glob("orders-?")] == []
    assert cluster.refused == []
