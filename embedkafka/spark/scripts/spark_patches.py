"""What a script sees of PySpark: its session, its readers and writers, its waits.

A reader or writer keeps the options that the script gives it. What they lead to is decided when it
reads, writes or starts, for only then is its format known.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from embedkafka.spark.scripts.membership import (
    acting_for,
    current_script,
    diverted,
    replaced,
    running_scripts,
)
from embedkafka.spark.scripts.redirections import DEFAULT_CHECKPOINTS, is_file

if TYPE_CHECKING:
    from embedkafka.spark.scripts.inside import ScriptInside

Native = Callable[..., Any]  # Any: a method of PySpark

_FORMATS: Final = ("csv", "json", "orc", "parquet", "text", "xml")
_PATHS: Final = ("path", "paths")
_CREATE_TABLE: Final = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?(?:external\s+)?table\s+(?:if\s+not\s+exists\s+)?([\w.`]+)",
    re.IGNORECASE,
)


class _Given:
    """What a script has told one reader or writer."""

    def __init__(self) -> None:
        self.format: str | None = None
        self.name: str | None = None
        self.options: dict[str, str] = {}

    def add(self, options: Mapping[str, Any]) -> None:
        """Any: text, numbers and bools; None has no effect."""
        for name, value in options.items():
            if value is not None:
                self.options[name.lower()] = str(value)


_given: "WeakKeyDictionary[Any, _Given]" = WeakKeyDictionary()


@contextmanager
def spark_patches() -> Iterator[None]:
    """Replaces them; see `membership`."""
    with ExitStack() as patches:
        for owner, name, inside in _replacements():
            patches.enter_context(diverted(owner, name, inside))
        for name, watch in (("stop", _watch_stop), ("awaitTermination", _watch_wait)):
            patches.enter_context(_watched(name, watch))
        yield


def _replacements() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    from pyspark import SparkContext
    from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.streaming import DataStreamReader, DataStreamWriter
    from pyspark.sql.streaming.query import StreamingQueryManager

    yield SparkSession.Builder, "getOrCreate", _get_or_create
    yield SparkSession, "__init__", _make_session
    yield SparkContext, "__init__", _make_context
    yield SparkSession, "getActiveSession", lambda script, native, cls: script.session
    yield SparkSession, "createDataFrame", _create_frame
    yield SparkSession, "sql", _run_sql
    yield SparkSession, "stop", _stop_session
    yield SparkContext, "stop", _stop_session
    yield SparkContext, "setLogLevel", _set_log_level
    yield RuntimeConfig, "set", _set_conf
    yield StreamingQueryManager, "addListener", _add_listener
    yield StreamingQueryManager, "awaitAnyTermination", _await_any
    yield StreamingQueryManager, "resetTerminated", lambda script, native, manager: script.reset()
    for owner in (DataFrameReader, DataStreamReader, DataFrameWriter, DataStreamWriter):
        yield owner, "format", _note_format
        yield owner, "option", _note_option
        yield owner, "options", _note_options
    for name in ("load", *_FORMATS):
        yield DataFrameReader, name, _reading(name, streaming=False)
        yield DataStreamReader, name, _reading(name, streaming=True)
    for name in ("save", "saveAsTable", *_FORMATS):
        yield DataFrameWriter, name, _writing(name)
    yield DataStreamWriter, "queryName", _note_name
    yield DataStreamWriter, "foreachBatch", _foreach_batch
    yield DataStreamWriter, "start", _start
    yield DataStreamWriter, "toTable", _start


# -- the session


def _get_or_create(script: "ScriptInside", _native: Native, builder: Any) -> Any:
    return script.get_session(builder._options)


def _make_session(
    script: "ScriptInside",
    native: Native,
    session: Any,
    sparkContext: Any,
    jsparkSession: Any = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """`SparkSession(sc)`, as jobs for Spark 1 and 2 have it, is the script's session too."""
    if jsparkSession is None:
        jsparkSession = script.get_session(options)._jsparkSession
    native(session, sparkContext, jsparkSession, dict(options))


def _make_context(
    script: "ScriptInside", native: Native, context: Any, *args: Any, **kw: Any
) -> None:
    """A second handle on the only one that a JVM can have."""
    running = type(context)._active_spark_context
    if running is None:
        native(context, *args, **kw)
        return
    context.__dict__ = running.__dict__
    script.redirections.note("SparkContext", "a new one", "that of the test's Spark")


def _add_listener(script: "ScriptInside", native: Native, manager: Any, listener: Any) -> None:
    native(manager, listener)
    script.on_listener(manager, listener)


def _create_frame(
    _script: "ScriptInside", native: Native, session: Any, *args: Any, **kw: Any
) -> Any:
    """Without making the session the active one of the whole process, as PySpark does."""
    owner: Any = type(session)
    active = owner._activeSession
    try:
        return native(session, *args, **kw)
    finally:
        owner._activeSession = active


def _run_sql(
    script: "ScriptInside", native: Native, session: Any, sqlQuery: str, *args: Any, **kw: Any
) -> Any:
    if (creates := _CREATE_TABLE.match(sqlQuery)) is not None:
        script.on_table(creates[1], session)
    return native(session, sqlQuery, *args, **kw)


def _stop_session(script: "ScriptInside", _native: Native, _session: Any) -> None:
    script.stop_queries()


def _set_log_level(script: "ScriptInside", _native: Native, _context: Any, level: str) -> None:
    script.redirections.note("log level", level, "ignored: it is the JVM's")


def _set_conf(script: "ScriptInside", native: Native, conf: Any, key: str, value: Any) -> None:
    script.remember_conf(key)
    if key == DEFAULT_CHECKPOINTS:
        value = script.redirections.checkpoint(str(value), key)
    native(conf, key, value)


