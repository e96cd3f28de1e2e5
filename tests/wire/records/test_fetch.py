"""Fetch: the records returned, their limits, and how long the broker waits for more."""

import threading
import time
from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import FetchRequest
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import (
    T0,
    TOO_LONG_MS,
    batch,
    describe,
    each_version,
    fetch,
    fetch_request,
    produce,
    records_of,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient

pytestmark = pytest.mark.topic(partitions=2)

Unique = Callable[[str], str]


@pytest.mark.both_io_modes
def test_every_version_gives_the_records_and_the_watermarks(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    produce(raw, topic, batch(b"c"))
    topic_id = describe(raw, topic).topic_id

    def check(version: int) -> None:
        response = raw.call(fetch_request(topic, 0, topic_id=topic_id), version)
        answer = the_partition(response.responses, "partitions")
        assert (response.error_code, answer.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert [(r.offset, r.value) for r in records_of(answer)] == [
            (0, b"a"),
            (1, b"b"),
            (2, b"c"),
        ]
        assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.aborted_transactions is None
        assert answer.preferred_read_replica == -1

    each_version(raw, FetchRequest, check, first=4)


def test_an_offset_inside_a_batch_gives_the_whole_batch(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a"))
    produce(raw, topic, batch(b"b", b"c", b"d"))
    assert values_of(fetch(raw, topic, 2)) == [b"b", b"c", b"d"]


def test_the_end_of_the_log_is_empty_and_not_an_error(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a"))
    answer = fetch(raw, topic, 1)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)
    assert values_of(answer) == []


@pytest.mark.parametrize("offset", [2, 1000, -5])
def test_offsets_outside_the_log_are_out_of_range(raw: RawClient, topic: str, offset: int) -> None:
    produce(raw, topic, batch(b"a"))
    answer = fetch(raw, topic, offset)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
    assert values_of(answer) == []


def test_an_unknown_partition_is_an_error_of_that_partition(raw: RawClient, topic: str) -> None:
    request = fetch_request(topic, 0)
    missing = FetchRequest.Topic.Partition(partition=9, fetch_offset=0, partition_max_bytes=1000)
    both = [*request.topics[0].partitions, missing]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchRequest.Topic(topic=topic, partitions=both)]
    )
    (answer,) = raw.call(request, 12).responses
    errors = {p.partition_index: p.error_code for p in answer.partitions}
    assert errors == {0: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_first_batch_comes_whole_however_small_the_limits(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"x" * 5000))
    produce(raw, topic, batch(b"y" * 5000))
    answer = fetch(raw, topic, 0, max_bytes=1, partition_max_bytes=1)
    assert values_of(answer) == [b"x" * 5000]


def test_the_partition_limit_holds_after_the_first_batch(raw: RawClient, topic: str) -> None:
    for _ in range(10):
        produce(raw, topic, batch(b"x" * 1000))
    answer = fetch(raw, topic, 0, partition_max_bytes=3500)
    assert 1000 < len(answer.records) <= 3500
    assert values_of(answer) == [b"x" * 1000] * 3


def test_the_request_limit_is_shared_by_partitions_in_the_order_asked(
    raw: RawClient, topic: str
) -> None:
    for partition in (0, 1):
        for _ in range(3):
            produce(raw, topic, batch(b"x" * 1000), partition=partition)
    wanted = [
        FetchRequest.Topic.Partition(partition=p, fetch_offset=0, partition_max_bytes=1 << 20)
        for p in (1, 0)
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2500,
        topics=[FetchRequest.Topic(topic=topic, partitions=wanted)],
    )
    (answer,) = raw.call(request, 12).responses
    sizes = {p.partition_index: len(p.records or b"") for p in answer.partitions}
    assert 2000 < sizes[1] <= 2500
    assert sizes[0] <= 2500 - sizes[1]


def test_a_fetch_ends_where_a_segment_ends(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("segments"), config={"segment.ms": "60000"})
    produce(raw, name, batch(b"old", timestamp=T0))
    # A record this much later than the segment's first one starts a new segment.
    produce(raw, name, batch(b"new", timestamp=T0 + 120_000))
    assert values_of(fetch(raw, name, 0)) == [b"old"]
    assert values_of(fetch(raw, name, 1)) == [b"new"]


@pytest.mark.both_io_modes
def test_an_empty_fetch_waits_as_long_as_it_may(raw: RawClient, topic: str) -> None:
    began = time.monotonic()
    answer = fetch(raw, topic, 0, max_wait_ms=300)
    assert values_of(answer) == []
    assert time.monotonic() - began >= 0.29


@pytest.mark.parametrize(
    "fields", [{"max_wait_ms": 0}, {"max_wait_ms": TOO_LONG_MS, "min_bytes": 0}]
)
def test_a_fetch_that_need_not_wait_is_answered_at_once(
    raw: RawClient, topic: str, fields: dict[str, int]
) -> None:
    assert values_of(fetch(raw, topic, 0, **fields)) == []


@pytest.mark.both_io_modes
def test_a_waiting_fetch_is_answered_when_records_arrive(
    cluster: Cluster, raw: RawClient, topic: str
) -> None:
    request = fetch_request(topic, 0, max_wait_ms=TOO_LONG_MS)
    waiting = raw.send(request, 12)
    with cluster.connect() as other:
        produce(other, topic, batch(b"a"))
    answer = the_partition(raw.receive(request, 12, waiting).responses, "partitions")
    assert values_of(answer) == [b"a"]


def test_a_waiting_fetch_waits_for_min_bytes(cluster: Cluster, raw: RawClient, topic: str) -> None:
    request = fetch_request(topic, 0, max_wait_ms=TOO_LONG_MS, min_bytes=2000)
    waiting = raw.send(request, 12)
    with cluster.connect() as other:
        for _ in range(3):
            produce(other, topic, batch(b"x" * 900))
    answer = the_partition(raw.receive(request, 12, waiting).responses, "partitions")
    assert len(answer.records) >= 2000


def test_a_waiting_fetch_does_not_block_the_broker_for_others(
    cluster: Cluster, raw: RawClient, topic: str
) -> None:
    waiting = [cluster.connect() for _ in range(12)]
    try:
        for client in waiting:
            client.send(fetch_request(topic, 0, max_wait_ms=TOO_LONG_MS), 12)
        assert describe(raw, topic).error_code == ErrorCode.NONE
    finally:
        for client in waiting:
            client.close()


def test_a_fetch_whose_client_has_gone_harms_nobody(
    cluster: Cluster, raw: RawClient, topic: str
) -> None:
    with cluster.connect() as gone:
        gone.send(fetch_request(topic, 0, max_wait_ms=TOO_LONG_MS), 12)
    assert produce(raw, topic, batch(b"a")).error_code == ErrorCode.NONE
    assert values_of(fetch(raw, topic, 0)) == [b"a"]


def test_leader_epochs_of_clients_are_checked(raw: RawClient, topic: str) -> None:
    newer = fetch(raw, topic, 0, current_leader_epoch=5)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(raw, topic, 0, current_leader_epoch=0).error_code == ErrorCode.NONE


def test_an_error_is_answered_without_waiting(raw: RawClient, unique: Unique) -> None:
    answer = fetch(raw, unique("unknown"), 0, max_wait_ms=TOO_LONG_MS)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_clients_wait_and_all_are_answered(cluster: Cluster, topic: str) -> None:
    seen: list[list[bytes | None]] = []

    def wait_for_a_record() -> None:
        with cluster.connect() as client:
            seen.append(values_of(fetch(client, topic, 0, max_wait_ms=TOO_LONG_MS)))

    threads = [threading.Thread(target=wait_for_a_record) for _ in range(10)]
    for thread in threads:
        thread.start()
    with cluster.connect() as client:
        produce(client, topic, batch(b"a"))
    for thread in threads:
        thread.join()
    assert seen == [[b"a"]] * 10
