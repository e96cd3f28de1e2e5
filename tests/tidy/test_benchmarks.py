"""The benchmarks run, so they work when they are needed."""

from collections.abc import Iterator

import pytest

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


def _run(report: Report) -> Run:
    return Run(report, scale=TINY, brokers=1, rounds=1, only=[EMBEDDED], match="")
