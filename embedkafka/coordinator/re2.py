"""Regular expressions in RE2's syntax, which Kafka's coordinators speak, for Python's `re`.

An expression is read as RE2/J reads it, refused with RE2/J's words, and written again in Python's
syntax. The two differ in what they know (lookaheads and backreferences here, `\\z`, `\\Q..\\E`,
`\\pN` and `[[:alpha:]]` there) and in what they mean by the same signs (`$`, `\\s`, `a{,2}`).

Matching is of whole strings, so that names of groups and who is greedy do not matter.
Left out: limits on nested repetitions; scripts such as `\\p{Greek}` are told by the characters'
names, which is right but for a few.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

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
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_MAX_REPEATS: Final = 1000

_POSIX_CLASS: Final = re.compile(r"\[:(\^?)(\w+):\]")
_UNICODE_CLASS: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_GROUP_NAME: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_GROUP_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_REPEAT_COUNT: Final = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
# `\x66`, `\x{66}`; octal, where a single digit other than 0 would be a backreference.
_NUMBERS: Final = (
    (re.compile(r"\\x([0-9A-Fa-f]{2})"), 16),
    (re.compile(r"\\x\{([0-9A-Fa-f]{1,8})\}"), 16),
    (re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})"), 8),
)


class InvalidExpression(Exception):
    """What RE2/J has against an expression."""


@functools.lru_cache(maxsize=64)
def compile_re2(expression: str) -> re.Pattern[str]:
    """A pattern for `fullmatch`, or `InvalidExpression`."""
    return re.compile(_Translation(expression).run())


class _Translation:
    """One expression on its way to Python's syntax."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._out: list[str] = []
        self._flags = ""
        self._flags_outside: list[str] = []  # of each open group
        self._names: set[str] = set()
        # What a repetition would apply to: nothing yet, something, or another repetition.
        self._has_operand = False
        self._is_repeated = False

    def run(self) -> str:
        self._open("", "(?:")
        while self._at < len(self._text):
            self._step(self._text[self._at])
        if len(self._flags_outside) > 1:
            _refuse("missing closing )")
        self._close()
        return "".join(self._out)

    def _step(self, sign: str) -> None:
        match sign:
            case "(":
                self._group()
            case ")":
                if len(self._flags_outside) == 1:
                    _refuse("regexp/syntax: internal error")
                self._at += 1
                self._close()
            case "|":
                self._at += 1
                self._out.append(f")|{self._flags_open()}")
                self._has_operand = self._is_repeated = False
            case "*" | "+" | "?":
                self._at += 1
                self._repeat(sign)
            case "{" if count := _REPEAT_COUNT.match(self._text, self._at):
                self._at = count.end()
                self._repeat(_repeat_count(count))
            case "[":
                self._operand(_class(self._bracketed()))
            case "\\":
                self._escape()
            case "." | "^":
                self._at += 1
                self._operand(sign)
            case "$":
                self._at += 1
                self._operand(sign if "m" in self._flags else r"\Z")
            case _:
                self._at += 1
                self._operand(re.escape(sign))

    def _operand(self, written: str) -> None:
        self._out.append(f"(?:{written})")
        self._has_operand, self._is_repeated = True, False

    def _repeat(self, operator: str) -> None:
        if not self._has_operand:
            _refuse("missing argument to repetition operator")
        if self._text.startswith("?", self._at):
            self._at += 1  # lazy, which makes no difference to a whole match
        if self._is_repeated:
            _refuse("invalid nested repetition operator")
        self._out.append(operator)
        self._is_repeated = True

    # Groups. Within one, what follows a change of flags is a group of its own.

    def _group(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._open(self._flags, "(?:")
        elif self._text.startswith(("(?P<", "(?<"), self._at):
            name = _GROUP_NAME.match(self._text, self._at)
            if name is None:
                _refuse("invalid named capture")
            if name[1] in self._names:
                _refuse("duplicate capture group name")
            self._names.add(name[1])
            self._at = name.end()
            self._open(self._flags, "(?:")
        else:
            self._change_flags()

    def _change_flags(self) -> None:
        change = _GROUP_FLAGS.match(self._text, self._at)
        if change is None:
            _refuse("invalid or unsupported Perl syntax")
        self._at = change.end()
        flags = (set(self._flags) | set(change[1])) - set(change[2] or "") - {"U"}
        if change[3] == ":":
            self._open("".join(sorted(flags)), "(?:")
        else:
            self._flags = "".join(sorted(flags))
            self._out.append(f"){self._flags_open()}")
            self._has_operand = self._is_repeated = False

    def _open(self, flags: str, opening: str) -> None:
        self._flags_outside.append(self._flags)
        self._flags = flags
        self._out.append(opening + self._flags_open())
        self._has_operand = self._is_repeated = False

    def _close(self) -> None:
        self._out.append("))")
        self._flags = self._flags_outside.pop()
        self._has_operand, self._is_repeated = True, False

    def _flags_open(self) -> str:
        return f"(?{self._flags}:" if self._flags else "(?-ims:"

    # Escapes and classes

    def _escape(self) -> None:
        if self._text.startswith(r"\Q", self._at):
            end = self._text.find(r"\E", self._at)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            for sign in quoted:
                self._operand(re.escape(sign))
        elif self._text.startswith((r"\A", r"\b", r"\B", r"\z"), self._at):
            sign = self._text[self._at + 1]
            self._at += 2
            self._operand(r"\Z" if sign == "z" else f"(?a:\\{sign})")
        else:
            ranges = self._find_class()
            if ranges is None:
                code = self._escaped_character()
                ranges = [(code, code)]
            self._operand(_class(ranges))

    def _find_class(self) -> Ranges | None:
        """The class that `\\d` or `\\pL` stand for, if one of those comes next."""
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

    def _bracketed(self) -> Ranges:
        """What a class in brackets holds."""
        is_inverted = self._text.startswith("[^", self._at)
        self._at += 2 if is_inverted else 1
        first = self._at
        ranges: Ranges = []
        while not self._text.startswith("]", self._at) or self._at == first:
            if self._at >= len(self._text):
                _refuse("missing closing ]")
            ranges += self._item()
        self._at += 1
        return _inverted(ranges) if is_inverted else ranges

    def _item(self) -> Ranges:
        """A class within a class, a character, or a range of them."""
        if self._text.startswith("[:", self._at) and ":]" in self._text[self._at + 2 :]:
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


def _repeat_count(count: re.Match[str]) -> str:
    least, comma, most = count.groups()
    if int(least) > _MAX_REPEATS or (most and not int(least) <= int(most) <= _MAX_REPEATS):
        _refuse("invalid repeat count")
    return f"{{{least}{comma}{most}}}"


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    written = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
    return f"[{written}]" if written else "(?!)"


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


@functools.cache
def _unicode_class(name: str) -> Ranges:
    """The characters of a general category (`L`, `Lu`) or of a script (`Greek`)."""
    script = name.upper().replace("_", " ") + " "
    ranges: Ranges = []
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        category = unicodedata.category(sign)
        if (
            name == "Any"
            or category.startswith(name)
            or (category.startswith("L") and unicodedata.name(sign, "").startswith(script))
        ):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    if not ranges:
        _refuse("invalid character class range")
    return ranges


def _refuse(description: str) -> NoReturn:
    raise InvalidExpression(description)
