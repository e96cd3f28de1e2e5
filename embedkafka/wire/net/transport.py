"""The socket seam: the only module that makes sockets.

A `Transport` listens and connects. It returns a `Listener` and a `Stream`, which the rest of `net`
uses through a few methods and a file descriptor to select on. Faults are other transports, and
encryption is another stream.

Owner: each stream belongs to the thread that reads and writes it; any thread may `abort` it.
Invariants: no stream delays small writes (TCP_NODELAY); only streams from `connect` block, with a
timeout.
Not here: frames (`connection.py`), and when to read or write (`processor.py`, `client.py`).
"""

import errno
import os
import socket
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from embedkafka.runtime.addresses import LOOPBACK, format_address
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.forks import after_fork
from embedkafka.runtime.positioned import pread

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_READ_BYTES: Final = 256 * 1024
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_SENDS_GATHERED: Final = hasattr(socket.socket, "sendmsg")  # not on Windows


class Stream(Protocol):
    """One connected socket. Accepted streams do not block; connected ones block with a timeout."""

    local: str
    peer: str
    peer_host: str

    holds_input: bool
    """Whether data has been received that no `recv_into` has returned yet."""
    holds_output: bool
    """Whether `send` took data that the socket has not."""

    def fileno(self) -> int: ...

    def set_timeout(self, seconds: float) -> None:
        """How long the calls below may block before they raise `TimeoutError`."""
        ...

    def recv_into(self, buffer: memoryview, /) -> int:
        """Bytes received; 0 when the peer has closed."""
        ...

    def send(self, buffers: Sequence[BytesLike], *, more: bool) -> int:
        """Bytes taken from the front of `buffers`; `more` means that other data follows at once."""
        ...

    def send_file(self, descriptor: int, *, position: int, count: int) -> int:
        """Bytes sent from the file; 0 past its end."""
        ...

    def flush(self) -> bool:
        """Sends what it holds; returns whether that was all."""
        ...

    def close(self) -> None: ...

    def reset(self) -> None:
        """Closes with a reset (RST), as a crash would."""
        ...

    def abort(self) -> None:
        """Ends the connection for both sides, from any thread; the owner still closes it."""
        ...


class Listener(Protocol):
    """One listening socket, which does not block."""

    host: str
    port: int

    def fileno(self) -> int: ...

    def accept(self) -> Stream:
        """The next waiting connection; raises `BlockingIOError` if there is none.

        Raises `OutOfDescriptors` if the connection must keep waiting.
        """
        ...

    def abort(self) -> None:
        """Refuses connections from now on, from any thread; the owner still closes it."""
        ...

    def close(self) -> None:
        """Closes; closing again does nothing."""
        ...


Encrypt = Callable[[Stream], Stream]
"""Wraps an accepted stream in one that encrypts."""


class Transport(Protocol):
    """Makes listeners and streams."""

    def listen(self, host: str, port: int, *, backlog: int) -> Listener: ...

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream: ...


class OutOfDescriptors(OSError):
    """A waiting connection can be neither accepted nor turned away for now."""


class CannotListen(OSError):
    """The operating system refuses an address to listen on."""

    def __init__(self, error: OSError, host: str, port: int) -> None:
        address = format_address(host, port)
        super().__init__(error.errno, f"cannot listen on {address}: {error.strerror}")
        self.host = host
        self.port = port


FileSender = Callable[[socket.socket, int, int, int], int]
"""Sends `(descriptor, position, count)` on a socket; returns the bytes sent, 0 past the end."""


def sendfile(connected: socket.socket, descriptor: int, position: int, count: int) -> int:
    """Lets the kernel copy the file: Linux only, and never with encryption in between."""
    return os.sendfile(connected.fileno(), descriptor, position, count)


def read_and_send(connected: socket.socket, descriptor: int, position: int, count: int) -> int:
    chunk = pread(descriptor, min(count, _READ_BYTES), position)
    return connected.send(chunk) if chunk else 0


class TcpTransport:
    """Plain TCP."""

    #: macOS and Windows have no `sendfile` that works like Linux's.
    file_sender: FileSender = staticmethod(
        sendfile if sys.platform == "linux" and hasattr(os, "sendfile") else read_and_send
    )

    def listen(self, host: str, port: int, *, backlog: int) -> Listener:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = _ours(socket.socket(family, socket.SOCK_STREAM))
        try:
            # A restarting broker takes its old port back while old connections linger.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(backlog)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise CannotListen(error, host, port) from error
        return TcpListener(listening, self.file_sender)

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        name: Any = host.encode() if host.isascii() else host  # Any: bytes, for text loads IDNA
        connected = _ours(socket.create_connection((name, port), timeout=timeout_s))
        return TcpStream(connected, self.file_sender)


