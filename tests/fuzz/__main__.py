"""`python -m tests.fuzz --inputs N --seed S [--only decoders|batches|broker]`."""

import argparse
import logging
import secrets
import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.fuzz.batches import Batches
from tests.fuzz.broker import RunningBroker
from tests.fuzz.decoders import Decoders
from tests.fuzz.harness import Failed, Target, run

#: Each target's share of the inputs.
TARGETS: Final[Mapping[str, tuple[Callable[[Random], Target], float]]] = {
    "decoders": (Decoders, 0.6),
    "batches": (Batches, 0.2),
    "broker": (RunningBroker, 0.2),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=20_000, help="inputs in total")
    parser.add_argument("--seed", type=int, default=None, help="seed (default: random)")
    parser.add_argument("--only", choices=TARGETS, default=None)
    asked = parser.parse_args()
    seed = secrets.randbits(32) if asked.seed is None else asked.seed
    logging.getLogger("embedkafka").setLevel(logging.CRITICAL)
    for name, (make, share) in TARGETS.items():
        if asked.only in (None, name):
            count = asked.inputs if asked.only else int(asked.inputs * share)
            try:
                run(make, inputs=count, seed=seed, say=lambda line: print(line, flush=True))
            except Failed as failed:
                print(failed, file=sys.stderr)
                raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
