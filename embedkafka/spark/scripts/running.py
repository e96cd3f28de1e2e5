"""`run_script`: a job that is a script, run as it is in a thread of the test.

    with run_script("jobs/totals.py", kafka=kafka, spark=spark) as script:
        orders.send_json({"sku": "a"})
        drain(script["totals"])

The script builds its session, names its brokers, starts its queries and waits for them; here it
gets a session of the test's Spark, the test's cluster and directory, and its waits last as long as
the test wants. When its code ends, its queries are stopped, as they would be with its process.

Owner: the thread of the test. The script's threads only append to lists, or set events.
Invariants: what is replaced for scripts is replaced while one of them runs (`membership`). When
`stop` has returned, the script's code has ended, unless that has raised `AwaitTimeout`.
Not here: what is replaced (`spark_patches`, `process_patches`, `client_patches`), and what leads
where (`redirections`).
"""

import linecache
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from embedkafka.runtime.arguments import (
    require_attribute,
    require_list,
    require_mapping,
    require_number,
    require_path,
    require_text,
    shown,
)
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.runtime.patience import patient
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark.execution import require_driver
from embedkafka.spark.scripts.addresses import require_addresses
from embedkafka.spark.scripts.client_patches import client_patches
from embedkafka.spark.scripts.inside import LOOK_S, ScriptInside
from embedkafka.spark.scripts.membership import join, leave, running_scripts
from embedkafka.spark.scripts.process_patches import process_patches
from embedkafka.spark.scripts.programs import require_program
from embedkafka.spark.scripts.redirections import Redirected, Redirections
from embedkafka.spark.scripts.spark_patches import spark_patches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PATIENCE_S: Final = 60.0
_STOP_S: Final = 30.0
_OWN: Final = str(Path(__file__).parent)


def run_script(
    script: str | Path | Callable[[], object],
    *,
    kafka: Any,
    spark: "SparkSession",
    args: Sequence[object] = (),
    env: Mapping[str, str] | None = None,
    directory: str | Path | None = None,
    timeout_s: float = _PATIENCE_S,
) -> "RunningScript":
    """Runs a job that is a script, unchanged, for the length of a `with` block.

    It runs in a thread of this process. The `with` block begins when the script waits for its
    queries, has started one, or has ended; at its end the queries are stopped and the script's
    waits return.

    Args:
        script: a path to a file, the name of a module, or a function without arguments.
        kafka: the cluster that every address leads to; or a mapping of the addresses that lead to
            a cluster, `{"localhost:9092": kafka}`. Any: an `EmbeddedKafka`, or another with
            `bootstrap_servers`.
        spark: the script's own `getOrCreate()` returns a new session of this one's Spark.
        args: its arguments, `sys.argv[1:]`.
        env: its environment variables, in addition to those of the process.
        directory: where its checkpoints and its relative paths lead; by default a new directory,
            which is removed at the end.
        timeout_s: how long to wait for the script, in seconds of real time, at its begin and
            wherever the test asks for one of its queries.

    Raises:
        ConfigError: an argument cannot be used, or there is no such script.
        SyntaxError: the script is not valid Python.
    """
    addresses = require_addresses(kafka)
    require_driver(spark, "run_script")
    require_attribute("spark", spark, "newSession", "a SparkSession", refusal=ConfigError)
    require_number("timeout_s", timeout_s, refusal=ConfigError)
    arguments = require_arguments(args)
    environment = require_environment(env or {})
    program = require_program(script)
    temporary = None
    if directory is None:
        temporary = TemporaryDirectory("script-")
        directory = temporary.path
    path = require_path("directory", directory, refusal=ConfigError).resolve()
    inside = ScriptInside(
        program,
        spark.newSession,
        Redirections(directory=path, addresses=addresses),
        arguments=arguments,
        environment=environment,
    )

    def on_end() -> None:
        if temporary is not None:
            inside.drop_tables()
            temporary.remove()

    return RunningScript(inside, timeout_s=timeout_s, on_end=on_end)


