"""Frames in and out, byte by byte, without a socket."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.runtime.files import FileRegion
from embedkafka.wire.net.connection import BadFrame, FileSlice, FrameReader, FrameWriter, Gather
from embedkafka.wire.protocol.wire_types import Part
from tests.presence import present

MAX_BYTES = 100_000


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def buffer_size(view: memoryview) -> int:
    """The size of the buffer behind `view`."""
    return memoryview(view.obj).nbytes


def read_all(reader: FrameReader, data: bytes, *, chunks: list[int], scratch: int) -> list[bytes]:
    """Feeds `data` as a socket would deliver it: at most `chunks` bytes at a time."""
    frames, position, turn = [], 0, 0
    buffer = memoryview(bytearray(scratch))
    while position < len(data):
        target = reader.target()
        room = buffer if target is None else target
        count = min(len(room), len(data) - position, chunks[turn % len(chunks)])
        room[:count] = data[position : position + count]
        frame = reader.feed(room[:count]) if target is None else reader.filled(count)
        buffer[:] = b"\xee" * scratch  # the reader must not rely on the scratch buffer
        while frame is not None:
            frames.append(bytes(frame))
            frame = reader.next_frame()
        position += count
        turn += 1
    return frames


@given(
    bodies=st.lists(st.binary(max_size=300), max_size=12),
    chunks=st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=20),
    scratch=st.integers(min_value=1, max_value=256),
)
@settings(max_examples=300)
def test_any_cutting_of_the_stream_gives_the_same_frames(
    bodies: list[bytes], chunks: list[int], scratch: int
) -> None:
    reader = FrameReader(MAX_BYTES)
    assert read_all(reader, framed(*bodies), chunks=chunks, scratch=scratch) == bodies
    assert not reader.has_begun


def test_frames_are_writable_and_live_in_buffers_of_their_own() -> None:
    reader = FrameReader(MAX_BYTES)
    first = present(reader.feed(memoryview(framed(b"aaaa", b"bbbb"))))
    second = reader.next_frame()
    first[:] = b"xxxx"
    assert bytes(present(second)) == b"bbbb"
    assert first.obj is not present(second).obj
    assert buffer_size(first) == 4


def test_the_rest_of_a_long_frame_is_received_where_it_stays() -> None:
    reader = FrameReader(MAX_BYTES)
    body = bytes(range(256)) * 100
    assert reader.feed(memoryview(framed(body)[:1000])) is None
    target = present(reader.target())
    assert len(target) == len(body) + 4 - 1000
    target[:] = body[996:]
    frame = present(reader.filled(len(target)))
    assert frame.obj is target.obj
    assert frame == body
    assert reader.target() is None


LONGEST = 100 * 1024 * 1024


def test_a_length_alone_costs_little_memory() -> None:
    reader = FrameReader(LONGEST)
    reader.feed(memoryview(struct.pack(">i", LONGEST) + b"x"))
    assert buffer_size(present(reader.target())) == 64 * 1024


def test_an_ordinary_frame_is_never_moved_once_it_comes() -> None:
    reader = FrameReader(LONGEST)
    reader.feed(memoryview(struct.pack(">i", 1024 * 1024) + bytes(16 * 1024 - 4)))
    assert buffer_size(present(reader.target())) == 1024 * 1024


def test_a_frame_has_the_memory_of_a_few_times_what_has_arrived() -> None:
    reader = FrameReader(LONGEST)
    body = random.Random(1).randbytes(10_000_000)
    received, sizes = 5, []
    frame = reader.feed(memoryview(struct.pack(">i", len(body)) + body[:received]))
    while frame is None:
        target = present(reader.target())
        sizes.append((received, buffer_size(target)))
        target[:] = body[received : received + len(target)]
        received += len(target)
        frame = reader.filled(len(target))
    assert frame == body
    assert buffer_size(frame) == len(body)
    assert all(size <= max(64 * 1024, 16 * before) for before, size in sizes)


def test_an_empty_frame_is_a_frame() -> None:
    assert bytes(present(FrameReader(MAX_BYTES).feed(memoryview(framed(b""))))) == b""


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_BYTES + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_is_allocated(size: int) -> None:
    reader = FrameReader(MAX_BYTES)
    with pytest.raises(BadFrame, match=str(size)):
        reader.feed(memoryview(struct.pack(">i", size)))


def test_the_longest_allowed_frame_is_accepted() -> None:
    reader = FrameReader(10)
    assert bytes(present(reader.feed(memoryview(framed(b"0123456789"))))) == b"0123456789"


def test_a_bad_length_behind_a_good_frame_is_found_when_its_turn_comes() -> None:
    reader = FrameReader(MAX_BYTES)
    assert bytes(present(reader.feed(memoryview(framed(b"good") + b"\xff\xff\xff\xff")))) == b"good"
    with pytest.raises(BadFrame):
        reader.next_frame()


@pytest.mark.parametrize("received", [1, 3, 4, 6])
def test_a_torn_frame_has_begun_and_is_not_a_frame(received: int) -> None:
    reader = FrameReader(MAX_BYTES)
    assert reader.feed(memoryview(framed(b"abcd")[:received])) is None
    assert reader.has_begun


class Region(FileRegion):
    """A file region over bytes in memory, without a file: the writer must not use one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 1000
        self.size = len(data)

    def fileno(self) -> int:
        raise AssertionError("the writer must not touch files")

    def read(self) -> bytes:
        raise AssertionError("the writer must not touch files")


