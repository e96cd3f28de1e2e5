"""The seeds of an exploration: of the run, of the call, of the test, or random.

Environment variables pass them from whatever runs the tests, because `explore` knows no runner.
"""

import os
from random import Random
from typing import Final

from embedkafka.runtime.arguments import MAX_INT64, shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

SEED_VARIABLE: Final = "EMBEDKAFKA_EXPLORE_SEED"
"""Overrides every other seed: pytest's `--explore-seed`."""
DEFAULT_VARIABLE: Final = "EMBEDKAFKA_EXPLORE_DEFAULT_SEED"
"""Stands for a random seed."""
REPEAT_VARIABLE: Final = "EMBEDKAFKA_EXPLORE_REPEAT"
"""What refuted the job last time; it runs before a random seed."""

MOST_SCHEDULES: Final = 100_000
"""A number is found by drawing all schedules before it."""
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A seed of all schedules, and the number of one of them or None; 0 is the plain one."""

    base: int
    number: int | None = None
    is_repeated: bool = False
    """Whether it refuted the job before; the inputs may have changed since."""

    def numbers(self, schedules: int) -> range:
        """The numbers of the schedules to run beside the plain one, `schedules` with it."""
        if self.number is None:
            return range(1, schedules)
        return range(max(1, self.number), self.number + 1)


def choose_seeds(given: int | str | None) -> list[Seed]:
    """The seeds to explore, one after the other.

    Raises:
        ConfigError: one of them is not a seed.
    """
    if override := os.environ.get(SEED_VARIABLE):
        return [parse_seed(override)]
    if given is not None:
        return [parse_seed(given)]
    if default := os.environ.get(DEFAULT_VARIABLE):
        return [parse_seed(default)]
    refuting = os.environ.get(REPEAT_VARIABLE)
    repeated = [parse_seed(refuting, is_repeated=True)] if refuting else []
    return [*repeated, Seed(base=Random().getrandbits(32))]


def parse_seed(given: int | str, *, is_repeated: bool = False) -> Seed:
    """The seed that a number or a text such as "7/3" means."""
    is_number = isinstance(given, int) and 0 <= given <= MAX_INT64
    text = str(given) if is_number else given if isinstance(given, str) else ""
    base, slash, number = text.partition("/")
    if not _is_number(base) or (slash and not _is_number(number)):
        raise ConfigError(f'seed must be a number, or two such as "7/3", got {shown(given)}')
    if slash and int(number) > MOST_SCHEDULES:
        raise ConfigError(f"a seed has at most {MOST_SCHEDULES} schedules, got {shown(given)}")
    return Seed(base=int(base), number=int(number) if slash else None, is_repeated=is_repeated)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST
