"""One client connection: frames on a stream, and whether it awaits a reply.

Owner: the processor's thread. A `Request` reaches it from any thread through `reply`, `no_reply`
and `close_for`, which pass on to the processor.
Invariants: `muted` from the moment a request is complete until the kernel has its reply.
Not here: when to read and write, and what to do about errors (`processor.py`).
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.net.channel_authenticator import Authenticator
from embedkafka.wire.net.connection import BadFrame, FrameReader, FrameWriter, Gather
from embedkafka.wire.net.request_channel import ReplyWatcher
from embedkafka.wire.net.transport import Stream
from embedkafka.wire.protocol.client_software import UNKNOWN_SOFTWARE
from embedkafka.wire.protocol.wire_types import Part

# A smaller file region is read and sent along with its neighbours: fewer calls, fewer packets.
_SMALL_REGION_BYTES: Final = 16 * 1024


class ChannelOwner(Protocol):
    """A processor, as its channels see it. Callable from any thread."""

    is_control_plane: bool

    def reply(self, channel: "Channel", parts: Sequence[Part]) -> None: ...

    def no_reply(self, channel: "Channel") -> None: ...

    def close_for(self, channel: "Channel", reason: str) -> None: ...


class Channel:
    """A connection from `stream.peer`, accepted by `listener` as its connection `number`."""

    __slots__ = (
        "_owner",
        "_writer",
        "authenticator",
        "client_address",
        "closed",
        "id",
        "interest",
        "introduction",
        "is_control_plane",
        "is_refused",
        "last_active_ms",
        "listener",
        "muted",
        "peer",
        "principal",
        "reader",
        "software",
        "stream",
        "throttle_ms",
        "watcher",
    )

    def __init__(
        self,
        owner: ChannelOwner,
        stream: Stream,
        listener: str,
        number: int,
        *,
        max_request_bytes: int,
        now_ms: float,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._owner = owner
        self._writer = FrameWriter()
        self.authenticator = authenticator
        own_limit = None if authenticator is None else authenticator.max_frame_bytes
        self.reader = FrameReader(max_request_bytes if own_limit is None else own_limit)
        self.stream = stream
        self.id = f"{stream.local}-{stream.peer}-{number}"
        self.peer = stream.peer
        self.client_address = stream.peer_host
        self.listener = listener
        self.is_control_plane = owner.is_control_plane
        self.principal: Any = None  # Any: as in `ReplyPort`
        self.software = UNKNOWN_SOFTWARE
        self.last_active_ms = now_ms
        self.interest = 0
        self.introduction: bytes | None = None
        """The start of its first request, in which a client names itself."""
        self.muted = False
        self.closed = False
        self.is_refused = False
        """Whether it failed to authenticate, and will end after a delay."""
        self.throttle_ms = 0.0
        """How long it stays muted after its reply."""
        self.watcher: ReplyWatcher | None = None

    def reply(self, parts: Sequence[Part]) -> None:
        self._owner.reply(self, parts)

    def no_reply(self) -> None:
        self._owner.no_reply(self)

    def close_for(self, reason: str) -> None:
        self._owner.close_for(self, reason)

    @property
    def is_writing(self) -> bool:
        """Whether the socket has not yet taken the whole reply."""
        return bool(self._writer) or self.stream.holds_output

    @property
    def has_more(self) -> bool:
        """Whether more of the client's data is here than the requests so far."""
        return self.reader.has_begun or self.stream.holds_input

    @property
    def awaits_reply(self) -> bool:
        """Whether a request is in progress, so that the broker is slow and not the client."""
        return self.muted and not self._writer

    @property
    def may_have_left(self) -> bool:
        """Whether the client sent more, or left, during its request: the broker reads it later."""
        return self.muted and not self.interest

    def receive(self, scratch: memoryview) -> memoryview | None:
        """Reads once, and on while the stream holds data; returns the first frame it completes.

        Raises `EOFError` at the end.
        """
        reader = self.reader
        while True:
            target = reader.target()
            buffer = scratch if target is None else target
            try:
                count = self.stream.recv_into(buffer)
            except BlockingIOError:
                return None
            if count == 0:
                if reader.has_begun:
                    raise BadFrame("the client closed it in the middle of a request")
                raise EOFError("the client closed it")
            frame = reader.feed(scratch[:count]) if target is None else reader.filled(count)
            if frame is not None or not self.stream.holds_input:
                return frame

    def discard(self, scratch: memoryview) -> None:
        """Reads what has arrived, and drops it. Raises `EOFError` at the end."""
        try:
            while self.stream.recv_into(scratch):
                if not self.stream.holds_input:
                    return
        except BlockingIOError:
            return
        raise EOFError("the client closed it")

    def next_frame(self, scratch: memoryview) -> memoryview | None:
        """The next frame that needs no waiting for the client."""
        frame = self.reader.next_frame()
        if frame is None and self.stream.holds_input:
            return self.receive(scratch)
        return frame

    def queue(self, parts: Sequence[Part]) -> None:
        """Makes `parts` the reply that `write` sends."""
        self._writer.add([_in_memory_if_small(part) for part in parts])

    def write(self) -> bool:
        """Writes as much as the socket takes; returns whether that was all."""
        writer, stream = self._writer, self.stream
        while writer:
            piece = writer.next()
            try:
                if isinstance(piece, Gather):
                    count = stream.send(piece.buffers, more=piece.more)
                else:
                    descriptor = piece.region.fileno()
                    count = stream.send_file(descriptor, position=piece.position, count=piece.count)
                    if count == 0:
                        raise _file_too_short(piece.count)
            except BlockingIOError:
                return False
            writer.sent(count)
        return not stream.holds_output or stream.flush()

    def forget_reply(self) -> None:
        """Drops the unwritten rest of the reply."""
        self._writer.clear()


def _in_memory_if_small(part: Part) -> Part:
    if isinstance(part, BytesLike) or part.size > _SMALL_REGION_BYTES:
        return part
    data = part.read()
    if len(data) < part.size:
        raise _file_too_short(part.size - len(data))
    return data


def _file_too_short(missing: int) -> OSError:
    return OSError(f"a file to send is {missing} bytes too short")
