"""The process that keeps one JVM: it holds the JVM's stdin, and a socket where sessions lease it.

The session that starts the JVM starts the keeper, which outlives it. It takes from that session a
listening socket, the lock of its folder, and a connection that is the first lease.
Owner: the main thread owns everything; there is no other.
Invariants: the JVM has one session at a time. It ends with a session that did not give it back, and
with its keeper. Nothing of the folder is left when the keeper ends.
Not here: what a session must put in order before it gives the JVM back (`traces`).
"""

import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from embedkafka.spark.warm.home import KEEPERS_LOG, LOG, SOCKET, TEMPORARY
from embedkafka.spark.warm.messages import PROTOCOL, Ended, Line
from embedkafka.spark.warm.states import Event, State, find_wear, move

_CONNECTION_FILE: Final = "gateway"
_CONNECTION_PATH: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable in which PySpark tells its JVM where to write the port and the secret."""

_LENGTH: Final = struct.Struct("!i")
_PATIENCE: Final = {"start_seconds": 180.0, "idle_seconds": 600.0}
_STEP_SECONDS: Final = 0.05
"""How often to look for that file while the JVM starts."""

_END_SECONDS: Final = 20


class Keeper:
    """One JVM and the connections of its clients."""

    def __init__(self, folder: Path, listener: socket.socket, first: socket.socket) -> None:
        self._folder = folder
        self._listener = listener
        self._lines = selectors.DefaultSelector()
        self._state = State.STARTING
        self._started = self._since = time.monotonic()
        self._why = "stopped"
        self._leases = 0
        self._holder: Line | None = Line(first)
        self._launch = {**_PATIENCE, **self._holder.receive()}
        self._holder_pid = self._launch["holder"]
        try:
            self._process = self._start()
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._holder.send({"refused": f"Spark's launcher does not run: {error}"})
            raise
        self._gateway: dict[str, Any] = {}
        self._first_files: set[str] = set()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._waker.fileno())  # the end of the JVM wakes the selector
        listener.setblocking(False)
        self._lines.register(listener, selectors.EVENT_READ)
        self._lines.register(self._wake, selectors.EVENT_READ)
        self._lines.register(first, selectors.EVENT_READ, self._holder)

    def run(self) -> None:
        """Serves until the JVM is no longer wanted, and ends it."""
        try:
            while self._look() is not State.ENDING:
                for key, _ in self._lines.select(self._find_timeout()):
                    if key.data is not None:
                        self._read(key.data)
                    elif key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._wake.recv(1 << 10)
        finally:
            self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = self._launch["command"]
        environment = self._launch["environment"]
        with (self._folder / LOG).open("ab") as log:  # to append: it is emptied between sessions
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._launch["directory"],
                env={**environment, _CONNECTION_PATH: str(self._folder / _CONNECTION_FILE)},
                start_new_session=True,
            )

    def _find_timeout(self) -> float | None:
        if self._state is State.STARTING:
            return _STEP_SECONDS
        if self._state is State.FREE:
            return max(0.0, self._ends_in())
        return None

    def _ends_in(self) -> float:
        return float(self._since + self._launch["idle_seconds"] - time.monotonic())

    def _look(self) -> State:
        """At what no socket tells: the JVM's start and end, and the time."""
        if self._state is State.ENDING:
            return self._state
        if self._process.poll() is not None:
            self._move(Event.LOST, f"the JVM ended with exit code {self._process.returncode}")
        elif self._state is State.STARTING:
            self._look_for_gateway()
        elif self._state is State.FREE and self._ends_in() <= 0:
            self._move(Event.IDLE, "nothing used it")
        return self._state

    def _look_for_gateway(self) -> None:
        file = self._folder / _CONNECTION_FILE
        if not file.exists():
            if time.monotonic() - self._started > self._launch["start_seconds"]:
                self._move(Event.LOST, "the JVM was not ready in time")
            return
        data = file.read_bytes()
        file.unlink()  # the secret is nowhere else
        (port,) = _LENGTH.unpack_from(data)
        secret = data[2 * _LENGTH.size :].decode()
        self._gateway = {"port": port, "secret": secret}
        self._first_files = set(os.listdir(self._folder / TEMPORARY))
        self._move(Event.READY)
        assert self._holder is not None, "a JVM whose session has gone is not waited for"
        self._grant(self._holder)

    def _grant(self, line: Line) -> None:
        self._leases += 1
        self._since = time.monotonic()
        jvm = {"jvm": self._process.pid, "session": self._leases, "log": str(self._folder / LOG)}
        self._send(line, {"granted": {**self._gateway, **jvm}})

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.settimeout(_END_SECONDS)
            self._lines.register(connection, selectors.EVENT_READ, Line(connection))

    def _read(self, line: Line) -> None:
        try:
            line.fill()
            while self._state is not State.ENDING and (message := line.take()) is not None:
                self._answer(line, message)
        except (OSError, Ended):
            self._drop(line)

    def _answer(self, line: Line, message: dict[str, Any]) -> None:
        match message.get("ask"):
            case "describe":
                self._send(line, self._describe())
            case "stop":
                self._move(Event.STOP)
                self._send(line, {"stopping": self._state.name})
            case "lease" if self._state is State.FREE:
                self._move(Event.LEASE)
                self._holder, self._holder_pid = line, message["holder"]
                self._grant(line)
            case "lease":
                self._send(line, {"refused": self._words()})
            case "returned" if line is self._holder:
                self._take_back(line, message["figures"])
            case _:
                raise Ended  # no client of ours

    def _take_back(self, line: Line, figures: dict[str, int]) -> None:
        self._since = time.monotonic()
        self._holder = None
        wear = find_wear({**figures, "sessions": self._leases})
        self._move(Event.WORN if wear else Event.RETURNED, wear or "")
        if self._state is State.FREE:
            self._clean()
        self._send(line, {"kept": self._state is State.FREE, "why": self._why})

    def _clean(self) -> None:
        """Removes what the session has left in the JVM's directory for temporary files."""
        directory = self._folder / TEMPORARY
        for name in set(os.listdir(directory)) - self._first_files:
            path = directory / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        os.truncate(self._folder / LOG, 0)

    def _drop(self, line: Line) -> None:
        self._lines.unregister(line.connection)
        line.connection.close()
        if line is self._holder:
            self._holder = None
            self._move(Event.LOST, "its session did not give it back")

    def _send(self, line: Line, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the next read drops the connection
            line.send(message)

    def _move(self, event: Event, why: str = "") -> None:
        self._state = move(self._state, event)
        if why:
            self._why = why

    def _describe(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "protocol": PROTOCOL,
            "keeper": os.getpid(),
            "jvm": self._process.pid,
            "state": self._words(),
            "is_free": self._state is State.FREE,
            "leases": self._leases,
            "age_s": now - self._started,
            "ends_in_s": self._ends_in() if self._state is State.FREE else None,
            "facts": self._launch["facts"],
            "log": str(self._folder / LOG),
        }

    def _words(self) -> str:
        match self._state:
            case State.FREE:
                return "free"
            case State.STARTING:
                return f"starting for process {self._holder_pid}"
            case State.RETIRING:
                return f"in use by process {self._holder_pid}, and ends with it"
            case State.IN_USE:
                return f"in use by process {self._holder_pid}"
        return "ending"

    def _end(self) -> None:
        """First the socket, so that no session comes to a JVM that is ending."""
        (self._folder / SOCKET).unlink(missing_ok=True)
        if self._holder is not None:
            reason = {"refused": f"{self._why}. Its last output:\n{self._last_output()}"}
            self._send(self._holder, reason)
        patience = 0 if self._holder is None and self._leases == 0 else _END_SECONDS
        if self._why.startswith("its session"):
            patience = 0  # it may be in the middle of anything
        stdin = self._process.stdin
        assert stdin is not None, "it is a pipe"
        with suppress(OSError):
            stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_output(self) -> str:
        with suppress(OSError):
            lines = (self._folder / LOG).read_text(errors="replace").splitlines()
            return "\n".join(lines[-20:])
        return ""


def main() -> None:
    """Runs in a process whose parent does not wait for it.

    Arguments: the folder, and the descriptors of the listener, the lock and the first lease.
    """
    folder = Path(sys.argv[1])
    listener, _lock, first = map(int, sys.argv[2:])
    if os.fork():
        os._exit(0)  # the session that has started this waits for it, and for nothing else
    log = os.open(folder / KEEPERS_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    signal.signal(signal.SIGTERM, _exit)
    os.chdir("/")
    try:
        keeper = Keeper(folder, socket.socket(fileno=listener), socket.socket(fileno=first))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    keeper.run()


def _exit(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
