"""Runs many histories of both simulations, one per seed.

python -m tests.sim --seeds 10000 --seed 1 --workers 2
python -m tests.sim --seed 7 --kind replicas         repeats one
"""

import argparse
import logging
import random
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.sim.runs import KINDS

BATCH = 20
SHOWN = 5


def run_batch(kind: str, seeds: range) -> list[tuple[int, str]]:
    """Returns the seeds whose histories broke a rule, each with the traceback."""
    logging.disable(logging.CRITICAL)
    wrong = []
    for seed in seeds:
        try:
            KINDS[kind](seed)
        except Exception as error:
            wrong.append((seed, "".join(traceback.format_exception(error))))
    return wrong


def run_seeds(first: int, count: int, workers: int, kinds: list[str]) -> list[str]:
    """Runs the seeds, prints failures as they occur, and returns them as "kind seed"."""
    failed = []
    with ProcessPoolExecutor(workers) as pool:
        for kind in kinds:
            began = time.monotonic()
            starts = range(first, first + count, BATCH)
            batches = [range(n, min(n + BATCH, first + count)) for n in starts]
            for wrong in pool.map(run_batch, [kind] * len(batches), batches):
                for seed, how in wrong:
                    failed.append(f"{kind} {seed}")
                    print(how if len(failed) <= SHOWN else f"{kind} {seed} failed", flush=True)
            took = time.monotonic() - began
            print(f"{kind}: {count} seeds from {first} in {took:.0f} s", flush=True)
    print(f"failed: {', '.join(failed) or 'none'}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--seed", type=int, default=None, help="first seed (default: random)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument(
        "--kind", choices=[*KINDS], action="append", help="kind of history (default: both)"
    )
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    return 1 if run_seeds(seed, asked.seeds, asked.workers, asked.kind or [*KINDS]) else 0


if __name__ == "__main__":
    sys.exit(main())
