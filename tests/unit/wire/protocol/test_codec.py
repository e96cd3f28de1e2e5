"""Nulls, tagged fields, records by reference, and fields outside a message's version."""

from dataclasses import dataclass
from typing import cast
from uuid import UUID

import pytest

from embedkafka.wire.protocol.codec import (
    ProtocolError,
    decode,
    decode_versioned,
    encode,
    encode_parts,
    encode_versioned,
    leading_version,
)
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
    MetadataRequest,
    ProduceRequest,
)
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from embedkafka.wire.protocol.messages.internal import GroupMetadataKey, OffsetCommitKey

FETCHED = FetchResponse.Topic.Partition


@dataclass(frozen=True)
class Sized:
    """Records stored elsewhere; the codec needs only their size."""

    size: int


def fetch_response(*records: object) -> FetchResponse:
    partitions = [
        FETCHED(partition_index=index, high_watermark=1, records=each)  # type: ignore[arg-type]
        for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=partitions)])


def test_null_and_empty_arrays_differ() -> None:
    no_topics = MetadataRequest(topics=[])
    all_topics = MetadataRequest(topics=None)
    assert encode(no_topics, 1) == b"\0\0\0\0"
    assert encode(all_topics, 1) == b"\xff\xff\xff\xff"
    assert encode(no_topics, 9)[0] == 1
    assert encode(all_topics, 9)[0] == 0
    for version in (1, 9):
        assert decode(MetadataRequest, version, encode(all_topics, version)).topics is None
        assert decode(MetadataRequest, version, encode(no_topics, version)).topics == []


def test_null_is_refused_in_versions_that_have_none() -> None:
    with pytest.raises(ProtocolError, match="MetadataRequest v0 cannot be encoded"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(ProtocolError, match="topics has length -1, and may not be null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_null_and_empty_strings_differ() -> None:
    def heartbeat(instance: str | None) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id="", generation_id=0, member_id="", group_instance_id=instance
        )

    for version in (3, 4):
        for instance in (None, "", "i"):
            encoded = encode(heartbeat(instance), version)
            assert decode(HeartbeatRequest, version, encoded) == heartbeat(instance)
    assert encode(heartbeat(None), 3) != encode(heartbeat(""), 3)


def test_null_structs_are_one_byte() -> None:
    absent = DescribeTopicPartitionsRequest(topics=[])
    assert encode(absent, 0) == b"\x01\x00\x00\x07\xd0\xff\x00"
    present = DescribeTopicPartitionsRequest(
        topics=[],
        cursor=DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=1),
    )
    assert decode(DescribeTopicPartitionsRequest, 0, encode(present, 0)) == present
    answer = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=2)
    assert decode(ConsumerGroupHeartbeatResponse, 0, encode(answer, 0)).assignment is None


def test_error_codes_are_accepted_where_an_int_is_declared() -> None:
    answer = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert encode(answer, 0) == b"\x00\x1b"
    assert decode(HeartbeatResponse, 0, b"\x00\x1b") == answer


def test_tagged_fields_are_written_only_when_they_differ_from_their_default() -> None:
    plain = ApiVersionsResponse(api_keys=[])
    assert encode(plain, 3) == b"\0\0\x01\0\0\0\0\0"
    level = ApiVersionsResponse(api_keys=[], finalized_features_epoch=1, zk_migration_ready=True)
    assert encode(level, 3) == b"\0\0\x01\0\0\0\0\x02\x01\x08\0\0\0\0\0\0\0\x01\x03\x01\x01"
    assert decode(ApiVersionsResponse, 3, encode(level, 3)) == level


def test_an_equal_but_not_identical_default_is_left_out_too() -> None:
    same = FETCHED(
        partition_index=0,
        high_watermark=1,
        records=b"",
        diverging_epoch=FETCHED.EpochEndOffset(epoch=-1, end_offset=-1),
    )
    message = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[same])])
    assert encode(message, 12) == encode(fetch_response(b""), 12)


def test_unknown_tagged_fields_are_skipped_at_every_level() -> None:
    known = ApiVersionsRequest(client_software_name="n", client_software_version="v")
    unknown = b"\x02" + b"\x05\x03abc" + b"\x81\x01\x00"
    assert encode(known, 3).endswith(b"\x02v\x00")
    with_tags = encode(known, 3)[:-1] + unknown
    assert decode(ApiVersionsRequest, 3, with_tags) == known


