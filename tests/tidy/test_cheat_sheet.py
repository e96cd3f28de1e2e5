"""The cheat sheet: its blocks run with all others; here are the names outside of them."""

import re

import pytest

import embedkafka
from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs/cheat-sheet.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
CALLS = sorted(set(re.findall(r"(\w+)\(", " ".join(re.findall(r"`([^`]+)`", PROSE)))))
PUBLIC = {name for each in embedkafka.__all__ for name in dir(getattr(embedkafka, each))}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_in_a_table_exists(name: str) -> None:
    assert name in PUBLIC


def test_the_page_fits_on_one() -> None:
    assert len(CALLS) > 10
    assert len(PAGE.splitlines()) < 250
