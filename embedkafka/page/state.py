"""A cluster as plain data, for the page: brokers, topics, groups, requests, what is wrong.

Owner: none; it only reads.
Invariants: everything it returns can be written as JSON.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from embedkafka.broker.replica.partition.values import PartitionView
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.client_view import ClientView
from embedkafka.cluster.clients.group_status import GroupStatus
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.reports.description import Views, views_by_partition
from embedkafka.cluster.reports.report import Asked, ask, held_back, last_records
from embedkafka.cluster.reports.request_lines import (
    error_lines,
    last_heartbeats,
    request_lines,
    span,
)
from embedkafka.cluster.reports.troubles import find_troubles
from embedkafka.page.records import shown_record
from embedkafka.runtime.clock import real_age_ms
from embedkafka.runtime.ids import TopicPartition

Json = dict[str, Any]  # Any: what JSON can hold


def embedded_state(brokers: Brokers) -> Json:
    """All of an embedded cluster but its records."""
    statuses, views = brokers.state.partitions(), views_by_partition(brokers.live())
    asked = ask(brokers, statuses, views)
    requests = brokers.request_log.since(0)
    others = [seen for seen in requests if not seen.is_own]
    age_ms = partial(real_age_ms, brokers.clock)
    heard = {
        member: f"{span(age_ms(at_ms))} ago" for member, at_ms in last_heartbeats(requests).items()
    }
    controller = brokers.state.find_controller()
    return {
        "clock": brokers.clock.describe(),
        "brokers": [
            {
                "id": handle.id,
                "state": handle.state.value,
                "address": handle.address if handle.is_running else "",
                "controller": handle.id == controller,
            }
            for handle in brokers.all()
        ],
        "topics": topics_of(statuses, views, is_led=brokers.state.is_led),
        "groups": [_group(group, heard) for group in asked.groups],
        "troubles": troubles_of(brokers, statuses, asked),
        "held": list(held_back(brokers, views, asked.transactions)),
        "errors": error_lines(others, brokers.auto_creation.is_refused),
        "requests": request_lines(others, age_ms)[::-1],
        "faults": list(brokers.faults.active),
        "can_act": True,
    }


def troubles_of(brokers: Brokers, statuses: Sequence[PartitionStatus], asked: Asked) -> list[Json]:
    """What is wrong, the worst first."""
    found = [*find_troubles(brokers, statuses), *asked.troubles()]
    return [{"kind": trouble.kind, "what": trouble.what} for trouble in found]


def topics_of(
    statuses: Sequence[PartitionStatus],
    views: Views,
    *,
    is_led: Callable[[PartitionStatus], bool] = lambda status: status.leader is not None,
    names: Collection[str] | None = None,
) -> list[Json]:
    """Topics, all or those named, with their partitions; those of clients first."""
    topics: dict[str, Json] = {}
    for status in statuses:
        if names is not None and status.topic not in names:
            continue
        internal = status.topic.startswith("__")
        topic = topics.setdefault(
            status.topic, {"name": status.topic, "internal": internal, "partitions": []}
        )
        view, _ = views.get(TopicPartition(status.topic, status.partition), (None, False))
        leader = status.leader if is_led(status) else None
        topic["partitions"].append(_partition(status, view, leader))
    return sorted(topics.values(), key=lambda topic: (topic["internal"], topic["name"]))


def records_of(brokers: Brokers, topic: str, count: int) -> list[Json]:
    """The last records of each partition, decoded, in the order of their time."""
    decode = brokers.decoders.find(topic)
    found = [
        shown_record(
            partition=partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
            decode=decode,
        )
        for partition, record in last_records(brokers, topic, count)
    ]
    return sorted(found, key=lambda record: (record["time"], record["offset"]))


def external_state(view: ClientView) -> Json:
    """What any client can see of a cluster."""
    metadata = view.metadata()
    statuses = view.statuses()
    led = [status for status in statuses if status.leader is not None]
    ends = view.ends(TopicPartition(each.topic, each.partition) for each in led)
    topics = topics_of(statuses, {})
    for topic in topics:
        for partition in topic["partitions"]:
            at = TopicPartition(topic["name"], partition["partition"])
            partition["high"] = partition["end"] = ends.get(at)
    groups = view.groups()
    return {
        "clock": None,
        "brokers": [
            {
                "id": broker.id,
                "state": "running",
                "address": f"{broker.host}:{broker.port}",
                "controller": broker.id == metadata.controller_id,
            }
            for broker in sorted(metadata.brokers.values(), key=lambda each: each.id)
        ],
        "topics": topics,
        "groups": [_group(group, {}) for group in groups],
        "troubles": _external_troubles(statuses, groups),
        "held": [],
        "errors": [],
        "requests": [],
        "faults": [],
        "can_act": False,
    }


def _external_troubles(
    statuses: Sequence[PartitionStatus], groups: Sequence[GroupStatus]
) -> list[Json]:
    found = [
        {"kind": "no leader" if each.leader is None else "under-replicated", "what": str(each)}
        for each in statuses
        if each.leader is None or each.is_under_replicated
    ]
    lagging = [
        {"kind": "lag", "what": f"{each.group_id} is {each.total_lag} behind"}
        for each in groups
        if each.total_lag
    ]
    return [*found, *lagging]


def _partition(status: PartitionStatus, view: PartitionView | None, leader: int | None) -> Json:
    return {
        "partition": status.partition,
        "leader": leader,
        "epoch": status.leader_epoch,
        "replicas": list(status.replicas),
        "isr": list(status.isr),
        "start": None if view is None else view.log_start_offset,
        "stable": None if view is None else view.last_stable_offset,
        "high": None if view is None else view.high_watermark,
        "end": None if view is None else view.log_end_offset,
    }


def _group(group: GroupStatus, heard: Mapping[str, str]) -> Json:
    return {
        "group": group.group_id,
        "state": group.state,
        "lag": group.total_lag,
        "members": [
            {
                "client": member.client_id,
                "host": member.host,
                "partitions": " ".join(map(str, member.partitions)),
                "heard": heard.get(member.member_id),
            }
            for member in group.members
        ],
        "offsets": [
            {"partition": str(each), "committed": offset, "lag": group.lag.get(each)}
            for each, offset in sorted(group.committed.items())
        ],
    }
