"""Runs one history of either kind from its seed."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.sim.replica_world import ReplicaWorld
from tests.sim.world import World

SHOWN = 80


def run_controllers(seed: int) -> None:
    """Runs controllers with modelled brokers."""
    _run(World(seed), steps=150)


def run_replicas(seed: int) -> None:
    """Runs controllers with real replicas and logs."""
    with tempfile.TemporaryDirectory(dir=_memory()) as directory:
        world = ReplicaWorld(seed, Path(directory))
        try:
            _run(world, steps=200)
        finally:
            world.close()


KINDS: dict[str, Callable[[int], None]] = {
    "controllers": run_controllers,
    "replicas": run_replicas,
}


def _run(world: World, steps: int) -> None:
    try:
        for _ in range(3):
            world.run(steps)
            world.come_to_rest()
    except BaseException as error:
        history = "\n".join(world.history[-SHOWN:])
        error.add_note(f"seed {world.seed}; the last steps of its history:\n{history}")
        raise


def _memory() -> str | None:
    """Returns an in-memory directory if there is one; the runs write thousands of logs."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
