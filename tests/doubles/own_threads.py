"""Our threads that a test has started: clusters of other tests may run in the same process."""

import threading


class OwnThreads:
    """Those that have started since this was made, and have not ended."""

    def __init__(self) -> None:
        self._others = frozenset(threading.enumerate())

    def alive(self, prefix: str = "ek-") -> list[threading.Thread]:
        """The threads whose names begin with `prefix`."""
        return [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith(prefix) and thread not in self._others
        ]

    def names(self, prefix: str = "ek-") -> list[str]:
        return sorted(thread.name for thread in self.alive(prefix))

    def await_ends(self, prefix: str = "ek-", *, besides: threading.Thread | None = None) -> None:
        """Waits for the threads, each for up to a minute."""
        for thread in self.alive(prefix):
            if thread is not besides:
                thread.join(60)
