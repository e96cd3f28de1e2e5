"""`DriverProcess`: a job in a separate process and JVM, killed at a chosen moment of a batch.

A commit that is taken back (`checkpoints`) is what a driver leaves that dies after its sink's last
write. This one dies where the schedule says (`executioner`): before the sink's write, in the middle
of it, after it, or after the commit. The job goes on in the session of the test, from the
checkpoint that the dead driver left.

Owner: the thread that explores. Nothing outlives `await_death`, except what the job has written.
Not here: the choice of the moment (`generation`).
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka.explore.checkpoints import find_checkpoints, uncommitted_batches
from embedkafka.explore.driver import Job
from embedkafka.explore.executioner import Executioner
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.options import Options
from embedkafka.explore.schedule import Moment
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.spark.session import find_session_arguments, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEAD: Final = "dead"
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

    def message(self, options: Options, moment: Moment) -> bytes:
        """What the process reads first."""
        return pickle.dumps((sys.path, self._arguments, self._job, options, moment))


class DriverProcess:
    """One process that runs the job once, and kills itself and its JVM."""

    def __init__(
        self, job: PackedJob, options: Options, moment: Moment, *, timeout_s: float
    ) -> None:
        self._directory = options.directory
        self._timeout_s = timeout_s
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
        stdin.write(job.message(options, moment))
        stdin.flush()  # and stays open: its end tells the process that this one is gone

    def await_death(self) -> str:
        """Waits until it has killed itself; returns what it has left undone.

        Raises:
            JobFailed: the job raised.
            AwaitTimeout: it has not reached its moment, nor taken everything, in time.
        """
        try:
            self._process.wait(self._timeout_s + _START_S)
        except subprocess.TimeoutExpired:
            raise AwaitTimeout(
                f"the job in a separate process has not got to its moment in {self._timeout_s:g} s "
                f"after its session had {_START_S:g} s to start"
            ) from None
        finally:
            self._kill()
        if not self._outcome.read_text().endswith(f"{_DEAD}\n"):
            raise JobFailed(_Elsewhere(self._last_words()))
        undone = [
            f"batch {batch} of {checkpoint.name}"
            for checkpoint in find_checkpoints(self._directory)
            for batch in uncommitted_batches(checkpoint)
        ]
        return f"{', '.join(undone)} runs again" if undone else "every batch was committed"

    def _kill(self) -> None:
        """Kills what is left of process and JVM with SIGKILL."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def _last_words(self) -> str:
        said = self._outcome.read_text().strip()
        log = self._outcome.with_name("log").read_text(errors="replace").strip()
        return said or "\n".join(log.splitlines()[-20:]) or "its process ended and says nothing"


class _Elsewhere(Exception):
    """What the job raised in the other process, as text."""


def main() -> None:
    """The other process: takes what is there, and dies in the middle of it, or at its end."""
    path, arguments, packed, options, moment = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    threading.Thread(target=_die_with_the_test, daemon=True).start()
    job: Any = pickle.loads(packed)
    with local_session(**arguments, warm=False) as spark:  # this JVM is to be killed
        try:
            Executioner(spark, moment, die=_die).run(lambda: job(spark, options))
        except JobFailed as failure:
            print(failure, flush=True)
            os._exit(1)  # threads of the job may wait for queries that are held
        _die()


def _die() -> None:
    """At once: nothing more is written, not even what the JVM would write when it ends."""
    os.write(sys.stdout.fileno(), f"{_DEAD}\n".encode())
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _die_with_the_test() -> None:
    sys.stdin.buffer.read()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
