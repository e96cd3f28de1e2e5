"""Checks of the arguments that users pass: each message names what was given and what is allowed.

A bad argument is refused where it is passed. Deep inside it would raise a KeyError or a TypeError
that says nothing to the author of a test, or hang a client.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from embedkafka.runtime.failures import ConfigError, InvalidArgument

Refusal = type[InvalidArgument] | type[ConfigError]

MAX_INT16: Final = 2**15 - 1
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
_MOST: Final = 10**9
"""Thirty years, if it is a time to wait in seconds. Locks refuse to wait for centuries."""
_SHOWN: Final = 200


def require_int(
    name: str,
    value: object,
    *,
    least: int | None = None,
    most: int | None = None,
    refusal: Refusal = InvalidArgument,
) -> int:
    """`value`, if it is a whole number within the bounds, those of a long if none are given.

    A bool is not a number here.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        lowest = -MAX_INT64 if least is None else least
        highest = MAX_INT64 if most is None else most
        if lowest <= value <= highest:
            return value
        most = highest if value > highest else most
    bounds = "" if least is None else f" from {least}" + ("" if most is None else f" to {most}")
    on = " on" if least is not None and most is None else ""
    raise refusal(f"{name} must be a whole number{bounds}{on}, got {shown(value)}")


def require_number(
    name: str, value: object, *, most: float = _MOST, refusal: Refusal = InvalidArgument
) -> float:
    """`value`, if it is a number from 0 to `most`: a time to wait, for instance."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    if isinstance(value, int | float) and value > most and value != math.inf:
        raise refusal(f"{name} must be a number up to {most:g}, got {shown(value)}")
    raise refusal(f"{name} must be a number that is not negative, got {shown(value)}")


def require_text(name: str, value: object, *, refusal: Refusal = InvalidArgument) -> str:
    """`value`, if it is text that is not empty and that every client can write."""
    if not isinstance(value, str) or not value:
        raise refusal(f"{name} must be text that is not empty, got {shown(value)}")
    if fault := _find_name_fault(value):
        raise refusal(f"{name} {fault}, got {shown(value)}")
    return value


def require_path(name: str, value: object, *, refusal: Refusal = InvalidArgument) -> Path:
    """`value` as a path, if it is one. An empty one would be the current directory."""
    if not isinstance(value, str | Path) or not str(value):
        raise refusal(f"{name} must be a path, got {shown(value)}")
    try:
        is_usable = b"\0" not in str(value).encode(errors="surrogateescape")
    except UnicodeEncodeError:
        is_usable = False
    if not is_usable:
        raise refusal(f"{name} must be a path that a file can have, got {shown(value)}")
    return Path(value)


def require_list(
    name: str, value: object, example: str, *, refusal: Refusal = InvalidArgument
) -> list[object]:
    """`value` as a list, if it is one or the like; `example` shows one in the message."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | type):
        return list(value)
    raise refusal(f"{name} must be a list such as {example}, got {shown(value)}")


def require_function(
    name: str, value: object, of: str, *, refusal: Refusal = InvalidArgument
) -> Callable[..., Any]:
    """`value`, if it can be called; `of` says with what. Any: its result is the caller's."""
    if callable(value):
        return value
    raise refusal(f"{name} must be a function{of and f' of {of}'}, got {shown(value)}")


def require_attribute(
    name: str, value: object, attribute: str, what: str, *, refusal: Refusal = InvalidArgument
) -> None:
    """Checks an object of a library that is not imported for that."""
    if isinstance(value, type) or not hasattr(value, attribute):
        raise refusal(f"{name} must be {what}, got {shown(value)}")


def find_text_fault(text: str) -> str | None:
    """Why a client cannot write `text`; None if it can. Those written in C crash, or cut it off."""
    if "\0" in text:
        return "cannot contain NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "cannot be written as UTF-8, for it contains half of a surrogate pair"
    return None


def _find_name_fault(text: str) -> str | None:
    if len(text) > MAX_INT16:
        return f"cannot be longer than {MAX_INT16} characters in Kafka's protocol"
    return find_text_fault(text)


def shown(value: object) -> str:
    """`repr`, cut short. Some values have none: a number of 5,000 digits, for instance."""
    try:
        text = repr(value)
    except Exception:  # of the user's class, or of Python
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def require_mapping(
    name: str, value: object, example: str, *, refusal: Refusal = InvalidArgument
) -> Mapping[object, object]:
    """`value`, if it is a mapping; `example` shows one in the message."""
    if isinstance(value, Mapping):
        return value
    raise refusal(f"{name} must be a mapping such as {example}, got {shown(value)}")


def require_known(
    what: str, value: object, known: Collection[str], *, refusal: Refusal = InvalidArgument
) -> str:
    """`value`, if it is one of `known`; otherwise the message names the nearest of them."""
    if not isinstance(value, str):
        raise refusal(f"the {what} must be text, got {shown(value)}")
    if value in known:
        return value
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(value[:_SHOWN], known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    raise refusal(f"there is no {what} {shown(value)}: {hint}")
