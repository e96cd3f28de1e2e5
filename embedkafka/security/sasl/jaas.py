"""Login modules in JAAS's syntax: `PlainLoginModule required username="a" password="b";`.

Errors name the setting and the option, never a value: most values are secrets.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, field

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<sign>[=;])"""
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[\w.$-]+)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_NUMBER: Final = re.compile(r"-?[\d.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """A module's class name and its options, some of which are secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The class name without its package."""
        return self.name.rpartition(".")[2]


def parse_login_module(text: str, *, setting: str) -> LoginModule:
    """The one module in the value of `setting`; raises ConfigError."""
    tokens = list(_tokens(text, setting))
    if not tokens:
        raise ConfigError(f"{setting}: Login module not specified in JAAS config")
    (_, name), rest = tokens[0], tokens[1:]
    if not rest or rest[0][0] != "word" or rest[0][1].lower() not in _FLAGS:
        raise ConfigError(f"{setting}: 'required' must follow the class of the login module")
    options, end = _options(rest[1:], setting)
    if end < len(rest) - 1:
        raise ConfigError(f"{setting}: it contains more than one login module")
    return LoginModule(name=name, options=options)


def _options(tokens: list[tuple[str, str]], setting: str) -> tuple[dict[str, str], int]:
    """The options up to the semicolon, and how many tokens that were."""
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        if tokens[start] == ("sign", ";"):
            return options, start + 1
        key, sign, value = (tokens[start : start + 3] + [("sign", ";")] * 2)[:3]
        if sign != ("sign", "="):  # what stands here may be a value without its key
            raise ConfigError(f"{setting}: option {start // 3 + 1} is not key=value")
        if value[0] == "sign":
            raise ConfigError(f"{setting}: no value for key {key[1]!r} in JAAS config")
        if value[0] == "word" and _NUMBER.fullmatch(value[1]):
            raise ConfigError(f"{setting}: the value of {key[1]!r} is a number; put it in quotes")
        options[key[1]] = value[1]
    raise ConfigError(f"{setting}: the JAAS config entry must end with a semicolon")


def _tokens(text: str, setting: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(
                f"{setting}: the JAAS config is malformed at character {position}; values with "
                "other characters than letters and digits must be in quotes"
            )
        position = match.end()
        if match["sign"]:
            yield "sign", match["sign"]
        elif match["word"]:
            yield "word", match["word"]
        elif (
            quoted := match["double"] if match["double"] is not None else match["single"]
        ) is not None:
            yield "quoted", _ESCAPE.sub(_unescape, quoted)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[1])
