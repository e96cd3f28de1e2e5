"""Bytes and values as people read them, in reports, failed assertions, pages and terminals.

Bytes are text if they are UTF-8 without control characters, apart from tabs and line breaks. Others
are shown in hex, with their length.

Owner: none; these are functions.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

_DIGITS: Final = 200
_CONTROL: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


def find_text(data: bytes | bytearray) -> str | None:
    """The bytes as text; None if they are something else."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if re.search(_CONTROL, text) else text


def show_hex(data: bytes | bytearray, longest: int | None = _DIGITS) -> str:
    """Such as "0x000261… (17 bytes)", with at most `longest` digits, or all if that is None."""
    digits = data.hex()
    cut = digits if longest is None or len(digits) <= longest else f"{digits[:longest]}…"
    return f"0x{cut} ({len(data)} byte{'' if len(data) == 1 else 's'})"


def show_value(value: object) -> str:
    """Any value on one line: mappings and lists as JSON, bytes that are not text in hex."""
    if isinstance(value, bytes | bytearray):
        return repr(value) if find_text(value) is not None else show_hex(value)
    if isinstance(value, Mapping | list | tuple):
        try:
            return json.dumps(value, ensure_ascii=False, default=_in_json)
        except (TypeError, ValueError, RecursionError):
            pass  # a key that JSON does not have, or a list within itself
    return _on_one_line(repr(value))


def _in_json(value: object) -> str:
    return show_value(value) if isinstance(value, bytes | bytearray) else _on_one_line(str(value))


def _on_one_line(text: str) -> str:
    return " ".join(text.strip().split("\n"))
