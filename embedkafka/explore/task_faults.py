"""`TaskFaults`: a task fails once, after the author's function has written rows in it.

`foreachPartition` and `foreach` run in Python workers, which are other processes. A file says that
the next task is to fail: it is the one that removes the file. Spark then runs the task or the whole
batch again, as the session's `local[N, maxFailures]` says.

Owner: the thread that explores.
Invariants: methods of PySpark are replaced only in a `watched` block.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any, Final

Function = Callable[[Any], Any]
"""Any: rows of any kind, and whatever the author's function returns."""

_FLAG: Final = ".task-fails"


class TaskFaults:
    """The tasks of one run that write by the author's functions."""

    def __init__(self, directory: str) -> None:
        self.count = 0
        """How many of the author's functions have been given to tasks."""
        self._flag = Path(directory, _FLAG)

    @contextmanager
    def failing(self) -> Iterator[Callable[[], bool]]:
        """The next task that has written fails; gives a function that says whether one did."""
        self._flag.touch()
        try:
            yield lambda: not self._flag.exists()
        finally:
            self._flag.unlink(missing_ok=True)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Wraps what is given to `foreachPartition` and `foreach`, on whichever thread."""
        from pyspark import RDD
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        methods: list[tuple[Any, str, Callable[[Any, str], Any]]] = [
            (RDD, "foreachPartition", wrap_partition),
            (RDD, "foreach", wrap_row),
            (DataStreamWriter, "foreach", _wrap_writer),
        ]
        originals = [(class_, name, getattr(class_, name)) for class_, name, _ in methods]
        for class_, name, wrap in methods:
            setattr(class_, name, self._wrapping(getattr(class_, name), wrap))
        try:
            yield
        finally:
            for class_, name, original in originals:
                setattr(class_, name, original)

    def _wrapping(
        self, original: Callable[[Any, Any], Any], wrap: Callable[[Any, str], Any]
    ) -> Callable[[Any, Any], Any]:
        @wraps(original)
        def method(target: Any, f: Any) -> Any:
            self.count += 1
            return original(target, wrap(f, str(self._flag)))

        return method


def wrap_partition(function: Function, flag: str) -> Function:
    """The function, failing behind the rows of the first partition that has some."""

    def write(rows: Iterable[Any]) -> Any:
        import os

        seen = []

        def passed() -> Iterator[Any]:
            for row in rows:
                seen.append(True)
                yield row

        result = function(passed())
        if seen:
            try:
                os.unlink(flag)
            except FileNotFoundError:
                return result
            raise RuntimeError("explore: the task fails after it has written its partition")
        return result

    return write


def wrap_row(function: Function, flag: str) -> Function:
    """The function, failing behind the first row."""

    def write(row: Any) -> Any:
        import os

        result = function(row)
        try:
            os.unlink(flag)
        except FileNotFoundError:
            return result
        raise RuntimeError("explore: the task fails after it has written a row")

    return write


def _wrap_writer(writer: Any, flag: str) -> Any:
    """A function, or an object with the method `process`, as `DataStreamWriter.foreach` takes."""
    if callable(writer):
        return wrap_row(writer, flag)
    wrapped = copy(writer)
    wrapped.process = wrap_row(writer.process, flag)
    return wrapped
