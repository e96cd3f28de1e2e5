"""A seed is the run's, the call's, the test's, or random, in this order."""

import pytest

from embedkafka.explore.seeds import (
    DEFAULT_VARIABLE,
    MOST_SCHEDULES,
    REPEAT_VARIABLE,
    SEED_VARIABLE,
    Seed,
    choose_seeds,
    parse_seed,
)
from embedkafka.runtime.failures import ConfigError

VARIABLES = (SEED_VARIABLE, DEFAULT_VARIABLE, REPEAT_VARIABLE)


@pytest.fixture(autouse=True)
def no_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_without_any_seed_every_call_draws_its_own() -> None:
    seeds = [seed for _ in range(5) for seed in choose_seeds(None)]
    assert len({seed.base for seed in seeds}) > 1
    assert all(seed.number is None and not seed.is_repeated for seed in seeds)


def test_the_run_goes_before_the_call_and_the_call_before_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REPEAT_VARIABLE, "1/4")
    monkeypatch.setenv(DEFAULT_VARIABLE, "2")
    assert choose_seeds(None) == [Seed(base=2)]
    assert choose_seeds(3) == choose_seeds("3") == [Seed(base=3)]
    monkeypatch.setenv(SEED_VARIABLE, "5/6")
    assert choose_seeds(3) == [Seed(base=5, number=6)]


def test_what_refuted_the_job_runs_before_a_random_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPEAT_VARIABLE, "731/2")
    repeated, drawn = choose_seeds(None)
    assert repeated == Seed(base=731, number=2, is_repeated=True)
    assert drawn.number is None
    assert choose_seeds(7) == [Seed(base=7)]


@pytest.mark.parametrize(
    ("seed", "numbers"),
    [("7", [1, 2, 3]), ("7/0", []), ("7/1", [1]), ("7/9", [9]), (0, [1, 2, 3])],
)
def test_a_seed_has_numbers_beside_the_plain_one(seed: int | str, numbers: list[int]) -> None:
    assert [*parse_seed(seed).numbers(4)] == numbers


@pytest.mark.parametrize("wrong", ["7/x", "x", "", "7/", "/7", -1, 1.5, 2**63, "9" * 101])
def test_what_is_no_seed_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="seed must be a number"):
        parse_seed(wrong)  # type: ignore[arg-type]  # a user's mistake


def test_a_number_beyond_every_run_is_refused_at_once() -> None:
    assert parse_seed(f"7/{MOST_SCHEDULES}").number == MOST_SCHEDULES
    with pytest.raises(ConfigError, match="at most 100000 schedules"):
        parse_seed(f"7/{MOST_SCHEDULES + 1}")
