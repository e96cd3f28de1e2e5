"""The queries that this process has started, also those that have ended.

Spark forgets a query when it ends. A failed test wants to know why, and a test that leaves one
running should hear of it.

Owner: pytest's thread; other threads may start queries, which a list takes in one step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
        from pyspark.sql.streaming.query import StreamingQuery

        queries: Any = StreamingQuery  # Any: no event tells of a query, so we replace a method
        make = queries.__init__

        def make_and_note(query: StreamingQuery, *arguments: object) -> None:
            make(query, *arguments)
            self._queries.append(query)

        queries.__init__ = make_and_note
        try:
            yield self
        finally:
            queries.__init__ = make

    def mark(self) -> None:
        """From now on queries are `since_mark`."""
        self._mark = len(self._queries)

    def since_mark(self) -> "list[StreamingQuery]":
        """The queries that were started after the mark."""
        return _distinct(self._queries[self._mark :])

    def all(self) -> "list[StreamingQuery]":
        """The queries that have not been forgotten."""
        return _distinct(self._queries)

    def forget_ended(self) -> None:
        """Keeps only the queries that run."""
        self._queries = [query for query in self.all() if query.isActive]
        self.mark()


def _distinct(queries: "list[StreamingQuery]") -> "list[StreamingQuery]":
    """Each run once: `spark.streams.active` makes other objects for the same ones."""
    return list({query.runId: query for query in reversed(queries)}.values())[::-1]
