"""The wire format of a connection, without the wire: frames in, frames out.

A frame is a four-byte length and that many bytes. `FrameReader` turns received bytes into whole
frames; `FrameWriter` turns replies into the next bytes to send. Neither touches a socket, so both
are tested byte by byte.

Owner: the thread that owns the connection.
Invariants: every frame has a separate buffer, because logs keep views of it; that buffer is at most
a few times larger than the bytes received so far, whatever length the frame announces; a reply's
parts are never joined.
Not here: sockets (`transport.py`), whose turn it is (`processor.py`).
"""

import struct
from collections import deque
from collections.abc import Sequence
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import FileRegion
from embedkafka.wire.protocol.wire_types import Part

LENGTH_BYTES: Final = 4
CHUNK_BYTES: Final = 16 * 1024

# The memory of a frame: little for a length alone, all of an ordinary request after its first
# bytes, then several times the bytes received.
_FIRST_BYTES: Final = 64 * 1024
_ORDINARY_BYTES: Final = 1024 * 1024
_GROWTH: Final = 4

# Linux takes at most 1024 buffers in one call.
_MAX_BUFFERS: Final = 1024

# How a ClientHello begins, and the first four bytes of HTTP requests.
_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP_METHODS: Final = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI "}
)

_LENGTH: Final = struct.Struct(">i")
_NOTHING: Final = memoryview(b"")


class BadFrame(Exception):
    """The peer does not speak the protocol; the broker closes its connection and logs this."""

    has_bad_size = False
    """Whether a frame announced a length that is not allowed."""


class ForeignProtocol(BadFrame):
    """The peer speaks another protocol that we recognise. Such a client keeps reconnecting."""


class FrameReader:
    """Cuts a stream of bytes into frames.

    The caller receives into `target()` when there is one (the rest of a frame whose length is
    known) and reports with `filled`; otherwise it receives into a scratch buffer and `feed`s that.
    """

    __slots__ = ("_body", "_filled", "_rest", "_size", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._body: memoryview | None = None
        self._filled = 0
        self._size = 0
        self._rest = _NOTHING

    @property
    def has_begun(self) -> bool:
        """Whether bytes of a further frame, complete or not, have arrived."""
        return self._body is not None or len(self._rest) > 0

    def target(self) -> memoryview | None:
        """Where the next bytes belong, if known."""
        return None if self._body is None else self._body[self._filled :]

    def filled(self, count: int) -> memoryview | None:
        """Notes `count` bytes received into `target()`; returns the frame once complete."""
        body = self._body
        assert body is not None, "there was no target to fill"
        self._filled += count
        if self._filled < len(body):
            return None
        if self._filled < self._size:
            self._grow(body)
            return None
        self._body = None
        return body

    def _grow(self, full: memoryview) -> None:
        self._body = body = _buffer(self._size, len(full))
        body[: len(full)] = full

    def feed(self, data: memoryview) -> memoryview | None:
        """Takes in `data`, which the caller may reuse; returns the first complete frame, if any.

        Keeps the bytes after that frame for `next_frame`, to be called before the next `feed`.
        """
        if self._rest:
            data = memoryview(bytes(self._rest) + data)  # the rest is at most an incomplete length
        frame, end = self._cut(data)
        self._rest = memoryview(bytes(data[end:])) if end < len(data) else _NOTHING
        return frame

    def next_frame(self) -> memoryview | None:
        """The next complete frame among the bytes that `feed` kept."""
        if not self._rest:
            return None
        frame, end = self._cut(self._rest)
        self._rest = self._rest[end:]
        return frame

    def _cut(self, data: memoryview) -> tuple[memoryview | None, int]:
        """The frame at the start of `data`, and its end; an incomplete frame becomes the target."""
        received = len(data) - LENGTH_BYTES
        if received < 0:
            return None, 0
        (size,) = _LENGTH.unpack_from(data)
        if not 0 <= size <= self.max_bytes:
            raise _bad_size(data, size, self.max_bytes)
        if received >= size:
            end = LENGTH_BYTES + size
            return memoryview(bytearray(data[LENGTH_BYTES:end])), end
        body = _buffer(size, received)
        body[:received] = data[LENGTH_BYTES:]
        self._body, self._filled, self._size = body, received, size
        return None, len(data)


def _bad_size(data: memoryview, size: int, max_bytes: int) -> BadFrame:
    """Tells a client that starts with another protocol's first bytes what to change."""
    first = bytes(data[:LENGTH_BYTES])
    error = BadFrame(f"a frame of {size} bytes, where 0 to {max_bytes} are allowed")
    if first.startswith(_TLS_HANDSHAKE):
        error = ForeignProtocol(
            "it speaks TLS, and this listener does not: set security.protocol=PLAINTEXT"
        )
    elif first in _HTTP_METHODS:
        error = ForeignProtocol("it speaks HTTP, and this is the port of a Kafka broker")
    error.has_bad_size = True
    return error


def _buffer(size: int, received: int) -> memoryview:
    """A buffer for a frame of `size` bytes, or for as much as the bytes received make credible."""
    is_coming = received > CHUNK_BYTES // 2
    credible = max(_ORDINARY_BYTES, received * _GROWTH) if is_coming else _FIRST_BYTES
    return memoryview(bytearray(min(size, credible)))


class FrameWriter:
    """The replies still to be sent, in order."""

    __slots__ = ("_parts", "_sent")

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()
        self._sent = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Queues one frame: the total length of `parts`, then the parts."""
        sizes = [part_size(part) for part in parts]
        self._parts.append(_LENGTH.pack(sum(sizes)))
        self._parts.extend(part for part, size in zip(parts, sizes, strict=True) if size)

    def clear(self) -> None:
        """Drops everything, which releases file regions."""
        self._parts.clear()
        self._sent = 0

    def next(self) -> "Gather | FileSlice":
        """The next piece to send: as many buffers as fit one call, or the rest of a file region."""
        first = self._parts[0]
        if not isinstance(first, BytesLike):
            position, count = first.position + self._sent, first.size - self._sent
            return FileSlice(first, position=position, count=count)
        buffers: list[BytesLike] = []
        for part in self._parts:
            if not isinstance(part, BytesLike) or len(buffers) == _MAX_BUFFERS:
                return Gather(buffers, more=True)
            buffers.append(memoryview(part)[self._sent :] if self._sent and not buffers else part)
        return Gather(buffers, more=False)

    def sent(self, count: int) -> None:
        """Notes that `count` bytes of the last `next` were sent."""
        count += self._sent
        parts = self._parts
        while parts and count >= (size := part_size(parts[0])):
            parts.popleft()
            count -= size
        self._sent = count


class Gather:
    """Buffers for one call; `more` means that other data follows."""

    __slots__ = ("buffers", "more")

    def __init__(self, buffers: list[BytesLike], *, more: bool) -> None:
        self.buffers = buffers
        self.more = more


class FileSlice:
    """A range of a file to send."""

    __slots__ = ("count", "position", "region")

    def __init__(self, region: FileRegion, *, position: int, count: int) -> None:
        self.region = region
        self.position = position
        self.count = count


def part_size(part: Part) -> int:
    if isinstance(part, memoryview):
        return part.nbytes
    if isinstance(part, bytes | bytearray):
        return len(part)
    return part.size
