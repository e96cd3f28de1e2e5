"""The claims of a bearer token, which anyone may have written: numbers and texts of any size."""

import json
import math
from collections.abc import Mapping
from typing import Final, NoReturn

from embedkafka.security.sasl.oauth_bearer import IllegalToken

MAX_TIME_MS: Final = 2**63 - 1
"""As late as Kafka can say: later times are taken for this one."""


def parse_part(text: bytes) -> Mapping[str, object]:
    """One part of a token; anything but an object is taken for an empty one, as in Kafka."""
    try:
        part = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise IllegalToken("a part of it is no JSON") from None
    return part if isinstance(part, dict) else {}


def find_seconds(claims: Mapping[str, object], name: str) -> float | None:
    """A time in seconds, perhaps infinite; None if there is no such claim."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise IllegalToken(f"its claim {name} is no number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def in_milliseconds(seconds: float) -> int:
    """Rounded, and no later than can be said."""
    return round(seconds * 1000) if seconds * 1000 < MAX_TIME_MS else MAX_TIME_MS


def require_principal(claims: Mapping[str, object], name: str) -> str:
    """The name of the user in a claim."""
    principal = claims.get(name)
    if not isinstance(principal, str) or not principal.strip():
        raise IllegalToken(f"it has no principal name in claim {name}")
    if any("\ud800" <= character <= "\udfff" for character in principal):
        raise IllegalToken("its principal name is no text")
    return principal


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
