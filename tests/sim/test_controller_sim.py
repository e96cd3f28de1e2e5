"""Many histories of a cluster, each from a seed: `EK_SIM_SEEDS=500 pytest tests/sim` runs more.

A failing test has its seed in its name; `EK_SIM_FIRST=<seed> EK_SIM_SEEDS=1` repeats it.
"""

import os

import pytest

from tests.sim.world import World

FIRST = int(os.environ.get("EK_SIM_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("EK_SIM_SEEDS", "40")))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_breaks_a_rule(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(3):
            world.run(steps=150)
            world.come_to_rest()
    except BaseException:
        print(f"seed {seed}; the last steps of its history:")
        print("\n".join(world.history[-60:]))
        raise
