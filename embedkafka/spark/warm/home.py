"""The private directory with the warm JVMs of this user, a folder and a keeper for each.

Owner: the keeper that holds the lock in a folder owns the folder. Without one, the process that
takes the lock may remove it. The lock of the whole directory lets one process at a time add a
folder.
"""

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.values import dataclass
from embedkafka.spark.connector.progress import Progress
from embedkafka.spark.warm.messages import PROTOCOL, Ended, Line
from embedkafka.spark.warm.states import State

SOCKET: Final = "socket"
LOG: Final = "spark.log"
KEEPERS_LOG: Final = "keeper.log"
TEMPORARY: Final = "tmp"
LOCK: Final = "lock"
_ANSWER_S: Final = 5.0
_LONGEST_PATH: Final = 100
"""Kernels take about 104 bytes for the path of a socket."""


class Unusable(EmbedKafkaError):
    """No JVM can be kept here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A folder and what its keeper says."""

    folder: Path
    description: dict[str, Any]
    """Any: values of JSON. Empty if the keeper does not answer."""

    @property
    def is_ours(self) -> bool:
        """Whether its keeper speaks as this release does."""
        return self.description.get("protocol") == PROTOCOL

    @property
    def name(self) -> str:
        return f"JVM {self.description.get('jvm', '?')}"

    @property
    def state(self) -> str:
        """In words."""
        if not self.description:
            return f"the keeper in {self.folder} does not answer"
        if not self.is_ours:
            return "its keeper is of another release of embedkafka"
        return str(self.description["state"])

    def __str__(self) -> str:
        """For people: which process, how old, and when it ends."""
        if not self.is_ours:
            return f"{self.name}: {self.state}"
        about = self.description
        age = f"{self.name}, {minutes(about['age_s'])} old, {_count(about['leases'])}"
        if about["ends_in_s"] is None:
            return f"{age}, {self.state}"
        return f"{age}, {self.state}, ends in {minutes(about['ends_in_s'])} if nothing uses it"


def _count(sessions: int) -> str:
    return "1 session" if sessions == 1 else f"{sessions} sessions"


def minutes(seconds: float) -> str:
    """A span for people."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def default_home() -> Path:
    """In the directory for temporary files: sockets need a local disk."""
    return Path(tempfile.gettempdir()) / f"embedkafka_spark_{os.getuid()}"


def require_home(home: Path) -> None:
    """Makes the directory if it is missing; raises `Unusable` if others can write there."""
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    _require_private(home)


def _require_private(home: Path) -> None:
    status = home.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise Unusable(f"{home} is not a directory of this user")
    if status.st_mode & 0o077:
        raise Unusable(f"{home} is open to other users: its mode is {status.st_mode & 0o777:o}")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lets one process at a time choose and add a JVM; none waits for a JVM under the lock."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def new_folder(home: Path) -> tuple[Path, socket.socket, int]:
    """A folder, its socket, which listens, and its lock, which is held."""
    folder = Path(tempfile.mkdtemp(dir=home, prefix="jvm-"))
    try:
        if len(os.fsencode(folder / SOCKET)) > _LONGEST_PATH:
            raise Unusable(f"{folder} is too long for a socket: set TMPDIR to a shorter directory")
        (folder / TEMPORARY).mkdir()
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / SOCKET))
        listener.listen()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, listener, lock


def find_kept(home: Path, progress: Progress = lambda line: None) -> list[Kept]:
    """All JVMs that are kept; removes what a keeper left that was killed."""
    if not os.path.lexists(home):
        return []
    _require_private(home)
    kept = []
    for folder in sorted(home.glob("jvm-*")):
        try:
            kept.append(Kept(folder=folder, description=ask(folder, {"ask": "describe"})))
        except TimeoutError:
            kept.append(Kept(folder=folder, description={}))
        except (OSError, Ended):
            if _remove_stale(folder):
                progress(f"removed {folder}, which the keeper of a Spark JVM left behind")
    return kept


def stop_kept(home: Path) -> Iterator[str]:
    """Ends the JVMs that are free, and lets the others end with their session; says so."""
    for kept in find_kept(home):
        try:
            ending = ask(kept.folder, {"ask": "stop"})["stopping"] == State.ENDING.name
        except (OSError, Ended, LookupError) as error:
            yield f"{kept.name} cannot be ended: {str(error) or 'its keeper has ended'}"
            continue
        yield f"{kept.name} ends" if ending else f"{kept.name} ends with its session: {kept.state}"


def ask(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """The keeper's answer. Any: values of JSON."""
    with connect(folder) as connection:
        line = Line(connection)
        line.send(request)
        return line.receive()


def connect(folder: Path) -> socket.socket:
    """A connection to the keeper of this folder, which answers soon or not at all."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_ANSWER_S)
        connection.connect(str(folder / SOCKET))
    except BaseException:
        connection.close()
        raise
    return connection


def _remove_stale(folder: Path) -> bool:
    """Removes the folder if no keeper holds its lock."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False  # it has just ended
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # it is ending
    else:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(lock)
