"""A script from the inside: what the functions call that are replaced for it.

Owner: the script's threads. The test's thread calls `on_stopped_by_test`, `on_failure_told` and
`terminate`, and reads; lists are appended to in one step.
Not here: what a test does with a script (`running`).
"""

import math
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pool_threads
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.values import dataclass
from embedkafka.spark.execution import find_execution
from embedkafka.spark.scripts.client_patches import close_client
from embedkafka.spark.scripts.membership import acting_for, running_scripts
from embedkafka.spark.scripts.programs import Program
from embedkafka.spark.scripts.redirections import DEFAULT_CHECKPOINTS, Redirections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.05
"""How often a wait looks at the queries; nothing announces their end to Python."""
_DAEMON_S: Final = 1.0
_LAST_WAIT_S: Final = 5.0
"""How long a thread of the script may wait for another one once the test is over."""
_LAUNCH_ONLY: Final = ("spark.master", "spark.app.name", "spark.remote", "spark.api.mode")
_IGNORED: Final = "ignored: Spark runs already"
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""What ends the process of a script; the first that it has a handler for."""


def _blocking_code() -> frozenset[CodeType]:
    """Where a thread waits for others: the innermost frames in Python."""
    functions: list[Any] = [threading.Condition.wait, threading.Thread.join]
    for owner, name in ((threading.Thread, "_wait_for_tstate_lock"), (pool_threads, "_worker")):
        functions += [getattr(owner, name)] if hasattr(owner, name) else []
    return frozenset(each.__code__ for each in functions)


_BLOCKING: Final = _blocking_code()


class ScriptFailed(EmbedKafkaError):
    """A script called `sys.exit` with a status other than 0."""

    __module__ = "embedkafka.spark"  # where users import it from


class _JobEnded(SystemExit):
    """Ends the code of a script that goes on after its test is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedQuery:
    """A query of a script."""

    query: "StreamingQuery"
    run: str
    label: str
    """Its name, or what it writes to."""
    sink: str
    checkpoint: str | None
    session: "SparkSession"
    """The script's own, or one that the test has handed to it."""


