"""What schedules may do to a job: it follows from its inputs, its outputs and its plain run."""

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Final

from embedkafka.explore.inputs import Feed
from embedkafka.explore.outputs import Output
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_FETCH, _PRODUCE = "FETCH", "PRODUCE"


class StepKind(Enum):
    """The kinds of things that a schedule can do, in the order in which they take the lead."""

    BATCHES = "batches"
    CRASH = "crash"
    ORDER = "order"
    RESTART = "restart"
    LIMIT = "limit"
    RESEND = "resend"
    REPLY = "reply"
    GROW = "grow"
    MOVE = "move"
    KILL = "kill"
    JVM = "jvm"


_RESTARTS: Final = frozenset({StepKind.RESTART, StepKind.CRASH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Records of one input that stay in their order: those of a key, or all."""

    source: str
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What schedules may do to a job."""

    sizes: Mapping[str, int]
    lanes: tuple[Lane, ...]
    times: Mapping[str, Sequence[float]]
    """The event times of inputs whose records may arrive late."""
    lateness_s: Mapping[str, float]
    resends: tuple[str, ...]
    replies: tuple[tuple[str, str], ...]
    """Topics, each with the API whose replies may be lost."""
    kinds: tuple[StepKind, ...]


def terms_of(
    feeds: Mapping[str, Feed],
    outputs: Mapping[str, Output],
    left_out: Set[StepKind],
    *,
    has_checkpoint: bool,
    has_watermark: bool,
    brokers: int,
    kill_jvm: bool = False,
) -> Terms:
    """What schedules may do to a job whose plain run had a checkpoint or a watermark, or had none.

    `brokers` is how many of them a schedule can break: none of an external cluster.

    Raises:
        ConfigError: the job keeps its checkpoint elsewhere, or none, though its sinks allow one.
    """
    can_restart = all(output.can_restart for output in outputs.values())
    if can_restart and not has_checkpoint and not left_out >= _RESTARTS:
        raise ConfigError(
            "the job keeps no checkpoint where a schedule finds it: pass `options.sink(...)` or "
            "`options.checkpoint(...)` to its writers, or leave restarts out with "
            'without=("restart", "crash")'
        )
    total = sum(len(feed.records) for feed in feeds.values())
    lanes = _lanes(feeds, keep_order=has_watermark or not has_checkpoint)
    resends = tuple(name for name, feed in feeds.items() if feed.resends and feed.records)
    possible = {
        StepKind.BATCHES: total > 1,
        StepKind.CRASH: can_restart and has_checkpoint,
        StepKind.ORDER: len(lanes) > 1,
        StepKind.RESTART: can_restart and has_checkpoint,
        StepKind.LIMIT: total > 1,
        StepKind.RESEND: bool(resends),
        StepKind.REPLY: brokers > 0,
        StepKind.GROW: total > 1,
        StepKind.MOVE: brokers > 1,
        StepKind.KILL: brokers > 1,
        StepKind.JVM: kill_jvm and can_restart and has_checkpoint,
    }
    timed = {name: feed for name, feed in feeds.items() if feed.lateness_s is not None}
    return Terms(
        sizes={name: len(feed.records) for name, feed in feeds.items()},
        lanes=lanes,
        times={name: [each.time_s or 0.0 for each in feed.records] for name, feed in timed.items()},
        lateness_s={name: feed.lateness_s or 0.0 for name, feed in timed.items()},
        resends=resends,
        replies=(
            *((name, _FETCH) for name in feeds),
            *((name, _PRODUCE) for name, output in outputs.items() if output.partitions),
        ),
        kinds=tuple(kind for kind, is_so in possible.items() if is_so and kind not in left_out),
    )


def _lanes(feeds: Mapping[str, Feed], *, keep_order: bool) -> tuple[Lane, ...]:
    """Which records stay in their order.

    Those of one key always do. A job with a watermark drops what comes too late for it: where the
    test does not say how late records may come, all records of an input stay in their order.
    """
    lanes: dict[tuple[str, bytes | None], list[int]] = {}
    for name, feed in feeds.items():
        is_fixed = keep_order and feed.lateness_s is None
        for index, record in enumerate(feed.records):
            lanes.setdefault((name, None if is_fixed else record.key), []).append(index)
    return tuple(Lane(source=name, indexes=tuple(each)) for (name, _), each in lanes.items())
