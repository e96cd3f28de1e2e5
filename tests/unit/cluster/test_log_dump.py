"""A log's findings as lines, and the decoded records of internal topics."""

import json
from typing import Any

from embedkafka.broker.coordinator.groups.consumer.records import epoch_record
from embedkafka.broker.coordinator.groups.records import group_record, offset_record
from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.broker.coordinator.transactions.records import transaction_record
from embedkafka.broker.coordinator.transactions.states import TxnState
from embedkafka.broker.log.dump import Finding
from embedkafka.cluster.log_dump import as_json, as_text, explain
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.wire.protocol.messages.internal import GroupMetadataValue, OffsetCommitValue
from embedkafka.wire.records.record import Record

COMMITTED = OffsetCommitValue(offset=42, leader_epoch=3, metadata="note", commit_timestamp=5)


def meaning_of(topic: str, record: tuple[bytes, bytes | None]) -> dict[str, Any]:  # JSON
    key, value = record
    meaning = explain(topic, Record(0, 0, key, value))
    assert meaning is not None
    return dict(meaning)


def a_record(**fields: Any) -> Finding:
    defaults: dict[str, Any] = {
        "offset": 7,
        "timestamp": 0,
        "key": b"k",
        "value": b"v",
        "headers": (),
    }
    return Finding("record", {**defaults, "meaning": None, **fields})


def test_a_committed_offset_is_explained() -> None:
    meaning = meaning_of(GROUP_METADATA_TOPIC, offset_record("g", "orders", 3, COMMITTED))
    assert meaning["type"] == "OffsetCommit"
    assert meaning["key"] == {"group": "g", "topic": "orders", "partition": 3}
    assert meaning["value"]["offset"] == 42
    assert meaning["value"]["metadata"] == "note"
    tombstone = meaning_of(GROUP_METADATA_TOPIC, offset_record("g", "orders", 3, None))
    assert tombstone["value"] is None


def test_groups_of_both_kinds_are_explained() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=[]
    )
    classic = meaning_of(GROUP_METADATA_TOPIC, group_record("g", value))
    assert (classic["type"], classic["key"]) == ("GroupMetadata", {"group": "g"})
    assert classic["value"]["generation"] == 3
    consumer = meaning_of(GROUP_METADATA_TOPIC, epoch_record("g", 5))
    assert (consumer["type"], consumer["value"]["epoch"]) == ("ConsumerGroupMetadata", 5)


def test_a_transaction_is_explained_with_the_name_of_its_state() -> None:
    transaction = Transaction(
        transactional_id="tx",
        producer_id=9,
        producer_epoch=1,
        timeout_ms=1000,
        state=TxnState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=-1,
        last_update_timestamp_ms=5,
    )
    record = transaction_record(transaction, transaction_version=1)
    meaning = meaning_of(TRANSACTION_STATE_TOPIC, record)
    assert meaning["key"] == {"transactional_id": "tx"}
    assert (meaning["value"]["producer_id"], meaning["value"]["transaction_status"]) == (9, "EMPTY")


def test_what_nobody_knows_is_not_explained() -> None:
    for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
        for key in (b"", b"\0", b"\0\x63abc", b"\0\1"):
            assert explain(topic, Record(0, 0, key, None)) is None
    assert explain("orders", Record(0, 0, *offset_record("g", "t", 0, COMMITTED))) is None


def test_json_keeps_text_and_encodes_other_bytes() -> None:
    told = json.loads(as_json(a_record(value=b"a\nb", headers=(("h", b"\xff"), ("n", None)))))
    assert (told["kind"], told["offset"], told["key"], told["value"]) == ("record", 7, "k", "a\nb")
    assert told["headers"] == [["h", {"base64": "/w=="}], ["n", None]]
    entry = json.loads(as_json(Finding("entry", {"offset": 3, "position": 9})))
    assert entry == {"kind": "entry", "offset": 3, "position": 9}


def test_text_is_one_line_for_each_finding() -> None:
    record = a_record(timestamp=1_000, key=None, value=b"", headers=(("h", b"\0\1"),))
    assert (
        as_text(record)
        == "      7  1970-01-01T00:00:01.000Z  key=null  value=''  h: 0x0001 (2 bytes)"
    )
    assert as_text(Finding("file", {"name": "x.log", "size": 5})) == "  x.log: 5 bytes"
    assert as_text(Finding("entry", {"epoch": 3, "start_offset": 9})).strip() == (
        "epoch 3, start_offset 9"
    )
    assert as_text(Finding("problem", {"path": "p", "reason": "r"})) == "! p: r"
    meaning = explain(GROUP_METADATA_TOPIC, Record(0, 0, *offset_record("g", "t", 0, COMMITTED)))
    assert as_text(a_record(timestamp=-1, meaning=meaning)).strip() == (
        "7  no time  OffsetCommit group g, topic t, partition 0: "
        "offset 42, leader_epoch 3, metadata note, commit_timestamp 5"
    )


def test_a_batch_tells_in_text_what_is_special_about_it() -> None:
    batch = {
        "base_offset": 3,
        "last_offset": 4,
        "count": 2,
        "position": 80,
        "size": 90,
        "magic": 2,
        "compression": "zstd",
        "crc": 1,
        "is_valid": False,
        "leader_epoch": 6,
        "timestamp_type": "log_append_time",
        "max_timestamp": 2**62,
        "producer_id": 8,
        "producer_epoch": 0,
        "base_sequence": 5,
        "is_transactional": True,
        "is_control": False,
        "delete_horizon": 0,
    }
    assert as_text(Finding("batch", batch)).strip() == (
        "batch 3 to 4, 90 bytes at 80, magic 2, zstd, epoch 6, 4611686018427387904 ms, "
        "log_append_time, producer 8/0 from 5, transactional, gone by 1970-01-01T00:00:00.000Z, "
        "INVALID"
    )
