"""Apache Kafka 3.9, the last release on ZooKeeper, with logs in directories the caller chooses."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.java_tools.jvm import QUICK_START, JavaProcess
from tests.java_tools.oracle import kafka_classpath, lists_brokers
from tests.java_tools.ports import free_ports

VERSION: Final = "3.9.2"
START_TIMEOUT_SECONDS: Final = 120.0

_LOG4J: Final = """
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c %m%n
"""


class ZooKeeperKafka:
    """Brokers 1 to n for the length of a `with` block; `log_dirs` has one directory for each."""

    def __init__(
        self,
        zookeeper: str,
        log_dirs: list[Path],
        *,
        directory: Path,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._zookeeper = zookeeper
        self._log_dirs = log_dirs
        self._directory = directory
        self._config = dict(config or {})
        self._ports = free_ports(len(log_dirs))
        self._brokers: list[JavaProcess] = []

    def __enter__(self) -> Self:
        class_path = kafka_classpath(VERSION)
        try:
            for broker_id, port in enumerate(self._ports, 1):
                self._brokers.append(self._spawn(broker_id, port, class_path))
            for broker, port in zip(self._brokers, self._ports, strict=True):
                broker.await_answer(
                    partial(lists_brokers, port, len(self._ports)),
                    what=f"Apache Kafka {VERSION} on port {port}",
                    timeout_s=START_TIMEOUT_SECONDS,
                )
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops them in order, one after the other, like a rolling shutdown."""
        for broker in self._brokers:
            broker.stop()
        self._kill()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def pids(self) -> list[int]:
        """The processes of brokers 1 to n."""
        return [broker.pid for broker in self._brokers]

    def output(self) -> str:
        """Everything the brokers have logged at WARN and above."""
        return "\n".join(broker.log.read_text(errors="replace") for broker in self._brokers)

    def _kill(self) -> None:
        for broker in self._brokers:
            broker.kill()

    def _spawn(self, broker_id: int, port: int, class_path: str) -> JavaProcess:
        settings = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": self._log_dirs[broker_id - 1],
            "zookeeper.connect": self._zookeeper,
            "zookeeper.session.timeout.ms": 6000,
            "offsets.topic.replication.factor": len(self._ports),
            "transaction.state.log.replication.factor": len(self._ports),
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self._config,
        }
        file = self._directory / f"kafka-{broker_id}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging = self._directory / "log4j.properties"
        logging.write_text(_LOG4J)
        flags = [*QUICK_START, "-Xmx512m", f"-Dlog4j.configuration={logging.as_uri()}"]
        return JavaProcess(
            [*flags, "-cp", class_path, "kafka.Kafka", str(file)],
            log=self._directory / f"kafka-{broker_id}-{port}.out",
        )
