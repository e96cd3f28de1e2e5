"""Starts the threads of a cluster: daemon, named, and never dead in silence."""

import threading
from collections.abc import Callable

from embedkafka.runtime.failures import Failures


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
