"""A script from the inside: what the functions call that are replaced for it.

Owner: the script's threads. The test's thread calls `on_stopped_by_test`, `on_failure_told` and
`release`, and reads; lists are appended to in one step.
Not here: what a test does with a script (`running`).
"""

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.values import dataclass
from embedkafka.spark.execution import find_execution
from embedkafka.spark.scripts.membership import acting_for, running_scripts
from embedkafka.spark.scripts.programs import Program
from embedkafka.spark.scripts.redirections import DEFAULT_CHECKPOINTS, Redirections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.05
"""How often a wait looks at the queries; nothing announces their end to Python."""
_LAUNCH_ONLY: Final = ("spark.master", "spark.app.name", "spark.remote", "spark.api.mode")
_IGNORED: Final = "ignored: Spark runs already"


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
        self.at_exit: list[Callable[[], object]] = []
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

    def release(self) -> None:
        """Stops the queries and lets the script's waits return; it can start no more."""
        self._is_stopping = True
        self.stop_queries()
        self._released.set()

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
                if checkpoint == other.checkpoint and script.runs(other):
                    raise ConfigError(
                        f"the checkpoint {checkpoint} is in use by the query {other.label} of "
                        f"{script.program.name}, and two queries cannot share one: give each its "
                        "own, or stop the other one first"
                    )

    def runs(self, started: StartedQuery) -> bool:
        """Whether the query runs, or the test has restarted it."""
        assert self.session is not None, "a query has a session"
        with acting_for(None):
            return self.session.streams.get(str(started.query.id)) is not None

    def on_started(
        self, query: Any, *, name: str | None, sink: str, checkpoint: str | None
    ) -> None:
        label = name or sink
        run = str(query.runId)
        started = StartedQuery(
            query=query,
            run=run,
            label=self._free(label),
            sink=sink,
            checkpoint=checkpoint,
        )
        self.started.append(started)
        if checkpoint is None and self._default_checkpoints() is None:
            self.redirections.note(
                "checkpoint of query", label, "none is named: a restart starts over"
            )
        self.has_begun.set()

    def on_client(self) -> None:
        self.has_begun.set()

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
            self._released.wait(LOOK_S)
        return True

    def sleep(self, seconds: float) -> None:
        """`time.sleep`, which the end of the test ends; a second one ends the script."""
        if self._released.is_set():
            raise _JobEnded(0)
        if self.started:
            self._settle([each.query for each in self.started])
        self._released.wait(seconds)

    def stop_queries(self) -> None:
        """Stops what the script has started, also what the test has restarted."""
        if self.session is None:
            return
        ids = {str(each.query.id) for each in self.started}
        with acting_for(None):
            for query in [*(each.query for each in self.started), *self.session.streams.active]:
                if query.isActive and str(query.id) in ids:
                    query.stop()

    def _settle(self, queries: Sequence[Any]) -> None:
        """The script waits; for the test, only if it waits for something that does not end."""
        if threading.current_thread() is not self._thread:
            return
        self.has_begun.set()
        executions = [find_execution(query) for query in queries if query.isActive]
        is_ending = all(each and each.ends_by_itself for each in executions)
        if not queries or not is_ending:
            self.is_waiting.set()

    # -- the end

    def _end(self) -> None:
        """What the end of its process does: its threads end, its hooks run, its queries stop."""
        try:
            if self.failure is None and self.threads:
                self.is_waiting.set()
                for thread in self.threads:
                    thread.join()
            self._run_hooks()
            self.release()
            self._restore_confs()
        except Exception as error:
            self.failure = self.failure or error
        finally:
            self.has_ended.set()
            self.is_waiting.set()
            self.has_begun.set()

    def _run_hooks(self) -> None:
        """One that fails is shown and does no harm, as at the end of a process."""
        for hook in reversed(self.at_exit):
            try:
                hook()
            except BaseException:
                traceback.print_exc()

    def _restore_confs(self) -> None:
        if self.session is None:
            return
        with acting_for(None):
            for key, value in self._confs.items():
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

    def _default_checkpoints(self) -> str | None:
        assert self.session is not None, "a query has a session"
        with acting_for(None):
            value: str | None = self.session.conf.get(DEFAULT_CHECKPOINTS, None)
        return value or None

    def _free(self, label: str) -> str:
        """The label, or with a number if another query has it already."""
        known = {each.label for each in self.started}
        return label if label not in known else f"{label} ({len(self.started)})"
