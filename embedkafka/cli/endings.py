"""How `serve` and `broker` wait for their end, and what happens if it does not come.

Owner: the main thread, the only one that may change handlers of signals.
Not here: the signals that `up` passes on (`child_process`).
"""

import faulthandler
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

STDIN: Final = 0
_STDERR: Final = 2
_LONGEST_END_S: Final = 120
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def await_end(signals: int, *, stay: bool) -> None:
    """Returns on a signal or when stdin closes; ignores what arrives on stdin."""
    if stay:
        select.select([signals], [], [])
        return
    # Without a stdin, descriptor 0 is something else by now, perhaps our pipe.
    while sys.stdin is not None:
        ready, _, _ = select.select([signals, STDIN], [], [])
        if signals in ready:
            return
        if not os.read(STDIN, 65_536):
            break
    print("embedkafka: stdin closed, ending (--stay keeps running)", file=sys.stderr)


def end_in_any_case() -> None:
    """Exits with code 1 and all stacks if the cluster has not ended in two minutes.

    A cluster gives up on its own threads after seconds; this covers everything else.
    """
    faulthandler.dump_traceback_later(_LONGEST_END_S, exit=True, file=_STDERR)


@contextmanager
def signals_in_a_pipe() -> Iterator[int]:
    """A descriptor that becomes readable on the first signal to end; a second signal kills.

    `select` can wait for a pipe and for stdin at once, but not for a Python signal handler.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _die_of_the_next) for number in _ENDING_SIGNALS}
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _die_of_the_next(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
