"""Whatever bytes a client sends, decoding gives a message or a ProtocolError."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.wire.protocol.codec import ProtocolError, decode, encode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, JoinGroupRequest
from tests.unit.wire.protocol.samples import full
from tests.unit.wire.protocol.values import ALL_MESSAGES


def telling_versions(cls: type[Any]) -> set[int]:
    """The oldest, the newest, and those around the switch to compact types."""
    schema = schema_of(cls)
    first, last = schema.versions
    flexible = last if schema.flexible is None else max(first, schema.flexible)
    return {first, max(first, flexible - 1), flexible, last}


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_every_truncated_message_is_refused(cls: type[Any]) -> None:
    for version in telling_versions(cls):
        encoded = encode(full(cls, version), version)
        for size in range(len(encoded)):
            with pytest.raises(ProtocolError):
                decode(cls, version, encoded[:size])


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_every_damaged_byte_is_refused_or_read(cls: type[Any]) -> None:
    for version in telling_versions(cls):
        encoded = bytearray(encode(full(cls, version), version))
        for position, kept in enumerate(encoded):
            for damage in (0x00, 0x7F, 0x80, 0xFF):
                encoded[position] = damage
                try:
                    decode(cls, version, encoded)
                except ProtocolError:
                    pass
            encoded[position] = kept


@settings(max_examples=200)
@given(data=st.binary(max_size=60), cls=st.sampled_from(ALL_MESSAGES))
def test_any_bytes_are_refused_or_read(data: bytes, cls: type[Any]) -> None:
    for version in telling_versions(cls):
        try:
            decode(cls, version, data)
        except ProtocolError:
            pass


def test_trailing_bytes_are_refused() -> None:
    encoded = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0)
    with pytest.raises(
        ProtocolError,
        match=r"HeartbeatRequest v0 is malformed near byte 10 of 12: 2 bytes are left over",
    ):
        decode(HeartbeatRequest, 0, encoded + b"\0\0")


def test_truncated_input_is_named() -> None:
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest v0 .*: the data ends too early"):
        decode(HeartbeatRequest, 0, b"\x00\x01g\x00\x00")


def test_a_last_string_cut_short_is_refused() -> None:
    with pytest.raises(ProtocolError, match="3 bytes are missing at the end"):
        decode(HeartbeatRequest, 0, b"\x00\x01g\x00\x00\x00\x01\x00\x04m")


def test_bytes_that_are_not_utf8_are_replaced_as_java_does() -> None:
    heartbeat = decode(HeartbeatRequest, 0, b"\x00\x01\xff\x00\x00\x00\x01\x00\x01m")
    assert heartbeat.group_id == "\ufffd"
    produce = decode(ProduceRequest, 0, b"\0\1\0\0\0\0\0\0\0\1\0\1\xff\0\0\0\0")
    assert produce.topic_data[0].name == "\ufffd"


def test_negative_lengths_are_refused_where_null_is_not_allowed() -> None:
    with pytest.raises(ProtocolError, match="group_id has length -1, and may not be null"):
        decode(HeartbeatRequest, 0, b"\xff\xff\x00\x00\x00\x01\x00\x01m")
    with pytest.raises(ProtocolError, match="client_software_name has length -1"):
        decode(ApiVersionsRequest, 3, b"\x00\x01\x00")
    metadata = b"\0\1g\0\0\0\1\0\1m\0\1c\0\0\0\1\0\1p\xff\xff\xff\xfe"
    with pytest.raises(ProtocolError, match="metadata has length -2"):
        decode(JoinGroupRequest, 0, metadata)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x05"])
def test_arrays_longer_than_the_data_are_refused_before_they_are_built(count: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"topics claims .* elements where 4 bytes are left"):
        decode(MetadataRequest, 1, count + b"\0\0\0\0")


def test_arrays_of_numbers_longer_than_the_data_are_refused() -> None:
    partition = MetadataResponse.Topic.Partition(
        partition_index=0, leader_id=1, replica_nodes=[], isr_nodes=[]
    )
    topic = MetadataResponse.Topic(name="t", partitions=[partition])
    encoded = encode(MetadataResponse(brokers=[], topics=[topic]), 0)
    huge = encoded[:-8] + b"\x7f\xff\xff\xff" + encoded[-4:]
    with pytest.raises(ProtocolError, match="replica_nodes claims 2147483647 elements"):
        decode(MetadataResponse, 0, huge)


def test_variable_length_integers_end_after_five_bytes() -> None:
    with pytest.raises(ProtocolError, match="is longer than five bytes"):
        decode(ApiVersionsRequest, 3, b"\xff" * 20)


def test_a_compact_string_may_be_as_long_as_any_other() -> None:
    longest = HeartbeatRequest(group_id="g" * 32_767, generation_id=1, member_id="m")
    assert decode(HeartbeatRequest, 4, encode(longest, 4)) == longest
    longer = HeartbeatRequest(group_id="g" * 32_768, generation_id=1, member_id="m")
    with pytest.raises(ProtocolError, match="a string has 32768 bytes, where 32767 are allowed"):
        decode(HeartbeatRequest, 4, encode(longer, 4))


def test_a_known_tagged_field_has_the_size_of_its_type_whatever_it_claims() -> None:
    body = encode(ApiVersionsResponse(api_keys=[]), 3)[:-1]
    assert decode(ApiVersionsResponse, 3, body + b"\x01\x03\x02\x01").zk_migration_ready


def test_an_unknown_tagged_field_may_not_reach_beyond_the_end() -> None:
    body = encode(ApiVersionsResponse(api_keys=[]), 3)[:-1]
    with pytest.raises(ProtocolError, match="4 bytes are missing at the end"):
        decode(ApiVersionsResponse, 3, body + b"\x01\x09\x05x")


def test_records_cut_short_are_refused() -> None:
    partition = FetchResponse.Topic.Partition(
        partition_index=0, high_watermark=0, records=b"0123456789"
    )
    topic = FetchResponse.Topic(topic="t", partitions=[partition])
    encoded = encode(FetchResponse(responses=[topic]), 4)
    with pytest.raises(ProtocolError, match="3 bytes are missing at the end"):
        decode(FetchResponse, 4, encoded[:-3])
