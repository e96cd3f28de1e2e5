"""The five codecs of record batches; their libraries load on first use.

Two of Kafka's formats are not those of the libraries: snappy blocks come in the framing of
xerial's snappy-java, and lz4 frames of magic-0 messages carry a header checksum that Kafka 0.8
computed over the wrong bytes (KAFKA-3160).
"""

import struct
import zlib
from enum import IntEnum
from typing import Final

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.record import BytesLike


class Compression(IntEnum):
    """The lower three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(
    compression: Compression, data: BytesLike, *, level: int | None = None, magic: int = 2
) -> BytesLike:
    """`data` compressed as the Java client would; `level` None is the codec's default."""
    if compression is Compression.NONE:
        return data
    if compression is Compression.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return packer.compress(data) + packer.flush()
    if compression is Compression.SNAPPY:
        return _compress_snappy(memoryview(data))
    if compression is Compression.LZ4:
        return _compress_lz4(data, level, magic)
    return _compress_zstd(data, level)


def decompress(compression: Compression, data: BytesLike, *, magic: int = 2) -> BytesLike:
    """The bytes that `data` holds; whatever the codec cannot read is CORRUPT_MESSAGE."""
    if compression is Compression.NONE:
        return data
    try:
        if compression is Compression.GZIP:
            return _decompress_gzip(data)
        if compression is Compression.SNAPPY:
            return _decompress_snappy(memoryview(data))
        if compression is Compression.LZ4:
            return _decompress_lz4(data, magic)
        return _decompress_zstd(data)
    except ApiError:
        raise
    except Exception as error:  # each codec library has its own error classes
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE, f"{compression.name.lower()} data cannot be read: {error}"
        ) from error


_GZIP_WINDOW: Final = 31

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024

_LZ4_MAGIC_SIZE: Final = 4
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08


def _decompress_gzip(data: BytesLike) -> bytes:
    out = bytearray()
    rest: BytesLike = data
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        out += member.decompress(rest)
        if not member.eof:
            raise ValueError("the stream ends early")
        rest = member.unused_data
        if not rest:
            return bytes(out)


def _compress_snappy(data: memoryview) -> bytes:
    from cramjam import snappy

    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress_raw(data[start : start + _XERIAL_BLOCK])
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview) -> bytes:
    from cramjam import snappy

    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(snappy.decompress_raw(data))
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + size > len(data):
            raise ValueError("a block ends early")
        out += bytes(snappy.decompress_raw(data[position : position + size]))
        position += size
    return bytes(out)


def _compress_lz4(data: BytesLike, level: int | None, magic: int) -> bytes:
    import lz4.frame

    # Kafka's reader knows independent blocks only; 64 KiB is the block size of its writer.
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_lz4_checksum(frame, since=0) if magic == 0 else frame


def _decompress_lz4(data: BytesLike, magic: int) -> bytes:
    import lz4.frame

    frame = _with_lz4_checksum(data, since=_LZ4_MAGIC_SIZE) if magic == 0 else data
    out: bytes = lz4.frame.decompress(frame)
    return out


def _with_lz4_checksum(data: BytesLike, *, since: int) -> bytes:
    """The frame with its header checksum computed from byte `since` (4 is right, 0 Kafka 0.8's)."""
    frame = bytearray(data)
    end = _LZ4_MAGIC_SIZE + 2 + (8 if frame[_LZ4_MAGIC_SIZE] & _LZ4_CONTENT_SIZE_FLAG else 0)
    frame[end] = (_xxhash32(bytes(frame[since:end])) >> 8) & 0xFF
    return bytes(frame)


def _xxhash32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, all that an lz4 header needs."""
    assert len(data) < 16
    mask = 0xFFFFFFFF
    prime1, prime2, prime3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
    prime4, prime5 = 0x27D4EB2F, 0x165667B1
    value = (prime5 + len(data)) & mask
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: words * 4]):
        value = (value + word * prime3) & mask
        value = (((value << 17) | (value >> 15)) * prime4) & mask
    for byte in data[words * 4 :]:
        value = (value + byte * prime5) & mask
        value = (((value << 11) | (value >> 21)) * prime1) & mask
    value = ((value ^ (value >> 15)) * prime2) & mask
    value = ((value ^ (value >> 13)) * prime3) & mask
    return value ^ (value >> 16)


def _compress_zstd(data: BytesLike, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _decompress_zstd(data: BytesLike) -> bytes:
    import zstandard

    out = bytearray()
    rest: BytesLike = data
    while True:
        frame = zstandard.ZstdDecompressor().decompressobj()
        out += frame.decompress(rest)
        if not frame.eof:
            raise ValueError("the frame ends early")
        rest = frame.unused_data
        if not rest:
            return bytes(out)
