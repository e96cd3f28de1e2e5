"""The queries that this process has started, also those that have ended.

Spark forgets a query when it ends. A failed test wants to know why, and a test that leaves one
running should hear of it.

Owner: pytest's thread; other threads may start queries, which a list takes in one step.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class QueryLog:
    """Remembers the queries that PySpark makes while it is recording."""

    def __init__(self) -> None:
        self._queries: list[StreamingQuery] = []
        self._mark = 0

    @contextmanager
    def recording(self) -> Iterator[Self]:
        """Notes each query that Python code starts, in any session of this process."""
        with ExitStack() as patches:
            for class_ in _query_classes():
                patches.enter_context(self._noting(class_))
            _recording.append(self)
            patches.callback(_recording.remove, self)
            yield self

    @contextmanager
    def _noting(self, class_: Any) -> Iterator[None]:
        """Any: no event tells of a query, so a method of PySpark is replaced."""
        make = class_.__init__

        def make_and_note(query: "StreamingQuery", *arguments: Any, **named: Any) -> None:
            make(query, *arguments, **named)
            self._queries.append(query)

        class_.__init__ = make_and_note
        try:
            yield
        finally:
            class_.__init__ = make

    def mark(self) -> None:
        """From now on queries are `since_mark`."""
        self._mark = len(self._queries)

    def since_mark(self) -> "list[StreamingQuery]":
        """The queries that were started after the mark."""
        before = {query.runId for query in self._queries[: self._mark]}
        since = _distinct(self._queries[self._mark :])
        return [query for query in since if query.runId not in before]

    def all(self) -> "list[StreamingQuery]":
        """The queries that have not been forgotten."""
        return _distinct(self._queries)

    def forget_ended(self) -> None:
        """Keeps only the queries that run."""
        self._queries = [query for query in self.all() if query.isActive]
        self.mark()


def recorded_queries() -> "list[StreamingQuery] | None":
    """The queries that a log has noted and not forgotten; None if none records at the moment."""
    return _recording[-1].all() if _recording else None


_recording: list[QueryLog] = []


def _query_classes() -> list[Any]:
    """PySpark's class of queries, and that of Spark Connect if there is such a session."""
    from pyspark.sql.streaming.query import StreamingQuery

    if "pyspark.sql.connect.session" not in sys.modules:
        return [StreamingQuery]
    from pyspark.sql.connect.streaming.query import StreamingQuery as RemoteQuery

    return [StreamingQuery, RemoteQuery]


def _distinct(queries: "list[StreamingQuery]") -> "list[StreamingQuery]":
    """Each run once: `spark.streams.active` makes other objects for the same ones."""
    distinct: dict[str, StreamingQuery] = {}
    for query in queries:
        distinct.setdefault(query.runId, query)
    return list(distinct.values())
