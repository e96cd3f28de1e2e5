"""`python -m tests.wire.differential --family records --seed 7 --steps 1000`."""

import argparse
import logging
import secrets
import sys

from tests.wire.differential.families import FAMILIES, started
from tests.wire.differential.runs import Failed, Runner


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.differential")
    parser.add_argument("--family", choices=FAMILIES, default=None)
    parser.add_argument("--steps", type=int, default=1000, help="steps of each family")
    parser.add_argument("--length", type=int, default=50, help="steps of a sequence")
    parser.add_argument("--seed", type=int, default=None, help="seed (default: random)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a difference")
    asked = parser.parse_args()
    seed = secrets.randbits(32) if asked.seed is None else asked.seed
    logging.getLogger("embedkafka").setLevel(logging.CRITICAL)
    failures = 0
    for name, spec in FAMILIES.items():
        if asked.family not in (None, name):
            continue
        print(f"{name}: seed {seed}, {asked.steps} steps", flush=True)
        with started(spec) as clusters:
            runner = Runner(clusters)
            for sequence in range(seed, seed + max(1, asked.steps // asked.length)):
                try:
                    runner.explore(spec.new, seed=sequence, length=asked.length)
                except Failed as failed:
                    print(f"--family {name} --seed {sequence}, {failed}\n", flush=True)
                    failures += 1
                    if not asked.keep_going:
                        return 1
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
