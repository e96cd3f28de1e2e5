"""Real Apache Kafka in separate processes: the wire tests' oracle, the benchmarks' rival.

Each node is a combined KRaft broker and controller on free loopback ports, with its logs in a
temporary directory. A cluster counts as started when every broker answers ApiVersions and its
Metadata lists all of them.
"""

import base64
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from tests.java_tools import maven
from tests.java_tools.cache import CACHE, cache_key, exclusive, progress
from tests.java_tools.jvm import QUICK_START, JavaProcess, java, system_properties
from tests.java_tools.ports import free_ports

Jvm = Literal["shipped", "tuned"]

#: Newest first: the first one that the configured registry has runs.
VERSIONS: Final = ("4.3.1", "4.3.0", "4.2.1", "4.2.0", "4.1.1", "4.0.0", "3.9.1")

#: The default flags of `kafka-server-start.sh` and `kafka-run-class.sh`.
SHIPPED_FLAGS: Final = (
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
TUNED_FLAGS: Final = (
    *QUICK_START,
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
START_TIMEOUT_SECONDS: Final = 120.0


class ApacheKafka:
    """A cluster of real brokers for the length of a `with` block.

    `jvm` is "shipped" (the flags of Kafka's own scripts), "tuned" (flags that suit short runs), or
    the flags themselves. `parent` is the directory for its temporary directory, if not the usual
    one. `more_listeners` are names and ports of further listeners, for a cluster of one broker;
    `config` says what they speak. `properties` are system properties of the JVM.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        version: str = VERSIONS[0],
        config: Mapping[str, object] | None = None,
        jvm: Jvm | Sequence[str] = "tuned",
        parent: Path | None = None,
        more_listeners: Mapping[str, int] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._more_listeners = more_listeners or {}
        self._properties_of_jvm = system_properties(properties or {})
        self._config = {name: str(value) for name, value in (config or {}).items()}
        self._broker_count = brokers
        self._version = version
        self._jvm = jvm
        self._parent = parent
        self._directory = Path()
        self._flags: Sequence[str] = ()
        self._nodes: list[KafkaTool] = []
        self._ports: list[int] = []
        #: From the first spawn until every broker lists all brokers, without formatting.
        self.start_seconds = 0.0

    def __enter__(self) -> Self:
        self._version = kafka_version(self._version)
        self._flags = [*_jvm_flags(self._jvm, self._version), *self._properties_of_jvm]
        self._directory = Path(tempfile.mkdtemp(prefix="ek-apache-kafka-", dir=self._parent))
        try:
            self._ports = self._format()
            self._start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def version(self) -> str:
        return self._version

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def pids(self) -> list[int]:
        """The processes of the running brokers."""
        return [node.pid for node in self._nodes if node.is_running]

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all brokers since they were spawned."""
        return sum(node.cpu_seconds for node in self._nodes)

    @property
    def rss_bytes(self) -> int:
        return sum(node.rss_bytes for node in self._nodes)

    def log_dir(self, broker: int) -> Path:
        """The directory with a broker's partitions (the first is broker 1)."""
        return self._directory / f"data-{broker}"

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """Shuts down in order; the log directories stay until the block ends."""
        for node in self._nodes:
            node.request_stop()
        for node in self._nodes:
            node.stop(timeout_s=timeout_s)

    def crash(self) -> None:
        """Kills the brokers; their files stay as they are."""
        for node in self._nodes:
            node.kill()

    def restart(self) -> None:
        """Starts all brokers again on their files, after `stop` or `crash`."""
        self._start()

    def kill(self) -> None:
        """Kills the brokers and removes their files."""
        self.crash()
        shutil.rmtree(self._directory, ignore_errors=True)

    def kill_broker(self, broker: int) -> None:
        """Kills one broker; the first is broker 1."""
        self._nodes[broker - 1].kill()

    def start_broker(self, broker: int) -> None:
        """Starts a killed broker again and returns when it knows all others."""
        self._nodes[broker - 1] = self._spawn("kafka.Kafka", broker, self._flags, [])
        self._await_broker(broker)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of each broker's log, for the report of a failed test."""
        return "\n".join(node.log_tail(lines) for node in self._nodes)

    def _format(self) -> list[int]:
        """Writes and formats one directory per node; returns the client ports."""
        ports = free_ports(2 * self._broker_count)
        clients, controllers = ports[: self._broker_count], ports[self._broker_count :]
        cluster_id = _cluster_id()
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in enumerate(controllers, 1))
        for node, (client, controller) in enumerate(zip(clients, controllers, strict=True), 1):
            self._write_properties(node, client=client, controller=controller, voters=voters)
        formatters = [
            self._spawn(
                "kafka.tools.StorageTool", node, TUNED_FLAGS, ["format", "-t", cluster_id, "-c"]
            )
            for node in range(1, self._broker_count + 1)
        ]
        try:
            for formatter in formatters:
                formatter.await_success()
        finally:
            for formatter in formatters:
                formatter.kill()
        return clients

    def _write_properties(self, node: int, *, client: int, controller: int, voters: str) -> None:
        replicas = min(3, self._broker_count)
        listeners = f"PLAINTEXT://127.0.0.1:{client}"
        for name, port in self._more_listeners.items():
            listeners += f",{name}://127.0.0.1:{port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.log_dir(node)),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(2, replicas)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(min(2, replicas)),
            **self._config,
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        self._properties(node).write_text(text)

    def _start(self) -> None:
        began = time.monotonic()
        self._nodes = [
            self._spawn("kafka.Kafka", node, self._flags, [])
            for node in range(1, self._broker_count + 1)
        ]
        for broker in range(1, self._broker_count + 1):
            self._await_broker(broker)
        self.start_seconds = time.monotonic() - began

    def _await_broker(self, broker: int) -> None:
        port = self._ports[broker - 1]
        self._nodes[broker - 1].await_answer(
            partial(lists_brokers, port, self._broker_count),
            what=f"Apache Kafka {self._version} on port {port}",
            timeout_s=START_TIMEOUT_SECONDS,
        )

    def _spawn(
        self, main_class: str, node: int, flags: Sequence[str], arguments: Sequence[str]
    ) -> "KafkaTool":
        return KafkaTool(
            version=self._version,
            flags=flags,
            main_class=main_class,
            arguments=[*arguments, str(self._properties(node))],
            log=self._directory / f"{main_class.rsplit('.', 1)[-1]}-{node}.out",
        )

    def _properties(self, node: int) -> Path:
        return self._directory / f"node-{node}.properties"


class KafkaTool(JavaProcess):
    """A main class of Kafka's own jars, such as the broker, StorageTool or DumpLogSegments."""

    def __init__(
        self,
        *,
        version: str,
        flags: Sequence[str],
        main_class: str,
        arguments: Sequence[str],
        log: Path,
    ) -> None:
        command = [*flags, "-cp", kafka_classpath(version), main_class, *arguments]
        super().__init__(command, log=log)


def kafka_version(wanted: str = VERSIONS[0]) -> str:
    """The wanted version if the registry has it, else the newest known version it has."""
    others = tuple(version for version in VERSIONS if version != wanted)
    return maven.first_resolvable("org.apache.kafka:kafka_2.13", (wanted, *others))


def kafka_classpath(version: str) -> str:
    """The class path of broker, tools and a logger that writes to standard error."""
    return maven.classpath(
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        "org.slf4j:slf4j-simple:1.7.36",
    )


def lists_brokers(port: int, count: int) -> bool:
    """Whether the broker on this port answers ApiVersions and knows `count` live brokers."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        api_versions = _ask(connection, api_key=18, version=0, body=b"")
        (error,) = struct.unpack_from(">h", api_versions)
        no_topics = struct.pack(">i", 0)
        metadata = _ask(connection, api_key=3, version=1, body=no_topics)
        (brokers,) = struct.unpack_from(">i", metadata)
        return bool(error == 0 and brokers == count)


def _cluster_id() -> str:
    """A random id that a command line does not take for an option."""
    drawn = "-"
    while drawn.startswith("-"):
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return drawn


def _ask(connection: socket.socket, *, api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, -1)
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)[4:]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received


def _jvm_flags(jvm: Jvm | Sequence[str], version: str) -> Sequence[str]:
    match jvm:
        case "shipped":
            return SHIPPED_FLAGS
        case "tuned":
            return (*TUNED_FLAGS, f"-XX:SharedArchiveFile={_class_data_archive(version)}")
        case flags:
            return flags


def _class_data_archive(version: str) -> Path:
    """An archive of a started broker's classes, parsed and linked: halves the cost of a start."""
    key = cache_key(kafka_classpath(version), _java_version())
    archive = CACHE / "class-data" / f"kafka-{version}-{key}.jsa"
    if archive.exists():
        return archive
    with exclusive(archive):
        if not archive.exists():
            progress(f"making a class-data archive for Apache Kafka {version}")
            partial_archive = archive.with_suffix(".partial")
            recording = (*TUNED_FLAGS, f"-XX:ArchiveClassesAtExit={partial_archive}")
            with ApacheKafka(version=version, jvm=recording) as rehearsal:
                rehearsal.stop(timeout_s=300)  # it writes the archive as it ends
            partial_archive.replace(archive)
    return archive


def _java_version() -> str:
    told = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)
    return told.stderr
