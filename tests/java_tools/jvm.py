"""A Java program in a separate process: started, watched and ended by its pid."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

#: A short-lived test JVM gains nothing from the optimizing compiler or from a concurrent collector.
QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_POLL_SECONDS: Final = 0.02


class JavaProcessError(Exception):
    """A Java program ended or did not answer; the message has the tail of its log."""


class JavaProcess:
    """A running `java` with its output in a file. It never outlives the test process."""

    def __init__(
        self, arguments: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """`env` replaces the environment of this process."""
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*dies_with_parent(), java(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far; 0.0 once the process has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(self.pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    @property
    def rss_bytes(self) -> int:
        with contextlib.suppress(psutil.NoSuchProcess):
            return int(psutil.Process(self.pid).memory_info().rss)
        return 0

    def await_answer(self, is_ready: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        """Repeats a probe until the program answers; fails at once if the program has ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(OSError):
                if is_ready():
                    return
            if not self.is_running:
                raise JavaProcessError(f"{what}: the process ended.\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise JavaProcessError(
                    f"{what}: no answer within {timeout_s} s.\n{self.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def await_success(self, *, timeout_s: float = 60.0) -> None:
        """Waits for a tool to end; raises with its output if it fails."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        if code != 0:
            raise JavaProcessError(f"a Java tool ended with {code}\n{self.log_tail()}")

    def request_stop(self) -> None:
        """Requests an orderly end and returns at once; `stop` waits for it."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """Ends the program in order; kills it after the timeout."""
        self.request_stop()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()
        self._process.wait()

    def log_tail(self, lines: int = 40) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-lines:]
        return f"--- {self.log}\n" + "\n".join(tail)


def java(tool: str = "java") -> str:
    """The path of a JDK tool, from JAVA_HOME or else from PATH."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home, "bin", tool))
    found = shutil.which(tool)
    if found is None:
        raise JavaProcessError(f"`{tool}` is not on PATH and JAVA_HOME is not set")
    return found


def dies_with_parent() -> list[str]:
    """A command prefix that ends the child with the thread that starts it, where available."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def system_properties(properties: Mapping[str, str]) -> list[str]:
    """The flags that set these properties."""
    return [f"-D{name}={value}" for name, value in properties.items()]