class RunningScript:
    """A script of `run_script`: its queries, by name or in the order of their start."""

    def __init__(
        self, inside: ScriptInside, *, timeout_s: float, on_end: Callable[[], object]
    ) -> None:
        self._inside = inside
        self._program = inside.program
        self._timeout_s = patient(timeout_s)
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._is_raised = False
        self._paths: set[str] = set()
        self._modules: set[str] = set()
        self._loggers: Sequence[logging.Logger] = ()

    # -- for tests

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        self.start()
        try:
            self._await(self._inside.has_begun, "has neither started a query nor ended")
            self.check()
        except BaseException:
            self.abandon()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        __tracebackhide__ = True
        if error is None or isinstance(error, Exception):
            self.stop()
            return
        self.abandon()  # Ctrl-C, or the end of the test

    def __getitem__(self, which: str | int) -> "StreamingQuery":
        """A query by its name, by what it writes to if it has none, or by its number from 0.

        Waits until the script has started it.

        Args:
            which: the name or number.

        Raises:
            ConfigError: the script waits or has ended, and has not started it.
        """
        __tracebackhide__ = True
        if not isinstance(which, str | int):
            raise ConfigError(f"a query has a name or a number, not {shown(which)}")
        deadline_ms = self._deadline_ms()
        while True:
            is_settled = self._inside.is_settled
            self.check()
            if (found := self._find(which)) is not None:
                return found
            if is_settled or REAL_TIME.monotonic_ms() > deadline_ms:
                raise ConfigError(
                    f"{self.name} has started no query {which!r}: {self._listed()}; "
                    f"{self.position()}"
                )
            self._inside.has_ended.wait(LOOK_S)

    def __iter__(self) -> "Iterator[StreamingQuery]":
        return iter(self.queries.values())

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"<script {self.name}: {self.position()}>"

    @property
    def name(self) -> str:
        """The script, as it was named."""
        return self._program.name

    @property
    def query(self) -> "StreamingQuery":
        """The only query of the script.

        Raises:
            ConfigError: it has started none, or several.
        """
        __tracebackhide__ = True
        queries = list(self.queries.values())
        if len(queries) != 1:
            raise ConfigError(
                f"{self.name} has not one query, but {len(queries)}: {self._listed()}; "
                f"{self.position()}"
            )
        return queries[0]

    @property
    def queries(self) -> "dict[str, StreamingQuery]":
        """All queries by name, once the script waits for them or has ended."""
        __tracebackhide__ = True
        deadline_ms = self._deadline_ms()
        while not self._inside.is_settled and REAL_TIME.monotonic_ms() < deadline_ms:
            self._inside.has_ended.wait(LOOK_S)
        self.check()
        return {each.label: each.query for each in self._inside.started}

    @property
    def spark(self) -> "SparkSession":
        """The session of the script, which has its views and tables in memory."""
        if self._inside.session is not None:
            return self._inside.session
        if self._inside.started:
            return self._inside.started[0].session
        raise ConfigError(f"{self.name} has not built its session; {self.position()}")

    @property
    def redirected(self) -> tuple[Redirected, ...]:
        """What the script named and what it got instead, in the order of the script."""
        return self._inside.redirections.found

    def path(self, given: str) -> Path:
        """Where the files are that the script writes to a path.

        Args:
            given: the path as the script has it, such as "s3a://lake/orders".
        """
        return self._inside.redirections.path(require_text("given", given))

    def wait(self, *, timeout_s: float | None = None) -> None:
        """Waits until the script has ended by itself; raises what it raised.

        Args:
            timeout_s: how long to wait; by default as long as for anything else.

        Raises:
            AwaitTimeout: it still runs; the message says where.
            ScriptFailed: it called `sys.exit` with a status other than 0.
        """
        __tracebackhide__ = True
        if timeout_s is not None:
            require_number("timeout_s", timeout_s)
        self._await(self._inside.has_ended, "has not ended", timeout_s)
        self.check()

    def stop(self) -> None:
        """Stops its queries, lets its waits return, and waits until its code has ended.

        Raises:
            AwaitTimeout: its code has not ended; the message says where it is.
        """
        __tracebackhide__ = True
        if self._inside not in running_scripts():
            return
        try:
            self._inside.terminate()
            self._await(
                self._inside.has_ended, "has not ended although its queries were stopped", _STOP_S
            )
        finally:
            leave(self._inside)
            self._restore_process()
            self._on_end()
        if not self._is_told():
            self.check()

    def drop_tables(self) -> None:
        """Drops the tables of Spark's catalog that it has made.

        `spark_script` does it at the end of the test, and `run_script` if it has no `directory`:
        with one, a second run goes on with checkpoint and table.
        """
        self._inside.drop_tables()

    def abandon(self) -> None:
        """Stops it because of another failure, which is the one to raise."""
        with suppress(Exception):
            self.stop()

    def check(self) -> None:
        """Raises what the script has raised, if it has failed."""
        __tracebackhide__ = True
        if (failure := self.tell_failure()) is not None:
            raise failure

    def tell_failure(self) -> BaseException | None:
        """What the script has raised, with the lines of the script alone."""
        failure = self._inside.failure
        if failure is None:
            return None
        self._is_raised = True
        return failure.with_traceback(_without_own(failure.__traceback__))

    def describe(self) -> str:
        """Where the script is, its queries, and what was redirected: for a report."""
        lines = [f"{self.name}: {self.position()}"]
        lines += [f"query {each.label}, into {each.sink}" for each in self._inside.started]
        lines += map(str, self.redirected)
        return "\n  ".join(lines)

    def position(self) -> str:
        """Where the script is, in words."""
        failure = self._inside.failure
        if failure is not None:
            return f"it has failed: {type(failure).__name__}: {failure}"
        thread = self._thread
        if thread is None:
            return "it has not begun"
        if self._inside.has_ended.is_set():
            return "it has ended"
        frames = sys._current_frames()
        if (place := self._place(frames.get(thread.ident or 0))) is not None:
            return f"it is at {place}"
        left = next((each for each in self._inside.threads if each.is_alive()), None)
        if left is None:
            return "it runs"
        place = self._place(frames.get(left.ident or 0))
        return f"its thread {left.name} runs" + ("" if place is None else f", at {place}")

    def _place(self, frame: FrameType | None) -> str | None:
        """The line of the script that this code was called from."""
        while frame is not None and frame.f_code.co_filename != self._program.file:
            frame = frame.f_back
        if frame is None:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        return f"{frame.f_code.co_filename}:{frame.f_lineno}: `{line}`"

    def start(self) -> None:
        """Begins to run it, and returns at once."""
        from pyspark import InheritableThread

        if self._thread is not None:
            raise ConfigError(f"{self.name} has run: call run_script again")
        _recent[self.name] = self
        self._paths, self._modules = set(sys.path), set(sys.modules)
        self._loggers = _enabled_loggers()
        if self._program.folder is not None:
            sys.path.insert(0, self._program.folder)
        join(self._inside, _replacements)
        make: Any = InheritableThread  # untyped in PySpark; it ends its connection with the thread
        self._thread = make(self._inside.run, name=f"script {self.name}", daemon=True)
        self._thread.start()

    def await_rest(self) -> "list[StreamingQuery]":
        """Waits until the script waits for queries that do not end by themselves, or has ended.

        Returns:
            The queries that run.
        """
        deadline_ms = self._deadline_ms()
        while not self._inside.is_settled:
            if REAL_TIME.monotonic_ms() > deadline_ms:
                raise self._too_slow("does not wait for its queries", self._timeout_s)
            self._inside.is_waiting.wait(LOOK_S)
        self.check()
        return [each.query for each in self._inside.started if each.query.isActive]

    def _restore_process(self) -> None:
        """Another script may have other modules of the same names."""
        own = {path for path in sys.path if path not in self._paths}
        sys.path[:] = [path for path in sys.path if path not in own]
        for name in set(sys.modules) - self._modules:
            if any(_is_in(Path(path).absolute(), name) for path in own):
                del sys.modules[name]
        for logger in self._loggers:  # `logging.config` disables all that it does not know
            logger.disabled = False
        for undo in reversed(self._inside.on_leaving):
            with suppress(Exception):  # such as a directory that is gone
                undo()

    # -- helpers

    def _is_told(self) -> bool:
        """Whether the test has seen what the script has raised, or the query fail that did it."""
        is_querys = type(self._inside.failure).__name__ == "StreamingQueryException"
        return self._is_raised or (is_querys and self._inside.is_failure_told)

    def _find(self, which: str | int) -> "StreamingQuery | None":
        started = list(self._inside.started)
        if isinstance(which, int):
            return started[which].query if -len(started) <= which < len(started) else None
        for each in reversed(started):
            if each.label == which:
                return each.query
        return None

    def _listed(self) -> str:
        return ", ".join(each.label for each in self._inside.started) or "none at all"

    def _deadline_ms(self) -> float:
        return REAL_TIME.monotonic_ms() + self._timeout_s * 1000

    def _await(self, event: threading.Event, lack: str, timeout_s: float | None = None) -> None:
        __tracebackhide__ = True
        seconds = self._timeout_s if timeout_s is None else patient(timeout_s)
        if not event.wait(seconds):
            raise self._too_slow(lack, seconds)

    def _too_slow(self, lack: str, seconds: float) -> AwaitTimeout:
        return AwaitTimeout(f"{self.name} {lack} in {seconds:g} s; {self.position()}")


