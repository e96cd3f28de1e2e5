"""Message sets of magic 0 and 1, and conversion from and to magic 2."""

import gzip
import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from embedkafka.wire.records.conversion import down_convert, down_convert_fetched, up_convert
from embedkafka.wire.records.legacy import LegacyBatch, build_message_set
from embedkafka.wire.records.record import Record, TimestampType

LEGACY_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]
MAYBE_BYTES = st.none() | st.binary(max_size=30)


@st.composite
def record_runs(draw: st.DrawFn) -> Sequence[Record]:
    base = draw(st.integers(min_value=0, max_value=2**40))
    contents = draw(
        st.lists(
            st.tuples(st.integers(min_value=0, max_value=2**41), MAYBE_BYTES, MAYBE_BYTES),
            min_size=1,
            max_size=10,
        )
    )
    return [
        Record(base + index, timestamp, key, value)
        for index, (timestamp, key, value) in enumerate(contents)
    ]


def all_records(data: bytes) -> list[Record]:
    found: list[Record] = []
    for batch in read_batches(data):
        batch.ensure_valid()
        found.extend(batch.records())
    return found


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@settings(max_examples=20)
@given(records=record_runs())
def test_message_sets_are_read_back_with_absolute_offsets(
    magic: int, codec: Compression, records: Sequence[Record]
) -> None:
    data = build_message_set(records, magic=magic, compression=codec)
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert all_records(data) == expected
    batches = list(read_batches(data))
    assert len(batches) == (len(records) if codec is Compression.NONE else 1)
    assert (batches[0].base_offset, batches[-1].last_offset) == (
        records[0].offset,
        records[-1].offset,
    )


def test_a_message_of_magic_1_has_its_known_bytes() -> None:
    data = build_message_set([Record(7, 1000, b"k", b"v")], magic=1)
    assert data[:12].hex() == "000000000000000700000018"
    assert data[16:].hex() == "010000000000000003e8000000016b0000000176"
    assert int.from_bytes(data[12:16], "big") == zlib.crc32(data[16:])


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_message_that_ends_within_its_lengths_is_corrupt(cut: int) -> None:
    whole = build_message_set([Record(0, 1_000, b"k", None)], magic=1)
    body = whole[16:-cut]
    torn = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(ApiError) as refusal:
        for batch in read_batches(torn):
            list(batch.records())
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_inner_offsets_are_relative_in_magic_1_and_absolute_in_magic_0() -> None:
    records = [Record(100, 5, None, b"a"), Record(101, 6, None, b"b")]
    for magic, inner_offsets in ((0, [100, 101]), (1, [0, 1])):
        data = build_message_set(records, magic=magic, compression=Compression.GZIP)
        (wrapper,) = read_batches(data)
        assert isinstance(wrapper, LegacyBatch)
        assert wrapper.last_offset == 101
        value_position = 26 + 8 * magic
        inner = gzip.decompress(data[value_position:])
        assert [batch.last_offset for batch in read_batches(inner)] == inner_offsets


