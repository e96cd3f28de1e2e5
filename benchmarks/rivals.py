"""The clusters under measurement, each in processes of its own, with the same few questions.

Apache Kafka runs twice: with the flags and settings it ships with, and with those that a test
author would choose for quick short runs. embedkafka runs as its users run it: one Python process,
or, when asked for, one process per broker.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

import psutil

from tests.java_tools.oracle import ApacheKafka, Jvm
from tests.java_tools.zookeeper import ZooKeeperServer

#: What a test author sets on Apache Kafka so that a first consumer group does not take seconds.
TUNED_CONFIG: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}
RUNNER: Final = (sys.executable, "-m", "benchmarks.embedded_runner")
STOP_TIMEOUT_SECONDS: Final = 30


class Rival(Protocol):
    """A running cluster; entering starts it, leaving ends it."""

    name: str

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def pids(self) -> list[int]: ...
    @property
    def facts(self) -> dict[str, float]:
        """What is measured once, at start and stop: row name to milliseconds."""

    def stop(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class ApacheRival:
    """Apache Kafka, from Maven."""

    def __init__(self, jvm: Jvm, *, brokers: int) -> None:
        self.name = f"kafka {jvm}"
        config = TUNED_CONFIG if jvm == "tuned" else {}
        self._kafka = ApacheKafka(brokers=brokers, jvm=jvm, config=config)
        self._facts: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._kafka.__enter__()
        self._facts["process start to ready ms"] = self._kafka.start_seconds * 1000
        self._facts["start ms"] = self._kafka.start_seconds * 1000
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kafka.kill()

    @property
    def version(self) -> str:
        return self._kafka.version

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return self._kafka.pids

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    def stop(self) -> None:
        began = time.perf_counter()
        self._kafka.stop()
        self._facts["stop ms"] = (time.perf_counter() - began) * 1000


class EmbeddedRival:
    """embedkafka in a Python process that does nothing else."""

    def __init__(self, *, brokers: int) -> None:
        self.name = "embedkafka"
        self._brokers = brokers
        self._facts: dict[str, float] = {}

    def __enter__(self) -> Self:
        # Compiled once, as on a user's machine: the first import of a fresh checkout says nothing.
        subprocess.run([sys.executable, "-c", "from embedkafka import EmbeddedKafka"], check=True)
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [*RUNNER, str(self._brokers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        told = self._hear()
        self._facts["process start to ready ms"] = (time.perf_counter() - began) * 1000
        self._bootstrap_servers: str = told.pop("bootstrap_servers")
        self._facts.update(told)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    def stop(self) -> None:
        assert self._process.stdin is not None, "the runner is started with pipes"
        self._process.stdin.close()
        self._facts.update(self._hear())
        self._process.wait(STOP_TIMEOUT_SECONDS)

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "the runner is started with pipes"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the embedded runner ended with {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told


class ProcessesRival:
    """embedkafka with a process for every broker, on a ZooKeeper whose costs are not counted."""

    def __init__(self, *, brokers: int) -> None:
        self.name = "processes"
        self._brokers = brokers
        self._zookeeper = ZooKeeperServer()
        self._processes: list[subprocess.Popen[str]] = []
        self._facts: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._zookeeper.__enter__()
        began = time.perf_counter()
        self._processes = [self._start(number) for number in range(1, self._brokers + 1)]
        self._addresses = [self._await_address(process) for process in self._processes]
        self._facts["process start to ready ms"] = (time.perf_counter() - began) * 1000
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._zookeeper.kill()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    def stop(self) -> None:
        began = time.perf_counter()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(STOP_TIMEOUT_SECONDS)
        self._facts["stop ms"] = (time.perf_counter() - began) * 1000

    def _start(self, broker_id: int) -> subprocess.Popen[str]:
        replicas = min(3, self._brokers)
        options = ["--zookeeper", self._zookeeper.connect_string, "--id", str(broker_id), "--stay"]
        options += ["--config", f"offsets.topic.replication.factor={replicas}"]
        return subprocess.Popen(
            [sys.executable, "-m", "embedkafka.cli", "broker", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _await_address(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None, "brokers are started with pipes"
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a broker ended with {process.wait()}")
        return line.split()[1]


def cpu_seconds(rival: Rival) -> float:
    """User and system time of all processes of a cluster since they started."""
    times = [psutil.Process(pid).cpu_times() for pid in rival.pids]
    return float(sum(each.user + each.system for each in times))


def memory_mib(rival: Rival) -> float:
    return float(sum(psutil.Process(pid).memory_info().rss for pid in rival.pids)) / 2**20


def threads(rival: Rival) -> int:
    return sum(psutil.Process(pid).num_threads() for pid in rival.pids)
