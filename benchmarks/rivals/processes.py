"""embedkafka with one process per broker, on a ZooKeeper whose costs are not counted."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.rivals.rival import STOP_TIMEOUT_SECONDS, cpu_seconds, user_environment
from tests.java_tools.zookeeper import ZooKeeperServer


class ProcessesRival:
    """One `embedkafka broker` process per broker."""

    def __init__(self, *, brokers: int, config: Mapping[str, object], parent: Path | None) -> None:
        self.name = "processes"
        self.listeners: dict[str, str] = {}
        replicas = min(3, brokers)
        self._config = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            **config,
        }
        self._parent = parent
        self._ids = range(1, brokers + 1)
        self._zookeeper = ZooKeeperServer()
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._addresses: dict[int, str] = {}
        self._facts: dict[str, float] = {}
        self._directory = Path()

    def __enter__(self) -> Self:
        self._zookeeper.__enter__()
        self._directory = Path(tempfile.mkdtemp(prefix="ek-benchmark-", dir=self._parent))
        began = time.perf_counter()
        try:
            self.restart()
        except BaseException:
            self._remove()
            raise
        self._facts["process start to ready ms"] = (time.perf_counter() - began) * 1000
        self._facts["process start to ready CPU s"] = cpu_seconds(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses.values())

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    @property
    def log_dir(self) -> Path:
        return self._directory / "broker-1"

    def stop(self) -> None:
        began = time.perf_counter()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            _reap(process)
        self._processes.clear()
        self._facts["stop ms"] = (time.perf_counter() - began) * 1000

    def crash(self) -> None:
        for broker_id in list(self._processes):
            self.kill_broker(broker_id)

    def restart(self) -> None:
        for broker_id in self._ids:
            self._spawn(broker_id)
        for broker_id in self._ids:
            self._await_address(broker_id)

    def kill_broker(self, broker_id: int) -> None:
        process = self._processes.pop(broker_id)
        process.kill()
        _reap(process)

    def start_broker(self, broker_id: int) -> None:
        self._spawn(broker_id)
        self._await_address(broker_id)

    def _spawn(self, broker_id: int) -> None:
        options = ["--zookeeper", self._zookeeper.connect_string, "--id", str(broker_id), "--stay"]
        options += ["--data-dir", str(self._directory)]
        for name, value in self._config.items():
            options += ["--config", f"{name}={value}"]
        self._processes[broker_id] = subprocess.Popen(
            [sys.executable, "-m", "embedkafka.cli", "broker", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=user_environment(),
        )

    def _await_address(self, broker_id: int) -> None:
        process = self._processes[broker_id]
        line = _output(process).readline()
        if not line:
            raise RuntimeError(f"broker {broker_id} ended with {process.wait()}")
        self._addresses[broker_id] = line.split()[1]

    def _remove(self) -> None:
        self.crash()
        self._zookeeper.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


def _reap(process: subprocess.Popen[str]) -> None:
    process.wait(STOP_TIMEOUT_SECONDS)
    _output(process).close()


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None, "brokers are started with pipes"
    return process.stdout
