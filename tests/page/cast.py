"""What a terminal showed, one command after the other, as an SVG that moves without a script.

Where nothing moves, in print or for a reader who wants it so, it shows the first command whole.
"""

import html
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from tests.page.terminal import runs

ROWS: Final = 32
COLUMNS: Final = 100
_LINE: Final = 17
_CHARACTER: Final = 7.9
_LEFT: Final = 18
_TOP: Final = 14
_WIDTH: Final = round(2 * _LEFT + COLUMNS * _CHARACTER)
_HEIGHT: Final = 2 * _TOP + ROWS * _LINE
_THINKS_S: Final = 0.9
"""Between a command and what it prints."""
_SCROLLS_S: Final = 0.7

_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  white-space: pre; color: #cdd9e5; }
text, tspan { fill: currentColor; } .mark { fill: #4d3800; } .prompt { color: #57ab5a; }
@media (prefers-reduced-motion: no-preference) {
g { animation: %.1fs step-end infinite; }
%s }
"""


class Shown(NamedTuple):
    """One command with what it printed, and how long a reader has for it."""

    command: str
    printed: str
    stays_s: float
    marked: tuple[str, ...] = ()
    """Lines with one of these have a mark: they are what the reader should see."""


def as_cast(cast: Sequence[Shown]) -> str:
    """The picture. Commands follow each other down one long text, which scrolls."""
    lengths = [1 + len(shown.printed.splitlines()) + 1 for shown in cast]
    tops = [0, *accumulate(lengths)]
    times = [0.0, *accumulate(_THINKS_S + shown.stays_s + _SCROLLS_S for shown in cast)]
    frames, parts = [_camera(tops, times)], []
    for number, (shown, top, begins) in enumerate(zip(cast, tops, times, strict=False)):
        for name, lines, at in (
            (f"c{number}", _command(shown.command, top), begins),
            (f"p{number}", _printed(shown, top + 1), begins + _THINKS_S),
        ):
            parts.append(f'<g id="{name}">{"".join(lines)}</g>')
            frames.append(_appears(name, 100 * at / times[-1]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}">\n'
        f"<style>{_STYLE % (times[-1], chr(10).join(frames))}</style>\n"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#1c2128"/>\n'
        f'<svg y="{_TOP}" width="{_WIDTH}" height="{ROWS * _LINE}">'
        f'<g id="camera">\n{"".join(parts)}</g></svg>\n</svg>\n'
    )


def _command(command: str, row: int) -> Iterator[str]:
    yield _text(row, f'<tspan class="prompt">$</tspan> {html.escape(command)}')


def _printed(shown: Shown, row: int) -> Iterator[str]:
    line: list[str] = []
    words = ""
    for css, text in runs(shown.printed.rstrip("\n") + "\n"):
        for piece in text.splitlines(keepends=True):
            words += piece
            visible = html.escape(piece.rstrip("\n"))
            line.append(f'<tspan style="{css}">{visible}</tspan>' if css else visible)
            if piece.endswith("\n"):
                if any(each in words for each in shown.marked):
                    yield f'<rect class="mark" y="{row * _LINE}" width="100%" height="{_LINE}"/>'
                yield _text(row, "".join(line))
                line, words, row = [], "", row + 1


def _text(row: int, content: str) -> str:
    return f'<text x="{_LEFT}" y="{row * _LINE + 13}">{content}</text>\n'


def _appears(name: str, percent: float) -> str:
    seen = f"{percent:.2f}% {{ visibility: visible; }}"
    hidden = "0% { visibility: hidden; } " if percent else ""
    return f"#{name} {{ animation-name: {name}; }} @keyframes {name} {{ {hidden}{seen} }}"


def _camera(tops: Sequence[int], times: Sequence[float]) -> str:
    """The first command is seen from its top, the others at the foot of the window."""
    frames, total = [], times[-1]
    ends = [ROWS, *tops[2:]]
    for begins, until, end in zip(times[:-1], times[1:], ends, strict=True):
        seen = f"transform: translateY({-max(0, end - ROWS) * _LINE}px);"
        leaves = 100 * (until - _SCROLLS_S) / total
        frames.append(f"{100 * begins / total:.2f}% {{ {seen} }}")
        frames.append(f"{leaves:.2f}% {{ {seen} animation-timing-function: ease-in-out; }}")
    frames.append(f"100% {{ {seen} }}")
    return f"#camera {{ animation-name: camera; }} @keyframes camera {{ {' '.join(frames)} }}"
