"""The page itself: one HTML file with its style, its script and, if it is not live, its data."""

import json
from pathlib import Path
from typing import Final

from embedkafka.page.state import Json

_ASSETS: Final = Path(__file__).parent / "assets"


def live_page() -> str:
    """A page that asks its server for data."""
    return _page({"live": True})


def static_page(data: Json) -> str:
    """A page that holds its data and needs nothing else."""
    return _page({**data, "live": False})


def _page(data: Json) -> str:
    template, style, script = (
        (_ASSETS / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    )
    # Data must not end the script element that holds it.
    text = json.dumps(data).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return (
        template.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script).replace("/*DATA*/", text)
    )
