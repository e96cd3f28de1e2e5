"""Draws a sequence diagram as SVG from a description in text, one line for each step.

    producer > leader: append | broker.replica.leader_writes:LeaderWrites.append_records
    leader --> producer: acknowledged          dashed: an answer
    leader: writes the batch                   a step of its own
    purgatory waits: for the followers         a state that lasts
    = a follower was late                      a heading

After the bar stands the code that does the step, as module:name below `embedkafka`.
The picture follows the reader's colour scheme: an image takes it from the page that shows it.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

_STEP: Final = re.compile(
    r"(?P<source>[^:>|]+?)(?: *(?P<arrow>--?>|>) *(?P<target>[^:|]+?)| (?P<waits>waits))?"
    r": (?P<text>[^|]+?)(?: \| (?P<code>[\w.]+:[\w.]+))?"
)
_TEXT_PX: Final = 6.9  # a character of the text; code is smaller, in a fixed width
_CODE_PX: Final = 6.1
_MARGIN: Final = 14
_GAP: Final = 26  # between a text and the next lifeline
_TOP: Final = 62
_ROW: Final = 46
_HEADING: Final = 38

_STYLE: Final = """
  .paper { fill: #ffffff; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
    fill: #1f2933; stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
  .code { font: 10px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #5b6b7b; }
  .party { font-weight: 600; }
  .heading { font-style: italic; fill: #00695c; }
  .party, .in { stroke: none; }
  .box { fill: #e0f2f1; stroke: #00796b; }
  .wait { fill: #fff3e0; stroke: #b26a00; }
  .life { stroke: #b0bec5; stroke-dasharray: 2 4; }
  .rule { stroke: #80cbc4; }
  .line { stroke: #37474f; stroke-width: 1.4; fill: none; }
  .answer { stroke-dasharray: 6 4; }
  .tip { fill: #37474f; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1e2129; }
    text { fill: #e4e7eb; stroke: #1e2129; }
    .code { fill: #9aa5b1; }
    .heading { fill: #80cbc4; }
    .party, .in { stroke: none; }
    .box { fill: #12403b; stroke: #4db6ac; }
    .wait { fill: #4a3413; stroke: #ffb74d; }
    .life { stroke: #52606d; }
    .rule { stroke: #2c5f59; }
    .line { stroke: #cbd2d9; }
    .tip { fill: #cbd2d9; }
  }
"""


class Step(NamedTuple):
    """One line of a description; without a source it is a heading."""

    source: str
    target: str
    """The source itself if the step is its own."""
    text: str
    code: str
    is_answer: bool
    waits: bool

    @property
    def width(self) -> float:
        return max(len(self.text) * _TEXT_PX, len(self.shown_code) * _CODE_PX)

    @property
    def shown_code(self) -> str:
        """The last names: `writes.append_records`."""
        module, _, name = self.code.partition(":")
        return f"{module.rpartition('.')[2]}.{name.rpartition('.')[2]}" if self.code else ""


def parse(description: str) -> list[Step]:
    return [_parse_line(line.strip()) for line in description.strip().splitlines()]


def _parse_line(line: str) -> Step:
    if line.startswith("= "):
        return Step("", "", line[2:], "", is_answer=False, waits=False)
    found = _STEP.fullmatch(line)
    if found is None:
        raise ValueError(f"not a step: {line!r}")
    source = found["source"]
    return Step(
        source,
        found["target"] or source,
        "waits " + found["text"] if found["waits"] else found["text"],
        found["code"] or "",
        is_answer=found["arrow"] == "-->",
        waits=found["waits"] is not None,
    )


def parties(steps: Sequence[Step]) -> list[str]:
    """Who takes part, in the order of their first step."""
    named = (name for step in steps for name in (step.source, step.target) if name)
    return list(dict.fromkeys(named))


def draw(title: str, description: str) -> str:
    """The picture, as the text of an SVG file."""
    steps = parse(description)
    columns, width = _columns(steps)
    height = _TOP + sum(_HEADING if not step.source else _ROW for step in steps) + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="paper" width="{width:.0f}" height="{height}" rx="6"/>\n'
        + "\n".join([*_lifelines(columns, height), *_rows(steps, columns, width)])
        + "\n</svg>\n"
    )


def _columns(steps: Sequence[Step]) -> tuple[dict[str, float], float]:
    """Where each party stands, so that every text has room, and the width of the picture."""
    names = parties(steps)
    columns: dict[str, float] = {}
    right = 0.0
    for index, name in enumerate(names):
        half = _party_width(name) / 2
        at = _MARGIN + half
        if index:
            before = names[index - 1]
            at = columns[before] + _party_width(before) / 2 + half + _MARGIN
        for step in steps:
            ends = {step.source, step.target}
            others = ends - {name}
            if others < ends and len(ends) == 2 and (other := others.pop()) in columns:
                at = max(at, columns[other] + step.width + _GAP)
        columns[name] = at
    for step in steps:
        if step.source and step.source == step.target:
            right = max(right, columns[step.source] + step.width + _GAP)
    last = names[-1]
    return columns, max(right, columns[last] + _party_width(last) / 2) + _MARGIN


def _party_width(name: str) -> float:
    return len(name) * (_TEXT_PX + 0.6) + 24


def _lifelines(columns: dict[str, float], height: int) -> Iterator[str]:
    for name, x in columns.items():
        width = _party_width(name)
        yield _line("life", x, 44, x, height - 8)
        yield _box("box", x - width / 2, 14, width, 30)
        yield _text(x, 34, name, "party", "middle")


def _rows(steps: Sequence[Step], columns: dict[str, float], width: float) -> Iterator[str]:
    y = float(_TOP)
    for step in steps:
        if not step.source:
            y += _HEADING
            yield _line("rule", _MARGIN, y - 21, width - _MARGIN, y - 21)
            yield _text(_MARGIN, y - 5, step.text, "heading", "start")
            continue
        y += _ROW
        source, target = columns[step.source], columns[step.target]
        if step.source != step.target:
            yield from _arrow(step, source, target, y - 18)
        else:
            yield from _own(step, source, y - 18)


def _arrow(step: Step, source: float, target: float, y: float) -> Iterator[str]:
    sign = 1 if target > source else -1
    kind = "line answer" if step.is_answer else "line"
    middle = (source + target) / 2
    yield _text(middle, y - 5, step.text, "", "middle")
    if step.code:
        yield _text(middle, y + 12, step.shown_code, "code", "middle")
    # After the texts, whose edges cover what they stand on.
    yield _line(kind, source, y, target - 6 * sign, y)
    yield _tip(target, y, sign)


def _own(step: Step, x: float, y: float) -> Iterator[str]:
    if step.waits:
        yield _box("wait", x - 5, y - 19, step.width + 24, 38)
    else:
        yield f'<path class="line" d="M{x:.0f} {y - 8} h8 v14 h-4"/>' + _tip(x, y + 6, -1)
    kind = "in" if step.waits else ""
    yield _text(x + 13, y - 4, step.text, kind, "start")
    if step.code:
        yield _text(x + 13, y + 12, step.shown_code, f"code {kind}", "start")


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'


def _box(kind: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" '
        'rx="5"/>'
    )


def _tip(x: float, y: float, sign: int) -> str:
    return f'<path class="tip" d="M{x:.0f} {y} l{-8 * sign} -4 v8 z"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    of_class = f' class="{kind}"' if kind else ""
    return f'<text{of_class} x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