def recent_scripts() -> tuple[RunningScript, ...]:
    """Those that have begun since `forget_scripts`, for a report: of each its last run."""
    return tuple(_recent.values())


def untold_failures() -> list[tuple[RunningScript, BaseException]]:
    """The scripts that have failed, and are not stopped yet, with what they raised."""
    return [
        (each, each._inside.failure)
        for each in recent_scripts()
        if each._inside.failure is not None
        if each._inside in running_scripts() and not each._is_told()
    ]


def on_failure_told(query: "StreamingQuery") -> None:
    """The test has seen that a query failed, and need not hear it from the script as well."""
    for script in running_scripts():
        script.on_failure_told(query)


def forget_scripts() -> None:
    _recent.clear()


_recent: dict[str, RunningScript] = {}


@contextmanager
def _replacements() -> Iterator[None]:
    with process_patches(), spark_patches(), client_patches():
        yield


def _enabled_loggers() -> list[logging.Logger]:
    known = list(logging.root.manager.loggerDict.values())
    return [one for one in known if isinstance(one, logging.Logger) and not one.disabled]


def _is_in(folder: Path, name: str) -> bool:
    """Whether a module was imported from a folder of `sys.path`, itself or its package."""
    beside = folder / name.partition(".")[0]
    module = sys.modules[name]
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    files = [Path(place) for place in places if isinstance(place, str)]
    return any(
        beside in (file, *file.parents) or beside.with_suffix(".py") == file for file in files
    )


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    if trace is None:
        return None
    rest = _without_own(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(_OWN):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def require_arguments(args: object) -> list[str]:
    """`args` as text; raises `ConfigError` unless it is a list."""
    found = require_list("args", args, '["--since", "1"]', refusal=ConfigError)
    return [str(each) for each in found]


def require_environment(env: object) -> dict[str, str]:
    """`env`, if it maps names to text; raises `ConfigError` otherwise."""
    given = require_mapping("env", env, '{"STAGE": "test"}', refusal=ConfigError)
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError(f"env maps names to text, and has {shown(name)}: {shown(value)}")
    return {str(name): str(value) for name, value in given.items()}
