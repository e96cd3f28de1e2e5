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
