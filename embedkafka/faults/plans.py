"""Random faults, one after the other, that a seed repeats: `kafka.faults.plan(...)`.

A plan is a list of steps. What happens at each of them is chosen when the plan is made, from the
seed alone, so the text of a plan that found a bug is enough to find it again. Threads still run
when the operating system lets them.

Owner: the test's thread.
Not here: what the steps do to the cluster (`cluster.fault_steps`).
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from embedkafka.runtime.arguments import require_function, require_int, require_known, require_list
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.values import dataclass

_MOST_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that befalls the cluster and passes."""

    text: str
    begin: Callable[[], None]
    end: Callable[[], None]
    """Undoes it; returns when the cluster has recovered."""


Choose = Callable[[random.Random], Happening]
"""Chooses where and how hard it hits."""


class FaultStep:
    """A step of a plan. Entering its `with` block sets the fault, leaving it ends the fault."""

    def __init__(self, number: int, happening: Happening) -> None:
        self._happening = happening
        self.number = number
        """Its place in the plan, from 1 on."""

    def __str__(self) -> str:
        return f"{self.number}. {self._happening.text}"

    def __repr__(self) -> str:
        return f"<FaultStep {self}>"

    def __enter__(self) -> Self:
        self._happening.begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._happening.end()
        except EmbedKafkaError as failure:
            if exc is None:
                raise
            exc.add_note(f"after that, {self} could not be undone: {failure}")


class FaultPlan:
    """A random sequence of faults: `kafka.faults.plan(...)`. Its text says how to repeat it.

    for step in kafka.faults.plan(seed=7, steps=5):
        with step:
            orders.send("in spite of it")
    """

    def __init__(self, seed: int, allowed: Sequence[str], steps: Sequence[FaultStep]) -> None:
        self.seed = seed
        """Repeats the plan, on a cluster with as many brokers."""
        self.steps = steps
        """What happens, in order."""
        self._allowed = allowed

    def __str__(self) -> str:
        said = f"plan(seed={self.seed}, steps={len(self.steps)}, allow={list(self._allowed)})"
        return "\n".join([said, *(f"  {step}" for step in self.steps)])

    def __repr__(self) -> str:
        return f"<FaultPlan seed={self.seed}, {len(self.steps)} steps>"

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[FaultStep]:
        return iter(self.steps)

    def run(self, during: Callable[[], object]) -> None:
        """Takes all steps, and calls `during` at each, while its fault is set.

        Args:
            during: what the test does at each step.
        """
        require_function("during", during, "")
        for step in self.steps:
            with step:
                during()


def make_plan(
    choices: Mapping[str, Choose], *, seed: int, steps: int, allow: Sequence[str] | None
) -> FaultPlan:
    """A plan of `steps` happenings out of those that `allow` names, or of all."""
    require_int("seed", seed)
    require_int("steps", steps, least=1, most=_MOST_STEPS)
    given = sorted(choices) if allow is None else require_list("allow", allow, "['kill']")
    allowed = [require_known("fault for a plan", name, choices) for name in given]
    if not allowed:
        raise InvalidArgument(f"allow must name one fault at least, of {', '.join(choices)}")
    rng = random.Random(seed)
    return FaultPlan(
        seed,
        allowed,
        [
            FaultStep(number, choices[rng.choice(allowed)](random.Random(rng.getrandbits(64))))
            for number in range(1, steps + 1)
        ],
    )
