"""A short run of `make fuzz` with fixed seeds; one that once found a fault is a known case."""

from typing import Any

import pytest

from tests.fuzz import harness
from tests.fuzz.batches import Batches
from tests.fuzz.broker import RunningBroker
from tests.fuzz.decoders import Decoders
from tests.fuzz.harness import Failed, run


@pytest.mark.parametrize(
    ("target", "inputs", "seed"),
    [
        (Decoders, 2000, 1),
        (Batches, 600, 1),
        (RunningBroker, 800, 1),
        # A refused batch behind a gap in offsets left an active segment beyond the gap.
        (Batches, 40, 4254595377),
    ],
)
def test_hostile_input_is_refused_and_harms_nobody(target: Any, inputs: int, seed: int) -> None:
    run(target, inputs=inputs, seed=seed)


class Fragile(Decoders):
    """Fails on some inputs."""

    name = "fragile"

    def feed(self, data: Any) -> None:
        assert len(data.data) % 97, "fragile"


def test_a_failure_names_the_seed_and_the_input() -> None:
    said = []
    with pytest.raises(Failed) as failed:
        run(Fragile, inputs=3000, seed=5, say=said.append)
    assert said == ["fragile: 3000 inputs, seed 5"]
    with pytest.raises(Failed) as again:
        run(Fragile, inputs=3000, seed=5, say=None)
    assert str(again.value) == str(failed.value)
    assert "of seed 5 failed" in str(failed.value)


class Greedy(Decoders):
    """Leaks memory with each input."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng)
        self._kept = []

    def feed(self, data: Any) -> None:
        self._kept.append(b"x" * (64 * 1024))


def test_a_process_that_grows_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "GROWTH_BYTES", 16 * 1024 * 1024)
    with pytest.raises(Failed) as failed:
        run(Greedy, inputs=1000, seed=5, say=None)
    assert type(failed.value.__cause__).__name__ == "Grown"


class Endless(Decoders):
    """Never returns."""

    def feed(self, data: Any) -> None:
        while True:
            pass


def test_an_input_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HANG_S", 0.1)
    with pytest.raises(Failed, match="input 0 of seed 5 failed"):
        run(Endless, inputs=1, seed=5, say=None)
