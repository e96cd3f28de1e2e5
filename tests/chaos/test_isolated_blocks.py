"""A cluster is after a test as it was before, whatever the test did to it.

The same two clusters each time; `make chaos` runs new ones, and so does CI at night.
"""

import pytest

from tests.chaos.isolation.__main__ import HANGS_S, run_rounds
from tests.chaos.isolation.moves import MOVES
from tests.chaos.isolation.world import World

SEED, ROUNDS = 50014, 2
"""Half a minute at most: most of it is waiting for clients that have lost their brokers."""


@pytest.mark.timeout(ROUNDS * HANGS_S)
def test_blocks_leave_nothing() -> None:
    assert run_rounds(SEED, ROUNDS), "some clusters are not as they were: see above"


def test_a_block_that_leaves_something_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checks the checkers: what comes after the end of a block is not undone."""
    end_clients = World.end_clients

    def leave_something(world: World) -> None:
        end_clients(world)
        if not world.kafka._reach.has_topic("left"):
            world.kafka.topic("left").send("x")
            world.kafka.scratch_dir("left")

    monkeypatch.setattr(World, "end_clients", leave_something)
    for name, (weight, _) in list(MOVES.items()):  # a quick seed: the moves do not matter
        monkeypatch.setitem(MOVES, name, (weight, lambda world, rng: None))
    assert not run_rounds(1, 1)
    said = capsys.readouterr().out
    assert "topics: left was None" in said
    assert "scratch were [" in said
