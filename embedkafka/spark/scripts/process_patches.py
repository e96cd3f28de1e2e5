"""What a script sees of the process: itself, its arguments, environment and threads, and sleep.

Other threads see the process as it is, but for the working directory and loggers, which are as they
were when the script has ended. `sys.stdout` and what subprocesses inherit are the process's own.
"""

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from embedkafka.spark.scripts.membership import acting_for, current_script, diverted

if TYPE_CHECKING:
    from embedkafka.spark.scripts.inside import ScriptInside

_LIBRARIES: Final = frozenset({"py4j", "kafka"})
"""Packages whose threads run nothing of a script: py4j's serve every query of the process."""
_WHEN: Final[dict[int, str]] = {
    signal.SIGTERM: "called at the end of the test",
    signal.SIGINT: "called at the end of the test, without one for SIGTERM",
}
_NO: Final = "ignored"
_OF_ANY_OBJECT: Final = frozenset({"__new__", "__getattribute__", "__class_getitem__"})


@contextmanager
def process_patches() -> Iterator[None]:
    """Replaces them; see `membership`."""
    with ExitStack() as patches:
        # Back in any case: a script may put a list in its place.
        patches.callback(setattr, sys, "argv", sys.argv)
        sys.argv = _Arguments(sys.argv)
        patches.enter_context(_replaced_main())
        for name, inside in _ENVIRONMENT.items():
            patches.enter_context(diverted(type(os.environ), name, inside))
        patches.enter_context(diverted(threading.Thread, "__init__", _make_thread))
        patches.enter_context(diverted(threading.Thread, "start", _start_thread))
        patches.enter_context(diverted(threading.Event, "wait", _await_event))
        patches.enter_context(diverted(time, "sleep", _sleep))
        patches.enter_context(diverted(ThreadPoolExecutor, "__init__", _make_pool))
        patches.enter_context(diverted(signal, "signal", _set_handler))
        patches.enter_context(diverted(signal, "pause", _pause))
        patches.enter_context(diverted(atexit, "register", _register))
        patches.enter_context(diverted(os, "chdir", _change_directory))
        patches.enter_context(diverted(logging.Logger, "addHandler", _add_handler))
        patches.enter_context(diverted(logging.Logger, "setLevel", _set_level))
        yield


class _Arguments(list[str]):
    """`sys.argv`: in a script its own. A list, because `["python"] + sys.argv` takes no other."""

    def __init__(self, outside: list[str]) -> None:
        super().__init__(outside)
        self.outside = outside

    def __radd__(self, before: list[str]) -> list[str]:
        return [*before, *self]

    def __reduce_ex__(self, _protocol: object) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, ([*self],)  # multiprocessing sends it to its children


def _on_seen(name: str) -> Callable[..., Any]:
    """The method of lists, on the arguments that the caller sees. Any: each has its own types."""
    native = getattr(list, name)

    def method(arguments: _Arguments, *args: Any, **kw: Any) -> Any:
        script = current_script()
        seen = arguments.outside if script is None else script.arguments
        result = native(seen, *args, **kw)
        return arguments if result is seen else result  # `+=` binds it to `sys.argv`

    return method


for _name in vars(list).keys() - vars(_Arguments).keys() - _OF_ANY_OBJECT:
    setattr(_Arguments, _name, _on_seen(_name))


# -- __main__: pickles and annotations name what is in it


