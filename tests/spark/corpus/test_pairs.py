"""`explore` finds each wrong job of the corpus, and accuses no right one.

By day, each wrong job meets the schedule of seed 1 that finds it, and each right one the first few;
by night, all schedules of five seeds. `python -m tests.spark.corpus` prints which ones find what.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.explore import Explored, Refuted, explore
from tests.spark.corpus.pairs import PAIRS
from tests.spark.corpus.parts import Pair

Note = Callable[[str, object], None]

pairs = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
seeds = pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])


@pytest.mark.gate
@pairs
def test_the_wrong_job_is_found(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], record_property: Note
) -> None:
    find(kafka, spark, pair, f"1/{max(1, PAIRS[pair])}", record_property)


@pytest.mark.gate
@pairs
def test_its_mended_twin_is_not_accused(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], record_property: Note
) -> None:
    acquit(kafka, spark, pair, 1, record_property, schedules=3)


@pytest.mark.slow
@seeds
@pairs
def test_the_wrong_job_is_found_within_20_schedules(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int, record_property: Note
) -> None:
    find(kafka, spark, pair, seed, record_property)


@pytest.mark.slow
@seeds
@pairs
def test_its_mended_twin_is_not_accused_by_20_schedules(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int, record_property: Note
) -> None:
    acquit(kafka, spark, pair, seed, record_property, schedules=20)


def find(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int | str, note: Note
) -> None:
    """Refutes a new wrong job, and notes by which schedule."""
    with pytest.raises(Refuted) as refuted, made(pair) as wrong:
        explore(kafka, spark, **wrong.wrong(), seed=seed, shrink_runs=0)
    assert pair.says in str(refuted.value)
    note("corpus", (pair.__name__, f"found by {refuted.value.seed}"))


def acquit(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    pair: type[Pair],
    seed: int,
    note: Note,
    *,
    schedules: int,
) -> None:
    """Explores a new right job, and notes how far."""
    with made(pair) as right:
        explored: Explored = explore(kafka, spark, **right.right(), seed=seed, schedules=schedules)
    note("corpus", (pair.__name__, f"right under {explored.schedules} of {seed}"))


@contextmanager
def made(pair: type[Pair]) -> Iterator[Pair]:
    """A new pair, which is closed behind the block if it has something open."""
    new: Any = pair()
    try:
        yield new
    finally:
        if hasattr(new, "close"):
            new.close()
