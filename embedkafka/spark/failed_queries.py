"""Queries and scripts that fail while a test waits for the records that they should write.

A wait on a topic would sit out its timeout. Instead it looks now and then at the queries of this
process: those that a `QueryLog` has noted, which also knows the ones that failed before the wait,
or else those that run in the active session. And at the scripts that `run_script` runs.

Owner: the waiting thread.
Invariants: a look never raises and starts nothing; a query that cannot be read is not judged.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import QueryFailed
from embedkafka.spark.execution import find_execution
from embedkafka.spark.query_log import recorded_queries
from embedkafka.spark.report import clean_exception

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from embedkafka.spark.scripts.running import RunningScript

_SCRIPTS: Final = "embedkafka.spark.scripts.running"
_BETWEEN_LOOKS_MS: Final = 500
_SHOWN_LINES: Final = 15


@dataclass(slots=True, kw_only=True)
class SeenQuery:
    """A query, as far as a wait has seen it."""

    name: str
    writes: bool | None
    """Whether it writes to the topic; None if it does not tell."""
    is_active: bool = True
    was_active: bool = False
    """Whether it has been running during the wait."""
    failure: Exception | None = None
    query: "StreamingQuery | None" = None

    def error(self, wanted: str) -> QueryFailed:
        """The end of a wait for `wanted`; the query has failed."""
        assert self.failure is not None
        if (scripts := sys.modules.get(_SCRIPTS)) is not None and self.query is not None:
            scripts.on_failure_told(self.query)
        said = f"waited for {wanted}\nwhich will not come: {self.describe_failure()}"
        return QueryFailed(said, self.failure)

    def describe_failure(self) -> str:
        """What Spark says, without its plan."""
        lines = clean_exception(str(self.failure)).splitlines() or [type(self.failure).__name__]
        said = [f"the query {self.name} has failed: {lines[0]}", *lines[1:_SHOWN_LINES]]
        return "\n  ".join(said)


class FailedScript:
    """A script that has failed, and the test has not been told."""

    is_active, writes, was_active = False, None, True

    def __init__(self, script: "RunningScript", failure: BaseException) -> None:
        self._script = script
        self.failure = failure

    def error(self, wanted: str) -> QueryFailed:
        """The end of a wait for `wanted`; the script's own error, with its lines, is the cause."""
        said = f"waited for {wanted}\nwhich will not come: {self.describe_failure()}"
        error = QueryFailed(said, self.failure)
        error.__cause__ = self._script.tell_failure()
        return error

    def describe_failure(self) -> str:
        said = f"{type(self.failure).__name__}: {clean_exception(str(self.failure))}".strip(": ")
        lines = f"the script {self._script.name} has failed: {said}".splitlines()
        return "\n  ".join(lines[:_SHOWN_LINES])


class QueryWatch:
    """Looks for the failure of the query that should write to a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._queries: dict[str, StreamingQuery] = {}
        self._seen: dict[str, SeenQuery] = {}
        self._next_look_ms = 0.0

    def find_failed(self) -> SeenQuery | FailedScript | None:
        """The query or script whose failure makes the wait vain; looks at most twice a second."""
        now_ms = REAL_TIME.monotonic_ms()
        if now_ms < self._next_look_ms:
            return None
        self._next_look_ms = now_ms + _BETWEEN_LOOKS_MS
        for query in [*_known_queries(), *self._queries.values()]:
            with suppress(Exception):  # of py4j or gRPC: the session may end at any moment
                self._look_at(query)
        return find_culprit([*self._seen.values(), *_failed_scripts()])

    def describe_failures(self) -> str:
        """All failed queries, for the text of a timeout: one of them may be further upstream."""
        self._next_look_ms = 0
        self.find_failed()
        known: list[SeenQuery | FailedScript] = [*self._seen.values(), *_failed_scripts()]
        return "\n".join(each.describe_failure() for each in known if each.failure)

    def _look_at(self, query: "StreamingQuery") -> None:
        run = str(query.runId)
        seen = self._seen.get(run)
        if seen is None:
            name = query.name or str(query.id)
            seen = SeenQuery(name=name, writes=self._writes(query), query=query)
            self._seen[run] = seen
        if not seen.is_active:
            return  # it has ended for good
        if query.isActive:
            seen.was_active = True
            self._queries[run] = query  # Spark forgets it when it ends
        else:
            seen.failure = query.exception()
            seen.is_active = False
            self._queries.pop(run, None)

    def _writes(self, query: "StreamingQuery") -> bool | None:
        with suppress(Exception):  # a release of Spark that keeps its sink elsewhere
            execution = find_execution(query)
            return None if execution is None else execution.writes_to(self._topic)
        return None


def find_culprit(seen: Iterable[SeenQuery | FailedScript]) -> SeenQuery | FailedScript | None:
    """The failed query or script to blame; None as long as a running one may write the records.

    A query that does not tell where it writes, such as one with `foreachBatch`, is blamed only if
    it failed during the wait: a test may have expected an earlier failure.
    """
    queries = list(seen)
    if any(each.is_active and each.writes is not False for each in queries):
        return None
    failed = [each for each in queries if each.failure is not None]
    for each in failed:
        if each.writes or (each.writes is None and each.was_active):
            return each
    return None


def _failed_scripts() -> list[FailedScript]:
    scripts: Any = sys.modules.get(_SCRIPTS)  # its module, if there have been any
    untold = () if scripts is None else scripts.untold_failures()
    return [FailedScript(script, failure) for script, failure in untold]


def _known_queries() -> "Iterator[StreamingQuery]":
    recorded = recorded_queries()
    if recorded is not None:
        yield from recorded
        return
    with suppress(Exception):  # no session, or one that ends
        from pyspark.sql import SparkSession

        session: Any = SparkSession.getActiveSession()
        if session is not None:
            yield from session.streams.active
