"""ListOffsets and OffsetForLeaderEpoch: positions in a log, by time and by epoch."""

from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ListOffsetsRequest, OffsetForLeaderEpochRequest
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from tests.wire.one_partition import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    T0,
    Answer,
    batch,
    each_version,
    list_offset,
    produce,
    the_partition,
)
from tests.wire.raw_client import RawClient
from tests.wire.topic_changes import delete_records


def produce_at(raw: RawClient, topic: str, *timestamps: int, **fields: Any) -> None:
    """Produces one batch with one record per timestamp."""
    records = build_batch([(ts, None, b"v", ()) for ts in timestamps], **fields)
    assert produce(raw, topic, records).error_code == ErrorCode.NONE


@pytest.mark.both_io_modes
def test_every_version_gives_earliest_and_latest(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b"))

    def check(version: int) -> None:
        earliest = list_offset(raw, topic, EARLIEST, version=version)
        latest = list_offset(raw, topic, LATEST, version=version)
        epoch = 0 if version >= 4 else -1
        assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
        assert (latest.error_code, latest.offset, latest.timestamp) == (0, 2, -1)
        assert (earliest.leader_epoch, latest.leader_epoch) == (epoch, epoch)

    each_version(raw, ListOffsetsRequest, check, first=1)


def test_an_empty_log_starts_and_ends_at_0(raw: RawClient, topic: str) -> None:
    assert list_offset(raw, topic, EARLIEST).offset == 0
    assert list_offset(raw, topic, LATEST).offset == 0
    by_time = list_offset(raw, topic, T0)
    assert (by_time.error_code, by_time.offset, by_time.timestamp) == (ErrorCode.NONE, -1, -1)
    assert list_offset(raw, topic, MAX_TIMESTAMP).offset == -1


def test_a_timestamp_finds_the_first_record_at_or_after_it(raw: RawClient, topic: str) -> None:
    produce_at(raw, topic, T0, T0 + 10, T0 + 20)
    produce_at(raw, topic, T0 + 30)
    for asked, offset, timestamp in (
        (T0 - 1, 0, T0),
        (T0, 0, T0),
        (T0 + 1, 1, T0 + 10),
        (T0 + 20, 2, T0 + 20),
        (T0 + 25, 3, T0 + 30),
        (T0 + 31, -1, -1),
    ):
        found = list_offset(raw, topic, asked)
        assert (found.offset, found.timestamp) == (offset, timestamp)


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_timestamps_are_found_inside_compressed_batches(
    raw: RawClient, topic: str, codec: Compression
) -> None:
    produce_at(raw, topic, T0, T0 + 10, T0 + 20, compression=codec)
    found = list_offset(raw, topic, T0 + 15)
    assert (found.offset, found.timestamp) == (2, T0 + 20)


def test_disordered_timestamps_give_the_first_offset_that_fits(raw: RawClient, topic: str) -> None:
    for timestamp in (T0 + 50, T0 + 10, T0 + 70, T0 + 20):
        produce_at(raw, topic, timestamp)
    assert list_offset(raw, topic, T0 + 5).offset == 0
    assert list_offset(raw, topic, T0 + 60).offset == 2
    assert list_offset(raw, topic, T0 + 71).offset == -1


def test_the_greatest_timestamp_has_an_offset(raw: RawClient, topic: str) -> None:
    produce_at(raw, topic, T0 + 50, T0 + 90, T0 + 10)
    produce_at(raw, topic, T0 + 20)
    found = list_offset(raw, topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, T0 + 90, 0)


def test_earliest_follows_deleted_records(raw: RawClient, topic: str) -> None:
    for i in range(5):
        produce_at(raw, topic, T0 + i)
    delete_records(raw, topic, 3)
    assert list_offset(raw, topic, EARLIEST).offset == 3
    assert list_offset(raw, topic, T0).offset == 3
    assert list_offset(raw, topic, LATEST).offset == 5


def test_the_greatest_timestamp_may_be_that_of_a_deleted_record(raw: RawClient, topic: str) -> None:
    produce_at(raw, topic, T0 + 50)
    produce_at(raw, topic, T0 + 20)
    delete_records(raw, topic, 1)
    found = list_offset(raw, topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp, found.leader_epoch) == (0, T0 + 50, 0)


def end_of_epoch(
    raw: RawClient,
    topic: str,
    epoch: int,
    *,
    current: int = -1,
    partition: int = 0,
    version: int = 4,
) -> Answer:
    wanted = OffsetForLeaderEpochRequest.Topic.Partition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[wanted])],
    )
    return the_partition(raw.call(request, version).topics, "partitions")


def test_every_version_gives_the_end_of_the_current_epoch(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b"))

    def check(version: int) -> None:
        answer = end_of_epoch(raw, topic, 0, version=version)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 2)

    each_version(raw, OffsetForLeaderEpochRequest, check, first=1)
