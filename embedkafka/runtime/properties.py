"""Java properties files: broker settings for the CLI, `meta.properties` in a log directory."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


def read_properties(file: Path) -> dict[str, str]:
    """The keys and values of a file. It is ISO 8859-1, as Kafka reads it, whatever its locale."""
    return parse_properties(file.read_text(encoding="iso-8859-1"))


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a Java properties text, comments dropped, escapes resolved."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """One `key=value` line each, in the given order, as `java.util.Properties` writes them."""
    return "".join(f"{_escape(key)}={_escape_value(value)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
        else:
            lines.append(pending + line)
            pending = ""
    return [*lines, pending] if pending else lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u":
            out.append(chr(int(text[position : position + 4], 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape_value(value: str) -> str:
    return _escape_unicode(value.replace("\\", "\\\\").replace("\n", "\\n"))


def _escape(key: str) -> str:
    for char in "\\ =:":
        key = key.replace(char, "\\" + char)
    return _escape_unicode(key)


def _escape_unicode(text: str) -> str:
    """ASCII, which is the same text in any encoding; a pair of surrogates outside the BMP."""

    def escape(found: re.Match[str]) -> str:
        units = found[0].encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _NOT_ASCII.sub(escape, text)
