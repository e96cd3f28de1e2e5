"""Brokers in separate processes, which a test starts, signals and inspects."""

import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedkafka.cluster.client_reach import ClientReach
from embedkafka.cluster.handles.topic import Topic
from embedkafka.cluster.lifecycle.ensemble import RealEnsemble
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import NO_LEADER, TopicPartition
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import ConnectionLoss, SessionExpired
from tests.java_tools.jvm import dies_with_parent
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.one_partition import batch, produce_request

ROOT = Path(__file__).parents[2]

SESSION_TIMEOUT_MS = 2_000

CONFIG = {
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
    "replica.lag.time.max.ms": 20_000,  # longer than any pause in these tests
}

PATIENCE_S = 40.0


class Processes:
    """A cluster of `embedkafka broker` processes on a real ZooKeeper."""

    def __init__(self, zookeeper: str, directory: Path, *, properties: Path | None = None) -> None:
        """`properties` is a server.properties for every broker."""
        self.zookeeper = zookeeper
        self._properties = properties
        self.directory = directory
        self._failures = Failures()
        self._session = RealEnsemble(zookeeper, self._failures, connect_timeout_ms=18_000).observe()
        self.zk = KafkaZk(self._session, SystemClock())
        self._running: dict[int, subprocess.Popen] = {}
        self._addresses: dict[int, str] = {}

    # -- processes

    def spawn(self, *broker_ids: int) -> None:
        """Starts brokers and returns when all of them have joined."""
        for broker_id in broker_ids:
            self._running[broker_id] = self._spawn(broker_id)
        for broker_id in broker_ids:
            line = present(self._running[broker_id].stdout).readline()
            assert line.startswith("BOOTSTRAP "), self.logs()
            self._addresses[broker_id] = line.split()[1]

    def _spawn(self, broker_id: int) -> subprocess.Popen[str]:
        settings = [f"--config={key}={value}" for key, value in CONFIG.items()]
        if self._properties is not None:
            settings += ["--properties", str(self._properties)]
        with self._log(broker_id).open("a") as log:
            return subprocess.Popen(
                [
                    *dies_with_parent(),
                    *(sys.executable, "-m", "embedkafka.cli", "broker"),
                    *("--zookeeper", self.zookeeper, "--id", str(broker_id)),
                    *("--data-dir", str(self.directory), *settings),
                ],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def signal(self, broker_id: int, number: signal.Signals) -> None:
        self._running[broker_id].send_signal(number)

    def kill(self, broker_id: int) -> None:
        """SIGKILL: nothing is flushed, no other broker is notified."""
        process = self._running.pop(broker_id)
        process.kill()
        self._wait(process)

    def terminate(self, broker_id: int) -> int:
        """Sends SIGTERM and returns the exit code."""
        process = self._running.pop(broker_id)
        process.send_signal(signal.SIGTERM)
        return self._wait(process)

    def _wait(self, process: subprocess.Popen[str]) -> int:
        code = process.wait(PATIENCE_S)
        present(process.stdin).close()
        present(process.stdout).close()
        return code

    def close(self) -> None:
        """Ends all brokers and checks that nothing failed in the background."""
        for broker_id in list(self._running):
            self.kill(broker_id)
        self._session.close()
        self._failures.check()
        for log in self.directory.glob("*.err"):
            assert "ERROR" not in log.read_text(), log.read_text()

    def heal(self) -> None:
        """Waits until every broker runs and every partition is fully replicated."""
        for broker_id in self._running:
            self.signal(broker_id, signal.SIGCONT)
        self.spawn(*({1, 2, 3} - self._running.keys()))
        self.await_fact(lambda: self.zk.brokers().keys() == {1, 2, 3}, "three brokers")
        self.await_fact(self._is_fully_replicated, "every partition fully replicated")

    # -- for clients

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses[broker_id] for broker_id in self._running)

    def topic(self, name: str, partitions: int = 1) -> Topic:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 3)])[name].result(PATIENCE_S)
        for broker_id in self._running:
            self.await_fact(partial(self._knows, broker_id, name), f"{name} on {broker_id}")
        return self.existing_topic(name)

    def _knows(self, broker_id: int, topic: str) -> bool:
        asked = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
        (found,) = self._call(broker_id, asked, 9).topics
        return found.error_code == ErrorCode.NONE

    def existing_topic(self, name: str) -> Topic:
        return Topic(name, ClientReach(self.bootstrap_servers))

    def _call(self, broker_id: int, request: Any, version: int) -> Any:
        """Asks exactly this broker."""
        host, _, port = self._addresses[broker_id].rpartition(":")
        client = BrokerClient(host, int(port), SystemClock(), "exactly-this-broker")
        try:
            return client.call(request, version)
        finally:
            client.close()

    def produce_to(self, broker_id: int, topic: str, value: bytes) -> ErrorCode:
        """Writes one record with acks=1 to exactly this broker; returns the error code."""
        request = produce_request(topic, batch(value, timestamp=0), acks=1, timeout_ms=5_000)
        answer = self._call(broker_id, request, 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    # -- inspection

    def status(self, topic: Any, partition: Any = 0) -> Any:
        """Leader, epoch and in-sync replicas according to ZooKeeper."""
        partition = TopicPartition(topic, partition)
        return self.zk.partition_states([partition])[partition]

    def await_leader(self, topic: str, *, other_than: int) -> int:
        """Waits for another leader and returns it."""

        def new_leader() -> int | None:
            leader = self.status(topic).leader
            return leader if leader not in (NO_LEADER, other_than) else None

        return self.await_fact(new_leader, f"a leader of {topic} other than {other_than}")

    def await_isr(self, topic: str, size: int) -> None:
        self.await_fact(lambda: len(self.status(topic).isr) == size, f"{size} in sync")

    def await_fact(self, fact: Callable[[], Any], what: str) -> Any:
        def fact_if_zookeeper_answers() -> Any:
            try:
                return fact()
            except (ConnectionLoss, SessionExpired):  # the test's session may be affected too
                return None

        try:
            return eventually(fact_if_zookeeper_answers, what, timeout_s=PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def _is_fully_replicated(self) -> bool:
        assigned = {
            TopicPartition(topic, partition): set(assignment.replicas)
            for topic, found in self.zk.topic_assignments(self.zk.topics()).items()
            for partition, assignment in found.partitions.items()
        }
        states = self.zk.partition_states(assigned)
        return {partition: set(state.isr) for partition, state in states.items()} == assigned

    def segments(self, broker_id: int, topic: str) -> dict[str, bytes]:
        """The bytes of every segment of partition 0 on this broker's disk."""
        directory = self.directory / f"broker-{broker_id}" / f"{topic}-0"
        return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}

    def logs(self) -> str:
        return "\n".join(
            f"--- broker {broker_id}\n" + "".join(self._log(broker_id).read_text()[-3_000:])
            for broker_id in (1, 2, 3)
            if self._log(broker_id).exists()
        )

    def _log(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}.err"
