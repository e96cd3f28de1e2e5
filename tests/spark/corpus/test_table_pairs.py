"""Wrong jobs into Delta and Iceberg tables are found, and right ones are not accused."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.corpus.tables import TABLE_PAIRS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # it starts a session with the jars of both
@pytest.mark.timeout(1200)
def test_jobs_into_tables_are_judged_rightly() -> None:
    score = [sys.executable, "-m", "tests.spark.corpus", "--tables", "--schedules", "8"]
    said = subprocess.run(score, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()[1:]]
    found = {
        pair: by[0] == "#" and by[-1] != "?" and passed == "8" for pair, _, by, _, passed, _ in rows
    }
    assert found == {pair.__name__: True for pair in TABLE_PAIRS}, said
