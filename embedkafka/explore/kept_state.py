"""What the author's functions keep in this process, which the driver's next process would not have.

A restart in a schedule is one in the same process: globals, closures, attributes and caches stay.
So `explore` names those that grow while the job runs.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from embedkafka.runtime.values import dataclass

_KEPT: Final = (list, dict, set, bytearray, deque)
_MOST: Final = 200
"""How many functions and objects to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """Something that can grow: its name, its type and its size."""

    name: str
    type: str
    size: int

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"


def find_kept(functions: Iterable[object], authors: Container[object]) -> dict[int, KeptState]:
    """What functions reach, by its id. `authors` contains the code that is the author's."""
    found: dict[int, KeptState] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque(("", each) for each in functions)
    while waiting and len(seen) < _MOST:
        name, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        size = _size(value)
        if size is not None:
            found[id(value)] = KeptState(name=name, type=_type_name(value), size=size)
        waiting.extend(_reached(value, authors))
    return found


def grown(before: dict[int, KeptState], after: dict[int, KeptState]) -> list[KeptState]:
    """What has another size than before, or was not there."""
    return [
        kept
        for number, kept in after.items()
        if kept.size != (before[number].size if number in before else 0)
    ]


def describe_kept(kept: Iterable[KeptState]) -> tuple[str, ...]:
    """What to know of functions that keep something; nothing if they do not."""
    names = ", ".join(sorted({str(each) for each in kept}))
    if not names:
        return ()
    return (
        f"foreachBatch keeps something in this process: {names}. The driver's next process would "
        "not have it, unless it stands for a store; schedules restart in the same process, except "
        "with kill_jvm=True.",
    )


def _size(value: Any) -> int | None:
    if isinstance(value, _KEPT):
        return len(value)
    info = getattr(value, "cache_info", None)  # of functools.lru_cache
    return int(info().currsize) if callable(info) and hasattr(value, "cache_clear") else None


def _type_name(value: Any) -> str:
    return type(value).__name__ if isinstance(value, _KEPT) else "lru_cache"


def _reached(value: Any, authors: Container[object]) -> Iterator[tuple[str, Any]]:
    """What a function refers to, and what the object of a method has."""
    if isinstance(value, MethodType):
        yield from getattr(value.__self__, "__dict__", {}).items()
        yield "", value.__func__
    elif isinstance(value, FunctionType) and value.__code__ in authors:
        for code in _codes(value.__code__):
            for name in code.co_names:
                if name in value.__globals__:
                    yield name, value.__globals__[name]
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not set yet
                continue
            if name == "self":
                yield from getattr(cell.cell_contents, "__dict__", {}).items()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
