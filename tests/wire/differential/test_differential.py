"""The same few random sequences each time; CI runs new ones at night."""

from collections.abc import Iterator

import pytest

from tests.wire.differential.families import FAMILIES, started
from tests.wire.differential.runs import Failed, Runner

pytestmark = [pytest.mark.java, pytest.mark.gate]

_SEEDS = range(1, 4)
_LENGTH = 40


@pytest.fixture(scope="module")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    if not request.config.getoption("--oracle"):
        pytest.skip("compares with Apache Kafka, which --oracle starts")
    if request.config.getoption("--oracle-version").startswith("3."):
        pytest.skip("compares with Kafka 4")
    with started(FAMILIES["records"]) as clusters:
        yield Runner(clusters)


@pytest.mark.parametrize("family", ["records", "classic-groups", "transactions"])
def test_both_clusters_answer_a_random_sequence_alike(runner: Runner, family: str) -> None:
    for seed in _SEEDS:
        try:
            runner.explore(FAMILIES[family].new, seed=seed, length=_LENGTH)
        except Failed as failed:
            if failed.repeats:
                failed.add_note(
                    f"python -m tests.wire.differential --family {family} --seed {seed}"
                )
                raise