def write_all(writer: FrameWriter, takes: list[int]) -> tuple[bytes, list[Gather | FileSlice]]:
    """The bytes sent by a socket that takes so many bytes each time."""
    sent, pieces, turn = b"", [], 0
    while writer:
        piece = writer.next()
        pieces.append(piece)
        if isinstance(piece, Gather):
            data = b"".join(piece.buffers)
        else:
            start = piece.position - piece.region.position
            assert isinstance(piece.region, Region)
            data = piece.region.data[start : start + piece.count]
        count = min(len(data), takes[turn % len(takes)])
        sent += data[:count]
        writer.sent(count)
        turn += 1
    return sent, pieces


PARTS = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=60).map(bytearray),
        st.binary(max_size=60).map(lambda data: memoryview(data)),
        st.binary(max_size=200).map(Region),
    ),
    max_size=12,
)


def joined(parts: list[Part]) -> bytes:
    return b"".join(bytes_of(part) for part in parts)


def bytes_of(part: Part) -> bytes:
    if isinstance(part, FileRegion):
        assert isinstance(part, Region)
        return part.data
    return bytes(part)


@given(PARTS, PARTS, st.lists(st.integers(min_value=1, max_value=90), min_size=1, max_size=10))
@settings(max_examples=300)
def test_any_pace_of_the_socket_sends_the_same_bytes(
    first: list[Part], second: list[Part], takes: list[int]
) -> None:
    writer = FrameWriter()
    writer.add(first)
    writer.add(second)
    sent, _ = write_all(writer, takes)
    assert sent == framed(joined(first), joined(second))


def test_neighbouring_buffers_go_together_and_announce_a_file_that_follows() -> None:
    writer = FrameWriter()
    writer.add([b"head", memoryview(b"er"), Region(b"records"), b"", b"tail"])
    sent, pieces = write_all(writer, [10**6])
    assert sent == framed(b"headerrecordstail")
    before, region, after = pieces
    assert isinstance(before, Gather)
    assert isinstance(region, FileSlice)
    assert isinstance(after, Gather)
    assert (len(before.buffers), before.more) == (3, True)
    assert (region.position, region.count) == (1000, 7)
    assert (after.buffers, after.more) == ([b"tail"], False)


def test_more_buffers_than_a_system_call_takes_are_sent_in_several() -> None:
    writer = FrameWriter()
    writer.add([b"x"] * 3000)
    sent, pieces = write_all(writer, [10**6])
    assert len(sent) == 3004
    gathered = [piece for piece in pieces if isinstance(piece, Gather)]
    assert gathered == pieces
    assert [len(piece.buffers) for piece in gathered] == [1024, 1024, 953]
    assert [piece.more for piece in gathered] == [True, True, False]


def test_parts_are_passed_on_and_not_copied() -> None:
    records = bytearray(1000)
    writer = FrameWriter()
    writer.add([records])
    piece = writer.next()
    assert isinstance(piece, Gather)
    assert piece.buffers[1] is records


def test_a_cleared_writer_has_nothing_to_send() -> None:
    writer = FrameWriter()
    writer.add([b"a"])
    writer.sent(2)
    writer.clear()
    assert not writer
    writer.add([b"b"])
    assert write_all(writer, [100])[0] == framed(b"b")
