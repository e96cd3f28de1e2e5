"""What refuted a job is repeated until it passes; in CI a test always has the same seed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import OTHERS

EXPLORING = """
import logging
import os
import pytest
from embedkafka.explore import Input, all_records, exploration, explore
from embedkafka.explore.runner import Ran
from embedkafka.explore.schedule import Crash

class Runner:
    def __init__(self, *_, **__):
        pass

    def read_before(self):
        return {}, {}

    def run(self, schedule):
        if len(schedule.events) > 1:
            logging.getLogger("embedkafka.explore.progress").info("explore: on its way")
        found = [1, 1] if schedule.uses(Crash) and "WRONG" in os.environ else [1]
        return Ran(
            found={"out": found},
            items={"out": {"": found}},
            notes={},
            has_checkpoint=True,
            has_watermark=False,
        )

@pytest.mark.xdist_group("jobs")
@pytest.mark.parametrize("name", ["a", "b@c"])
def test_job(monkeypatch, name):
    monkeypatch.setattr(exploration, "Runner", Runner)
    for _ in range(2):
        explore(
            object(),
            object(),
            job=lambda spark, options: None,
            inputs={"orders": list("1234")},
            outputs={"out": all_records()},
            schedules=4,
        )
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Two tests that explore, in a project that has pytest's cache, on no CI."""
    others = [name for name in OTHERS if name != "cacheprovider"]
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in others))
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(test_jobs=EXPLORING)
    return pytester


def refuting_seeds(output: str) -> list[str]:
    return re.findall(r"^E +To repeat it: pytest --explore-seed=(\S+),", output, re.MULTILINE)


def kept(project: pytest.Pytester) -> list[Any]:
    files = Path(project.path, ".pytest_cache", "v", "embedkafka", "explore").iterdir()
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.gate
def test_what_refuted_a_job_is_repeated_until_the_test_passes(
    project: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "1")
    first = run()
    seeds = refuting_seeds(first.stdout.str())
    assert len(set(seeds)) == 2
    found = kept(project)
    assert sorted((each["test"], each["seed"]) for each in found) == [
        ("test_jobs.py::test_job[a]", seeds[0]),
        ("test_jobs.py::test_job[b@c]", seeds[1]),
    ]

    again = run("-n2", "--dist=loadgroup")
    assert sorted(refuting_seeds(again.stdout.str())) == sorted(seeds)
    bases = [seed.partition("/")[0] for seed in seeds]

    run("--explore-seed=7/3").assert_outcomes(passed=2)  # by other schedules
    assert kept(project) == found

    monkeypatch.delenv("WRONG")
    passed = run("-v")
    passed.assert_outcomes(passed=2)
    lines = re.findall(r"test_job\[a\]: explored (\d) schedules of seed (\d+)", str(passed.stdout))
    assert re.search(r"\n  crash +\d+ +\d+ +0\n", str(passed.stdout))
    assert "embedkafka: explore: on its way" in str(passed.stdout)
    assert "on its way" not in str(run().stdout)
    assert [count for count, _ in lines] == ["2", "4"] * 2
    assert [seed for _, seed in lines[::2]] == [bases[0]] * 2
    assert kept(project) == [None, None]


@pytest.mark.gate
def test_in_ci_each_test_has_a_seed_of_its_own(
    project: pytest.Pytester, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explorations of one test share it."""
    monkeypatch.setenv("CI", "true")
    seeds = [
        re.findall(
            r"(test_job\[[^]]+\])\S*: explored 4 schedules of seed (\d+) in", str(result.stdout)
        )
        for result in (run("-v"), run("-v", "-n2", "--dist=loadgroup", "-pno:cacheprovider"))
    ]
    assert sorted(seeds[0]) == sorted(seeds[1])
    assert [test for test, _ in seeds[0]] == ["test_job[a]"] * 2 + ["test_job[b@c]"] * 2
    assert len(set(seeds[0])) == len({seed for _, seed in seeds[0]}) == 2

    monkeypatch.setenv("WRONG", "1")
    run().assert_outcomes(failed=2)
    assert not Path(project.path, ".pytest_cache", "v", "embedkafka").exists()
