"""A text that describes the cluster at one moment: `kafka.describe()`."""

from collections.abc import Iterable, Sequence

from embedkafka.cluster.lifecycle import BrokerLifecycle, BrokerState
from embedkafka.replica.partition_values import PartitionView
from embedkafka.runtime.ids import TopicPartition
from embedkafka.server.broker import Broker


def describe_cluster(handles: Sequence[BrokerLifecycle], controller: int | None) -> str:
    """Brokers, and every partition's leader, replicas, ISR and offsets."""
    incarnations = [handle.incarnation for handle in handles]
    lines = [
        "  ".join(
            [
                f"broker {handle.id}",
                *([incarnation.broker.address] if incarnation else []),
                *([handle.state.value] if handle.state is not BrokerState.RUNNING else []),
                *(["controller"] if handle.id == controller else []),
            ]
        )
        for handle, incarnation in zip(handles, incarnations, strict=True)
    ]
    views = find_views(
        incarnation.broker for incarnation in incarnations if incarnation is not None
    )
    rows = [_HEADER, *(_row(view, led=led) for view, led in views)]
    if len(rows) == 1:
        return "\n".join([*lines, "no topics"])
    return "\n".join([*lines, *_aligned(rows)])


_HEADER = ("partition", "leader", "epoch", "replicas", "isr", "start", "stable", "high", "end")


def find_views(brokers: Iterable[Broker]) -> list[tuple[PartitionView, bool]]:
    """Each partition as its leader sees it, or else its newest replica; true for a leader."""
    best: dict[TopicPartition, tuple[bool, int, PartitionView]] = {}
    for broker in brokers:
        for view in broker.replicas.hosted.views():
            rank = (view.leader == broker.id, view.leader_epoch, view)
            known = best.get(view.topic_partition)
            if known is None or rank[:2] > known[:2]:
                best[view.topic_partition] = rank
    return [(view, led) for _, (led, _, view) in sorted(best.items())]


def _row(view: PartitionView, *, led: bool) -> tuple[str, ...]:
    return (
        str(view.topic_partition),
        str(view.leader) if led else "none",
        str(view.leader_epoch),
        ",".join(map(str, view.replicas)),
        ",".join(map(str, view.isr)),
        str(view.log_start_offset),
        str(view.last_stable_offset),
        str(view.high_watermark),
        str(view.log_end_offset),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