# -- readers and writers


def _given_to(target: Any) -> _Given:
    return _given.setdefault(target, _Given())


def _note_format(_script: "ScriptInside", native: Native, target: Any, source: str) -> Any:
    _given_to(target).format = str(source).lower()
    return native(target, source)


def _note_option(_script: "ScriptInside", native: Native, target: Any, key: str, value: Any) -> Any:
    _given_to(target).add({key: value})
    return native(target, key, value)


def _note_options(_script: "ScriptInside", native: Native, target: Any, **options: Any) -> Any:
    _given_to(target).add(options)
    return native(target, **options)


def _note_name(_script: "ScriptInside", native: Native, writer: Any, queryName: str) -> Any:
    _given_to(writer).name = queryName
    return native(writer, queryName)


def _reading(name: str, *, streaming: bool) -> Callable[..., Any]:
    def inside(script: "ScriptInside", native: Native, *args: Any, **kwargs: Any) -> Any:
        call = _Call(name, native, args, kwargs)
        changes = script.redirections.source(
            call.given.format, call.given.options, streaming=streaming
        )
        call.lead_paths(script.redirections.read)
        return call.make(changes)

    return inside


def _writing(name: str) -> Callable[..., Any]:
    def inside(script: "ScriptInside", native: Native, *args: Any, **kwargs: Any) -> Any:
        call = _Call(name, native, args, kwargs)
        changes = script.redirections.sink(call.given.format, call.given.options)
        call.lead_paths(script.redirections.written)
        if name == "saveAsTable":
            script.on_table(call.arguments["name"], call.session)
        return call.make(changes)

    return inside


def _start(script: "ScriptInside", native: Native, *args: Any, **kwargs: Any) -> Any:
    call = _Call(native.__name__, native, args, kwargs)
    given = call.given
    given.name = call.arguments.get("queryName") or given.name
    changes = script.redirections.sink(given.format, given.options)
    sink = call.sink()
    call.lead_paths(script.redirections.written)
    checkpoint = changes.get("checkpointLocation")
    script.require_start(checkpoint)
    if given.name is not None:
        name = script.redirections.query_name(given.format, given.name)
        call.rename(name)
    if call.arguments.get("tableName"):
        script.on_table(call.arguments["tableName"], call.session)
    query = call.make(changes)
    script.on_started(
        query, name=given.name, sink=sink, checkpoint=checkpoint, session=call.session
    )
    return query


class _Call:
    """A method that reads, writes or starts, with its arguments."""

    def __init__(
        self, name: str, native: Native, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._native = native
        self._bound = inspect.signature(native).bind(*args, **kwargs)
        self._target = args[0]
        self.arguments = self._bound.arguments
        self.given = _given_to(self._target)
        if name in _FORMATS:
            self.given.format = name
        if self.arguments.get("format"):
            self.given.format = str(self.arguments["format"]).lower()
        self.given.add(self.arguments.get("options") or {})

    @property
    def session(self) -> Any:
        """That of a writer. Any: as PySpark keeps it."""
        return self._target._spark

    def sink(self) -> str:
        """What a query writes to, in the words of the script."""
        named = (
            self.arguments.get("tableName"),
            self.arguments.get("path"),
            self.given.options.get("topic"),
            self.given.options.get("path"),
            self.given.format,
        )
        return next((str(each) for each in named if each), "a query")

    def lead_paths(self, lead: Callable[[str], str]) -> None:
        """Any path among the arguments; other data than text, such as an RDD, stays."""
        if not is_file(self.given.format):
            return
        for name in _PATHS:
            value = self.arguments.get(name)
            if isinstance(value, str):
                self.arguments[name] = lead(value)
            elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                self.arguments[name] = type(value)(map(lead, value))

    def rename(self, name: str) -> None:
        if self.arguments.get("queryName"):
            self.arguments["queryName"] = name
        else:
            with acting_for(None):
                self._target.queryName(name)

    def make(self, changes: Mapping[str, str]) -> Any:
        with acting_for(None):
            for option in [*(self.arguments.get("options") or {})]:
                if option.lower() in {name.lower() for name in changes}:
                    del self.arguments["options"][option]
            self._target.options(**changes)
            return self._native(*self._bound.args, **self._bound.kwargs)


def _foreach_batch(script: "ScriptInside", native: Native, writer: Any, func: Any) -> Any:
    def for_script(*batch: Any) -> Any:
        with acting_for(script):
            return func(*batch)

    _given_to(writer).format = "foreachBatch"
    return native(writer, for_script)


# -- waits


def _await_any(
    script: "ScriptInside", _native: Native, _manager: Any, timeout: float | None = None
) -> bool | None:
    has_ended = script.await_end(script.remembered_queries, timeout)
    return None if timeout is None else has_ended


@contextmanager
def _watched(name: str, watch: Callable[..., Any]) -> Iterator[None]:
    """Replaces a method of queries for scripts, and for tests that use the queries of scripts."""
    from pyspark.sql.streaming.query import StreamingQuery

    native = vars(StreamingQuery)[name]

    def watched(query: Any, *args: Any, **kwargs: Any) -> Any:
        return watch(native, query, *args, **kwargs)

    with replaced(StreamingQuery, name, watched):
        yield


def _watch_stop(native: Native, query: Any) -> None:
    if current_script() is None:
        for script in running_scripts():
            script.on_stopped_by_test(query)
    native(query)


def _watch_wait(native: Native, query: Any, timeout: float | None = None) -> bool | None:
    script = current_script()
    if script is not None:
        has_ended = script.await_end(lambda: [query], timeout)
        return None if timeout is None else has_ended
    try:
        result: bool | None = native(query, timeout)
    except Exception:
        for each in running_scripts():
            each.on_failure_told(query)
        raise
    return result
