"""A text that describes the cluster at one moment: `kafka.describe()`."""

from collections.abc import Collection, Iterable, Sequence

from embedkafka.broker.broker import Broker
from embedkafka.broker.replica.partition.values import PartitionView
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle, BrokerState
from embedkafka.cluster.reports.troubles import find_troubles, trouble_lines
from embedkafka.runtime.ids import TopicPartition

Views = dict[TopicPartition, tuple[PartitionView, bool]]


def describe_in_place(brokers: Brokers) -> str:
    """What is wrong, the brokers and all partitions; sends no request."""
    statuses = brokers.state.partitions()
    lines = [
        *trouble_lines(find_troubles(brokers, statuses)),
        *describe_brokers(brokers.all(), brokers.state.find_controller()),
        *describe_partitions(statuses, views_by_partition(brokers.live())),
    ]
    return "\n".join(lines)


def describe_brokers(handles: Sequence[BrokerLifecycle], controller: int | None) -> list[str]:
    """A line for each broker: address, state if it does not run, and the controller."""
    return [
        "  ".join(
            [
                f"broker {handle.id}",
                *([broker.address] if (broker := handle.broker) else []),
                *([handle.state.value] if handle.state is not BrokerState.RUNNING else []),
                *(["controller"] if handle.id == controller else []),
            ]
        )
        for handle in handles
    ]


def describe_partitions(
    statuses: Sequence[PartitionStatus], views: Views, topics: Collection[str] | None = None
) -> list[str]:
    """A table of the partitions with leader, replicas, ISR and offsets.

    Internal topics, and topics that are not among `topics`, get one line for all their partitions.
    """
    counts: dict[str, int] = {}
    rows = [_HEADER]
    for status in statuses:
        if status.topic.startswith("__") or (topics is not None and status.topic not in topics):
            counts[status.topic] = counts.get(status.topic, 0) + 1
        else:
            partition = TopicPartition(status.topic, status.partition)
            rows.append(_row(status, *views.get(partition, (None, False))))
    table = _aligned(rows) if len(rows) > 1 else [] if counts else ["no topics"]
    if counts:
        named = (f"{name} ({count})" for name, count in sorted(counts.items()))
        table.append(f"and the partitions of {', '.join(named)}")
    return table


_HEADER: tuple[str, ...] = (
    "partition",
    "leader",
    "epoch",
    "replicas",
    "isr",
    "start",
    "stable",
    "high",
    "end",
)


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


def views_by_partition(brokers: Iterable[Broker]) -> Views:
    """`find_views`, by partition."""
    return {view.topic_partition: (view, led) for view, led in find_views(brokers)}


def _row(status: PartitionStatus, view: PartitionView | None, led: bool) -> tuple[str, ...]:
    """Offsets are unknown if no replica's broker runs."""
    offsets = (
        ("-",) * 4
        if view is None
        else (
            str(view.log_start_offset),
            str(view.last_stable_offset),
            str(view.high_watermark),
            str(view.log_end_offset),
        )
    )
    isr = view.isr if view is not None and led else status.isr
    return (
        f"{status.topic}-{status.partition}",
        str(view.leader) if view is not None and led else "none",
        str(status.leader_epoch if view is None else view.leader_epoch),
        ",".join(map(str, status.replicas)),
        ",".join(map(str, isr)),
        *offsets,
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
