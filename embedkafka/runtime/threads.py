"""Starts and ends a cluster's daemon threads, and reports those that fail or do not end.

Owner: `_busy` only grows.
"""

import sys
import threading
import traceback
import weakref
from collections.abc import Callable

from embedkafka.runtime.failures import Failures

PATIENCE_S = 10.0
"""How long, in real time, a thread may take to end."""

_busy: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
"""Threads that did not end in time: reported once, and never waited for again."""


class ThreadBusy(Exception):
    """A thread did not end in time; the message shows its stack."""


def start_thread(name: str, target: Callable[[], None], failures: Failures) -> threading.Thread:
    """Runs `target` on a daemon thread; `failures` records any exception that escapes.

    `name` is `ek-b<broker>-<owner>`. The caller that starts a thread also joins it.
    """

    def run() -> None:
        try:
            target()
        except BaseException as error:  # the thread's outermost frame: recorded, never swallowed
            failures.record(f"thread {name}", error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def end_thread(
    thread: threading.Thread, failures: Failures, *, patience_s: float | None = None
) -> bool:
    """Waits for a stopping thread, unless it is the caller's; returns whether it ended.

    A thread that does not end is recorded with its stack and left behind: it must not keep its
    cluster from freeing ports, files and other threads.
    """
    if thread is threading.current_thread():
        return True
    return await_thread(thread, lambda seconds: _joined(thread, seconds), failures, patience_s)


def await_thread(
    thread: threading.Thread,
    wait: Callable[[float], bool],
    failures: Failures,
    patience_s: float | None = None,
) -> bool:
    """Waits for an event that `thread` will set soon; reports like `end_thread` if it does not."""
    known = thread in _busy
    seconds = PATIENCE_S if patience_s is None else patience_s
    if wait(0.0 if known else seconds):
        return True
    if not known:
        _busy.add(thread)
        failures.record(f"thread {thread.name}", ThreadBusy(_whereabouts(thread, seconds)))
    return False


def _joined(thread: threading.Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()


def _whereabouts(thread: threading.Thread, seconds: float) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame else "  (it has just ended)\n"
    return f"{thread.name} did not end within {seconds:g} s and is still at\n{stack}"


def run_whole(name: str, run: Callable[[], None], *, hurry: Callable[[], None]) -> None:
    """Runs `run` to its end, even if Ctrl-C or a signal handler interrupts the caller.

    Signals interrupt only the main thread, so another thread does the work. An interruption of the
    wait calls `hurry` at once and is raised when the work is done. A second one ends the wait.
    """
    if threading.current_thread() is not threading.main_thread():
        run()
        return
    work = _Work(run)
    thread = threading.Thread(target=work.run, name=name, daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException as error:
        if work.is_cancelled():
            if not isinstance(error, RuntimeError):
                raise
            run()  # the interpreter is shutting down and starts no more threads
            return
        hurry()
        work.done.wait()
        thread.join()
        raise
    if work.failure is not None:
        raise work.failure


class _Work:
    """Work that runs once, unless it is cancelled before it starts."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self._run = run
        self._turn = threading.Lock()  # `run` or `is_cancelled` takes it and keeps it

    def run(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._run()
        except BaseException as error:  # the waiting thread raises it
            self.failure = error
        finally:
            self.done.set()

    def is_cancelled(self) -> bool:
        """Keeps the work from starting; False if it has already started."""
        return self._turn.acquire(blocking=False)
