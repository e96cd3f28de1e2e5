"""The page about metrics lists those that there are."""

import re
from pathlib import Path

from embedkafka.cluster.reports.metric_names import COUNT, NAMES

PAGE = Path(__file__).parents[2] / "docs/how-to/metrics.md"


def test_every_text_says_by_itself_what_its_metric_is_about() -> None:
    """Prometheus shows each without the others."""
    assert [
        text for text in NAMES.values() if re.search(r"The same|\b(this|these|those)\b", text)
    ] == []


def test_the_page_has_every_metric_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[2])}
    assert listed == {name.removesuffix(COUNT) for name in NAMES}
