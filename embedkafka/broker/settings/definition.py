"""Defines a configuration key: its type, its default, the values it accepts.

Error messages are Kafka's, because tools and tests match on them.
Not here: the keys themselves (`broker_keys`, `topic_keys`), and where a value came from (`view`).
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.wire_types import MAX_INT, MAX_LONG

_LONG_DIGITS: Final = 100  # with leading zeros; a long has 19 without
MAX_DOUBLE = 1.7976931348623157e308

ConfigValue = bool | int | float | str | tuple[str, ...] | None

#: As Java writes a number, perhaps with a suffix; compiled when it is first needed.
_NUMBER: Final = r"([+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?"


@dataclass(frozen=True, slots=True)
class BadItem:
    """One item of a list that is refused, and the reason."""

    item: str
    reason: str


Validator = Callable[[ConfigValue], str | BadItem | None]
"""Returns the reason to refuse a value, or None."""


class ConfigType(IntEnum):
    """The type of a key, numbered as in DescribeConfigs answers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(IntEnum):
    """Whether a broker key can change while the broker runs."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key, with a sentence for DescribeConfigs that says what it does."""

    type: ConfigType
    name: str
    default: ConfigValue = None
    validator: Validator | None = None
    update: Update = READ_ONLY
    doc: str = ""

    def parse(self, text: object) -> ConfigValue:
        """The typed value of `text`, which may also be a Python value; ConfigError says why not."""
        value = self._typed(format_value(text) if not isinstance(text, str) else text)
        if isinstance(value, tuple) and "" in value and self.validator:
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        fault = self.validator(value) if self.validator else None
        if isinstance(fault, BadItem):
            raise self._invalid(fault.item, fault.reason)
        if fault is not None:
            shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else format_value(value)
            raise self._invalid(shown, fault)
        return value

    def _typed(self, text: str) -> ConfigValue:
        trimmed = text.strip()
        match self.type:
            case ConfigType.BOOLEAN:
                if trimmed.lower() not in ("true", "false"):
                    raise self._invalid(text, "Expected value to be either true or false")
                return trimmed.lower() == "true"
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                return self._whole_number(trimmed)
            case ConfigType.DOUBLE:
                return self._number(trimmed)
            case ConfigType.LIST:
                return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
            case _:
                return trimmed

    def _whole_number(self, text: str) -> int:
        limit = {ConfigType.INT: MAX_INT, ConfigType.SHORT: 2**15 - 1}.get(self.type, MAX_LONG)
        digits = text[1:] if text[:1] in ("+", "-") else text
        # Python also takes underscores, and raises ValueError for thousands of digits.
        number = int(text) if digits.isdecimal() and len(digits) < _LONG_DIGITS else limit + 1
        if not -limit - 1 <= number <= limit:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return number

    def _number(self, text: str) -> float:
        found = re.fullmatch(_NUMBER, text)
        if found is None:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return float(found[1])

    def _invalid(self, text: str, reason: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: {reason}")


def format_value(value: object) -> str:
    """A typed value as Kafka prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)


def _format_double(value: float) -> str:
    """Java's format: with an exponent from ten million up and below a thousandth."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    digits, _, exponent = f"{value:.16e}".partition("e")
    shortest = next(
        text
        for precision in range(1, 17)
        if float(text := f"{float(digits):.{precision}f}e{exponent}") == value
    )
    return f"{shortest.partition('e')[0]}E{int(exponent)}"


def by_name(keys: Iterable[ConfigKey]) -> Mapping[str, ConfigKey]:
    return {key.name: key for key in keys}


def at_least(low: int) -> Validator:
    def check(value: ConfigValue) -> str | None:
        too_low = isinstance(value, int | float) and value < low
        return f"Value must be at least {low}" if too_low else None

    return check


def between(low: int, high: int, *, also: int | None = None) -> Validator:
    def check(value: ConfigValue) -> str | None:
        if not isinstance(value, int | float) or value == also or low <= value <= high:
            return None
        if also is not None:
            return f"Value must be between {low} and {high} or equal to {also}"
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}"

    return check


def one_of(*allowed: str) -> Validator:
    reason = f"String must be one of: {', '.join(allowed)}"

    def check(value: ConfigValue) -> str | BadItem | None:
        if isinstance(value, tuple):
            bad = [item for item in value if item not in allowed]
            return BadItem(bad[0], reason) if bad else None
        return None if value is None or value in allowed else reason

    return check


def not_empty(value: ConfigValue) -> str | None:
    return "String must be non-empty" if value == "" else None


def distinct(value: ConfigValue) -> str | None:
    """Accepts a list, or none, of different items that are not empty."""
    items = value if isinstance(value, tuple) else ()
    if len(set(items)) < len(items):
        return "values must not be duplicated."
    return None if all(items) else "values must not be empty."


def throttled_replicas(name: str) -> Validator:
    """Accepts `*`, or `partition:broker` pairs."""

    def check(value: ConfigValue) -> str | None:
        if not isinstance(value, tuple) or value in ((), ("*",)):
            return None
        pairs = (item.partition(":") for item in value)
        if all(left.isdigit() and right.isdigit() for left, _, right in pairs):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return check


boolean_key: Final = partial(ConfigKey, ConfigType.BOOLEAN)
string_key: Final = partial(ConfigKey, ConfigType.STRING)
class_key: Final = partial(ConfigKey, ConfigType.CLASS)
password_key: Final = partial(ConfigKey, ConfigType.PASSWORD)
list_key: Final = partial(ConfigKey, ConfigType.LIST)
int_key: Final = partial(ConfigKey, ConfigType.INT)
short_key: Final = partial(ConfigKey, ConfigType.SHORT)
long_key: Final = partial(ConfigKey, ConfigType.LONG)
double_key: Final = partial(ConfigKey, ConfigType.DOUBLE)
