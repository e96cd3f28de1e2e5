"""The five codecs of record batches; their libraries load on first use.

Two of Kafka's formats differ from the libraries': snappy blocks have the framing of xerial's
snappy-java, and lz4 frames of magic-0 messages have a header checksum that Kafka 0.8 computed over
the wrong bytes (KAFKA-3160).

Data may inflate a thousandfold. We inflate it in pieces, so that a reader has only one piece in
memory.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.protocol.errors import ApiError, ErrorCode


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
    """Compresses `data` as the Java client does; `level` None is the codec's default."""
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


class CannotDecompress(ApiError):
    """The codec cannot read the data."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InflatesTooFar(ApiError):
    """The data inflates beyond the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"compressed records inflate to more than {limit} bytes"
        )


def decompress(compression: Compression, data: BytesLike, *, magic: int = 2) -> BytesLike:
    """Inflates `data` at once; see `decompress_pieces`."""
    if compression is Compression.NONE:
        return data
    pieces = list(decompress_pieces(compression, data, magic=magic))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def decompress_pieces(
    compression: Compression, data: BytesLike, *, magic: int = 2, limit: int | None = None
) -> Iterator[bytes]:
    """Inflates `data` in pieces of about a megabyte.

    Raises `CannotDecompress` for malformed data, and `InflatesTooFar` beyond `limit` bytes.
    """
    size = 0
    try:
        for piece in _PIECES[compression](data, magic):
            size += len(piece)
            if limit is not None and size > limit:
                raise InflatesTooFar(limit)
            yield piece
    except ApiError:
        raise
    except Exception as error:  # every codec library has different error classes
        raise CannotDecompress(
            f"{compression.name.lower()} data cannot be read: {error}"
        ) from error


_PIECE_SIZE: Final = 1024 * 1024
_GZIP_WINDOW: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 64  # a copy element of two or three bytes yields at most 64

_LZ4_MAGIC_SIZE: Final = 4
_LZ4_MIN_SIZE: Final = 7
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08
_LZ4_INDEPENDENT_FLAG: Final = 0x20


def _plain_pieces(data: BytesLike, magic: int) -> Iterator[bytes]:
    yield bytes(data)


def _gzip_pieces(data: BytesLike, magic: int) -> Iterator[bytes]:
    """Java's reader, and so Kafka, ignores trailing bytes that are not another member."""
    rest: BytesLike = data
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            piece = member.decompress(rest, _PIECE_SIZE)
            rest = member.unconsumed_tail
            if piece:
                yield piece
            elif not member.eof:
                raise ValueError("the stream ends early")
        rest = member.unused_data
        if not rest.startswith(_GZIP_MAGIC):
            return


def _compress_snappy(data: memoryview) -> bytes:
    from cramjam import snappy

    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress_raw(data[start : start + _XERIAL_BLOCK])
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _snappy_pieces(data: BytesLike, magic: int) -> Iterator[bytes]:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield _decompress_snappy(view)
        return
    position = len(_XERIAL_HEADER)
    while position + 4 <= len(view):  # ignore a rest too short for another block
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if position + size > len(view):
            raise ValueError("a block ends early")
        yield _decompress_snappy(view[position : position + size])
        position += size


def _decompress_snappy(block: memoryview) -> bytes:
    """Checks the length that a block announces, because the library trusts it."""
    from cramjam import snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise ValueError(f"a block of {len(block)} bytes cannot hold {size}")
    return bytes(snappy.decompress_raw(block))


def _compress_lz4(data: BytesLike, level: int | None, magic: int) -> bytes:
    import lz4.frame

    # Kafka's reader supports only independent blocks; 64 KiB is the block size of its writer.
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_lz4_checksum(frame, since=0) if magic == 0 else frame


def _lz4_pieces(data: BytesLike, magic: int) -> Iterator[bytes]:
    """Like Kafka, reads one frame of independent blocks and ignores trailing bytes."""
    import lz4.frame

    if len(data) < _LZ4_MIN_SIZE:
        raise ValueError("the frame ends early")
    if not data[_LZ4_MAGIC_SIZE] & _LZ4_INDEPENDENT_FLAG:
        raise ValueError("dependent blocks are not supported")
    frame = lz4.frame.LZ4FrameDecompressor()
    rest: BytesLike = _with_lz4_checksum(data, since=_LZ4_MAGIC_SIZE) if magic == 0 else data
    while not frame.eof:
        piece: bytes = frame.decompress(rest, _PIECE_SIZE)
        rest = b""
        if piece:
            yield piece
        elif not frame.eof:
            raise ValueError("the frame ends early")


def _with_lz4_checksum(data: BytesLike, *, since: int) -> bytes:
    """The frame with a header checksum from byte `since` on: 4 is right, Kafka 0.8 used 0."""
    frame = bytearray(data)
    end = _LZ4_MAGIC_SIZE + 2 + (8 if frame[_LZ4_MAGIC_SIZE] & _LZ4_CONTENT_SIZE_FLAG else 0)
    frame[end] = (_xxhash32(bytes(frame[since:end])) >> 8) & 0xFF
    return bytes(frame)


def _xxhash32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all an lz4 header needs."""
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


def _zstd_pieces(data: BytesLike, magic: int) -> Iterator[bytes]:
    """Inflates frame by frame, a few blocks at a time, because the library has no output limit."""
    import zstandard

    view = memoryview(data)
    position = 0
    while position < len(view):
        frame = zstandard.ZstdDecompressor().decompressobj()
        for end in _zstd_block_ends(view, position):
            piece = frame.decompress(view[position:end])
            position = end
            if piece:
                yield piece
            if frame.eof:
                break
        if not frame.eof:
            raise ValueError("the frame ends early")
        position -= len(frame.unused_data)


def _zstd_block_ends(view: memoryview, start: int) -> Iterator[int]:
    """Where to cut the frame at `start`, so that no piece holds more than eight blocks (RFC 8878).

    For data that is no frame the cuts are arbitrary; the library refuses it anyway.
    """
    end = len(view)
    if bytes(view[start : start + 4]) == _ZSTD_MAGIC and start + 5 < end:
        descriptor = view[start + 4]
        is_single_segment = bool(descriptor & 0x20)
        position = start + 5 + (not is_single_segment)
        position += (0, 1, 2, 4)[descriptor & 3]  # the dictionary's id
        position += (int(is_single_segment), 2, 4, 8)[descriptor >> 6]  # the content's size
        blocks = 0
        while position + 3 <= end:
            header = int.from_bytes(view[position : position + 3], "little")
            is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
            position += 3 + (1 if kind == _ZSTD_RUN else size)
            blocks += 1
            if is_last or position >= end:
                break
            if not blocks % _ZSTD_BLOCKS:
                yield position
        position += 4 if descriptor & 4 else 0  # the checksum
        if position < end:
            yield position
    yield end


_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_RUN: Final = 1
_ZSTD_BLOCKS: Final = 8  # each of at most 128 KiB

_PIECES: Final = {
    Compression.NONE: _plain_pieces,
    Compression.GZIP: _gzip_pieces,
    Compression.SNAPPY: _snappy_pieces,
    Compression.LZ4: _lz4_pieces,
    Compression.ZSTD: _zstd_pieces,
}
