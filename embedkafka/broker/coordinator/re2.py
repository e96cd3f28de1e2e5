"""Regular expressions in RE2's syntax, which Kafka's coordinators use.

This parses an expression like RE2/J, refuses it with RE2/J's messages, and translates it for
Python's `re`, which has another syntax, and other meanings for the same one (`$`, `\\s`, `a{,2}`).

It matches whole strings only, so group names and greediness do not matter. Unlike RE2, `re` tries
one path after the other, which takes exponential time for `(a+)+b`.
Limits: RE2/J's only limit is `a{1000}`; its memory and stack may grow. This refuses expressions
that nest too deeply or are too large, as Go's RE2 does, with its messages.
Left out: scripts such as `\\p{Greek}` follow the characters' names, which is wrong for a few.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from embedkafka.runtime.values import NamedTuple

Ranges = list[tuple[int, int]]

_DIGITS: Final[Ranges] = [(0x30, 0x39)]
_LOWER: Final[Ranges] = [(0x61, 0x7A)]
_UPPER: Final[Ranges] = [(0x41, 0x5A)]
_LETTERS: Final = _UPPER + _LOWER
_PUNCTUATION: Final[Ranges] = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]
_PERL_CLASSES: Final[Mapping[str, Ranges]] = {
    "d": _DIGITS,
    "s": [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
    "w": [*_DIGITS, *_LETTERS, (0x5F, 0x5F)],
}
_POSIX_CLASSES: Final[Mapping[str, Ranges]] = {
    "alnum": _DIGITS + _LETTERS,
    "alpha": _LETTERS,
    "ascii": [(0x00, 0x7F)],
    "blank": [(0x09, 0x09), (0x20, 0x20)],
    "cntrl": [(0x00, 0x1F), (0x7F, 0x7F)],
    "digit": _DIGITS,
    "graph": [(0x21, 0x7E)],
    "lower": _LOWER,
    "print": [(0x20, 0x7E)],
    "punct": _PUNCTUATION,
    "space": [(0x09, 0x0D), (0x20, 0x20)],
    "upper": _UPPER,
    "word": _PERL_CLASSES["w"],
    "xdigit": [*_DIGITS, (0x41, 0x46), (0x61, 0x66)],
}
_TEXT_START, _TEXT_END, _LINE_START, _LINE_END = r"\A", r"\Z", "(?m:^)", "(?m:$)"
_WORD_BOUNDARY: Final = r"(?a:\b)"
_PLACES: Final = {
    "A": _TEXT_START,
    "z": _TEXT_END,
    "b": _WORD_BOUNDARY,
    "B": f"(?!{_WORD_BOUNDARY})",  # before Python 3.14, an empty text has no `\\B`
}
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANYTHING: Final[Ranges] = [(0, sys.maxunicode)]
_NEWLINE: Final[Ranges] = [(0x0A, 0x0A)]
_MAX_REPEATS: Final = 1000
_MAX_DIGITS: Final = 8
_MAX_DEPTH: Final = 1000
_SCRIPT_WORDS: Final = 3  # of the longest script's name
_MAX_SIZE: Final = 12_000
_REPEATS: Final[Mapping[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}

_POSIX_CLASS: Final = re.compile(r"\[:(\^?)(\w+):\]")
_UNICODE_CLASS: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_GROUP_NAME: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_GROUP_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_REPEAT_COUNT: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
# `\x66`, `\x{66}`; octal, where a single digit other than 0 would be a backreference.
_NUMBERS: Final = (
    (re.compile(r"\\x([0-9A-Fa-f]{2})"), 16),
    (re.compile(r"\\x\{([0-9A-Fa-f]{1,8})\}"), 16),
    (re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})"), 8),
)


class InvalidExpression(Exception):
    """The reason why RE2/J refuses an expression."""


class _Part(NamedTuple):
    """A part of the translation, and how many steps RE2 would take it for."""

    text: str
    size: int


@functools.lru_cache(maxsize=64)
def compile_re2(expression: str) -> re.Pattern[str]:
    """The compiled expression. Raises `InvalidExpression`."""
    translated = _Reader(expression).run()
    try:
        return re.compile(translated.text)
    except RecursionError:
        _refuse("expression nests too deeply")


class _Group:
    """An open group: its finished alternatives, and the operands of the current one."""

    __slots__ = ("alternatives", "flags_outside", "operands")

    def __init__(self, flags_outside: frozenset[str]) -> None:
        self.flags_outside = flags_outside
        self.alternatives: list[_Part] = []
        self.operands: list[_Part] = []


class _Reader:
    """Translates one expression."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(self._flags)]
        self._names: set[str] = set()
        self._is_repeated = False  # what a repetition would apply to

    def run(self) -> _Part:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        if len(self._groups) > 1:
            _refuse("missing closing )")
        return self._closed(self._groups.pop())

    def _step(self, sign: str) -> None:
        match sign:
            case "(":
                self._group()
            case ")":
                if len(self._groups) == 1:
                    _refuse("regexp/syntax: internal error")
                self._at += 1
                group = self._groups.pop()
                self._operand(self._closed(group))
                self._flags = group.flags_outside
            case "|":
                self._at += 1
                group = self._groups[-1]
                group.alternatives.append(_joined(group.operands))
                group.operands = []
                self._is_repeated = False
            case "*" | "+" | "?":
                self._at += 1
                self._repeat(*_REPEATS[sign])
            case "{" if count := _REPEAT_COUNT.match(self._text, self._at):
                self._at = count.end()
                self._repeat(*_repeat_count(count))
            case "[":
                self._bracketed()
            case "\\":
                self._escape()
            case ".":
                self._at += 1
                excluded = [] if "s" in self._flags else _NEWLINE
                self._characters(excluded, inverted=True)
            case "^":
                self._at += 1
                self._place(_LINE_START if "m" in self._flags else _TEXT_START)
            case "$":
                self._at += 1
                self._place(_LINE_END if "m" in self._flags else _TEXT_END)
            case _:
                self._at += 1
                self._characters([(ord(sign), ord(sign))])

    def _characters(self, ranges: Iterable[tuple[int, int]], *, inverted: bool = False) -> None:
        signs = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
        text = f"[{'^' * inverted}{signs}]" if signs else "(?s:.)" if inverted else "(?!)"
        self._operand(_Part(f"(?i:{text})" if "i" in self._flags else text, 1))

    def _place(self, text: str) -> None:
        self._operand(_Part(text, 1))

    def _operand(self, part: _Part) -> None:
        self._groups[-1].operands.append(part)
        self._is_repeated = False

    def _repeat(self, least: int, most: int | None) -> None:
        operands = self._groups[-1].operands
        if not operands:
            _refuse("missing argument to repetition operator")
        if self._text.startswith("?", self._at):
            self._at += 1  # lazy, which makes no difference to a whole match
        if self._is_repeated:
            _refuse("invalid nested repetition operator")
        text, size = operands[-1]
        if (size + 1) * max(least + 1, most or 1) > _MAX_SIZE:
            _refuse("expression too large")
        optional = size + 2 if most is None else (most - least) * (size + 1)
        count = f"{{{least},{'' if most is None else most}}}"
        operands[-1] = _Part(f"(?:{text}){count}", least * size + optional)
        self._is_repeated = True

    # Groups

    def _group(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._open(self._flags)
        elif self._text.startswith(("(?P<", "(?<"), self._at):
            name = _GROUP_NAME.match(self._text, self._at)
            if name is None:
                _refuse("invalid named capture")
            if name[1] in self._names:
                _refuse("duplicate capture group name")
            self._names.add(name[1])
            self._at = name.end()
            self._open(self._flags)
        else:
            self._change_flags()

    def _change_flags(self) -> None:
        change = _GROUP_FLAGS.match(self._text, self._at)
        if change is None:
            _refuse("invalid or unsupported Perl syntax")
        self._at = change.end()
        flags = (self._flags | set(change[1])) - set(change[2] or "")
        if change[3] == ":":
            self._open(flags)
        else:
            self._flags = flags
            self._is_repeated = False

    def _open(self, flags: frozenset[str]) -> None:
        if len(self._groups) > _MAX_DEPTH:
            _refuse("expression nests too deeply")
        self._groups.append(_Group(self._flags))
        self._flags = flags
        self._is_repeated = False

    def _closed(self, group: _Group) -> _Part:
        ways = [*group.alternatives, _joined(group.operands)]
        text = "|".join(way.text for way in ways)
        size = sum(way.size + 2 for way in ways) - 2
        if size > _MAX_SIZE:
            _refuse("expression too large")
        return _Part(f"(?:{text})" if len(ways) > 1 else text, size)

    # Escapes and classes

    def _escape(self) -> None:
        if self._text.startswith(r"\Q", self._at):
            end = self._text.find(r"\E", self._at)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            for sign in quoted:
                self._characters([(ord(sign), ord(sign))])
        elif place := _PLACES.get(self._text[self._at + 1 : self._at + 2]):
            self._at += 2
            self._place(place)
        else:
            ranges = self._find_class()
            if ranges is None:
                code = self._escaped_character()
                ranges = [(code, code)]
            self._characters(ranges)

    def _find_class(self) -> Ranges | None:
        """The class of a `\\d` or `\\pL` that comes next, if one does."""
        sign = self._text[self._at + 1 : self._at + 2]
        if sign and sign.lower() in _PERL_CLASSES:
            self._at += 2
            ranges = _PERL_CLASSES[sign.lower()]
            return _inverted(ranges) if sign.isupper() else ranges
        if sign not in ("p", "P"):
            return None
        found = _UNICODE_CLASS.match(self._text, self._at)
        if found is None:
            _refuse("invalid character class range")
        self._at = found.end()
        ranges = _unicode_class(found[3] or found[4])
        return _inverted(ranges) if (found[1] == "P") != bool(found[2]) else ranges

    def _escaped_character(self) -> int:
        sign = self._text[self._at + 1 : self._at + 2]
        if not sign:
            _refuse("trailing backslash at end of expression")
        for pattern, base in _NUMBERS:
            number = pattern.match(self._text, self._at)
            if number is not None and int(number[1], base) <= sys.maxunicode:
                self._at = number.end()
                return int(number[1], base)
        if sign not in _CONTROLS and (sign.isalnum() or not sign.isascii()):
            _refuse("invalid escape sequence")
        self._at += 2
        return _CONTROLS.get(sign, ord(sign))

    def _bracketed(self) -> None:
        """A class in brackets."""
        is_inverted = self._text.startswith("[^", self._at)
        self._at += 2 if is_inverted else 1
        first = self._at
        ranges: set[tuple[int, int]] = set()
        while not self._text.startswith("]", self._at) or self._at == first:
            if self._at >= len(self._text):
                _refuse("missing closing ]")
            ranges.update(self._item())
        self._at += 1
        self._characters(ranges, inverted=is_inverted)

    def _item(self) -> Ranges:
        """A nested class, a character, or a range of characters."""
        if self._text.startswith("[:", self._at) and self._text.find(":]", self._at + 2) >= 0:
            posix = _POSIX_CLASS.match(self._text, self._at)
            if posix is None or posix[2] not in _POSIX_CLASSES:
                _refuse("invalid character class range")
            self._at = posix.end()
            ranges = _POSIX_CLASSES[posix[2]]
            return _inverted(ranges) if posix[1] else ranges
        if self._text.startswith("\\", self._at):
            found = self._find_class()
            if found is not None:
                return found
        low = high = self._class_character()
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            self._at += 1
            high = self._class_character()
            if high < low:
                _refuse("invalid character class range")
        return [(low, high)]

    def _class_character(self) -> int:
        if self._at >= len(self._text):
            _refuse("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escaped_character()
        self._at += 1
        return ord(self._text[self._at - 1])


def _joined(parts: Iterable[_Part]) -> _Part:
    """All parts in sequence."""
    return _Part("".join(part.text for part in parts), sum(part.size for part in parts))


def _repeat_count(count: re.Match[str]) -> tuple[int, int | None]:
    low, comma, high = count.groups()
    if len(low) > _MAX_DIGITS or len(high or "") > _MAX_DIGITS:
        _refuse("invalid repeat count")
    least = int(low)
    most = int(high) if high else None if comma else least
    if least > _MAX_REPEATS or (most is not None and not least <= most <= _MAX_REPEATS):
        _refuse("invalid repeat count")
    return least, most


def _inverted(ranges: Ranges) -> Ranges:
    gaps: Ranges = []
    start = 0
    for low, high in sorted(ranges):
        if start < low:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    if start <= sys.maxunicode:
        gaps.append((start, sys.maxunicode))
    return gaps


def _unicode_class(name: str) -> Ranges:
    """The characters of a general category (`L`, `Lu`) or of a script (`Greek`)."""
    if name == "Any":
        return _ANYTHING
    ranges = _categories().get(name) or _scripts().get(name.upper().replace("_", " "))
    if ranges is None:
        _refuse("invalid character class range")
    return ranges


# Both are built once, on first use: an unknown name must not cost a scan of every character.


@functools.cache
def _categories() -> Mapping[str, Ranges]:
    found: dict[str, Ranges] = {}
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        _include(found, category, code)
        _include(found, category[0], code)
    return found


@functools.cache
def _scripts() -> Mapping[str, Ranges]:
    """The letters, by the first words of their names."""
    found: dict[str, Ranges] = {}
    for low, high in _categories()["L"]:
        for code in range(low, high + 1):
            words = unicodedata.name(chr(code), "").split(" ")
            for count in range(1, min(len(words), _SCRIPT_WORDS + 1)):
                _include(found, " ".join(words[:count]), code)
    return found


def _include(found: dict[str, Ranges], name: str, code: int) -> None:
    ranges = found.setdefault(name, [])
    if ranges and ranges[-1][1] == code - 1:
        ranges[-1] = (ranges[-1][0], code)
    else:
        ranges.append((code, code))


def _refuse(description: str) -> NoReturn:
    raise InvalidExpression(description)
