"""Runs Kafka's command-line tools on both clusters, and compares what they print."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.protocol.api_keys import ApiKey
from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import ApacheKafka, kafka_classpath, kafka_version
from tests.wire.clients import Cluster, await_coordinators, await_topic, produce_values
from tests.wire.conftest import SHARED_CONFIG, THREE_BROKERS
from tests.wire.plain_messages import Plain, request
from tests.wire.tours import Known, Visit, check, differences

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

TOOLS: Final = "org.apache.kafka.tools."
CONFIG: Final = {**SHARED_CONFIG, **THREE_BROKERS}
PREFIX: Final = "cli-"
TOPIC: Final = f"{PREFIX}orders"

Command = tuple[str, Sequence[str]]

COMMANDS: Final[Mapping[str, Command]] = {
    "topics: describe": ("TopicCommand", ["--describe", "--topic", TOPIC]),
    "topics: list": ("TopicCommand", ["--list"]),
    "topics: describe missing": ("TopicCommand", ["--describe", "--topic", f"{PREFIX}none"]),
    "topics: create again": ("TopicCommand", ["--create", "--topic", TOPIC]),
    "topics: create": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}new", "--partitions", "2", "--config", "retention.ms=5"],
    ),
    "topics: bad config": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}bad", "--config", "retention.ms=soon"],
    ),
    "topics: too many replicas": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}bad", "--replication-factor", "9"],
    ),
    "topics: shrink": ("TopicCommand", ["--alter", "--topic", TOPIC, "--partitions", "1"]),
    "topics: delete missing": ("TopicCommand", ["--delete", "--topic", f"{PREFIX}none"]),
    "topics: under-replicated": (
        "TopicCommand",
        ["--describe", "--under-replicated-partitions"],
    ),
    "configs: topic": (
        "kafka.admin.ConfigCommand",
        ["--describe", "--entity-type", "topics", "--entity-name", TOPIC],
    ),
    "configs: alter topic": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--add-config", "retention.ms=777"),
        ],
    ),
    "configs: bad topic config": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--add-config", "cleanup.policy=burn"),
        ],
    ),
    "configs: delete unset": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--delete-config", "segment.ms"),
        ],
    ),
    "configs: static broker config": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "brokers", "--entity-name", "1"),
            *("--add-config", "num.partitions=7"),
        ],
    ),
    "configs: user quota": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "users", "--entity-name", "alice"),
            *("--add-config", "producer_byte_rate=1024"),
        ],
    ),
    "configs: quotas": ("kafka.admin.ConfigCommand", ["--describe", "--entity-type", "users"]),
    "groups: describe": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--group", f"{PREFIX}none"],
    ),
    "groups: delete": (
        "consumer.group.ConsumerGroupCommand",
        ["--delete", "--group", f"{PREFIX}none"],
    ),
    "groups: reset": (
        "consumer.group.ConsumerGroupCommand",
        [
            *("--reset-offsets", "--group", f"{PREFIX}group", "--topic", TOPIC),
            *("--to-offset", "1", "--execute"),
        ],
    ),
    "groups: offsets": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--group", f"{PREFIX}group"],
    ),
    "groups: all": ("GroupsCommand", ["--list"]),
    "offsets: latest": ("GetOffsetShell", ["--topic", TOPIC]),
    "offsets: earliest": ("GetOffsetShell", ["--topic", TOPIC, "--time", "earliest"]),
    "offsets: greatest timestamp": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-3"]),
    "offsets: local": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-4"]),
    "records: delete": ("DeleteRecordsCommand", ["--offset-json-file", "{records}"]),
    "log directories": (
        "LogDirsCommand",
        ["--describe", "--broker-list", "1", "--topic-list", TOPIC],
    ),
    "election": (
        "LeaderElectionCommand",
        ["--election-type", "preferred", "--topic", TOPIC, "--partition", "0"],
    ),
    "reassign: verify": (
        "reassign.ReassignPartitionsCommand",
        ["--verify", "--reassignment-json-file", "{moves}"],
    ),
    "reassign: list": ("reassign.ReassignPartitionsCommand", ["--list"]),
    "transactions: list": ("TransactionsCommand", ["list"]),
    "transactions: producers": (
        "TransactionsCommand",
        ["describe-producers", "--topic", TOPIC, "--partition", "0"],
    ),
    "transactions: hanging": ("TransactionsCommand", ["find-hanging", "--broker-id", "1"]),
    "transactions: unknown": (
        "TransactionsCommand",
        ["describe", "--transactional-id", f"{PREFIX}none"],
    ),
    "versions": ("BrokerApiVersionsCommand", []),
}

KNOWN: Final = (
    Known(
        call=r"topics: describe",
        field=r"output\[1\]",
        reason="Kafka stores min.insync.replicas when it has eligible leader replicas",
    ),
    Known(
        call=r"versions",
        field=r"output\[\d+\]",
        reason="we speak more versions of some APIs, and have none for KRaft and share groups",
    ),
)


class Shell:
    """Runs tools on one cluster, in JVMs of their own, and takes down what they print."""

    def __init__(self, bootstrap_servers: str, files: Mapping[str, str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._files = files

    def run(self, command: Command) -> dict[str, object]:
        tool, arguments = command
        main = tool if tool.startswith("kafka.") else TOOLS + tool
        where = ["--bootstrap-server", self.bootstrap_servers]
        given = [argument.format(**self._files) for argument in arguments]
        done = subprocess.run(
            [
                *(java(), *QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"),
                *("-cp", kafka_classpath(kafka_version()), main, *where, *given),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return {"exit": done.returncode, "output": _lines(done.stdout + done.stderr)}


def _lines(printed: str) -> list[str]:
    """Without the frames of stack traces, and without the order of rows, which hashing decides."""
    kept = [line.rstrip() for line in printed.splitlines()]
    return sorted(line for line in kept if line and not line.startswith(("\tat ", "\t... ")))


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Visit]]:
    """What Kafka's tools print, on Kafka first."""
    directory = tmp_path_factory.mktemp("tools")
    files = {
        "records": _written(directory / "records.json", _records_to_delete()),
        "moves": _written(directory / "moves.json", _moves()),
    }
    with (
        ApacheKafka(brokers=3, config=CONFIG) as apache,
        EmbeddedKafka(brokers=3, config=CONFIG) as ours,
        ThreadPoolExecutor(max_workers=2) as both,
    ):
        addresses = [apache.bootstrap_servers, ours.bootstrap_servers]
        yield list(both.map(partial(_visit, files), addresses))


def _visit(files: Mapping[str, str], bootstrap_servers: str) -> Visit:
    cluster = Cluster(kind="any", bootstrap_servers=bootstrap_servers)
    await_coordinators(cluster)
    with cluster.connect() as raw:
        raw.call(request(ApiKey.CREATE_TOPICS, topics=[_placed_topic()], timeout_ms=30_000))
    await_topic(cluster, TOPIC, 1)
    produce_values(cluster, TOPIC, b"a", b"b", b"c")
    shell = Shell(bootstrap_servers, files)
    told = {name: shell.run(command) for name, command in COMMANDS.items()}
    return Visit(told=told, prefix=PREFIX, bootstrap_servers=bootstrap_servers)


def _placed_topic() -> Plain:
    return {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [1, 2, 3]}],
        "configs": [],
    }


def _records_to_delete() -> object:
    return {"partitions": [{"topic": TOPIC, "partition": 0, "offset": 1}], "version": 1}


def _moves() -> object:
    return {"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1, 2, 3]}], "version": 1}


def _written(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def test_tools_print_the_same(visits: list[Visit]) -> None:
    check(differences(*visits), KNOWN)
