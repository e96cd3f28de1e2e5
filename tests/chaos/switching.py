"""How often threads take turns in a round.

CPython lets a thread run for 5 ms at a time, which hides most races. In half of the rounds, a
turn lasts 20 µs.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

USUAL_S, HASTY_S = 0.005, 0.00002


def turn_s(seed: int) -> float:
    """How long a thread runs at a time in the round of this seed, in seconds."""
    return random.Random(f"turns {seed}").choice([USUAL_S, HASTY_S])


@contextmanager
def turns_of(seed: int) -> Iterator[None]:
    """Lets threads take turns as the seed says."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(turn_s(seed))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