class TcpListener:
    """A listening TCP socket, with one descriptor in reserve.

    Without a free descriptor we can neither accept a waiting connection nor get rid of it, and the
    selector would report it forever. So we give up the reserve to accept and close it. If another
    thread takes that descriptor first, there is no reserve until one is free.
    """

    __slots__ = ("_aborted", "_file_sender", "_reserve", "_socket", "host", "port")

    def __init__(self, listening: socket.socket, file_sender: FileSender) -> None:
        self._socket = listening
        self._file_sender = file_sender
        self._aborted = False
        self.host, self.port = listening.getsockname()[:2]
        self._reserve: socket.socket | None = _ours(listening.dup())

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Stream:
        if self._aborted:
            raise BlockingIOError(errno.EAGAIN, "the listener was aborted")
        try:
            accepted = _ours(self._socket.accept()[0])
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS and not self._turn_one_away():
                raise OutOfDescriptors(error.errno, error.strerror) from error
            raise
        accepted.setblocking(False)
        return TcpStream(accepted, self._file_sender)

    def abort(self) -> None:
        self._aborted = True
        _shut_down(self._socket)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            _shut_down(self._socket)  # ends it even if a forked C program holds it open
            self._spend_reserve()
            self._socket.close()

    def _turn_one_away(self) -> bool:
        self._spend_reserve()
        try:
            self._socket.accept()[0].close()
            self._reserve = _ours(self._socket.dup())
        except OSError:
            return False
        return True

    def _spend_reserve(self) -> None:
        reserve, self._reserve = self._reserve, None
        if reserve is not None:
            reserve.close()


class TcpStream:
    """A connected TCP socket."""

    holds_input = False
    holds_output = False

    __slots__ = ("_file_sender", "_socket", "fileno", "local", "peer", "peer_host", "recv_into")

    def __init__(self, connected: socket.socket, file_sender: "FileSender") -> None:
        self._socket = connected
        self._file_sender = file_sender
        self.fileno = connected.fileno
        self.recv_into = connected.recv_into  # bound here to save a call per request
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local = format_address(*connected.getsockname()[:2])
            peer = connected.getpeername()
            self.peer, self.peer_host = format_address(*peer[:2]), peer[0]
        except OSError:
            connected.close()
            raise

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def send(self, buffers: Sequence[BytesLike], *, more: bool) -> int:
        if _SENDS_GATHERED:
            return self._socket.sendmsg(buffers, (), _MSG_MORE if more else 0)
        return self._socket.send(buffers[0])

    def send_file(self, descriptor: int, *, position: int, count: int) -> int:
        return self._file_sender(self._socket, descriptor, position, count)

    def flush(self) -> bool:
        return True

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        except OSError:
            pass  # the peer has already reset it
        self._socket.close()

    def abort(self) -> None:
        _shut_down(self._socket)


def own_address(wildcard: str) -> str:
    """Where others reach this machine, which listens on all its addresses; loopback if it is alone.

    Connecting a UDP socket only looks for the route: nothing is sent.
    """
    routes = [(socket.AF_INET, "192.0.2.1")]
    if ":" in wildcard:
        routes = [(socket.AF_INET6, "2001:db8::1"), *routes]  # it takes connections of both kinds
    for family, elsewhere in routes:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect((elsewhere, 9))
                return str(asking.getsockname()[0])
        except OSError:
            continue
    return "::1" if ":" in wildcard else LOOPBACK


def new_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets connected to each other, which do not block."""
    pair = socket.socketpair()
    for end in pair:
        _ours(end).setblocking(False)
    return pair


_open: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def _ours(made: socket.socket) -> socket.socket:
    _open.add(made)
    return made


@after_fork
def _leave_to_the_parent() -> None:
    """Closes a forked child's copies, which would keep ports and connections open while it lives.

    Only closing the descriptor is safe: any other operation on the socket, or on a selector that
    has it, affects the parent's.
    """
    for inherited in list(_open):
        inherited.close()


def _shut_down(shut: socket.socket) -> None:
    try:
        shut.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # already disconnected