class _Main(ModuleType):
    """`sys.modules["__main__"]`: in a script its own."""

    def __init__(self, outside: ModuleType) -> None:
        super().__init__("__main__")
        super().__setattr__("_outside", outside)

    def __getattribute__(self, name: str) -> Any:
        return getattr(_seen_main(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_seen_main(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_seen_main(self), name)

    def __dir__(self) -> list[str]:
        return dir(_seen_main(self))


def _seen_main(main: _Main) -> ModuleType:
    script = current_script()
    own = None if script is None else script.program.module
    outside: ModuleType = object.__getattribute__(main, "_outside")
    return outside if own is None else own


@contextmanager
def _replaced_main() -> Iterator[None]:
    outside = sys.modules["__main__"]
    sys.modules["__main__"] = _Main(outside)
    try:
        yield
    finally:
        sys.modules["__main__"] = outside


# -- os.environ: what the script sets is its own, the rest is the process's


def _get(script: "ScriptInside", native: Any, environ: Any, key: str) -> Any:
    own = script.environment
    if environ is not os.environ or key not in own:
        return native(environ, key)
    if (value := own[key]) is None:
        raise KeyError(key)
    return value


def _set(script: "ScriptInside", native: Any, environ: Any, key: str, value: str) -> None:
    if environ is not os.environ:
        native(environ, key, value)
        return
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"str expected, not {type(value).__name__}")
    script.environment[key] = value


def _delete(script: "ScriptInside", native: Any, environ: Any, key: str) -> None:
    if environ is not os.environ:
        native(environ, key)
        return
    environ[key]  # raises if there is none
    script.environment[key] = None


def _names(script: "ScriptInside", native: Any, environ: Any) -> Iterator[str]:
    with acting_for(None):
        names = dict.fromkeys(native(environ))
    if environ is os.environ:
        names |= dict.fromkeys(script.environment)
    return iter([name for name in names if script.environment.get(name, "") is not None])


def _count(script: "ScriptInside", native: Any, environ: Any) -> int:
    return sum(1 for _ in environ)


_ENVIRONMENT: Final[dict[str, Callable[..., Any]]] = {
    "__getitem__": _get,
    "__setitem__": _set,
    "__delitem__": _delete,
    "__iter__": _names,
    "__len__": _count,
}


# -- threads, waits and hooks


def _make_thread(
    _script: "ScriptInside", native: Any, *args: Any, daemon: bool | None = None, **kw: Any
) -> None:
    """As if it were made in the main thread, which is no daemon."""
    native(*args, daemon=bool(daemon), **kw)


def _start_thread(script: "ScriptInside", native: Any, thread: threading.Thread) -> None:
    """A thread of the script's, unless a library has made it for itself."""
    target = getattr(thread, "_target", None)
    makers: Iterable[object] = (type(thread).__module__, getattr(target, "__module__", ""))
    if not any(str(maker).partition(".")[0] in _LIBRARIES for maker in makers):
        run: Any = thread.run

        def run_for_script() -> None:
            with acting_for(script), suppress(SystemExit):  # as `threading.excepthook` does
                run()

        thread.run = run_for_script  # type: ignore[method-assign]  # of this thread only
        (script.daemons if thread.daemon else script.threads).append(thread)
        thread.daemon = True  # the end of the test run waits for none of them
    native(thread)


def _make_pool(script: "ScriptInside", native: Any, pool: Any, *args: Any, **kw: Any) -> None:
    native(pool, *args, **kw)
    script.pools.append(pool)


def _sleep(script: "ScriptInside", _native: Any, seconds: float) -> None:
    script.sleep(seconds)


def _await_event(
    script: "ScriptInside", native: Any, event: threading.Event, timeout: float | None = None
) -> bool:
    return script.await_event(lambda seconds: bool(native(event, seconds)), timeout)


def _pause(script: "ScriptInside", _native: Any) -> None:
    script.sleep(threading.TIMEOUT_MAX)


def _set_handler(script: "ScriptInside", _native: Any, number: int, handler: object) -> object:
    """Only the main thread can have handlers, and they would stay."""
    before = script.handlers.get(number, signal.getsignal(number))
    script.handlers[number] = handler
    script.redirections.note("signal handler", signal.Signals(number).name, _WHEN.get(number, _NO))
    return before


def _register(script: "ScriptInside", _native: Any, function: Any, *args: Any, **kw: Any) -> Any:
    script.at_exit.append(lambda: function(*args, **kw))
    return function


def _change_directory(script: "ScriptInside", native: Any, path: Any) -> None:
    """The whole process is there until the script ends."""
    before = os.getcwd()
    native(path)
    script.on_leaving.append(lambda: os.chdir(before))
    after = f"{os.getcwd()}, for the whole process"
    script.redirections.note("working directory", before, after)


def _add_handler(script: "ScriptInside", native: Any, logger: logging.Logger, handler: Any) -> None:
    """It may write to a stream of this test, or to a file of the script's."""
    native(logger, handler)
    if handler in logger.handlers:
        script.on_leaving.append(handler.close)
        script.on_leaving.append(lambda: logger.removeHandler(handler))


def _set_level(script: "ScriptInside", native: Any, logger: logging.Logger, level: Any) -> None:
    before = logger.level
    native(logger, level)
    script.on_leaving.append(lambda: logger.setLevel(before))
