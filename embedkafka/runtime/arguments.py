"""Checks of the arguments that users pass: each message names what was given and what is allowed.

A bad argument is refused where it is passed. Deep inside it would raise a KeyError or a TypeError
that says nothing to the author of a test, or hang a client.
"""

import math
from collections.abc import Collection, Mapping

from embedkafka.runtime.failures import ConfigError, InvalidArgument

Refusal = type[InvalidArgument] | type[ConfigError]


def require_int(
    name: str,
    value: object,
    *,
    least: int | None = None,
    most: int | None = None,
    refusal: Refusal = InvalidArgument,
) -> int:
    """`value`, if it is a whole number within the bounds. A bool is not a number here."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (least is None or value >= least)
        and (most is None or value <= most)
    ):
        return value
    bounds = "" if least is None else f" from {least}" + ("" if most is None else f" to {most}")
    on = " on" if least is not None and most is None else ""
    raise refusal(f"{name} must be a whole number{bounds}{on}, got {value!r}")


def require_number(name: str, value: object, *, refusal: Refusal = InvalidArgument) -> float:
    """`value`, if it is a finite number that is not negative: a time to wait, for instance."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    ):
        return value
    raise refusal(f"{name} must be a number that is not negative, got {value!r}")


def require_text(name: str, value: object, *, refusal: Refusal = InvalidArgument) -> str:
    """`value`, if it is text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise refusal(f"{name} must be text that is not empty, got {value!r}")


def require_mapping(
    name: str, value: object, example: str, *, refusal: Refusal = InvalidArgument
) -> Mapping[object, object]:
    """`value`, if it is a mapping; `example` shows one in the message."""
    if isinstance(value, Mapping):
        return value
    raise refusal(f"{name} must be a mapping such as {example}, got {value!r}")


def require_known(
    what: str, value: str, known: Collection[str], *, refusal: Refusal = InvalidArgument
) -> str:
    """`value`, if it is one of `known`; otherwise the message names the nearest of them."""
    if value in known:
        return value
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(value, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    raise refusal(f"there is no {what} {value!r}: {hint}")
