"""A lease of a warm JVM: an open connection to its keeper.

The kernel closes it with its process, however that ends. What makes a lease impossible is a line
for the user, who gets a cold start.
Owner: the thread inside `local_session`. `_held` has the connections of this process.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from embedkafka.runtime.forks import after_fork
from embedkafka.spark.connector.progress import Progress
from embedkafka.spark.warm.fitness import Candidate, Facts, choose
from embedkafka.spark.warm.home import (
    Kept,
    Unusable,
    connect,
    find_kept,
    locked,
    new_folder,
    require_home,
)
from embedkafka.spark.warm.messages import Ended, Line

_LONGEST_START_S: Final = 200.0
"""The keeper gives up before."""

_ANSWER_S: Final = 10.0
_AUTHENTICATE: Final = "A\n{}\ne\n"
_AUTHENTICATED: Final = b"!yv\n"
"""py4j's words for a client that shows the secret."""

_KEEPER: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from embedkafka.spark.warm.keeper import main; main()"
)
_SOURCES: Final = Path(__file__).parents[3]

_held: set[socket.socket] = set()


@after_fork
def _close_copies() -> None:
    """A child that outlives its parent must not keep the parent's lease."""
    for connection in _held:
        connection.close()
    _held.clear()


class Lease:
    """One session's hold on a JVM."""

    def __init__(self, line: Line, granted: Mapping[str, Any]) -> None:
        """Any: values of JSON."""
        self._line = line
        self.port = int(granted["port"])
        self.secret = str(granted["secret"])
        self.jvm = int(granted["jvm"])
        self.session = int(granted["session"])
        """How many sessions the JVM has had, with this one."""
        self.log_file = Path(granted["log"])
        _held.add(line.connection)

    def give_back(self, figures: Mapping[str, int]) -> str | None:
        """Lets another session have the JVM; returns why none will, if so."""
        self._line.connection.settimeout(_ANSWER_S)
        self._line.send({"ask": "returned", "figures": dict(figures)})
        answer = self._line.receive()
        return None if answer["kept"] else str(answer["why"])

    def drop(self) -> None:
        """Ends the lease; a JVM that was not given back ends with it."""
        _held.discard(self._line.connection)
        with suppress(OSError):
            self._line.connection.shutdown(socket.SHUT_RDWR)  # forked children may have copies
        self._line.connection.close()

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Drops the lease after this time, which ends the JVM and every call that waits for it."""
        timer = threading.Timer(seconds, self.drop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def take_lease(
    home: Path,
    facts: Facts,
    launch: Callable[[Path], Mapping[str, Any]],
    progress: Progress,
    *,
    most: int | None = None,
) -> Lease | None:
    """A JVM that fits, or a new one, of `most` and at most one per core; None after saying why.

    `launch` has the command, the environment and the working directory of a new JVM, whose files
    are in a folder. Any: values of JSON.
    """
    try:
        require_home(home)
        with locked(home):
            kept = find_kept(home, progress)
            lease, why_none = _lease_kept(kept, facts, progress, most or _cores())
            if lease is None and not why_none:
                progress("starting a Spark JVM that stays for later runs")
                line = _start_keeper(home, lambda folder: {"facts": dict(facts), **launch(folder)})
        if lease is None and not why_none:
            return _await_grant(line)
    except (OSError, Ended, Unusable, LookupError) as error:
        lease, why_none = None, str(error) or "its keeper ended"
    if lease is None:
        progress(f"Spark starts cold: {why_none}")
    return lease


def _lease_kept(
    kept: list[Kept], facts: Facts, progress: Progress, most: int
) -> tuple[Lease | None, str]:
    """A lease of one of these, or why no other may be started."""
    remaining = list(kept)
    while True:
        choice = choose(list(map(_candidate, remaining)), facts, most=most)
        if not choice.fitting:
            return None, choice.why_none
        chosen = remaining.pop(choice.fitting[0])
        try:
            if lease := _lease_one(chosen):
                return lease, ""
        except (OSError, Ended, LookupError) as error:
            progress(f"{chosen.name} is thrown away: {str(error) or 'its keeper ended'}")


def _candidate(kept: Kept) -> Candidate:
    if not kept.is_ours:
        return Candidate(name=kept.name, is_free=False, facts={}, state=kept.state)
    about = kept.description
    return Candidate(
        name=kept.name, is_free=about["is_free"], facts=about["facts"], state=kept.state
    )


def _lease_one(kept: Kept) -> Lease | None:
    """None if another process was quicker."""
    with ExitStack() as undone:
        connection = undone.enter_context(connect(kept.folder))
        line = Line(connection)
        line.send({"ask": "lease", "holder": os.getpid()})
        answer = line.receive()
        if "granted" not in answer:
            return None
        lease = Lease(line, answer["granted"])
        undone.callback(lease.drop)
        _require_answer(lease)
        undone.pop_all()
        return lease


def _require_answer(lease: Lease) -> None:
    """Asks the JVM itself, because PySpark would wait for ever."""
    try:
        with socket.create_connection(("127.0.0.1", lease.port), timeout=_ANSWER_S) as connection:
            connection.sendall(_AUTHENTICATE.format(lease.secret).encode())
            answer = connection.recv(len(_AUTHENTICATED))
    except TimeoutError:
        raise TimeoutError("it hangs") from None
    if answer != _AUTHENTICATED:
        raise ConnectionError("it does not know its secret")


def _start_keeper(home: Path, launch: Callable[[Path], Mapping[str, Any]]) -> Line:
    """Starts a keeper and returns the connection on which it will grant the first lease."""
    folder, listener, lock = new_folder(home)
    ours, theirs = socket.socketpair()
    handed = (listener.fileno(), lock, theirs.fileno())
    try:
        starter = subprocess.run(
            [sys.executable, "-IS", "-c", _KEEPER, _SOURCES, folder, *map(str, handed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=handed,
            start_new_session=True,
            check=False,
        )
    finally:
        listener.close()
        os.close(lock)
        theirs.close()
    if starter.returncode != 0:
        ours.close()
        raise Unusable(f"its keeper does not start: {starter.stderr.decode(errors='replace')}")
    line = Line(ours)
    try:
        line.send({**launch(folder), "holder": os.getpid()})
    except BaseException:
        ours.close()
        raise
    return line


def _await_grant(line: Line) -> Lease:
    line.connection.settimeout(_LONGEST_START_S)
    try:
        answer = line.receive()
        if "granted" not in answer:
            raise Unusable(str(answer.get("refused", "its keeper ended")))
        return Lease(line, answer["granted"])
    except BaseException:
        line.connection.close()
        raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
