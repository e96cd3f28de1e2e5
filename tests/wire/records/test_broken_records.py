"""Batches with a valid checksum and faulty records inside: Kafka's errors, codec by codec."""

from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.records.batch import HEADER, HEADER_SIZE, MAX_TIMESTAMP_POSITION, read_batches
from embedkafka.wire.records.builder import build_batch, write_crc
from embedkafka.wire.records.compression import Compression, compress
from embedkafka.wire.records.record import LOG_OVERHEAD
from embedkafka.wire.records.varint import encode_varint
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import LATEST, T0, fetch, list_offset, produce
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]

COUNT = 3
TOO_LONG = b"\xff" * 10 + b"\x01"


def batch_of(payload: bytes, codec: Compression, *, count: int = COUNT) -> bytes:
    """A batch that claims to hold `count` records but holds `payload`."""
    return stamped(bytes(compress(codec, payload)), codec, count=count)


def stamped(body: bytes, codec: int, *, count: int = COUNT) -> bytes:
    out = bytearray(HEADER_SIZE) + body
    length = len(out) - LOG_OVERHEAD
    delta = count - 1
    HEADER.pack_into(out, 0, 0, length, -1, 2, 0, codec, delta, T0, T0, -1, -1, -1, count)
    write_crc(out)
    return bytes(out)


def record(
    number: int = 0,
    *,
    attributes: bytes = b"\0",
    timestamp: bytes = b"\0",
    offset: bytes | None = None,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\0",
    longer: int = 0,
) -> bytes:
    """A record made of the given bytes, whose length field is `longer` bytes too large."""
    delta = encode_varint(number) if offset is None else offset
    body = attributes + timestamp + delta + key + value + headers
    return encode_varint(len(body) + longer) + body


def records(*, last: bytes | None = None) -> bytes:
    """Three good records, or two and `last`."""
    good = [record(number) for number in range(COUNT)]
    if last is not None:
        good[-1] = last
    return b"".join(good)


OK, INVALID, UNKNOWN = ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR

#: The content of the batch, and Kafka's answers to it uncompressed and compressed.
PAYLOADS = {
    "good": (records(), OK, OK),
    "garbage": (b"these are no records, but they are long enough to be some", INVALID, INVALID),
    "zeros": (bytes(100), INVALID, INVALID),
    "ones": (b"\xff" * 100, UNKNOWN, INVALID),
    "nothing": (b"", INVALID, INVALID),
    "one record too few": (records()[: -len(record(2))], INVALID, INVALID),
    "one record too many": (records() + record(3), INVALID, INVALID),
    "a surplus byte": (records() + b"\0", INVALID, INVALID),
    "a missing byte": (records()[:-1], INVALID, INVALID),
    "a record that says it is longer": (records(last=record(2, longer=1)), INVALID, OK),
    "a record that says it is shorter": (records(last=record(2, longer=-1)), INVALID, OK),
    "a first record that says it is longer": (
        record(0, longer=1) + record(1) + record(2),
        INVALID,
        OK,
    ),
    "a first record that says it is shorter": (
        record(0, longer=-1) + record(1) + record(2),
        INVALID,
        OK,
    ),
    "a record of negative length": (records(last=encode_varint(-3) + record(2)[1:]), INVALID, OK),
    "a record of no length": (records(last=b"\0"), INVALID, INVALID),
    "a huge record": (
        encode_varint(2**31 - 1) + record(0)[1:] + record(1) + record(2),
        INVALID,
        OK,
    ),
    "a length that never ends": (TOO_LONG + records(), UNKNOWN, INVALID),
    "a length of six bytes": (
        records(last=b"\xff\xff\xff\xff\xff\x01" + record(2)[1:]),
        UNKNOWN,
        INVALID,
    ),
    "a length of five bytes": (records(last=b"\x90\x80\x80\x80\x00" + record(2)[1:]), OK, OK),
    "a timestamp that never ends": (records(last=record(2, timestamp=TOO_LONG)), INVALID, INVALID),
    "an offset that never ends": (
        records(last=record(2, offset=b"\xff" * 5 + b"\x01")),
        INVALID,
        INVALID,
    ),
    "a key that is too long": (records(last=record(2, key=b"\x7fk")), INVALID, INVALID),
    "a key of length -2": (records(last=record(2, key=b"\x03")), OK, OK),
    "a key length that never ends": (records(last=record(2, key=TOO_LONG)), INVALID, INVALID),
    "a null value": (records(last=record(2, value=b"\x01")), OK, OK),
    "a value that is too long": (records(last=record(2, value=b"\x7fv")), INVALID, INVALID),
    "a value of length -2": (records(last=record(2, value=b"\x03")), OK, OK),
    "a negative number of headers": (records(last=record(2, headers=b"\x01")), INVALID, INVALID),
    "too many headers": (records(last=record(2, headers=b"\x7e")), INVALID, INVALID),
    "a header": (records(last=record(2, headers=b"\x02\x02h\x02v")), OK, OK),
    "a header without a key": (records(last=record(2, headers=b"\x02\x01\x02v")), INVALID, INVALID),
    "a header without a value": (records(last=record(2, headers=b"\x02\x02h\x01")), OK, OK),
    "a header key that is no text": (records(last=record(2, headers=b"\x02\x02\xff\x02v")), OK, OK),
    "a header value that is too long": (
        records(last=record(2, headers=b"\x02\x02h\x7ev")),
        INVALID,
        INVALID,
    ),
    "a header value of length -2": (records(last=record(2, headers=b"\x02\x02h\x03")), OK, OK),
    "attributes": (records(last=record(2, attributes=b"\xff")), OK, OK),
    "offsets that are all the same": (record(0) * 3, OK, UNKNOWN),
    "offsets that do not begin with 0": (record(5) + record(6) + record(7), OK, UNKNOWN),
    "negative offsets": (record(-5) + record(-6) + record(-7), OK, UNKNOWN),
}