def test_the_append_time_of_a_wrapper_holds_for_all_inside() -> None:
    records = [Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]
    data = build_message_set(
        records,
        magic=1,
        compression=Compression.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert [record.timestamp for record in all_records(data)] == [6, 6]


@given(record_runs(), st.data())
def test_a_damaged_message_is_corrupt(records: Sequence[Record], data: st.DataObject) -> None:
    message = bytearray(build_message_set(records[:1], magic=1))
    position = data.draw(
        st.integers(min_value=12, max_value=len(message) - 1).filter(lambda at: at != 16)
    )
    message[position] ^= 1 << data.draw(st.integers(min_value=0, max_value=7))
    with pytest.raises(ApiError) as caught:
        all_records(bytes(message))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_message_sets_know_no_zstd() -> None:
    with pytest.raises(ApiError) as caught:
        build_message_set([Record(0, 1, None, b"a")], magic=1, compression=Compression.ZSTD)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_keeps_offsets_keys_and_values(magic: int, codec: Compression) -> None:
    content = [(10 + index, b"k%d" % index, b"v" * index, [("h", b"x")]) for index in range(5)]
    data = build_batch(content, base_offset=40, compression=codec)
    converted = down_convert(read_batches(data), magic=magic)
    assert {batch.magic for batch in read_batches(converted)} == {magic}
    assert [(r.offset, r.key, r.value, r.headers) for r in all_records(converted)] == [
        (40 + index, key, value, ()) for index, (_, key, value, _) in enumerate(content)
    ]


def test_down_conversion_starts_at_the_first_offset_wanted() -> None:
    data = build_batch([(1, None, b"%d" % index, ()) for index in range(5)], base_offset=10)
    converted = down_convert(read_batches(data), magic=1, first_offset=13)
    assert [record.offset for record in all_records(converted)] == [13, 14]


def test_down_conversion_leaves_out_control_batches() -> None:
    marker = EndTransactionMarker(control_type=ControlType.COMMIT, coordinator_epoch=0)
    data = build_batch([(1, None, b"a", ())]) + build_end_transaction_marker(
        marker, timestamp=2, producer_id=1, producer_epoch=0, base_offset=1
    )
    assert [r.value for r in all_records(down_convert(read_batches(data), magic=1))] == [b"a"]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_converted_fetch_is_as_long_as_what_was_fetched(magic: int) -> None:
    first = build_batch([(5, None, bytes(100), ()), (6, None, b"", ())])
    second = build_batch([(7, b"k", b"v" * 9, ())], base_offset=2)
    for cut in range(len(second) + 1):
        fetched = first + second[:cut]
        converted = down_convert_fetched(fetched, magic=magic, first_offset=0)
        assert len(converted) == len(fetched)
        expected = [0, 1, 2] if cut == len(second) else [0, 1]
        assert [record.offset for record in all_records(converted)] == expected


def test_the_first_batch_of_a_converted_fetch_comes_whole_though_it_grew() -> None:
    fetched = build_batch([(5, None, b"a", ())] * 20)
    converted = down_convert_fetched(fetched + fetched[:70], magic=1, first_offset=0)
    assert len(all_records(converted)) == 20
    assert len(converted) > len(fetched) + 70


def test_nothing_fetched_is_converted_to_nothing() -> None:
    batch = build_batch([(5, None, b"a", ())])
    for fetched in (b"", batch[:-1]):
        assert down_convert_fetched(fetched, magic=1, first_offset=0) == b""


def test_zstd_cannot_be_down_converted() -> None:
    data = build_batch([(1, None, b"a", ())], compression=Compression.ZSTD)
    with pytest.raises(ApiError) as caught:
        down_convert(read_batches(data), magic=1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("magic", [0, 1])
@settings(max_examples=20)
@given(records=record_runs())
def test_up_conversion_makes_one_batch_at_new_offsets(
    magic: int, records: Sequence[Record]
) -> None:
    data = build_message_set(records, magic=magic)
    converted = up_convert(
        list(read_batches(data)), base_offset=500, leader_epoch=4, compression=Compression.LZ4
    )
    (batch,) = read_batches(converted)
    assert (batch.magic, batch.partition_leader_epoch) == (2, 4)
    assert [(r.offset, r.key, r.value) for r in batch.records()] == [
        (500 + index, record.key, record.value) for index, record in enumerate(records)
    ]


# Five records as kafka-clients 3.9.0 writes them, by magic and codec.
JAVA = {
    (0, Compression.LZ4): (
        "000000000000002c000000a371cdf5620003ffffffff0000009504224d1860401a860000001200010091"
        "28000000102f5890590f0031026b300800020200912900000074d3efe6a20f0071026b31000000640c00"
        "0f020053912a000000d8ae88ad7e6f0071026b32000000c80c000f0200b7102b800141b643ca6ad30071"
        "026b33ffffffff0c00b000002c000001a002ad8b0f0d008100026b34000001900c000f0200ff74500000"
        "00000000000000"
    ),
    (0, Compression.GZIP): (
        "000000000000002c0000007d70b0706f0001ffffffff0000006f1f8b08000000000000ff636000030d20"
        "16d08f981009e631651b3020802610975c7eff6c1154ce1048a630d00f6801f18d751d6beba0f61b01c9"
        "1374b49f1e401b8805b6399fca02f398b28dff0301544e8781817101d3da6e7ea89c09903f61609c390a"
        "70010042cbdd6948030000"
    ),
    (1, Compression.SNAPPY): (
        "000000000000002c000000ccef9dcf76010200000000000003ecffffffff000000b682534e4150505900"
        "0000000100000001000000a2f006000019011418d45766ef010d101c03e8000000026b300d0f0101011b"
        "107c318d116e010901010403e905241031000000640110fe01009a01002002000000e0519ee6ab158800"
        "ea05881432000000c800fe0100fe0100fe0100360100200300000018d4ae5add15ec00eb05ec1033ffff"
        "ffff0deb2004000001a8b5dc366c152400ec05241034000001900d24fe0100fe0100fe0100fe0100fe01"
        "00fe01001501"
    ),
    (1, Compression.LZ4): (
        "000000000000002c000000b5e2f029fc010300000000000003ecffffffff0000009f04224d1860408290"
        "000000160001006318d45766ef0110008303e8000000026b300f00000200001b00507c318d116e090000"
        "02002103e9240050310000006410000f0200549502000000e0519ee6ab880011ea88005f32000000c884"
        "00540f0200551103980135ae5addec0011ebec005333ffffffff85009504000001a8b5dc366c240011ec"
        "240053340000019024000f0200ff7250000000000000000000"
    ),
}
JAVA_RECORDS = [
    Record(40 + index, 1000 + index, b"k%d" % index, None if index == 3 else bytes(100 * index))
    for index in range(5)
]


@pytest.mark.parametrize(("magic", "codec"), list(JAVA))
def test_message_sets_of_the_java_client_are_read(magic: int, codec: Compression) -> None:
    expected = [record if magic else record._replace(timestamp=-1) for record in JAVA_RECORDS]
    assert all_records(bytes.fromhex(JAVA[magic, codec])) == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_lz4_message_sets_are_those_of_the_java_client_to_the_byte(magic: int) -> None:
    data = build_message_set(JAVA_RECORDS, magic=magic, compression=Compression.LZ4)
    assert data.hex() == JAVA[magic, Compression.LZ4]
