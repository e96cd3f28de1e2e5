"""`Search`: runs the schedules of a seed, shortens those that refute the job, and tells of them.

Owner: the thread that explores.
Not here: which schedules there are (`generation`), what is wrong with a result (`judge`).
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from embedkafka.explore.causes import without_cause
from embedkafka.explore.explored import Explored, ScheduleCounts, kinds_of
from embedkafka.explore.generation import draw_schedules
from embedkafka.explore.judge import Judge
from embedkafka.explore.progress import Progress
from embedkafka.explore.refutation import Evidence, Refuted, describe, indented, join_faults
from embedkafka.explore.schedule import Schedule
from embedkafka.explore.seeds import Seed
from embedkafka.explore.shrink import Shrunk, shrink
from embedkafka.explore.terms import Terms
from embedkafka.explore.vacuous import describe_single
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_VOTES: Final = 4
"""How many more schedules run to say which of two results most of them give."""


@dataclass(slots=True, kw_only=True)
class FoundFault:
    """A way in which schedules refute the job."""

    found: Schedule
    shrunk: Shrunk
    problem: Evidence
    repeat: str
    flaky: str
    also: list[str]
    """What repeats other schedules that it explains."""


class Search:
    """The search through the schedules of one seed."""

    def __init__(
        self,
        judge: Judge,
        terms: Terms,
        seed: Seed,
        progress: Progress,
        *,
        remarks: tuple[str, ...],
        faults: int,
        shrink_runs: int,
        may_prove_nothing: bool,
    ) -> None:
        self._judge = judge
        self._terms = terms
        self._seed = seed
        self._progress = progress
        self._remarks = remarks
        self._most_faults = faults
        self._shrink_runs = shrink_runs
        self._may_prove_nothing = may_prove_nothing
        self._counts = ScheduleCounts(terms, str(seed.base))
        self._faults: list[FoundFault] = []

    def run(self, schedules: int) -> Explored:
        """Runs so many schedules, or the one that the seed names.

        Raises:
            Refuted: one or more of them refute the job.
            ConfigError: the seed has no schedule of the number that it names, or there is none
                but the plain one.
        """
        numbers = self._seed.numbers(schedules)
        every = draw_schedules(self._seed.base, self._terms)
        drawn = islice(every, numbers.start - 1, numbers.stop - 1)
        for number, schedule in zip(numbers, drawn, strict=False):
            kinds = sorted(kind.value for kind in kinds_of(schedule, self._terms))
            doing = f"schedule {number + 1} of {numbers.stop}: {', '.join(kinds)}"
            self._progress.tell(doing + self._so_far())
            problem = self._judge.find_problem(schedule, votes=True)
            self._counts.add(schedule, self._judge.ran, is_not_yet=self._judge.is_not_yet)
            if problem is not None:
                self._add(schedule, problem, f"{self._seed.base}/{number}")
            if len(self._faults) == self._most_faults:
                break
        if self._faults:
            raise self._refuted(drawn)
        is_exhausted = self._counts.schedules <= len(numbers)
        if is_exhausted and self._seed.number is not None and not self._seed.is_repeated:
            raise ConfigError(
                f"seed {self._seed.base} has no schedule {self._seed.number}: these inputs and "
                "kinds of steps have fewer; did they change since it was printed?"
            )
        explored = self._explored(is_exhausted=is_exhausted)
        is_single = is_exhausted and explored.schedules == 1 and self._seed.number is None
        if is_single and not self._may_prove_nothing:
            raise ConfigError(describe_single(explored.impossible))
        return explored

    def _so_far(self) -> str:
        count = len(self._faults)
        return f" ({count} fault{'s' if count > 1 else ''} so far)" if count else ""

    def _explored(self, *, is_exhausted: bool = False) -> Explored:
        return self._counts.explored(
            is_exhausted=is_exhausted, remarks=self._remarks, seconds=self._progress.seconds
        )

    def _add(self, schedule: Schedule, problem: Evidence, repeat: str) -> None:
        if not self._faults and not problem.is_failure and not problem.is_slow:
            self._judge.require_steady(self._seed)
        for fault in self._faults:
            rest = without_cause(schedule, fault.shrunk.schedule, self._judge.plain)
            if rest == self._judge.plain or self._find_problem(rest) is None:
                fault.also.append(repeat)
                return
        fault = self._shortened(schedule, problem, repeat)
        self._faults.append(fault)

    def _find_problem(self, schedule: Schedule) -> Evidence | None:
        try:
            return self._judge.find_problem(schedule)
        except Exception:  # an invariant that was written for all records, not for fewer
            return None

    def _shortened(self, schedule: Schedule, problem: Evidence, repeat: str) -> FoundFault:
        problems = {schedule: problem}

        def fails(candidate: Schedule) -> bool:
            self._progress.tell(f"schedule {repeat} refutes the job; looking for a shorter one")
            found = self._find_problem(candidate)
            if found is None or found.is_failure != problem.is_failure:
                return False
            problems[candidate] = found
            return True

        most_runs = 0 if problem.is_slow else self._shrink_runs
        shrunk = shrink(schedule, self._judge.plain, fails, most_runs=most_runs)
        flaky = ""
        if shrunk.schedule == schedule and shrunk.runs and not fails(schedule):
            flaky = (
                "\nIt did not happen again in a second run of the same schedule: it is a race.\n"
            )
        return FoundFault(
            found=schedule,
            shrunk=shrunk,
            problem=problems[shrunk.schedule],
            repeat=repeat,
            flaky=flaky,
            also=[],
        )

    def _refuted(self, others: Iterator[Schedule]) -> Refuted:
        ran = self._explored()
        first = self._faults[0].problem
        votes = ""
        if not first.is_failure and not first.is_slow:
            votes = self._judge.votes(list(islice(others, min(_VOTES, self._shrink_runs))))
        messages = [self._message(fault, votes, ran) for fault in self._faults]
        return Refuted(join_faults(messages) + self._judge.triggers(), seed=self._faults[0].repeat)

    def _message(self, fault: FoundFault, votes: str, ran: Explored) -> str:
        is_first, is_last = fault is self._faults[0], fault is self._faults[-1]
        text = f"What ran:\n{indented(chr(10).join(ran.lines()))}\n" if is_last else ""
        return describe(
            fault.found,
            fault.shrunk,
            fault.problem,
            votes=votes if is_first else "",
            left=self._judge.left(fault.shrunk.schedule),
            ran=text + fault.flaky,
            repeat=fault.repeat,
            also=fault.also,
        )
