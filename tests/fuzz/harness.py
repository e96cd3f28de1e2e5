"""Feeds inputs to a target and reports the one that failed, hung, or made the process grow."""

import _thread
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Protocol, Self

HANG_S = 30.0
GROWTH_BYTES = 400 * 1024 * 1024
_LOOK_EVERY: Final = 500


class Target(Protocol):
    """Code that must withstand hostile input."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def next_input(self) -> Any:
        """Makes an input for `feed`, which `describe` can print."""
        ...

    def feed(self, data: Any) -> None:
        """Feeds the input; raises if the target mishandles it."""
        ...

    def check(self) -> None:
        """Checks the state behind all inputs; called now and then and at the end."""
        ...

    def describe(self, data: Any) -> str: ...


class Failed(AssertionError):
    """The target mishandled an input; the message has everything needed to repeat it."""


class Grown(Exception):
    """The process uses more memory than the inputs explain."""


def run(
    make: Callable[[Random], Target],
    *,
    inputs: int,
    seed: int,
    say: Callable[[str], None] | None = print,
) -> float:
    """Feeds `inputs` inputs and returns the rate per second. A seed repeats its inputs."""
    say = say or (lambda line: None)
    rng = Random(seed)
    with make(rng) as target, Watchdog(target) as watchdog:
        say(f"{target.name}: {inputs} inputs, seed {seed}")
        begun = said = time.monotonic()
        before = _resident_bytes()
        for number in range(inputs):
            data = target.next_input()
            watchdog.begin(number, data)
            try:
                target.feed(data)
                if number % _LOOK_EVERY == _LOOK_EVERY - 1:
                    target.check()
                    _check_growth(before)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and not watchdog.has_barked:
                    raise
                raise Failed(_report(target, data, number=number, seed=seed)) from error
            now = time.monotonic()
            if now - said >= 10:
                said = now
                say(f"{target.name}: {number + 1} inputs, {(number + 1) / (now - begun):.0f}/s")
        watchdog.end()
        target.check()
        rate = inputs / (time.monotonic() - begun)
    say(f"{target.name}: {inputs} inputs taken, {rate:.0f}/s, seed {seed}")
    return rate


def _report(target: Target, data: Any, *, number: int, seed: int) -> str:
    return f"{target.name}: input {number} of seed {seed} failed: {target.describe(data)}"


def _check_growth(before: int) -> None:
    grown = _resident_bytes() - before
    if grown > GROWTH_BYTES:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        raise Grown(f"memory grew by {grown >> 20} MiB; its peak was {peak >> 10} MiB")


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Watchdog:
    """Interrupts the main thread when one input takes `HANG_S`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._current: tuple[int, Any, float] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fuzz-watchdog", daemon=True)
        self.has_barked = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self, number: int, data: Any) -> None:
        self._current = (number, data, time.monotonic())

    def end(self) -> None:
        self._current = None

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, HANG_S)):
            current = self._current
            if current is None or time.monotonic() - current[2] < HANG_S:
                continue
            number, data, _ = current
            print(f"input {number} hangs: {self._target.describe(data)}", file=sys.stderr)
            self.has_barked = True
            _thread.interrupt_main()
            return
