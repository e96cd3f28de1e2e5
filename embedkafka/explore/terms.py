"""What schedules may do to a job: it follows from its inputs, its outputs and its plain run."""

from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Final

from embedkafka.explore.inputs import Feed
from embedkafka.explore.outputs import Output
from embedkafka.explore.places import NOTHING_PASSED, Passed, Place, SinkCall, kill_places
from embedkafka.explore.schedule import Arrival
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_FETCH, _PRODUCE = "FETCH", "PRODUCE"


class StepKind(Enum):
    """The kinds of things that a schedule can do, in the order in which they take the lead."""

    BATCHES = "batches"
    CRASH = "crash"
    INSIDE = "inside"
    WRITE = "write"
    TASK = "task"
    UNSENT = "unsent"
    RESEND = "resend"
    ORDER = "order"
    LATE = "late"
    RESTART = "restart"
    LIMIT = "limit"
    REPLY = "reply"
    GROW = "grow"
    MOVE = "move"
    KILL = "kill"
    REBUILD = "rebuild"
    EXPIRE = "expire"
    JVM = "jvm"


_NO_WRITER: Final = "foreachBatch calls no writer that explore knows"
_NO_TASK: Final = "no foreachPartition or foreach"
_ALL_FLUSHED: Final = "foreachBatch leaves no producer unflushed"
_RESTARTS: Final = frozenset({StepKind.RESTART, StepKind.CRASH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Records of one input that stay in their order: those of a key or a partition, or all."""

    source: str
    indexes: tuple[int, ...]


Pair = tuple[Arrival, Arrival]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What schedules may do to a job."""

    sizes: Mapping[str, int]
    lanes: tuple[Lane, ...]
    times: Mapping[str, Sequence[float]]
    """The event times of inputs whose records may arrive late."""
    lateness_s: Mapping[str, float]
    stragglers: tuple[Pair, ...]
    """Records that may come late within their lane, each with a newer one that may overtake it."""
    updates: tuple[Pair, ...]
    """Of each input whose keys repeat, two records of one key, one right after the other."""
    resends: tuple[str, ...]
    outdated: tuple[Pair, ...]
    """Records that may arrive again, each with the newest of its key, which is another."""
    replies: tuple[tuple[str, str], ...]
    """Topics, each with the API whose replies may be lost."""
    places: tuple[Place, ...]
    """Where a driver may die in `foreachBatch`."""
    writes: tuple[SinkCall, ...]
    """What may fail in `foreachBatch`."""
    has_watermark: bool
    kinds: tuple[StepKind, ...]
    impossible: Mapping[StepKind, str]
    """Why the kinds that are neither possible nor left out are not."""


def terms_of(
    feeds: Mapping[str, Feed],
    outputs: Mapping[str, Output],
    left_out: Set[StepKind],
    *,
    has_checkpoint: bool,
    has_watermark: bool,
    brokers: int,
    kill_jvm: bool = False,
    rebuild: bool = False,
    expire: bool = False,
    passed: Passed = NOTHING_PASSED,
) -> Terms:
    """What schedules may do to a job whose plain run had a checkpoint or a watermark, or had none.

    `brokers` is how many of them a schedule can break: none of an external cluster. `passed` is
    what the job's functions for `foreachBatch` did in the plain run.

    Raises:
        ConfigError: the job keeps its checkpoint elsewhere, or none, though its sinks allow one.
    """
    can_restart = all(output.can_restart for output in outputs.values())
    if can_restart and not has_checkpoint and not left_out >= _RESTARTS:
        raise ConfigError(
            "the job keeps no checkpoint where a schedule finds it; without one, it starts over "
            "after a restart. Pass `options.sink(...)` or `options.checkpoint(...)` to its "
            'writers, or leave restarts out with without=("restart", "crash")'
        )
    lanes = _lanes(feeds, keep_order=has_watermark or not has_checkpoint)
    timed = {name: feed for name, feed in feeds.items() if feed.lateness_s is not None}
    stragglers = [pair for name, feed in timed.items() for pair in _stragglers(name, feed, lanes)]
    resends = tuple(name for name, feed in feeds.items() if feed.resends and feed.records)
    is_single = sum(len(feed.records) for feed in feeds.values()) < 2
    few_records = "fewer than two records" if is_single else ""
    no_restart = "" if has_checkpoint else "no checkpoint: after a restart the job starts over"
    if not can_restart:
        no_restart = "an output in memory does not survive it"
    not_embedded = "" if brokers else "the cluster is not embedded"
    places = kill_places(passed)
    no_function = no_restart or ("" if passed.functions else "no query has foreachBatch")
    obstacles = {
        StepKind.BATCHES: few_records,
        StepKind.CRASH: no_restart,
        StepKind.INSIDE: no_function or ("" if places else "foreachBatch has one line"),
        StepKind.WRITE: no_function or ("" if passed.writes else _NO_WRITER),
        StepKind.TASK: no_restart or ("" if passed.tasks else _NO_TASK),
        StepKind.UNSENT: no_function or (not_embedded if passed.is_unflushed else _ALL_FLUSHED),
        StepKind.RESEND: "" if resends else "no input has resends=True",
        StepKind.ORDER: "" if len(lanes) > 1 else "all records keep their order",
        StepKind.LATE: "" if stragglers else _why_none_is_late(timed),
        StepKind.RESTART: no_restart,
        StepKind.LIMIT: few_records or _why_none_is_limited(feeds, has_watermark=has_watermark),
        StepKind.REPLY: not_embedded,
        StepKind.GROW: few_records,
        StepKind.MOVE: _why_none_goes(brokers),
        StepKind.KILL: _why_none_goes(brokers),
        StepKind.REBUILD: no_restart if rebuild else "it needs rebuild=True",
        StepKind.EXPIRE: (no_restart or not_embedded) if expire else "it needs expire=True",
        StepKind.JVM: no_restart if kill_jvm else "it needs kill_jvm=True",
    }
    return Terms(
        sizes={name: len(feed.records) for name, feed in feeds.items()},
        lanes=lanes,
        times={name: _times(feed) for name, feed in timed.items()},
        lateness_s={name: feed.lateness_s or 0.0 for name, feed in timed.items()},
        stragglers=tuple(stragglers),
        updates=tuple(pair for name, feed in feeds.items() for pair in _updates(name, feed)),
        resends=resends,
        outdated=tuple(pair for name in resends for pair in _outdated(name, feeds[name])),
        replies=(
            *((name, _FETCH) for name in feeds),
            *((name, _PRODUCE) for name, output in outputs.items() if output.partitions),
        ),
        places=places,
        writes=passed.writes,
        has_watermark=has_watermark,
        kinds=tuple(kind for kind, why in obstacles.items() if not why and kind not in left_out),
        impossible={kind: why for kind, why in obstacles.items() if why and kind not in left_out},
    )


def _lanes(feeds: Mapping[str, Feed], *, keep_order: bool) -> tuple[Lane, ...]:
    """Which records stay in their order.

    Those of one key do, and those without a key in one partition. A job with a watermark drops what
    comes too late for it: where the test does not say how late records may come, all records of an
    input stay in their order.
    """
    lanes: dict[tuple[str, bytes | int | None], list[int]] = {}
    for name, feed in feeds.items():
        is_fixed = keep_order and feed.lateness_s is None
        for index, record in enumerate(feed.records):
            own = index % feed.partitions if record.key is None else record.key  # as `runner` sends
            lanes.setdefault((name, None if is_fixed else own), []).append(index)
    return tuple(Lane(source=name, indexes=tuple(each)) for (name, _), each in lanes.items())


def _stragglers(name: str, feed: Feed, lanes: Sequence[Lane]) -> Iterator[Pair]:
    """Each record that may come after a newer one of its lane, with the first such one.

    No record in between is so new that it would come too late for that.
    """
    times, lateness_s = _times(feed), feed.lateness_s or 0.0
    lane_of = {index: lane for lane in lanes if lane.source == name for index in lane.indexes}
    for late, time in enumerate(times):
        for newer in range(late + 1, len(times)):
            if not is_in_time(time, times[newer], lateness_s):
                break
            if lane_of[newer] is lane_of[late] and times[newer] > time:
                yield Arrival(name, late), Arrival(name, newer)
                break


def _updates(name: str, feed: Feed) -> Iterator[Pair]:
    """The first two records of a key whose values differ; none differing, the first two."""
    pairs = []
    last: dict[bytes, int] = {}
    for index, record in enumerate(feed.records):
        if record.key is None:
            continue
        if record.key in last:
            pairs.append((last[record.key], index))
        last[record.key] = index
    values = [record.value for record in feed.records]
    found = next((pair for pair in pairs if values[pair[0]] != values[pair[1]]), None)
    for first, second in [found] if found is not None else pairs[:1]:
        yield Arrival(name, first), Arrival(name, second)


def _outdated(name: str, feed: Feed) -> Iterator[Pair]:
    """Each record whose key has a newer value, with the newest of that key."""
    newest = {record.key: index for index, record in enumerate(feed.records)}
    for index, record in enumerate(feed.records):
        last = newest[record.key]
        if record.key is not None and feed.records[last].value != record.value:
            yield Arrival(name, index), Arrival(name, last)


def is_in_time(older_s: float, newer_s: float, lateness_s: float) -> bool:
    """Whether a record may come after a newer one.

    Spark keeps records that are late by less than a watermark's delay. Those that are as late as it
    some operators drop.
    """
    return newer_s <= older_s or newer_s - older_s < lateness_s


def _times(feed: Feed) -> list[float]:
    return [record.time_s or 0.0 for record in feed.records]


def _why_none_is_limited(feeds: Mapping[str, Feed], *, has_watermark: bool) -> str:
    """Limited batches take partitions unevenly: records come later than they may."""
    is_spread = any(feed.partitions > 1 for feed in feeds.values())
    return "it would make records of other partitions late" if has_watermark and is_spread else ""


def _why_none_is_late(timed: Mapping[str, Feed]) -> str:
    return "no record has a newer one within lateness_s" if timed else "no input has lateness_s"


def _why_none_goes(brokers: int) -> str:
    """Why no broker can be taken away."""
    few = "the cluster has one broker" if brokers else "the cluster is not embedded"
    return "" if brokers > 1 else few
