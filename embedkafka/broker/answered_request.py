"""Finds the request that a callback will answer, so that handing out callbacks costs nothing more.

Handlers pass callbacks down to the parts that answer later. Those parts know no requests, but each
callback refers to its request, directly or through others.

Not here: who asks (`cluster.reports.waits`).
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Final

from embedkafka.broker.dispatch import RequestContext

_SEQUELS: Final = ("then", "on_stored", "call", "reply")
"""Where what follows the append of a coordinator keeps what comes after it."""


def find_request(callback: object) -> RequestContext | None:
    """The request that `callback` will answer; None if no client waits for it."""
    seen: set[int] = set()
    left = [callback]
    while left:
        one = left.pop()
        if isinstance(one, RequestContext):
            return one
        if id(one) not in seen:
            seen.add(id(one))
            left += _behind(one)
    return None


def _behind(one: object) -> Iterator[object]:
    """What a callback refers to, the least promising first."""
    if isinstance(one, FunctionType):
        for cell in one.__closure__ or ():
            with suppress(ValueError):  # of a variable without a value
                yield cell.cell_contents
    elif isinstance(one, MethodType):
        if isinstance(one.__self__, RequestContext):
            yield one.__self__
    elif isinstance(one, partial):
        yield one.func
        yield from one.args
    else:
        yield from (getattr(one, name) for name in _SEQUELS if hasattr(one, name))