def test_known_tagged_fields_are_found_among_unknown_ones() -> None:
    body = encode(ApiVersionsResponse(api_keys=[]), 3)[:-1]
    tags = b"\x03" + b"\x01\x08\0\0\0\0\0\0\0\x09" + b"\x09\x02zz" + b"\x03\x01\x01"
    decoded = decode(ApiVersionsResponse, 3, body + tags)
    assert (decoded.finalized_features_epoch, decoded.zk_migration_ready) == (9, True)


def test_long_compact_lengths_take_more_than_one_byte() -> None:
    name = "n" * 300
    request = ApiVersionsRequest(client_software_name=name, client_software_version="")
    encoded = encode(request, 3)
    assert encoded.startswith(b"\xad\x02nnn")
    assert decode(ApiVersionsRequest, 3, encoded) == request


def test_topic_ids_are_sixteen_bytes() -> None:
    topic_id = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic_id=topic_id, partitions=[])],
    )
    assert topic_id.bytes in encode(request, 13)
    assert decode(FetchRequest, 13, encode(request, 13)).topics[0].topic_id == topic_id


def test_records_are_passed_on_and_not_copied() -> None:
    first, second = memoryview(b"first"), bytearray(b"second")
    parts = encode_parts(fetch_response(first, None, b"", second), 12)
    assert parts[1] is first
    assert parts[3] is second
    assert len(parts) == 5
    assert encode_parts(fetch_response(first), 4)[-1] is first
    assert b"".join(parts) == encode(fetch_response(first, None, b"", second), 12)  # type: ignore[arg-type]


def test_records_that_are_not_in_memory_are_parts_of_their_own() -> None:
    region: object = Sized(size=1 << 20)
    parts = encode_parts(fetch_response(region), 4)
    assert parts[1] is region
    assert bytes(parts[0]).endswith((1 << 20).to_bytes(4, "big"))  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="FetchResponse v4 cannot be encoded"):
        encode(fetch_response(region), 4)


def test_messages_without_records_are_one_part() -> None:
    assert encode_parts(HeartbeatResponse(), 0) == [b"\0\0"]
    assert encode_parts(ApiVersionsRequest(), 0) == []


def test_decoded_records_are_views_of_the_request() -> None:
    records = memoryview(b"a batch")
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    buffer = bytearray(encode(ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic]), 9))
    view = decode(ProduceRequest, 9, memoryview(buffer)).topic_data[0].partition_data[0].records
    assert view is not None
    buffer[buffer.index(b"batch")] = ord("B")
    assert bytes(view) == b"a Batch"


def test_arrays_are_decoded_as_lists() -> None:
    partition = ListOffsetsResponse.Topic.Partition(partition_index=0, old_style_offsets=(1, 2))
    message = ListOffsetsResponse(
        topics=(ListOffsetsResponse.Topic(name="t", partitions=(partition,)),)
    )
    decoded = decode(ListOffsetsResponse, 0, encode(message, 0))
    assert decoded.topics[0].partitions[0].old_style_offsets == [1, 2]
    assert isinstance(decoded.topics, list)


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest(group_id="g", generation_id=1 << 31, member_id="m"),
        HeartbeatRequest(group_id="g" * 40000, generation_id=1, member_id="m"),
        HeartbeatRequest(group_id="\ud800", generation_id=1, member_id="m"),
        HeartbeatRequest(group_id=cast(str, None), generation_id=1, member_id="m"),
    ],
    ids=["int too large", "string too long", "no unicode text", "null"],
)
def test_values_that_do_not_fit_are_refused_by_name(request_: HeartbeatRequest) -> None:
    with pytest.raises(ProtocolError, match="HeartbeatRequest v0 cannot be encoded"):
        encode(request_, 0)


def test_versioned_messages_have_their_version_in_front() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    encoded = encode_versioned(key, 1)
    assert encoded == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert leading_version(encoded) == 1
    assert decode_versioned(OffsetCommitKey, encoded) == key


def test_versioned_messages_of_another_kind_or_none_are_refused() -> None:
    with pytest.raises(ProtocolError, match="GroupMetadataKey has versions 2 to 2, not 1"):
        decode_versioned(GroupMetadataKey, b"\x00\x01\x00\x01g")
    with pytest.raises(ProtocolError, match="no version in 1 bytes"):
        leading_version(b"\x00")


def test_surplus_bytes_are_refused_unless_allowed() -> None:
    data = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0) + b"\0\0\0"
    with pytest.raises(ProtocolError, match="3 bytes are left over"):
        decode(HeartbeatRequest, 0, data)
    assert decode(HeartbeatRequest, 0, data, surplus_allowed=True).member_id == "m"
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, 0, data[:3], surplus_allowed=True)
