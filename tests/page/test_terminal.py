"""The page that shows what a program printed."""

import html
import re

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
