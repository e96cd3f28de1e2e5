"""`BatchFunctions`: the functions that a job gives to `foreachBatch`, which run in this process.

They are wrapped when the job starts. A run can note their lines and writes, end one before a line
as a dead driver would, or let a write raise. For that the thread of the function is traced, for as
long as the function runs, and so are threads that it starts. `except Exception` does not catch a
driver's death; `finally` and `with` still run.

Owner: the thread that explores says what to do; the thread of a query does it.
Invariants: PySpark's writer is replaced only while a job starts. Once a function has ended, its
thread's tracers are those of before.
Not here: which calls write (`sink_calls`), which place is chosen (`generation`).
"""

import linecache
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from embedkafka.explore.kept_state import KeptState, find_kept, grown
from embedkafka.explore.places import MOST_PASSES, Passed, Place, SinkCall
from embedkafka.explore.schedule import CrashInside, FailWrite
from embedkafka.explore.sink_calls import failure_of, find_write, flushes, sends
from embedkafka.runtime.values import dataclass

BatchFunction = Callable[[Any, int], object]
"""Any: a DataFrame of PySpark, which is not imported here."""

_OURS: Final = str(Path(__file__).parents[1])
_INSTALLED: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class DriverDied(SystemExit):
    """Ends the author's function, past its `except Exception`; Python ends threads silently."""


class DiedInside(Exception):
    """Ends the query whose function was ended."""


@dataclass(slots=True)
class Strike:
    """One fault, in the first function that comes to its place with a batch that has rows."""

    event: CrashInside | FailWrite
    has_hit: bool = False


class BatchFunctions:
    """The functions of a job, and what happens to them."""

    def __init__(self) -> None:
        self._functions: set[BatchFunction] = set()
        self._lines: dict[Place, None] = {}
        self._writes: dict[SinkCall, None] = {}
        self._is_noting = False
        self._strike: Strike | None = None
        self._on_flush: Callable[[], object] | None = None
        self._unflushed: dict[int, Any] = {}  # producers, by their ids; they have no types
        self._is_unflushed = False
        self._kept: dict[int, KeptState] = {}

    @property
    def passed(self) -> Passed:
        """What was noted."""
        functions, lines, writes = len(self._functions), tuple(self._lines), tuple(self._writes)
        return Passed(
            functions=functions, lines=lines, writes=writes, is_unflushed=self._is_unflushed
        )

    @property
    def kept(self) -> list[KeptState]:
        """What the functions keep in this process that has grown since they were noted."""
        return grown(self._kept, find_kept(self._functions, _Authors()))

    def note(self) -> None:
        """Notes lines and writes from now on."""
        self._is_noting = True

    @contextmanager
    def striking(self, event: CrashInside | FailWrite) -> Iterator[Strike]:
        """Lets the next function that comes to the event's place meet it, in the block."""
        self._strike = Strike(event)
        try:
            yield self._strike
        finally:
            self._strike = None

    @contextmanager
    def flushing(self, on_flush: Callable[[], object]) -> Iterator[None]:
        """Calls `on_flush` before a function waits for its producer, in the block."""
        self._on_flush = on_flush
        try:
            yield
        finally:
            self._on_flush = None

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """Wraps what the job gives to `foreachBatch` in the block, on whichever thread."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        writers: Any = DataStreamWriter  # its method is replaced
        original = writers.foreachBatch

        @wraps(original)
        def foreach_batch(writer: Any, func: BatchFunction) -> Any:
            return original(writer, self.wrap(func) if callable(func) else func)

        writers.foreachBatch = foreach_batch
        try:
            yield
        finally:
            writers.foreachBatch = original

    def wrap(self, function: BatchFunction) -> BatchFunction:
        """The function with what happens to it."""
        self._functions.add(function)
        if self._is_noting:
            self._kept |= find_kept([function], _Authors())

        def call(batch: Any, number: int) -> None:
            strike = self._strike
            if strike is not None and not strike.has_hit and not batch.isEmpty():
                _strike(strike, lambda: function(batch, number))
            elif self._on_flush is not None:
                with _tracing(None, _Calls(self._release).profile):
                    function(batch, number)
            elif self._is_noting:
                with _tracing(_Lines(self._note_line).trace, _Calls(self._note_write).profile):
                    function(batch, number)
                self._is_unflushed |= any(map(len, self._unflushed.values()))
                self._unflushed.clear()  # Spark keeps the function for long
            else:
                function(batch, number)

        return call

    def _note_line(self, place: Place) -> None:
        self._lines[place] = None

    def _note_write(self, write: SinkCall, owner: object, *, is_over: bool) -> None:
        self._writes[write] = None
        if sends(write.name):
            self._unflushed[id(owner)] = owner
        elif flushes(write.name):
            self._unflushed.pop(id(owner), None)

    def _release(self, write: SinkCall, owner: object, *, is_over: bool) -> None:
        if not is_over and flushes(write.name) and self._on_flush is not None:
            self._on_flush()


def _strike(strike: Strike, function: Callable[[], object]) -> None:
    if isinstance(strike.event, FailWrite):
        _fail_write(strike, strike.event, function)
    else:
        _die_inside(strike, strike.event, function)


def _die_inside(strike: Strike, event: CrashInside, function: Callable[[], object]) -> None:
    def die(place: Place) -> None:
        if place == event.place:
            strike.has_hit = True
            raise DriverDied

    try:
        with _tracing(_Lines(die).trace, None):
            function()
    except DriverDied:
        pass
    if strike.has_hit:  # also if the function has caught it
        raise DiedInside(str(event))


def _fail_write(strike: Strike, event: FailWrite, function: Callable[[], object]) -> None:
    def fail(write: SinkCall, owner: object, *, is_over: bool) -> None:
        if (write, is_over) == (event.write, event.has_written) and not strike.has_hit:
            strike.has_hit = True
            raise failure_of(owner)

    with _tracing(None, _Calls(fail).profile):
        function()


@contextmanager
def _tracing(trace: Any, profile: Any) -> Iterator[None]:
    """Any: the types of tracers are recursive."""
    before = sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()
    _trace_new_threads(trace or before[2], profile or before[3])
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    try:
        yield
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        _trace_new_threads(before[2], before[3])


def _trace_new_threads(trace: Any, profile: Any) -> None:
    """Any: the functions take None, which their types do not say."""
    threading.settrace(trace)
    threading.setprofile(profile)


class _Authors:
    """Tells the author's code: that of the first function, and of files that are not installed."""

    def __init__(self) -> None:
        self._first = ""

    def __contains__(self, code: object) -> bool:
        assert isinstance(code, CodeType), "authors write code"
        file = code.co_filename
        if file.startswith(_OURS):
            return False
        self._first = self._first or file
        return file == self._first or not file.startswith(("<", *_INSTALLED))


