"""A standalone Spark cluster from PySpark's own jars: a master and workers, on loopback.

PySpark's package has no `sbin/start-master.sh`; the main classes that it would start are there.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from embedkafka.spark.connector.installed import require_installed_spark
from tests.java_tools.jvm import QUICK_START, JavaProcess

START_TIMEOUT_SECONDS: Final = 120.0
_MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"


class SparkStandalone:
    """A master and its workers for the length of a `with` block; executors end with their worker.

    Each worker offers `cores` and 1 GB. A session takes all of them unless `spark.cores.max` says
    otherwise.
    """

    def __init__(self, *, workers: int = 2, cores: int = 1) -> None:
        self._workers = workers
        self._cores = cores
        self._directory = Path()
        self._processes: list[JavaProcess] = []
        self.url = ""

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="ek-spark-standalone-"))
        try:
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

    def kill(self) -> None:
        """Ends workers, which end their executors, then the master; removes what they wrote."""
        for process in reversed(self._processes):
            process.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = self._spawn("org.apache.spark.deploy.master.Master", "master", here)
        _await(master, lambda: bool(_MASTER_URL.search(_log(master))), "the Spark master")
        found = _MASTER_URL.search(_log(master))
        assert found is not None
        self.url = found[1]
        room = ["--cores", str(self._cores), "--memory", "1g"]
        for number in range(self._workers):
            name = f"worker-{number}"
            room_of_its_own = [*room, "--work-dir", str(self._directory / name)]
            arguments = [*here, *room_of_its_own, self.url]
            self._spawn("org.apache.spark.deploy.worker.Worker", name, arguments)
        for worker in self._processes[1:]:
            _await(worker, partial(_has_registered, worker), "a Spark worker")

    def _spawn(self, main_class: str, name: str, arguments: list[str]) -> JavaProcess:
        spark = require_installed_spark()
        command = [*QUICK_START, "-Xmx256m", "-cp", f"{spark.jars_dir}/*", main_class, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark.jars_dir.parent),
            "SPARK_SCALA_VERSION": spark.scala,  # else a worker looks for a source tree
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        process = JavaProcess(command, log=self._directory / f"{name}.log", env=environment)
        self._processes.append(process)
        return process


def _has_registered(worker: JavaProcess) -> bool:
    return _REGISTERED in _log(worker)


def _log(process: JavaProcess) -> str:
    return process.log.read_text(errors="replace")


def _await(process: JavaProcess, is_ready: Callable[[], bool], what: str) -> None:
    process.await_answer(is_ready, what=what, timeout_s=START_TIMEOUT_SECONDS)
