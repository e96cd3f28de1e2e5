"""Which script the running code belongs to, and replacements that only scripts see.

A script's code runs on its own thread, on the threads that it starts, and on those of py4j on which
Spark calls its `foreachBatch`. A replaced function looks there first: outside of scripts it is the
original one.

Owner: `_lock`, which only the threads of tests take; it guards which scripts run, and with it
whether anything is replaced.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.locks import outermost_lock

if TYPE_CHECKING:
    from embedkafka.spark.scripts.inside import ScriptInside

_here: Final = threading.local()
_lock: Final = outermost_lock()
_running: "list[ScriptInside]" = []
_replaced: "list[ExitStack]" = []


def current_script() -> "ScriptInside | None":
    """The script whose code calls this; None if it is another's."""
    script: ScriptInside | None = getattr(_here, "script", None)
    return script if script in _running else None


@contextmanager
def acting_for(script: "ScriptInside | None") -> Iterator[None]:
    """What this thread does in the `with` block belongs to the script, or with None to none."""
    before = getattr(_here, "script", None)
    _here.script = script
    try:
        yield
    finally:
        _here.script = before


def running_scripts() -> "tuple[ScriptInside, ...]":
    return tuple(_running)


def join(script: "ScriptInside", replacements: Callable[[], AbstractContextManager[None]]) -> None:
    """Makes the script one of those that run; the first of them replaces what they see."""
    with _lock:
        if not _replaced:
            stack = ExitStack()
            stack.enter_context(replacements())
            _replaced.append(stack)
        _running.append(script)


def leave(script: "ScriptInside") -> None:
    """The opposite; with the last script the replacements go."""
    with _lock:
        if script in _running:
            _running.remove(script)
        if not _running and _replaced:
            _replaced.pop().close()


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Any: a class or module of another package, and something of it."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        if vars(owner).get(name) is value:  # else it was replaced once more
            setattr(owner, name, before)


def diverting(original: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `inside` for scripts, which gets the script and the original one first."""

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        script = current_script()
        if script is None:
            return original(*args, **kwargs)
        return inside(script, original, *args, **kwargs)

    return wrapper


@contextmanager
def diverted(owner: Any, name: str, inside: Callable[..., Any]) -> Iterator[None]:
    """Scripts that call `name` call `inside(script, original, ...)`. Any: see `replaced`.

    A name that this release of the package does not have is left out.
    """
    before = vars(owner).get(name)
    if before is None:
        yield
        return
    original: Any = before.__func__ if isinstance(before, classmethod) else before
    wrapper = diverting(original, inside)
    value = classmethod(wrapper) if isinstance(before, classmethod) else wrapper
    with replaced(owner, name, value):
        yield
