"""The page and the cast that show what a program printed."""

import html
import re
from xml.etree import ElementTree

from tests.page.cast import Shown, as_cast
from tests.page.terminal import as_page


def test_colours_and_text_are_kept() -> None:
    page = as_page("plain \x1b[31m\x1b[1mred & bold\x1b[0m plain again\n")
    spans = re.findall(r'<span style="(.*?)">(.*?)</span>', page, re.DOTALL)
    shown = [(style, html.unescape(text)) for style, text in spans if text]
    assert shown == [
        ("", "plain "),
        ("color: #f47067; font-weight: bold", "red & bold"),
        ("", " plain again\n"),
    ]


def test_a_cast_has_all_that_was_printed_and_marks_what_tells() -> None:
    cast = as_cast([Shown("run <it>", "\x1b[31mred\n & bold\x1b[0m plain\n", 1, ("bold plain",))])
    root = ElementTree.fromstring(cast)
    svg = "{http://www.w3.org/2000/svg}"
    lines = ["".join(line.itertext()) for line in root.iter(f"{svg}text")]
    assert lines == ["$ run <it>", "red", " & bold plain"]
    (mark,) = root.iterfind(f".//{svg}rect[@class='mark']")
    last = list(root.iter(f"{svg}text"))[-1]
    assert int(mark.attrib["y"]) < int(last.attrib["y"]) < int(mark.attrib["y"]) + 17
    reds = [span.text for span in root.iter(f"{svg}tspan") if "color" in span.get("style", "")]
    assert reds == ["red", " & bold"]
