"""The command that `embedkafka up` runs: signals on their way to it, and what it leaves behind.

Owner: the main thread, the only one that may change handlers of signals.
"""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Final, NoReturn

from embedkafka.cli.endings import STDIN

_FORWARDED_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

#: A shell's exit codes for a command that it cannot run, and for one that it cannot find.
_NOT_EXECUTABLE: Final = 126

_NOT_FOUND: Final = 127


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into an orderly exit, as Python does with SIGINT."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the command, forwards signals to it, and returns its exit code.

    Without a terminal, as in CI, the command and all that it starts are a process group. The group
    gets the signals, and none of it outlives `up`, however that ends. On a terminal the group is
    ours, as for any shell command, so that a debugger can read from it.

    A signal that arrives while the command starts is kept for it.
    """
    group = hasattr(os, "killpg") and not os.isatty(STDIN)
    child: subprocess.Popen[bytes] | None = None
    arrived: deque[int] = deque()
    forwarded: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if child is not None and number == signal.SIGINT and _terminal_interrupts_both():
            return
        arrived.append(number)
        forward()

    def forward() -> None:
        """Sends the command what has arrived, once it runs."""
        while child is not None and arrived:
            with suppress(IndexError):  # the handler of another signal was quicker
                number = arrived.popleft()
                forwarded.append(number)
                if group:
                    _signal_group(child.pid, number)
                else:
                    child.send_signal(number)

    before = {number: signal.signal(number, on_signal) for number in _FORWARDED_SIGNALS}
    try:
        try:
            child = subprocess.Popen(command, env=environment, process_group=0 if group else None)
        except OSError as error:
            print(f"embedkafka: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        forward()
        with _watched(child.pid) if group else nullcontext():
            code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child is not None and group and forwarded:
            _signal_group(child.pid, signal.SIGKILL)  # what did not end with the command
    return code if code >= 0 else 128 - code


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(group, number)


@contextmanager
def _watched(group: int) -> Iterator[None]:
    """Kills the group if this process ends first, even by SIGKILL.

    A shell waits for the end of a pipe that only this process holds open.
    """
    reader, writer = os.pipe()
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r line; kill -KILL -{group}"],
        stdin=reader,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reader)
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()
        os.close(writer)


def _terminal_interrupts_both() -> bool:
    """Whether Ctrl-C reaches the command too, because it is in our foreground process group."""
    with suppress(OSError):
        return os.tcgetpgrp(STDIN) == os.getpgrp()
    return False
