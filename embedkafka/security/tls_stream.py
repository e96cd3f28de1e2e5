"""A stream that encrypts what it sends, and carries it over another stream.

It blocks exactly when the stream below does. Over one that does not block, `recv_into` also makes
the handshake, piece by piece, so a slow client costs a selector's thread nothing. What the socket
does not take at once stays here: `holds_output` is true until `flush` has sent it. Likewise one
piece of network data may hold several requests: `holds_input` is true while some is left.

Owner: the thread that owns the stream below.
Not here: certificates and what they are worth (`tls`), who the peer is (`certificate_names`).
"""

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.positioned import pread
from embedkafka.wire.net.connection import ForeignProtocol
from embedkafka.wire.net.transport import Stream

_RECEIVE_BYTES: Final = 32 * 1024
_SEND_BYTES: Final = 64 * 1024
_HANDSHAKE: Final = 0x16
_ALERT: Final = 0x15

_NOTHING: Final = memoryview(b"")


class TlsStream:
    """One TLS connection over `below`."""

    __slots__ = (
        "_below",
        "_has_begun",
        "_incoming",
        "_is_established",
        "_outgoing",
        "_protocol",
        "_scratch",
        "_tls",
        "_unsent",
        "fileno",
        "holds_input",
        "holds_output",
        "local",
        "peer",
        "peer_host",
    )

    def __init__(
        self,
        below: Stream,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        protocol: str = "SSL",
    ) -> None:
        """Is the client's side if `server_name` is given; `protocol` is the listener's."""
        self._below = below
        self._protocol = protocol
        self.fileno = below.fileno
        self.local, self.peer, self.peer_host = below.local, below.peer, below.peer_host
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._scratch = memoryview(bytearray(_RECEIVE_BYTES))
        self._unsent = _NOTHING
        self._has_begun = server_name is not None
        self._is_established = False
        self.holds_input = False
        self.holds_output = False

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer proved to own, as DER; None if it showed none."""
        return self._tls.getpeercert(binary_form=True) if self._is_established else None

    def set_timeout(self, seconds: float) -> None:
        self._below.set_timeout(seconds)

    def shake_hands(self) -> None:
        """Waits until the connection is established; for a stream that blocks."""
        while not self._is_established:
            self._advance(self._tls.do_handshake)
            self._is_established = True
            self._push()

    def recv_into(self, buffer: memoryview, /) -> int:
        if self.holds_output and not self.flush():
            raise BlockingIOError
        self.holds_input = False
        if not self._is_established:
            self.shake_hands()
        count = self._advance(lambda: self._read(buffer))
        self.holds_input = self._tls.pending() > 0 or self._incoming.pending > 0
        return count

    def send(self, buffers: Sequence[BytesLike], *, more: bool) -> int:
        if self.holds_output and not self.flush():
            raise BlockingIOError
        count = self._tls.write(_gathered(buffers))
        self._push()
        return count

    def send_file(self, descriptor: int, *, position: int, count: int) -> int:
        """Reads the file: the kernel cannot encrypt what it copies."""
        chunk = pread(descriptor, min(count, _SEND_BYTES), position)
        return self.send([chunk], more=False) if chunk else 0

    def flush(self) -> bool:
        """Sends what was held back; False if the socket does not take all of it now."""
        while self._unsent:
            try:
                count = self._below.send([self._unsent], more=False)
            except BlockingIOError:
                break
            self._unsent = self._unsent[count:]
        self.holds_output = bool(self._unsent)
        return not self.holds_output

    def close(self) -> None:
        """Says goodbye (close_notify), if the socket takes it, and closes."""
        if self._is_established and not self.holds_output:
            try:
                self._tls.unwrap()
            except OSError:
                pass  # the peer has yet to say goodbye; nothing waits for that
            try:
                self._push()
            except OSError:
                pass  # the peer has gone
        self._below.close()

    def reset(self) -> None:
        self._below.reset()

    def abort(self) -> None:
        self._below.abort()

    def _read(self, buffer: memoryview) -> int:
        return self._tls.read(len(buffer), buffer)  # type: ignore[return-value]  # into a buffer

    def _advance(self, step: Callable[[], int | None]) -> int:
        """Repeats `step` with ever more data from the peer, until it succeeds; 0 at the end."""
        while True:
            try:
                return step() or 0
            except ssl.SSLWantReadError:
                self._push()
                self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                if not self._is_established:
                    raise ForeignProtocol("it left in the middle of the TLS handshake") from None
                return 0
            except ssl.SSLError as error:
                if self._is_established:
                    raise
                self._push_alert()
                raise ForeignProtocol(f"its TLS handshake failed: {_reason(error)}") from error

    def _receive(self) -> None:
        count = self._below.recv_into(self._scratch)
        if count == 0:
            self._incoming.write_eof()
            return
        if not self._has_begun:
            self._require_tls(self._scratch[0])
        self._incoming.write(self._scratch[:count])

    def _require_tls(self, first: int) -> None:
        if first not in (_HANDSHAKE, _ALERT):
            raise ForeignProtocol(
                f"it speaks plain text, and this listener speaks TLS: set security.protocol="
                f"{self._protocol}"
            )
        self._has_begun = True

    def _push(self) -> None:
        """Sends what encryption has produced; keeps what the socket does not take now."""
        if self._outgoing.pending:
            fresh = self._outgoing.read()
            self._unsent = memoryview(bytes(self._unsent) + fresh if self._unsent else fresh)
        if self._unsent:
            self.holds_output = True
            try:
                self.flush()
            except TimeoutError:
                pass  # the data is encrypted and must be sent before anything else

    def _push_alert(self) -> None:
        try:
            self._push()
        except OSError:
            pass  # the peer has gone


def _gathered(buffers: Sequence[BytesLike]) -> BytesLike:
    """The first bytes of `buffers` in one piece: each piece costs a TLS record."""
    first = memoryview(buffers[0])
    if len(buffers) == 1 or len(first) >= _SEND_BYTES:
        return first[:_SEND_BYTES]
    gathered = bytearray()
    for buffer in buffers:
        gathered += memoryview(buffer)[: _SEND_BYTES - len(gathered)]
        if len(gathered) == _SEND_BYTES:
            break
    return gathered


def _reason(error: ssl.SSLError) -> str:
    """What a user can do something about, without OpenSSL's file and line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and ("unknown ca" in reason or "certificate" in reason):
        return f"it does not trust the broker's certificate ({reason})"
    return reason
