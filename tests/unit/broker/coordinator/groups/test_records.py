import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from embedkafka.broker.coordinator.groups.records import group_record, offset_record, read_key
from embedkafka.wire.protocol.codec import decode_versioned, encode_versioned
from embedkafka.wire.protocol.messages.internal import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.presence import present


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="note", commit_timestamp=1000)
    record = offset_record("g", "orders", 3, value)
    assert record.key == b"\0\1" + string(b"g") + string(b"orders") + struct.pack(">i", 3)
    assert record.value == b"\0\3" + struct.pack(">qi", 42, 7) + string(b"note") + struct.pack(
        ">q", 1000
    )


def test_an_offset_with_expiry_is_written_in_version_1() -> None:
    value = OffsetCommitValue(
        offset=42, leader_epoch=7, metadata="", commit_timestamp=1000, expire_timestamp=2000
    )
    record = offset_record("g", "t", 0, value)
    assert record.value == b"\0\1" + struct.pack(">q", 42) + string(b"") + struct.pack(
        ">qq", 1000, 2000
    )


def test_a_group_is_written_as_kafka_writes_it() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m",
        current_state_timestamp=1000,
        members=[
            GroupMetadataValue.Member(
                member_id="m",
                group_instance_id=None,
                client_id="c",
                client_host="/h",
                rebalance_timeout=60000,
                session_timeout=10000,
                subscription=b"sub",
                assignment=b"",
            )
        ],
    )
    record = group_record("g", value)
    assert record.key == b"\0\2" + string(b"g")
    assert record.value == (
        b"\0\3"
        + string(b"consumer")
        + struct.pack(">i", 5)
        + string(b"range")
        + string(b"m")
        + struct.pack(">qi", 1000, 1)
        + string(b"m")
        + b"\xff\xff"
        + string(b"c")
        + string(b"/h")
        + struct.pack(">ii", 60000, 10000)
        + struct.pack(">i", 3)
        + b"sub"
        + struct.pack(">i", 0)
    )


def test_an_empty_group_has_no_protocol_and_no_leader() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=6,
        protocol=None,
        leader=None,
        current_state_timestamp=1,
        members=[],
    )
    assert group_record("g", value).value == b"\0\3" + string(b"consumer") + struct.pack(
        ">ihhqi", 6, -1, -1, 1, 0
    )


def test_tombstones_have_no_value() -> None:
    assert offset_record("g", "t", 0, None).value is None
    assert group_record("g", None).value is None


def test_old_versions_are_read() -> None:
    assert read_key(b"\0\0" + string(b"g") + string(b"t") + b"\0\0\0\1") == OffsetCommitKey(
        group="g", topic="t", partition=1
    )
    value = OffsetCommitValue(offset=1, leader_epoch=2, metadata="m", commit_timestamp=3)
    for version in (0, 2, 3, 4):
        read = decode_versioned(OffsetCommitValue, encode_versioned(value, version))
        assert read.offset == 1
        assert read.leader_epoch == (2 if version >= 3 else -1)


def test_unknown_keys_are_skipped() -> None:
    assert read_key(b"\0\x63rest") is None


@given(
    group=st.text(max_size=20),
    topic=st.text(max_size=20),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    metadata=st.text(max_size=50),
)
def test_what_is_written_is_read(
    group: str, topic: str, partition: int, offset: Any, metadata: Any
) -> None:
    value = OffsetCommitValue(offset=offset, leader_epoch=1, metadata=metadata, commit_timestamp=2)
    record = offset_record(group, topic, partition, value)
    assert read_key(record.key) == OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert decode_versioned(OffsetCommitValue, present(record.value)) == value
    assert read_key(group_record(group, None).key) == GroupMetadataKey(group=group)