def packed_bodies(codec: Compression) -> dict[str, bytes]:
    good = bytes(compress(codec, records()))
    parts = [bytes(compress(codec, part)) for part in (records()[:12], records()[12:])]
    return {
        "garbage": b"not compressed at all, to be sure",
        "nothing": b"",
        "cut": good[:-3],
        "cut in half": good[: len(good) // 2],
        "surplus bytes": good + b"xyz",
        "surplus zeros": good + bytes(9),
        "twice": good + good,
        "in two parts": b"".join(parts),
    }


#: Kafka's answer to a body by codec; UNKNOWN for those not listed.
PACKED = {
    "nothing": {Compression.ZSTD: INVALID},
    "surplus bytes": {Compression.GZIP: OK, Compression.SNAPPY: OK, Compression.LZ4: OK},
    "surplus zeros": {Compression.GZIP: OK, Compression.LZ4: OK},
    "twice": {
        Compression.GZIP: INVALID,
        Compression.SNAPPY: INVALID,
        Compression.LZ4: OK,
        Compression.ZSTD: INVALID,
    },
    "in two parts": {
        Compression.GZIP: OK,
        Compression.SNAPPY: OK,
        Compression.LZ4: INVALID,
        Compression.ZSTD: OK,
    },
}


#: Answers that differ when Kafka must rebuild compressed records, which takes a third reader.
REBUILT = {
    "ones": INVALID,
    "a length that never ends": INVALID,
    "a length of six bytes": INVALID,
}


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_records_are_looked_at(raw: RawClient, topic: str, codec: Compression) -> None:
    end = 0
    found, wanted = {}, {}
    for name, (payload, plain, packed) in PAYLOADS.items():
        answer = produce(raw, topic, batch_of(payload, codec))
        found[name] = ErrorCode(answer.error_code)
        wanted[name] = plain if codec is Compression.NONE else packed
        end += COUNT * (wanted[name] is OK)
        assert answer.error_message is None
        assert answer.record_errors == []
    assert found == wanted
    assert list_offset(raw, topic, LATEST).offset == end


@pytest.mark.parametrize(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
)
def test_what_no_codec_has_written_is_refused(
    raw: RawClient, topic: str, codec: Compression
) -> None:
    found, wanted = {}, {}
    for name, body in packed_bodies(codec).items():
        found[name] = ErrorCode(produce(raw, topic, stamped(body, codec)).error_code)
        wanted[name] = PACKED.get(name, {}).get(codec, UNKNOWN)
    assert found == wanted


def test_a_codec_that_there_is_not_is_refused(raw: RawClient, topic: str) -> None:
    for codec in (5, 6, 7):
        assert produce(raw, topic, stamped(records(), codec)).error_code == UNKNOWN


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_a_topic_with_another_codec_reads_every_record(
    cluster: Cluster, raw: RawClient, unique: Unique, codec: Compression
) -> None:
    other = "gzip" if codec is not Compression.GZIP else "zstd"
    name = create_topic(cluster, unique("other"), config={"compression.type": other})
    found, wanted = {}, {}
    for what, (payload, plain, _) in PAYLOADS.items():
        if what == "a huge record":
            continue  # Kafka would try to allocate two gigabytes for it
        answer = produce(raw, name, batch_of(payload, codec))
        found[what] = ErrorCode(answer.error_code)
        wanted[what] = plain if codec is Compression.NONE else REBUILT.get(what, plain)
    assert found == wanted


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_the_greatest_timestamp_is_that_of_the_records(
    raw: RawClient, topic: str, codec: Compression
) -> None:
    for number, lie in enumerate((0, T0 - 5, T0 + 1_000_000)):
        times = [T0 + 10 * number + delta for delta in (1, 3, 2)]
        wrong = bytearray(
            build_batch([(time, None, b"v", ()) for time in times], compression=codec)
        )
        wrong[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = lie.to_bytes(8, "big")
        write_crc(wrong)
        assert produce(raw, topic, bytes(wrong)).error_code == OK
        (stored,) = read_batches(memoryview(fetch(raw, topic, 3 * number).records))
        assert stored.max_timestamp == max(times)
        assert stored.is_valid()


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_a_header_cannot_hide_a_time_that_is_too_late(
    raw: RawClient, topic: str, codec: Compression
) -> None:
    late = T0 + 10 * 86_400_000
    wrong = bytearray(
        build_batch([(T0, None, b"v", ()), (late, None, b"v", ())], compression=codec)
    )
    wrong[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = T0.to_bytes(8, "big")
    write_crc(wrong)
    answer = produce(raw, topic, bytes(wrong))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_a_compacted_topic_names_the_records_without_a_key(
    cluster: Cluster, raw: RawClient, unique: Unique, codec: Compression
) -> None:
    name = create_topic(cluster, unique("keys"), config={"cleanup.policy": "compact"})
    payload = record(0, key=b"\x01") + record(1) + record(2, key=b"\x03")
    answer = produce(raw, name, batch_of(payload, codec))
    assert answer.error_code == INVALID
    message = f"Compacted topic cannot accept message without key in topic partition {name}-0"
    assert [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors] == [
        (0, message),
        (2, message),
    ]
    shown = [f"RecordError(batchIndex={index}, message='{message}')" for index in (0, 2)]
    assert answer.error_message == (
        "One or more records have been rejected due to 2 record errors in total, "
        f"and only showing the first three errors at most: [{', '.join(shown)}]"
    )
