"""One thread that handles one event at a time: the owner of a decision core's state.

Owner: the loop's thread owns all state its handler touches; `_condition` guards only the queue.
Invariants: events are handled in posting order; the loop records a failing event and continues
with the next.
Not here: timers; `purgatory.timer` posts to a loop when time is up.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread

_PATIENCE_S: Final = 2.0

E = TypeVar("E")
R = TypeVar("R")


def ask(post: Callable[[Callable[[], None]], bool], read: Callable[[], R]) -> R | None:
    """What `read` finds on the loop; None if the loop has stopped or is busy for long."""
    found: SimpleQueue[R] = SimpleQueue()
    if not post(lambda: found.put(read())):
        return None
    try:
        return found.get(timeout=_PATIENCE_S)
    except Empty:
        return None


class EventLoop(Generic[E]):
    """Handles posted events on its thread, named `name`."""

    def __init__(self, name: str, handle: Callable[[E], None], failures: Failures) -> None:
        self.name = name
        self._handle = handle
        self._failures = failures
        self._condition = threading.Condition(threading.Lock())
        self._events: deque[E] = deque()
        self._open = True
        self._waiting = False
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> int:
        """How many events wait."""
        return len(self._events)

    def start(self) -> None:
        self._thread = start_thread(self.name, self._run, self._failures)

    def post(self, event: E) -> bool:
        """Queues `event`; False when the loop has stopped and will not handle it."""
        with self._condition:
            if not self._open:
                return False
            self._events.append(event)
            if self._waiting:
                self._condition.notify()
            return True

    @property
    def inside(self) -> bool:
        """Whether the caller runs on this loop's thread."""
        return threading.current_thread() is self._thread

    def assert_inside(self) -> None:
        assert self.inside, (
            f"{threading.current_thread().name} touched state owned by {self.name}; post an event"
        )

    def stop(self, *, drain: bool = True) -> None:
        """Takes no more events and joins the thread, after the queued events unless not `drain`."""
        with self._condition:
            self._open = False
            if not drain:
                self._events.clear()
            self._condition.notify()
        if self._thread is not None:
            end_thread(self._thread, self._failures)

    def _run(self) -> None:
        self._thread = threading.current_thread()  # an event may come before `start` has noted it
        while True:
            with self._condition:
                while not self._events:
                    if not self._open:
                        return
                    self._waiting = True
                    self._condition.wait()
                    self._waiting = False
                event = self._events.popleft()
            try:
                self._handle(event)
            except Exception as error:  # one bad event must not end the loop; it is recorded
                self._failures.record(f"{self.name} handling {event!r}", error)
