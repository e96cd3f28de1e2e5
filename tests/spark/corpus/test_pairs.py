"""Wrong jobs, each found by `explore`, and their mended twins, which it does not accuse."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.explore import Refuted, explore
from tests.spark.corpus.jobs import PAIRS, Pair

SEEDS = [
    pytest.param(1, marks=pytest.mark.gate),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 5)),
]
pairs = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)


@pytest.mark.parametrize("seed", SEEDS)
@pairs
def test_the_wrong_job_is_found(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int
) -> None:
    with pytest.raises(Refuted) as refuted:
        explore(kafka, spark, **given(pair, "wrong"), seed=seed, shrink_runs=0)
    assert pair.says in str(refuted.value)


@pytest.mark.parametrize("seed", SEEDS)
@pairs
def test_its_mended_twin_is_not_accused(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int
) -> None:
    schedules = 6 if seed == 1 else 20
    explore(kafka, spark, **given(pair, "right"), seed=seed, schedules=schedules)


def given(pair: type[Pair], which: str) -> dict[str, Any]:
    """What a new pair gives `explore`."""
    return getattr(pair(), which)()
