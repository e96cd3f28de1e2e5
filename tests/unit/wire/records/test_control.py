"""Markers that end transactions."""

import pytest

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import RecordBatch, read_batches
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    first_record,
    read_end_transaction_marker,
)
from embedkafka.wire.records.record import Record


@pytest.mark.parametrize("control_type", list(ControlType))
def test_a_marker_is_read_back(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type=control_type, coordinator_epoch=12)
    data = build_end_transaction_marker(
        marker, timestamp=99, producer_id=5, producer_epoch=3, base_offset=70, leader_epoch=2
    )
    (batch,) = read_batches(data)
    assert isinstance(batch, RecordBatch)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 3, -1)
    record = first_record(batch)
    assert record is not None
    assert (record.offset, record.timestamp) == (70, 99)
    assert record.key == bytes((0, 0, 0, control_type))
    assert record.value == bytes((0, 0, 0, 0, 0, 12))
    assert read_end_transaction_marker(record) == marker


def test_control_records_of_kraft_are_no_end_markers() -> None:
    leader_change = Record(0, 0, bytes((0, 0, 0, 2)), b"")
    assert read_end_transaction_marker(leader_change) is None


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, None, b""),
        Record(0, 0, b"\x00", b""),
        Record(0, 0, b"\xff\xff\x00\x01", bytes(6)),
        Record(0, 0, bytes((0, 0, 0, 1)), b"\x00"),
        Record(0, 0, bytes((0, 0, 0, 1)), None),
        Record(0, 0, bytes((0, 0, 0, 1)), b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_a_malformed_marker_is_an_invalid_record(record: Record) -> None:
    with pytest.raises(ApiError) as caught:
        read_end_transaction_marker(record)
    assert caught.value.code is ErrorCode.INVALID_RECORD
