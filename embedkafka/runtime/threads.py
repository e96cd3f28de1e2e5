"""Starts and ends the threads of a cluster: daemon, named, and never dead or busy in silence.

Owner: `_busy` is only ever added to.
"""

import sys
import threading
import traceback
import weakref
from collections.abc import Callable

from embedkafka.runtime.failures import Failures

PATIENCE_S = 10.0
"""How long a thread may take, in real time, to end what it is doing when it is asked to end."""

_busy: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
"""Threads that did not end in time: they are reported, and waited for, once."""


class ThreadBusy(Exception):
    """A thread went on with what it was doing; the message says where it was."""


def start_thread(name: str, target: Callable[[], None], failures: Failures) -> threading.Thread:
    """Runs `target` on a daemon thread; what escapes it is recorded in `failures`.

    `name` is `ek-b<broker>-<owner>`; whoever starts a thread joins it.
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
    """Waits for a thread that has been asked to end, unless it is the caller's; whether it has.

    One that goes on is recorded, with its stack, and left: it must not keep its cluster from
    freeing ports, files and other threads.
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
    """Waits for something that `thread` is to do soon; as `end_thread` when it does not."""
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
    return f"{thread.name} was to end, and after {seconds:g} s is still at\n{stack}"


def run_whole(name: str, run: Callable[[], None], *, hurry: Callable[[], None]) -> None:
    """Runs `run` to its end, though Ctrl-C or a signal handler breaks the caller off meanwhile.

    Those break off the main thread only, wherever it is; so another thread does the work. What
    interrupts the wait for it is raised after its end, and `hurry` called at once. A second
    interruption is obeyed.
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
            run()  # the interpreter ends, and starts no threads any more
            return
        hurry()
        work.done.wait()
        thread.join()
        raise
    if work.failure is not None:
        raise work.failure


class _Work:
    """Something that is done once, or cancelled before it began."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self._run = run
        self._turn = threading.Lock()  # taken for good by who comes first

    def run(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._run()
        except BaseException as error:  # raised where it is waited for
            self.failure = error
        finally:
            self.done.set()

    def is_cancelled(self) -> bool:
        """Whether it had not begun; now it will not."""
        return self._turn.acquire(blocking=False)
