"""`DriverProcess`: a job in a separate process and JVM, killed in the middle of a batch.

A commit that is taken back (`checkpoints`) is what a driver leaves that dies after its sink's last
write. This one dies anywhere in a batch: before the sink's write, in the middle of it, or after it.
The job goes on in the session of the test, from the checkpoint that the dead driver left.

Owner: the thread that explores. Nothing outlives `kill`, except what the job has written.
Not here: the choice of the moment (`generation`).
"""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka.explore.checkpoints import (
    find_checkpoints,
    planned_batches,
    uncommitted_batches,
)
from embedkafka.explore.driver import Driver, Job
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.options import Options
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.spark.session import find_session_arguments, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IDLE: Final = "idle"
_LOOK_S: Final = 0.005
"""How often to look for a new batch. Nothing announces a file."""
_START_S: Final = 120.0
"""How long the JVM may take to start on a busy machine."""


class PackedJob:
    """A job that another process can run, in a session like this one."""

    def __init__(self, spark: "SparkSession", job: Job) -> None:
        """Raises `ConfigError` if the session or the job cannot be repeated elsewhere."""
        from pyspark import cloudpickle

        self._arguments = find_session_arguments(spark)
        if self._arguments is None:
            raise ConfigError(
                "kill_jvm=True starts a second session like this one, so it takes the session of "
                "the `spark` fixture on a local master, or of local_session()"
            )
        try:
            dumps: Any = cloudpickle.dumps  # untyped in PySpark
            self._job = dumps(job)
        except Exception as error:  # whatever an object raises that cannot be pickled
            raise ConfigError(
                f"kill_jvm=True runs the job in another process, and it cannot be sent there: "
                f"{error}"
            ) from error

    def message(self, options: Options, timeout_s: float) -> bytes:
        """What the process reads first."""
        return pickle.dumps((sys.path, self._arguments, self._job, options, timeout_s))


class DriverProcess:
    """One process that runs the job once, until it is killed."""

    def __init__(self, job: PackedJob, options: Options, *, timeout_s: float) -> None:
        self._directory = options.directory
        self._timeout_s = timeout_s
        self._planned = self._find_planned()
        home = Path(self._directory, ".driver")  # its temporary files go with the run's
        home.mkdir(exist_ok=True)
        self._outcome = home / "outcome"
        with self._outcome.open("wb") as out, (home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                env={**os.environ, "TMPDIR": str(home)},
                start_new_session=True,  # one group with its JVM, which is killed as a whole
            )
        stdin = self._process.stdin
        assert stdin is not None, "it is a pipe"
        stdin.write(job.message(options, timeout_s))
        stdin.flush()  # and stays open: its end tells the process that this one is gone

    def kill_in_batch(self, after_ms: int) -> str:
        """Kills it so long after it has planned a batch; returns what it has left undone.

        Raises:
            JobFailed: the job raised.
            AwaitTimeout: it has neither planned a batch nor taken everything in time.
        """
        try:
            self._await_batch()
            self._pause(after_ms / 1000)
        finally:
            self.kill()
        undone = [
            f"batch {batch} of {checkpoint.name}"
            for checkpoint in find_checkpoints(self._directory)
            for batch in uncommitted_batches(checkpoint)
        ]
        return f"{', '.join(undone)} runs again" if undone else "every batch was committed"

    def kill(self) -> None:
        """Kills process and JVM with SIGKILL; a second call does nothing."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def _await_batch(self) -> None:
        deadline_ms = REAL_TIME.monotonic_ms() + (self._timeout_s + _START_S) * 1000
        while not self._find_planned() - self._planned:
            if self._outcome.read_text().startswith(_IDLE):
                return
            if self._process.poll() is not None:
                raise JobFailed(_Elsewhere(self._last_words()))
            if REAL_TIME.monotonic_ms() > deadline_ms:
                raise AwaitTimeout(
                    f"the job in a separate process planned no batch in {self._timeout_s:g} s "
                    f"after its session had {_START_S:g} s to start"
                )
            self._pause(_LOOK_S)

    def _pause(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def _find_planned(self) -> set[tuple[str, int]]:
        """The batches that have an entry in `offsets/`, each with the name of its query."""
        return {
            (checkpoint.name, batch)
            for checkpoint in find_checkpoints(f"{self._directory}/checkpoints")
            for batch in planned_batches(checkpoint)
        }

    def _last_words(self) -> str:
        said = self._outcome.read_text().strip()
        log = self._outcome.with_name("log").read_text(errors="replace").strip()
        return said or "\n".join(log.splitlines()[-20:]) or "its process ended and says nothing"


class _Elsewhere(Exception):
    """What the job raised in the other process, as text."""


def main() -> None:
    """The other process: takes what is there, and waits to be killed."""
    path, arguments, packed, options, timeout_s = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    job: Any = pickle.loads(packed)
    try:
        with local_session(**arguments) as spark:
            Driver(spark, job, timeout_s=timeout_s).take(options)
            print(_IDLE, flush=True)
            sys.stdin.buffer.read()
    except JobFailed as failure:
        print(failure, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
