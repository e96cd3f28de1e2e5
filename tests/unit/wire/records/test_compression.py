"""The five codecs, and the two formats that are specific to Kafka."""

import gzip

import lz4.frame
import pytest
import zstandard
from cramjam import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.compression import (
    Compression,
    InflatesTooFar,
    compress,
    decompress,
    decompress_pieces,
)

COMPRESSED = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Compression))
@settings(max_examples=20)
@given(data=st.binary(max_size=300).map(lambda data: data * 40))
def test_every_codec_gives_back_what_it_was_given(
    codec: Compression, magic: int, data: bytes
) -> None:
    packed = compress(codec, data, magic=magic)
    assert bytes(decompress(codec, memoryview(bytes(packed)), magic=magic)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("level", [1, 9])
def test_levels_are_accepted(codec: Compression, level: int) -> None:
    data = bytes(range(256)) * 50
    assert bytes(decompress(codec, bytes(compress(codec, data, level=level)))) == data


@pytest.mark.parametrize(
    ("codec", "damage"),
    [
        (codec, damage)
        for codec in COMPRESSED
        for damage in ("cut", "garbage", "empty")
        if (codec, damage) != (Compression.ZSTD, "empty")  # for zstd, no frame means no data
    ],
)
def test_data_that_cannot_be_read_is_a_corrupt_message(codec: Compression, damage: str) -> None:
    packed = bytes(compress(codec, bytes(range(256)) * 300))
    bad = {"cut": packed[: len(packed) // 2], "garbage": b"\x07" * 100, "empty": b""}[damage]
    with pytest.raises(ApiError) as caught:
        decompress(codec, bad)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_snappy_is_written_in_blocks_of_xerial_framing() -> None:
    packed = bytes(compress(Compression.SNAPPY, b"a" * 40_000))
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(snappy.decompress_raw(packed[20 : 20 + first])) == b"a" * 32 * 1024


def test_snappy_without_framing_is_read_as_librdkafka_writes_it() -> None:
    raw = bytes(snappy.compress_raw(b"hello " * 100))
    assert bytes(decompress(Compression.SNAPPY, raw)) == b"hello " * 100


def test_several_gzip_members_are_read_as_one() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert bytes(decompress(Compression.GZIP, packed)) == b"one two"


def test_zstd_without_a_content_size_is_read_as_java_writes_it() -> None:
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(b"java" * 1000)
    assert bytes(decompress(Compression.ZSTD, packed)) == b"java" * 1000


def test_lz4_of_magic_0_has_the_header_checksum_of_kafka_0_8() -> None:
    good = bytes(compress(Compression.LZ4, b"x" * 100, magic=1))
    broken = bytes(compress(Compression.LZ4, b"x" * 100, magic=0))
    assert good[:6] == broken[:6]
    assert good[6] != broken[6]
    assert good[7:] == broken[7:]
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(broken)
    assert bytes(decompress(Compression.LZ4, broken, magic=0)) == b"x" * 100


def test_lz4_blocks_are_independent_which_is_all_that_the_java_reader_knows() -> None:
    packed = bytes(compress(Compression.LZ4, b"x" * 100_000))
    assert lz4.frame.get_frame_info(packed)["block_linked"] is False
    assert lz4.frame.get_frame_info(packed)["block_size"] == 64 * 1024


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_inflates_in_pieces_and_no_further_than_it_may(codec: Compression) -> None:
    size = 50_000_000
    packed = bytes(compress(codec, bytes(size)))
    found = 0
    for piece in decompress_pieces(codec, packed):
        assert len(piece) <= 2 * 1024 * 1024
        found += len(piece)
    assert found == size
    few: list[BytesLike] = []
    with pytest.raises(InflatesTooFar):
        few += decompress_pieces(codec, packed, limit=3_000_000)
    assert sum(map(len, few)) <= 3_000_000


@pytest.mark.parametrize("level", [1, 19])
@pytest.mark.parametrize("has_checksum", [False, True])
@pytest.mark.parametrize("has_size", [False, True])
def test_zstd_frames_are_cut_between_blocks(level: int, has_checksum: bool, has_size: bool) -> None:
    packer = zstandard.ZstdCompressor(
        level=level, write_checksum=has_checksum, write_content_size=has_size
    )
    parts = [bytes(3_000_000), bytes(range(256)) * 5000, b"", b"x"]
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    packed = skippable.join(packer.compress(part) for part in parts)
    pieces = list(decompress_pieces(Compression.ZSTD, packed))
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces)) <= 1024 * 1024


def test_a_snappy_block_cannot_claim_to_be_huge() -> None:
    with pytest.raises(ApiError, match="cannot hold"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(30))


def test_lz4_frames_of_dependent_blocks_are_not_for_kafka() -> None:
    linked = lz4.frame.compress(bytes(200_000), block_linked=True)
    with pytest.raises(ApiError, match="dependent"):
        decompress(Compression.LZ4, linked)
