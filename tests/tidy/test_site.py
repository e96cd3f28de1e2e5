"""The website builds without warnings, and its links resolve."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.tidy.sources import ROOT

SITE = ROOT / "build" / "site"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_and_its_links_resolve() -> None:
    built = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    broken = [
        f"{path.relative_to(SITE)} links to {link}"
        for path, page in pages.items()
        for link in page.links
        if not leads_somewhere(path, link, pages)
    ]
    assert broken == []


def leads_somewhere(path: Path, link: str, pages: "dict[Path, Page]") -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target in pages and parts.fragment:
        return unquote(parts.fragment) in pages[target].ids
    return target.exists()


class Page(HTMLParser):
    """The ids and links of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