class _Lines:
    """Follows a function line by line."""

    def __init__(self, on_line: Callable[[Place], None]) -> None:
        self._on_line = on_line
        self._authors = _Authors()
        self._turns: Counter[tuple[str, int]] = Counter()

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code not in self._authors:
            return None
        if event == "line":
            is_first = not self._turns  # nothing has happened before it
            if (place := _place(frame, self._turns)) is not None and not is_first:
                self._on_line(place)
        return self.trace


class _Calls:
    """Follows the calls of a function that write, but not those that they make themselves."""

    def __init__(self, on_write: Callable[..., None]) -> None:
        self._on_write = on_write
        self._authors = _Authors()
        self._turns: Counter[tuple[str, int]] = Counter()
        self._threads = threading.local()

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        running: tuple[FrameType, SinkCall, object] | None
        if (running := getattr(self._threads, "running", None)) is not None:
            begun, write, owner = running
            if frame is begun and event in ("return", "c_return", "c_exception"):
                self._threads.running = None
                self._on_write(write, owner, is_over=True)
            return
        if event == "call" and frame.f_code not in self._authors:
            self._begin(frame, frame.f_locals.get("self"), frame.f_code.co_name, frame.f_locals)
        elif event == "c_call":
            self._begin(frame, getattr(arg, "__self__", None), getattr(arg, "__name__", ""), {})

    def _begin(self, frame: FrameType, owner: object, name: str, given: dict[str, Any]) -> None:
        if (found := find_write(owner, name, given)) is None:
            return
        caller: FrameType | None = frame
        while caller is not None and caller.f_code not in self._authors:
            caller = caller.f_back
        if caller is None or (place := _place(caller, self._turns)) is None:
            return
        write = SinkCall(name=found, place=place)
        self._threads.running = (frame, write, owner)
        self._on_write(write, owner, is_over=False)


def _place(frame: FrameType, turns: Counter[tuple[str, int]]) -> Place | None:
    """Where the author's function is; None if it has been there often enough."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    turns[file, line] += 1
    if turns[file, line] > MOST_PASSES:
        return None
    text = linecache.getline(file, line).strip()
    return Place(file=file, line=line, nth=turns[file, line], text=text)
