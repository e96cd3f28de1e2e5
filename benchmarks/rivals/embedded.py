"""embedkafka as most users run it: all brokers in threads of one Python process."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from benchmarks.rivals.rival import STOP_TIMEOUT_SECONDS, cpu_seconds, user_environment

RUNNER: Final = (sys.executable, "-m", "benchmarks.embedded_runner")


class EmbeddedRival:
    """A separate Python process that takes orders on its standard input."""

    def __init__(
        self,
        *,
        brokers: int,
        config: Mapping[str, object],
        parent: Path | None,
        keeps_data: bool,
        ports: Mapping[str, int],
    ) -> None:
        """With `keeps_data` the cluster can be restarted; most users do without."""
        self.name = "embedkafka"
        self._brokers = brokers
        self.listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        further = [f"{name}://{address}" for name, address in self.listeners.items()]
        listening = {"listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *further])}
        self._config = {**config, **(listening if further else {})}
        self._keeps_data = keeps_data
        self._parent = parent
        self._facts: dict[str, float] = {}
        self._directory = Path()

    def __enter__(self) -> Self:
        # The first import in a fresh checkout compiles, which is not worth measuring.
        subprocess.run(
            [sys.executable, "-c", "from embedkafka import EmbeddedKafka"],
            check=True,
            env=user_environment(),
        )
        self._directory = Path(tempfile.mkdtemp(prefix="ek-benchmark-", dir=self._parent))
        began = time.perf_counter()
        told = self._start()
        self._facts["process start to ready ms"] = (time.perf_counter() - began) * 1000
        self._facts["process start to ready CPU s"] = cpu_seconds(self)
        self._facts.update(told)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _pipe(self._process.stdin).close()  # the process then ends and leaves no directory
        try:
            self._reap()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._reap()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    @property
    def facts(self) -> dict[str, float]:
        return self._facts

    @property
    def log_dir(self) -> Path:
        return self._directory / "broker-1"

    def stop(self) -> None:
        _pipe(self._process.stdin).close()
        self._facts.update(self._hear())
        self._reap()

    def crash(self) -> None:
        """Kills every broker; the process then saves its ZooKeeper's state and ends.

        A killed process would take ZooKeeper with it, which is a different measurement.
        """
        for broker_id in range(1, self._brokers + 1):
            self.kill_broker(broker_id)
        _pipe(self._process.stdin).close()
        self._reap()

    def restart(self) -> None:
        self._start()

    def kill_broker(self, broker_id: int) -> None:
        self._order(f"kill {broker_id}")

    def start_broker(self, broker_id: int) -> None:
        self._order(f"start {broker_id}")

    def _start(self) -> dict[str, Any]:
        command = [*RUNNER, "--brokers", str(self._brokers)]
        if self._keeps_data:
            command += ["--data-dir", str(self._directory)]
        for name, value in self._config.items():
            command += ["--config", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=user_environment(),
        )
        told = self._hear()
        self._bootstrap_servers: str = told.pop("bootstrap_servers")
        return told

    def _reap(self) -> None:
        self._process.wait(STOP_TIMEOUT_SECONDS)
        _pipe(self._process.stdin).close()
        _pipe(self._process.stdout).close()

    def _order(self, command: str) -> None:
        stdin = _pipe(self._process.stdin)
        stdin.write(f"{command}\n")
        stdin.flush()
        self._bootstrap_servers = self._hear()["bootstrap_servers"]

    def _hear(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the embedded runner ended with {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "the runner is started with pipes"
    return stream
