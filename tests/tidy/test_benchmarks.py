"""The benchmarks run, so they work when they are needed."""

from collections.abc import Iterator

import pytest

from benchmarks.first_look import (
    BEGINS,
    ENDS,
    OURS,
    README,
    ROWS,
    THEIRS,
    measure,
    replaced,
    table,
)
from benchmarks.report import Report
from benchmarks.rivals.rival import Rival
from benchmarks.rows import Row, Scale, Workload
from benchmarks.run import Run
from benchmarks.themes import EMBEDDED, THEMES, Theme

TINY = Scale(
    idle_seconds=0,
    records=100,
    acks=5,
    topics=1,
    new_groups=2,
    joins=1,
    full_groups=2,
    commits=5,
    transactions=5,
    kills=1,
    log_mb=1,
    compacted_mb=1,
    loaded_partitions=10,
)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_workload_runs(theme: Theme) -> None:
    report = Report()

    _run(report).measure(theme)

    assert report.failures == []


def test_a_row_that_fails_is_told_and_the_next_one_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(rival: Rival, scale: Scale) -> Iterator[Row]:
        yield Row(name="before", value=1)
        raise TimeoutError("no answer")

    def works(rival: Rival, scale: Scale) -> Iterator[Row]:
        yield Row(name="after", value=2)

    theme = Theme(
        name="theme",
        clusters=(EMBEDDED,),
        repeated=(Workload(name="bad", run=fails), Workload(name="good", run=works)),
    )
    report = Report()

    _run(report).measure(theme)

    table = report.table(ours="embedkafka")
    assert "before" in table
    assert "after" in table
    assert "FAILED theme: bad: embedkafka: TimeoutError('no answer')" in table
    assert "FAILED theme: bad" in capsys.readouterr().err


def test_the_table_of_readme_has_medians_in_units_that_read_well() -> None:
    measured = {name: {OURS: [0.0421, 0.05, 0.9], THEIRS: [2.46]} for name in ROWS}
    first, _, row, *_ = table(measured).splitlines()
    assert first == "| | embedkafka | Apache Kafka |"
    assert row == f"| {ROWS[0]} | 50 ms | 2.5 s |"


def test_readme_has_the_rows_that_are_measured() -> None:
    readme = README.read_text()
    assert replaced(readme, "") != readme
    rows = readme.partition(BEGINS)[2].partition(ENDS)[0].splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows if row[:1] == "|"] == [*ROWS]


def test_a_readme_without_the_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="one table"):
        replaced("# embedkafka\n", "| |\n")


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize("cluster", [OURS, THEIRS])
def test_every_row_of_readme_is_measured(cluster: str) -> None:
    assert {name for name, _ in measure(cluster, kills=1)} == set(ROWS)


def _run(report: Report) -> Run:
    return Run(report, scale=TINY, brokers=1, rounds=1, only=[EMBEDDED], match="")
