"""Many histories of a cluster with its logs: `EK_SIM_SEEDS=500 pytest tests/sim` runs more.

A failing test has its seed in its name; `EK_SIM_FIRST=<seed> EK_SIM_SEEDS=1` repeats it.
"""

from pathlib import Path

import pytest

from tests.sim.replica_world import ReplicaWorld
from tests.sim.test_controller_sim import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_loses_what_was_committed(seed: int, tmp_path: Path) -> None:
    world = ReplicaWorld(seed, tmp_path)
    try:
        for _ in range(3):
            world.run(steps=200)
            world.come_to_rest()
    except BaseException:
        print(f"seed {seed}; the last steps of its history:")
        print("\n".join(world.history[-80:]))
        raise
    finally:
        world.close()
