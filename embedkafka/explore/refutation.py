"""`Refuted`, and its message: the words about a job that is wrong. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.explore.schedule import Schedule
from embedkafka.explore.shrink import Shrunk
from embedkafka.runtime.values import dataclass, field

FAILED_WRITE: Final = (
    "A call that writes raised once. If the job means to go on without what it cannot write, leave "
    'this kind of step out: without=["write"].'
)

NOT_FLUSHED: Final = (
    "foreachBatch ended before its producer had sent everything. Spark then commits the "
    "batch, and a driver that dies loses what is left: flush the producer first."
)
EXPIRED: Final = (
    "Records expired while the job was down, and it went on without them. With Spark's default, "
    "failOnDataLoss=true, it fails."
)


class Refuted(AssertionError):
    """A job that gives a wrong result, under the schedule in the message."""

    __module__ = "embedkafka.explore"  # where users import it from

    def __init__(self, message: str, *, seed: str | None = None) -> None:
        super().__init__(message)
        self.seed = seed
        """Repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a run refutes the job."""

    headline: str
    text: str
    hint: str = ""
    """What the author of the test should know first."""
    notes: Mapping[int, str] = field(default_factory=dict)
    is_failure: bool = False
    is_slow: bool = False
    """Whether each attempt to shorten the schedule would wait as long."""


def describe(
    original: Schedule,
    shrunk: Shrunk,
    problem: Evidence,
    *,
    votes: str,
    left: str,
    ran: str,
    repeat: str,
    also: Sequence[str] = (),
) -> str:
    """The schedule in words, the difference, and how to repeat it.

    `votes` says which result most schedules gave, `left` shows the records that are left, and `ran`
    says what ran. `also` repeats other schedules that the same fault explains.
    """
    shortest = shrunk.schedule
    steps = [
        f"{index + 1}. {step}" + (f" [{problem.notes[index]}]" if index in problem.notes else "")
        for index, step in enumerate(shortest.steps())
    ]
    shorter = (
        f" (found with {len(original.steps())} steps{_records(original, shortest)}, shortened in "
        f"{shrunk.runs} runs)"
        if shortest != original
        else ""
    )
    return (
        f"{problem.headline}: the result of the job depends on the schedule\n\n"
        f"{problem.hint and problem.hint + chr(10) * 2}"
        f"The schedule{shorter}:\n{indented(chr(10).join(steps))}\n\n{left}"
        f"The difference:\n{indented(problem.text)}\n\n{votes and votes + chr(10) * 2}{ran}\n"
        f"To repeat it: pytest --explore-seed={repeat}, or explore(..., seed={repeat!r})"
        f"{'. The same fault: ' + ', '.join(also) if also else ''}"
    )


def join_faults(messages: Sequence[str]) -> str:
    """One message for all faults."""
    if len(messages) == 1:
        return messages[0]
    numbered = [
        f"Fault {number} of {len(messages)}: {message}"
        for number, message in enumerate(messages, start=1)
    ]
    return "\n\n".join([f"{len(messages)} faults", *numbered])


def vary_by_themselves(difference: str, varying: Mapping[str, Sequence[str]]) -> str:
    """What is said of a job whose plain schedule gives another result each time.

    `varying` has the fields that vary, by the output.
    """
    fields = [
        f"What varies in {output}: {', '.join(names)}. The output's ignore={list(names)} leaves "
        f"{'it' if len(names) == 1 else 'them'} out of the comparison."
        for output, names in varying.items()
    ]
    return "\n\n".join(
        [
            "the job gives another result each time, so the schedule is not to blame: the plain "
            f"schedule ran twice, and the second run gave\n\n{indented(difference)}",
            *fields,
        ]
    )


def repeats_a_batch(topics: Sequence[str]) -> str:
    """What is said first of topics that a crash has doubled."""
    return (
        "Spark's kafka sink promises each record at least once: after a crash it repeats a batch. "
        f"If those who read {', '.join(sorted(topics))} allow for that, the output is "
        "all_records(duplicates=True), latest_by_key() or latest_by(...)."
    )


def _records(original: Schedule, shortest: Schedule) -> str:
    """How many records there were, if they are fewer now."""
    count = len(original.arrivals)
    return f" and {count} records" if len(shortest.arrivals) < count else ""


def indented(text: str) -> str:
    """The text as a part of a message."""
    return "\n".join(f"  {line}" for line in text.splitlines())
