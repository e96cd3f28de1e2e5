"""`Judge`: runs schedules of a job and says what is wrong with their results.

Owner: the caller's thread.
Not here: how one schedule runs (`runner`), how outputs are compared (`verdict`), and the words of a
refutation (`refutation`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from embedkafka.explore.driver import ImmediateJob, Job
from embedkafka.explore.inputs import Feed, given_records
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.outputs import AllRecords, Output
from embedkafka.explore.provenance import only_proven
from embedkafka.explore.refutation import (
    EXPIRED,
    FAILED_WRITE,
    NOT_FLUSHED,
    Evidence,
    Refuted,
    indented,
    repeats_a_batch,
    vary_by_themselves,
)
from embedkafka.explore.runner import Ran, Runner
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Expire,
    FailTask,
    FailWrite,
    KillJvm,
    LoseUnsent,
    Schedule,
    plain,
)
from embedkafka.explore.seeds import Seed
from embedkafka.explore.steady_keys import steady_keys
from embedkafka.explore.vacuous import describe_vacuous
from embedkafka.explore.varying import varying_fields
from embedkafka.explore.verdict import (
    Difference,
    Refutation,
    canonical,
    differences,
    is_not_yet,
    summary,
)
from embedkafka.runtime.failures import AwaitTimeout, ConfigError

Invariant = Callable[[Mapping[str, Any], Mapping[str, list[Any]]], object]
"""A function of the outputs and of the inputs, each by name. Any: records and rows have no type."""

_REPEATING: Final = (Crash, CrashInside, FailTask, FailWrite, KillJvm)
"""Events after which a batch runs again."""
_SHOWN: Final = 1000
_SHOWN_RECORDS: Final = 10


class Judge:
    """Runs schedules and says what is wrong with their results."""

    def __init__(
        self,
        runner: Runner,
        feeds: Mapping[str, Feed],
        outputs: Mapping[str, Output],
        invariant: Invariant | None,
        job: Job,
    ) -> None:
        self.plain = plain({name: len(feed.records) for name, feed in feeds.items()})
        self._runner = runner
        self._feeds = feeds
        self._outputs = outputs
        self._invariant = invariant
        self._job = job
        self._references: dict[frozenset[Arrival], Ran | None] = {}
        self._votes: Counter[str] = Counter()
        self.ran: Ran | None = None
        """What the last schedule gave, if it ran to its end."""
        self.is_not_yet = False
        """Whether the last schedule ended before rows that wait for a watermark."""

    def require_plain(self, seed: Seed, *, may_prove_nothing: bool = False) -> Ran:
        """Runs the plain schedule.

        Raises:
            Refuted: it is wrong already.
            ConfigError: the test would hold whatever the job did.
        """
        before = None if may_prove_nothing else self._runner.read_before()
        try:
            ran = self._runner.run(self.plain)
        except JobFailed as failure:
            raise Refuted(
                "the job fails under the plain schedule already, so the schedule is not to "
                f"blame:\n\n{indented(str(failure))}{self.triggers()}",
                seed=f"{seed.base}/0",
            ) from None
        is_right, said = self._holds(self.plain, ran)
        if not is_right:
            raise Refuted(
                "the invariant does not hold under the plain schedule, so the schedule is not to "
                "blame: all records arrive, and the job takes them in one batch.\n\n"
                + indented("\n".join([*([said] if said else []), *_shown(ran)]))
                + self.triggers(),
                seed=f"{seed.base}/0",
            )
        self._references[frozenset(self.plain.arrivals)] = ran
        self._votes[_signature(ran)] += 1
        if before is not None:
            self._require_proof(ran, before)
        return ran

    def _require_proof(self, plain: Ran, before: Mapping[str, object]) -> None:
        why = describe_vacuous(
            before,
            plain.items,
            by_function=not all(output.is_fresh for output in self._outputs.values()),
            holds=None if self._invariant is None else self._holds_for_all,
            remarks=plain.remarks,
        )
        if why:
            raise ConfigError(why)

    def _holds_for_all(self, found: Mapping[str, object]) -> bool:
        assert self._invariant is not None, "an invariant holds"
        result = self._invariant(found, given_records(self._feeds, self.plain.arrivals))
        return result is None or bool(result)

    def require_steady(self, seed: Seed) -> None:
        """Runs the plain schedule again; raises `Refuted` if it gives another result."""
        first = self._references[frozenset(self.plain.arrivals)]
        assert first is not None, "the plain schedule was right"
        try:
            again = self._runner.run(self.plain)
        except (JobFailed, AwaitTimeout) as failure:
            raise Refuted(vary_by_themselves(str(failure), {}), seed=f"{seed.base}/0") from None
        if self._invariant is not None:
            is_right, said = self._holds(self.plain, again)
            text = "\n".join([*([said] if said else []), *_shown(again)])
        else:
            found = self._differences(self.plain, first, again)
            is_right, text = not found, summary(found, ("first run", "second run"))
        if not is_right:
            varying = {
                name: fields
                for name in self._outputs
                if (fields := varying_fields(first.items[name], again.items[name]))
            }
            raise Refuted(vary_by_themselves(text, varying), seed=f"{seed.base}/0")

    def find_problem(self, schedule: Schedule, *, votes: bool = False) -> Evidence | None:
        """What is wrong under a schedule; None if nothing is. Its result may count for `votes`.

        If the plain schedule of fewer records also fails, they prove nothing.
        """
        self.ran, self.is_not_yet = None, False
        reference = self._find_reference(schedule)
        if reference is None:
            return None
        try:
            ran = self._runner.run(schedule)
        except JobFailed as failure:
            return Evidence(headline="the job fails", text=str(failure), is_failure=True)
        except AwaitTimeout as stalled:
            return Evidence(headline="the job stalls", text=str(stalled), is_slow=True)
        self.ran = ran
        if ran.is_refused:  # it has said that records are gone
            return None
        found = self._differences(schedule, reference, ran)
        is_right, said = (not found, "") if self._invariant is None else self._holds(schedule, ran)
        behind, ahead = _lag(reference, ran)
        sure = [each for each in found if not is_not_yet(each, is_behind=behind, is_ahead=ahead)]
        if not is_right and found and not sure:
            self.is_not_yet = True
            return None
        if votes:
            self._votes[_signature(ran if found else reference)] += 1
        if is_right:
            return None
        found = sure
        hint = self._hint(schedule, found)
        if self._invariant is None:
            found = only_proven(found, self._feeds, schedule.arrivals)
        kinds = ", ".join(dict.fromkeys(difference.refutation.value for difference in found))
        texts = [text for text in (said, summary(found) if found else "") if text]
        if not found:
            texts += ["the outputs are those of the plain schedule:", *_shown(ran)]
        return Evidence(
            headline=kinds or "the invariant does not hold",
            text="\n".join(texts),
            hint=hint,
            notes=ran.notes,
        )

    def _hint(self, schedule: Schedule, found: Sequence[Difference]) -> str:
        """What Spark promises of a topic that a crash has doubled, or what the author may mean."""
        doubled = {each.output for each in found if each.refutation is Refutation.DOUBLED}
        topics = [name for name in doubled if isinstance(self._outputs[name], AllRecords)]
        if topics and schedule.uses(*_REPEATING):
            return repeats_a_batch(topics)
        hints = {FailWrite: FAILED_WRITE, LoseUnsent: NOT_FLUSHED, Expire: EXPIRED}
        return next((hint for event, hint in hints.items() if schedule.uses(event)), "")

    def votes(self, others: Iterable[Schedule]) -> str:
        """Which result most schedules give, after these others; an invariant needs no votes."""
        if self._invariant is not None:
            return ""
        for schedule in others:
            self.find_problem(schedule, votes=True)
        plain = self._references[frozenset(self.plain.arrivals)]
        assert plain is not None, "the plain schedule was right"
        (most, count), like_plain = self._votes.most_common(1)[0], self._votes[_signature(plain)]
        said = (
            "Which of the two is right, only an invariant can say. Of "
            f"{self._votes.total()} schedules with all records, {like_plain} gave what the plain "
            "one gave"
        )
        return f"{said}." if count <= like_plain else f"{said}, and {count} gave:\n{most[:_SHOWN]}"

    def triggers(self) -> str:
        """The intervals that the job's triggers did not wait for, if there are any."""
        said = self._job.describe() if isinstance(self._job, ImmediateJob) else ""
        return f"\n\n{said}" if said else ""

    def left(self, schedule: Schedule) -> str:
        """The records of a schedule, if they are few and not all."""
        if not len(schedule.arrivals) < min(len(self.plain.arrivals), _SHOWN_RECORDS + 1):
            return ""
        lines = [
            f"{each.source} {each.nth + 1}: {self._feeds[each.source].show(each.nth)}"
            for each in schedule.arrivals
        ]
        return f"The records that are left:\n{indented(chr(10).join(lines))}\n\n"

    def _find_reference(self, schedule: Schedule) -> Ran | None:
        """What the plain schedule of the same records gave; None if that was wrong already."""
        records = frozenset(schedule.arrivals)
        if records not in self._references:
            same = self.plain.keeping(records)
            try:
                ran = self._runner.run(same)
                self._references[records] = ran if self._holds(same, ran)[0] else None
            except (JobFailed, AwaitTimeout):
                self._references[records] = None
        return self._references[records]

    def _differences(self, schedule: Schedule, reference: Ran, ran: Ran) -> list[Difference]:
        is_steady = steady_keys(schedule.arrivals, self._feeds)
        return [
            difference
            for name, output in self._outputs.items()
            for difference in differences(
                name,
                reference.items[name],
                ran.items[name],
                ordered=is_steady if output.ordered else _has_no_order,
            )
        ]

    def _holds(self, schedule: Schedule, ran: Ran) -> tuple[bool, str]:
        """Whether the invariant holds, and what it says if it asserts."""
        if self._invariant is None:
            return True, ""
        try:
            result = self._invariant(ran.found, given_records(self._feeds, schedule.arrivals))
        except AssertionError as error:
            return False, str(error)
        return result is None or bool(result), ""


def _lag(reference: Ran, ran: Ran) -> tuple[bool, bool]:
    """Whether the watermark of a query is behind that of the plain schedule, and of one ahead."""
    pairs = [
        (watermark_ms, ran.watermarks_ms.get(checkpoint, 0))
        for checkpoint, watermark_ms in reference.watermarks_ms.items()
    ]
    return any(here < plain for plain, here in pairs), any(here > plain for plain, here in pairs)


def _has_no_order(key: str) -> bool:
    return False


def _signature(ran: Ran) -> str:
    """Text that is equal for equal results."""
    return "\n".join(
        f"{name}: {canonical({key: sorted(map(canonical, each)) for key, each in items.items()})}"
        for name, items in ran.items.items()
    )


def _shown(ran: Ran) -> list[str]:
    return [f"{name}: {canonical(found)[:_SHOWN]}" for name, found in ran.found.items()]