class ScriptInside:
    """What a script sees, what it has started, and whether it waits."""

    def __init__(
        self,
        program: Program,
        new_session: "Callable[[], SparkSession]",
        redirections: Redirections,
        *,
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.program = program
        self.redirections = redirections
        self.arguments = [program.name, *arguments]
        self.environment: dict[str, str | None] = dict(environment)
        self.threads: list[threading.Thread] = []
        """Those that a process waits for at its end."""
        self.daemons: list[threading.Thread] = []
        self.pools: list[ThreadPoolExecutor] = []
        self.handlers: dict[int, Any] = {}
        """Those of signals. Any: functions, numbers, or None."""
        self.at_exit: list[Callable[[], object]] = []
        self.on_leaving: list[Callable[[], object]] = []
        """What gives the process back as it was, the last first."""
        self.session: SparkSession | None = None
        self.started: list[StartedQuery] = []
        self.failure: BaseException | None = None
        self.is_failure_told = False
        """Whether the test has seen that a query failed."""
        self.has_begun = threading.Event()
        self.is_waiting = threading.Event()
        self.has_ended = threading.Event()
        self._new_session = new_session
        self._taken: set[str] = set()
        self._forgotten: set[str] = set()
        self._clients: WeakSet[Any] = WeakSet()
        self._tables: dict[str, Any] = {}
        self._listeners: list[tuple[Any, Any]] = []
        self._confs: dict[str, str | None] = {}
        self._is_stopping = False
        self._released = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """The script's main thread."""
        self._thread = threading.current_thread()
        with acting_for(self):
            try:
                self.program.run()
            except SystemExit as end:
                if end.code not in (None, 0):
                    self.failure = ScriptFailed(
                        f"{self.program.name} called sys.exit({end.code!r})"
                    )
                    self.failure.__traceback__ = end.__traceback__
            except BaseException as error:
                self.failure = error
            self._end()

    def terminate(self) -> None:
        """Ends the script as a signal ends its process: its handler is called, its waits return."""
        self._is_stopping = True
        self.stop_queries()
        if not self.has_ended.is_set():
            self._call_handler()
        self._release()

    @property
    def is_settled(self) -> bool:
        """Whether the script has ended, or waits, as do all of its threads."""
        if self.is_waiting.is_set() or self.has_ended.is_set():
            return True
        queries = [each.query for each in self.started]
        if not queries or self._are_ending(queries):
            return False
        frames = sys._current_frames()
        threads = [self._thread, *self.threads, *self.daemons]
        return all(
            _is_blocked(frames.get(thread.ident or 0))
            for thread in threads
            if thread is not None and (thread.is_alive() or thread.ident is None)
        )

    # -- the session

    def get_session(self, settings: Mapping[str, Any]) -> "SparkSession":
        """What `getOrCreate` returns. Any: values of settings, which Spark turns to text."""
        if self.session is None:
            self.session = self._new_session()
        for key, value in settings.items():
            self._set(self.session, key, str(value))
        return self.session

    def remember_conf(self, key: str) -> None:
        """Lets `key` have its value again when the script has ended."""
        if self.session is not None and key not in self._confs:
            with acting_for(None):
                self._confs[key] = self.session.conf.get(key, None)

    # -- queries

    def require_start(self, checkpoint: str | None) -> None:
        """Before a query starts; raises `ConfigError` if another one uses its checkpoint."""
        if self._is_stopping:
            raise _JobEnded(0)
        if checkpoint is None:
            return
        for script in running_scripts():
            for other in script.started:
                if checkpoint == other.checkpoint and _find_running(other) is not None:
                    raise ConfigError(
                        f"the checkpoint {checkpoint} is in use by the query {other.label} of "
                        f"{script.program.name}, and two queries cannot share one: give each its "
                        "own, or stop the other one first"
                    )

    def on_started(
        self, query: Any, *, name: str | None, sink: str, checkpoint: str | None, session: Any
    ) -> None:
        label = name or sink
        run = str(query.runId)
        started = StartedQuery(
            query=query,
            run=run,
            label=self._free(label),
            sink=sink,
            checkpoint=checkpoint,
            session=session,
        )
        self.started.append(started)
        if checkpoint is None and _default_checkpoints(session) is None:
            self.redirections.note(
                "checkpoint of query", label, "none is named: a restart starts over"
            )
        self.has_begun.set()

    def on_table(self, name: str, session: Any) -> None:
        """Before the script saves a table; it goes with the test unless it was there before."""
        with acting_for(None):
            if name not in self._tables and not session.catalog.tableExists(name):
                self._tables[name] = session

    def drop_tables(self) -> None:
        with acting_for(None):
            for name, session in self._tables.items():
                session.sql(f"DROP TABLE IF EXISTS {name}")

    def on_client(self, client: Any) -> None:
        self._clients.add(client)
        self.has_begun.set()

    def on_listener(self, manager: Any, listener: Any) -> None:
        """A session that outlives the script must not keep it."""
        self._listeners.append((manager, listener))

    def on_stopped_by_test(self, query: Any) -> None:
        """The test stops a query, to restart it for instance: the script's wait goes on."""
        run = str(query.runId)
        if not self._is_stopping and any(each.run == run for each in self.started):
            self._taken.add(run)

    def on_failure_told(self, query: Any) -> None:
        """The test has seen that a query failed, which the script is about to see."""
        run = str(query.runId)
        if any(each.run == run for each in self.started):
            self.is_failure_told = True

    def remembered_queries(self) -> list[Any]:
        """The queries that `awaitAnyTermination` waits for."""
        return [each.query for each in self.started if each.run not in self._forgotten]

    def reset(self) -> None:
        """What `resetTerminated` does."""
        self._forgotten |= {each.run for each in self.started if not each.query.isActive}

    # -- waits

    def await_end(self, find: Callable[[], list[Any]], timeout: float | None) -> bool:
        """Waits until one of these queries has ended other than by the test; raises if it failed.

        The end of the test ends the wait too.
        """
        self._settle(find())
        deadline_ms = None if timeout is None else REAL_TIME.monotonic_ms() + timeout * 1000
        while not self._released.is_set():
            for query in find():
                if not query.isActive and str(query.runId) not in self._taken:
                    if (failure := query.exception()) is not None:
                        raise failure
                    return True
            if deadline_ms is not None and REAL_TIME.monotonic_ms() >= deadline_ms:
                return False
            self._await_release(LOOK_S)
        return True

    def sleep(self, seconds: float) -> None:
        """`time.sleep`, which the end of the test ends; a second one ends the script."""
        if self._released.is_set():
            raise _JobEnded(0)
        if self.started:
            self._settle([each.query for each in self.started])
        self._await_release(seconds)

    def await_event(self, look: Callable[[float], bool], timeout: float | None) -> bool:
        """`Event.wait`; one for something that does not come ends its thread after the test."""
        end_ms = math.inf if timeout is None else REAL_TIME.monotonic_ms() + timeout * 1000
        last_ms = math.inf
        while True:
            if self._released.is_set() and last_ms == math.inf:
                last_ms = REAL_TIME.monotonic_ms() + _LAST_WAIT_S * 1000
            left_s = (min(end_ms, last_ms) - REAL_TIME.monotonic_ms()) / 1000
            if look(max(0.0, min(LOOK_S, left_s))):
                return True
            if left_s <= LOOK_S:
                if self._released.is_set() and timeout != 0:
                    raise _JobEnded(0)
                return False

    def await_records(self, look: Callable[[float], Any], timeout_s: float) -> Any:
        """What a consumer finds, looking for so many seconds; the end of the test ends the script.

        A negative time has no end. Any: records, of any client.
        """
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        while True:
            if self._released.is_set():
                raise _JobEnded(0)
            left_s = (deadline_ms - REAL_TIME.monotonic_ms()) / 1000
            found = look(min(LOOK_S, max(0.0, left_s)) if timeout_s >= 0 else LOOK_S)
            if not (found is None or found in ([], {})) or (timeout_s >= 0 and left_s <= LOOK_S):
                return found

    def stop_queries(self) -> None:
        """Stops what the script has started, also what the test has restarted."""
        for each in list(self.started):
            if (query := _find_running(each)) is not None:
                with acting_for(None):
                    query.stop()

    def _await_release(self, seconds: float) -> None:
        with acting_for(None):
            self._released.wait(seconds)

    def _settle(self, queries: Sequence[Any]) -> None:
        """The script waits; for the test, only if it waits for something that does not end."""
        if threading.current_thread() is not self._thread:
            return
        self.has_begun.set()
        if not queries or not self._are_ending(queries):
            self.is_waiting.set()

    def _are_ending(self, queries: Sequence[Any]) -> bool:
        """Whether all of them end by themselves, if they have not yet."""
        executions = [find_execution(query) for query in queries if query.isActive]
        return all(each and each.ends_by_itself for each in executions)

    # -- the end

    def _end(self) -> None:
        """What the end of its process does: its threads end, its hooks run, its queries stop."""
        try:
            for pool in self.pools:
                pool.shutdown(wait=False)
            if self.failure is None and self.threads:
                self.has_begun.set()
                for thread in self.threads:
                    thread.join()
            self._run_hooks()
            self._release()
            self._close_clients()
            self._restore_session()
        except Exception as error:
            self.failure = self.failure or error
        finally:
            self.has_ended.set()
            self.is_waiting.set()
            self.has_begun.set()

    def _release(self) -> None:
        """Stops the queries and lets the script's waits return; it can start no more."""
        self._is_stopping = True
        self.stop_queries()
        self._released.set()

    def _close_clients(self) -> None:
        """Those that the script left open, unless a thread of its may still use one."""
        for thread in self.daemons:
            thread.join(_DAEMON_S)  # most end where they wait
        if not any(thread.is_alive() for thread in self.daemons):
            for client in list(self._clients):
                close_client(client)

    def _call_handler(self) -> None:
        """In the thread of the test: the script's own may not have waited for anything of ours."""
        number = next((each for each in _ENDING_SIGNALS if callable(self.handlers.get(each))), None)
        if number is None:
            return
        try:
            with acting_for(self):
                self.handlers[number](number, None)
        except (SystemExit, KeyboardInterrupt):
            pass  # the script's own thread cannot get it, but it ends in any case
        except BaseException as error:
            self.failure = self.failure or error

    def _run_hooks(self) -> None:
        """One that fails is shown and does no harm, as at the end of a process."""
        for hook in reversed(self.at_exit):
            try:
                hook()
            except BaseException:
                traceback.print_exc()

    def _restore_session(self) -> None:
        with acting_for(None):
            for manager, listener in self._listeners:
                with suppress(Exception):  # the script may have removed it
                    manager.removeListener(listener)
            for key, value in self._confs.items():
                assert self.session is not None, "settings have a session"
                if value is None:
                    self.session.conf.unset(key)
                else:
                    self.session.conf.set(key, value)

    # -- helpers

    def _set(self, session: Any, key: str, value: str) -> None:
        if key in _LAUNCH_ONLY:
            self.redirections.note(key, value, _IGNORED)
            return
        self.remember_conf(key)
        if key == DEFAULT_CHECKPOINTS:
            value = self.redirections.checkpoint(value, key)
        try:
            with acting_for(None):
                session.conf.set(key, value)
        except Exception:  # py4j's: it is read when Spark starts
            self._confs.pop(key, None)
            self.redirections.note(key, value, _IGNORED)

    def _free(self, label: str) -> str:
        """The label, or with a number if another query has it already."""
        known = {each.label for each in self.started}
        return label if label not in known else f"{label} ({len(self.started)})"


def _find_running(started: StartedQuery) -> Any:
    """The query, as the script or the test has started it last; None if it does not run."""
    with acting_for(None):
        return started.session.streams.get(str(started.query.id))


def _default_checkpoints(session: "SparkSession") -> str | None:
    with acting_for(None):
        value: str | None = session.conf.get(DEFAULT_CHECKPOINTS, None)
    return value or None


def _is_blocked(frame: FrameType | None) -> bool:
    """Whether a thread waits for another one, or for the end of the script."""
    return frame is not None and frame.f_code in _BLOCKING
