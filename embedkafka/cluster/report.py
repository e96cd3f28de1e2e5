"""`kafka.report()`: the whole cluster and its last activity, to explain a failed test.

It reads brokers and partitions in place, and gets groups, transactions and records with requests to
the reachable brokers, as a client would.

Owner: none; it only reads.
Invariants: a broker that does not answer costs its part of the report, not the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.description import find_views
from embedkafka.cluster.request_log import SeenRequest
from embedkafka.net.client import BrokerClient
from embedkafka.protocol.errors import ApiError
from embedkafka.protocol.messages.core import FetchRequest
from embedkafka.protocol.messages.groups import ListGroupsRequest, OffsetFetchRequest
from embedkafka.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from embedkafka.records.batch import read_batches
from embedkafka.records.record import Record
from embedkafka.replica.partition_values import PartitionView
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.ids import TopicPartition

_CLIENT_ID: Final = "embedkafka-report"
_TIMEOUT_MS: Final = 2_000
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_RECORDS: Final = 3  # of each partition
_PARTITIONS: Final = 20
_REQUESTS: Final = 20
_TEXT: Final = 60  # characters of a key or value
_FETCH_BYTES: Final = 1 << 20


def report(brokers: Brokers) -> str:
    """Brokers, partitions, groups and their lag, open transactions, last records and requests."""
    requests = brokers.request_log.all()  # before our own
    views = {view.topic_partition: view for view, led in _find_views(brokers) if led}
    told = (
        ("groups", _ask_all(brokers, lambda client: _groups(client, views))),
        ("open transactions", _ask_all(brokers, _transactions)),
        ("last records", _records(brokers, list(views.values()))),
        ("last requests", _requests(requests, brokers.clock.monotonic_ms())),
    )
    lines = [brokers.describe()]
    for title, found in told:
        if listed := [f"  {line}" for line in found]:
            lines += [f"{title}:", *listed]
    return "\n".join(lines)


def _find_views(brokers: Brokers) -> list[tuple[PartitionView, bool]]:
    return find_views(
        incarnation.broker
        for handle in brokers.all()
        for incarnation in [handle.incarnation]
        if incarnation is not None
    )


def _ask_all(brokers: Brokers, ask: Callable[[BrokerClient], Iterator[str]]) -> Iterator[str]:
    for handle in brokers.all():
        if handle.is_reachable:
            yield from _ask(handle.address, ask)


def _ask(address: str, ask: Callable[[BrokerClient], Iterator[str]]) -> list[str]:
    host, port = parse_address(address)
    client = BrokerClient(host, port, SystemClock(), _CLIENT_ID, request_timeout_ms=_TIMEOUT_MS)
    try:
        return list(ask(client))
    except OSError as error:
        return [f"{address} does not answer: {error}"]
    finally:
        client.close()


def _groups(client: BrokerClient, views: dict[TopicPartition, PartitionView]) -> Iterator[str]:
    for group in client.call(ListGroupsRequest(), 4).groups:
        asked = OffsetFetchRequest.Group(group_id=group.group_id, topics=None)
        (found,) = client.call(OffsetFetchRequest(groups=[asked]), 8).groups
        yield f"{group.group_id}  {group.group_state}"
        for topic in found.topics:
            for partition in topic.partitions:
                view = views.get(TopicPartition(topic.name, partition.partition_index))
                yield _lag(topic.name, partition, None if view is None else view.high_watermark)


def _lag(topic: str, partition: Any, end: int | None) -> str:
    """Any: one of `OffsetFetchResponse`."""
    at = partition.committed_offset
    behind = "" if end is None else f", lag {end - at}"
    return f"  {topic}-{partition.partition_index} committed {at}{behind}"


def _transactions(client: BrokerClient) -> Iterator[str]:
    wanted = ListTransactionsRequest(state_filters=_OPEN_STATES, producer_id_filters=[])
    found = [one.transactional_id for one in client.call(wanted, 0).transaction_states]
    if not found:
        return
    described = client.call(DescribeTransactionsRequest(transactional_ids=found), 0)
    for one in described.transaction_states:
        partitions = [f"{topic.topic}-{n}" for topic in one.topics for n in topic.partitions]
        yield (
            f"{one.transactional_id}  {one.transaction_state}  producer {one.producer_id} "
            f"epoch {one.producer_epoch}  {' '.join(sorted(partitions))}"
        )


def _records(brokers: Brokers, views: Sequence[PartitionView]) -> Iterator[str]:
    addresses = {handle.id: handle.address for handle in brokers.all() if handle.is_reachable}
    filled = (
        view
        for view in views
        if view.log_end_offset > view.log_start_offset
        and not view.topic_partition.topic.startswith("__")
        and view.leader in addresses
    )
    for view in islice(filled, _PARTITIONS):

        def ask(client: BrokerClient, view: PartitionView = view) -> Iterator[str]:
            return _last_records(client, view)

        yield from _ask(addresses[view.leader], ask)


def _last_records(client: BrokerClient, view: PartitionView) -> Iterator[str]:
    """The last records below the high watermark, committed or not."""
    topic, partition = view.topic_partition
    first = max(view.log_start_offset, view.high_watermark - _RECORDS)
    wanted = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=first, partition_max_bytes=_FETCH_BYTES
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    (found,) = client.call(request, 11).responses[0].partitions
    try:
        records = [
            record
            for batch in read_batches(found.records or b"")
            if not batch.is_control
            for record in batch.records()
        ]
    except ApiError as error:
        yield f"{view.topic_partition} cannot be read: {error}"
        return
    for record in records[-_RECORDS:]:
        yield f"{view.topic_partition} {_shown(record)}"


def _shown(record: Record) -> str:
    return f"at {record.offset}: key {_text(record.key)}, value {_text(record.value)}"


def _text(data: bytes | None) -> str:
    if data is None:
        return "none"
    text = data.decode(errors="backslashreplace")
    return repr(text if len(text) <= _TEXT else f"{text[:_TEXT]}...")


def _requests(seen: Sequence[SeenRequest], now_ms: float) -> Iterator[str]:
    """The newest last; a run of equal requests, such as fetches, is one line."""
    runs = [(text, list(same)) for text, same in groupby(seen, key=str)]
    for text, same in runs[-_REQUESTS:]:
        times = f"  {len(same)} times" if len(same) > 1 else ""
        yield f"{(now_ms - same[-1].received_ms) / 1000:.3f} s ago  {text}{times}"
