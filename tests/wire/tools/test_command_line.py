"""Runs Kafka's command-line tools on both clusters, and compares what they print."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.api_keys import ApiKey
from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import ApacheKafka, kafka_classpath, kafka_version
from tests.wire.clients import Cluster, await_coordinators, await_topic, produce_values
from tests.wire.conftest import SHARED_CONFIG, THREE_BROKERS
from tests.wire.plain_messages import Plain, request
from tests.wire.tools.tool_commands import COMMANDS, PREFIX, TOPIC, Command
from tests.wire.tools.tours import Known, Visit, check, differences

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(2400)]

TOOLS: Final = "org.apache.kafka.tools."
CONFIG: Final = {**SHARED_CONFIG, **THREE_BROKERS}

KNOWN: Final = (
    Known(
        call=r"topics: (describe|with overrides)|configs: (brokers|topic of all)",
        field=r"output\[\d+\]",
        reason="Kafka stores min.insync.replicas when it has eligible leader replicas",
    ),
    Known(
        call=r"features: describe",
        field=r"output\[\d+\]",
        reason="no eligible leader replicas, no voters to change, no share or Streams groups",
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
        if "{brokers}" in arguments:
            where = []
        names = {**self._files, "brokers": self.bootstrap_servers}
        given = [argument.format(**names) for argument in arguments]
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
        "beyond": _written(directory / "beyond.json", _before(99)),
        "away": _written(directory / "away.json", _moves([3, 2, 1])),
        "empty": _written(directory / "empty.properties", None),
        "moves": _written(directory / "moves.json", _moves([1, 2, 3])),
        "nowhere": _written(directory / "nowhere.json", _moves([9])),
        "records": _written(directory / "records.json", _before(1)),
        "twice": _written(directory / "twice.json", _before(1, 2)),
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


def _before(*offsets: int) -> object:
    deleted = [{"topic": TOPIC, "partition": 0, "offset": offset} for offset in offsets]
    return {"partitions": deleted, "version": 1}


def _moves(replicas: list[int]) -> object:
    return {"partitions": [{"topic": TOPIC, "partition": 0, "replicas": replicas}], "version": 1}


def _written(path: Path, value: object) -> str:
    path.write_text("" if value is None else json.dumps(value))
    return str(path)


def test_tools_print_the_same(visits: list[Visit]) -> None:
    check(differences(*visits), KNOWN)
