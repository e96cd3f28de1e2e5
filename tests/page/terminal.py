"""What a program prints to a terminal, as a page for a picture: colours and bold, no cursor."""

import html
import re
from collections.abc import Iterator
from typing import Final

_CODE: Final = re.compile(r"\x1b\[([\d;]*)m")
_COLOURS: Final = {
    "31": "#f47067",
    "32": "#57ab5a",
    "33": "#daaa3f",
    "34": "#6cb6ff",
    "35": "#dcbdfb",
    "36": "#76e3ea",
    "90": "#768390",
    "94": "#6cb6ff",
}
_PAGE: Final = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1c2128; color: #cdd9e5; }}
pre {{ margin: 0; padding: 20px 24px; white-space: pre-wrap; }}
pre {{ font: 14px/1.45 "DejaVu Sans Mono", monospace; }}
</style><pre>{}</pre>"""


def as_page(printed: str) -> str:
    """The page; it has the size of its text."""
    shown = (f'<span style="{css}">{html.escape(text)}</span>' for css, text in runs(printed))
    return _PAGE.format("".join(shown))


def runs(printed: str) -> Iterator[tuple[str, str]]:
    """The pieces of the text that look alike, each with its CSS."""
    style = {"color": "", "weight": ""}
    text, *rest = _CODE.split(printed)
    for code, following in zip(["0", *rest[::2]], [text, *rest[1::2]], strict=True):
        for number in code.split(";"):
            _set(style, number)
        yield _css(style), following


def _set(style: dict[str, str], number: str) -> None:
    if number in ("", "0", "00", "39"):
        style["color"] = ""
    if number in ("", "0", "00", "22"):
        style["weight"] = ""
    if number == "1":
        style["weight"] = "bold"
    style["color"] = _COLOURS.get(number, style["color"])


def _css(style: dict[str, str]) -> str:
    return "; ".join(
        f"{name}: {value}"
        for name, value in (("color", style["color"]), ("font-weight", style["weight"]))
        if value
    )
