"""A blocking client for one broker, used between brokers: controller channels, remote fetchers.

Owner: the calling thread. `_lock` (leaf) guards the state shared with `close`, which another
thread may call to end the call in progress.
Invariants: requests and responses alternate, so correlation ids must match. After a timeout, a
disconnect or a wrong id the client stays closed, because later responses would be out of step.
Not here: reconnecting, retrying and choosing versions; the caller knows what it lost.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.net.channel_authenticator import LoginRefused, NewLogin
from embedkafka.wire.net.connection import CHUNK_BYTES, BadFrame, FrameReader, FrameWriter, Gather
from embedkafka.wire.net.transport import Stream, TcpTransport, Transport
from embedkafka.wire.protocol.codec import decode, encode_parts
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import response_type
from embedkafka.wire.protocol.wire_types import MAX_INT, Part

_LOG = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS: Final = 30_000
# A client logs in again when this much of its session has passed, as Kafka's do.
_SESSION_SHARE: Final = 0.85
_MAX_RESPONSE_BYTES: Final = MAX_INT


class BrokerDisconnected(ConnectionError):
    """The broker is unreachable, disconnected or sent nonsense, or the client was closed."""


class CallTimedOut(TimeoutError):
    """The broker did not answer in time."""


class BrokerClient:
    """One connection to `host:port`, which the first call makes. Its two errors are `OSError`s."""

    def __init__(
        self,
        host: str,
        port: int,
        clock: Clock,
        client_id: str | None,
        *,
        request_timeout_ms: float = REQUEST_TIMEOUT_MS,
        transport: Transport | None = None,
        new_login: NewLogin | None = None,
    ) -> None:
        """Logs in with `new_login`, and again before a session ends."""
        self.address = format_address(host, port)
        self._host = host
        self._port = port
        self._clock = clock
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._transport = transport or TcpTransport()
        self._reader = FrameReader(_MAX_RESPONSE_BYTES)
        self._writer = FrameWriter()
        self._scratch = memoryview(bytearray(CHUNK_BYTES))
        self._correlation_id = 0
        self._lock = ranked_lock(f"client of {self.address}", LEAF_RANK)
        self._stream: Stream | None = None
        self._deadline_ms: float | None = None
        self._closed_by: OSError | None = None
        self._unsubscribe: Callable[[], None] = _nothing
        self._new_login = new_login
        self._log_in_at_ms: float | None = None if new_login is None else 0

    @property
    def is_closed(self) -> bool:
        """Whether all further calls fail, so that the caller needs a new client."""
        return self._closed_by is not None

    def call(self, request: object, version: int, *, timeout_ms: float | None = None) -> Any:
        """The response to `request`. Any: its class follows from the request's.

        Raises `BrokerDisconnected` or `CallTimedOut`, and closes the client.
        """
        if self._log_in_at_ms is not None and self._clock.monotonic_ms() >= self._log_in_at_ms:
            self._log_in(timeout_ms)
        return self._call(request, version, timeout_ms)

    def _call(self, request: object, version: int, timeout_ms: float | None) -> Any:
        api_key = schema_of(type(request)).api
        assert api_key is not None, f"{type(request).__qualname__} is no request"
        self._correlation_id = expected_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, expected_id, self._client_id)
        frame = self._exchange([header, *encode_parts(request, version)], timeout_ms)
        try:
            correlation_id, body = decode_response_header(api_key, version, frame)
            if correlation_id != expected_id:
                raise self._failed(f"answered request {correlation_id} instead of {expected_id}")
            return decode(response_type(api_key), version, body)
        except ProtocolError as error:
            raise self._failed(f"sent no valid {api_key.name} response: {error}") from error

    def _log_in(self, timeout_ms: float | None) -> None:
        from embedkafka.wire.net.sasl_client import (
            log_in,  # only a secured cluster needs its messages
        )

        assert self._new_login is not None
        try:
            login = self._new_login(self._host)
            lifetime_ms = log_in(login, partial(self._call, timeout_ms=timeout_ms))
        except LoginRefused as error:
            _LOG.warning("%s refuses the login of %s: %s", self.address, self._client_id, error)
            raise self._failed(f"refused the login: {error}") from error
        self._log_in_at_ms = None
        if lifetime_ms:
            self._log_in_at_ms = self._clock.monotonic_ms() + lifetime_ms * _SESSION_SHARE

    def close(self) -> None:
        """Ends the connection; the call in progress and later ones raise `BrokerDisconnected`."""
        self._close(BrokerDisconnected(f"the client of {self.address} was closed"))

    def _exchange(self, parts: Sequence[Part], timeout_ms: float | None) -> memoryview:
        stream = self._begin(self._request_timeout_ms if timeout_ms is None else timeout_ms)
        try:
            self._send(stream, parts)
            return self._receive(stream)
        except BadFrame as error:
            raise self._failed(f"sent {error}") from error
        except TimeoutError as error:
            raise self._timed_out() from error
        except OSError as error:
            raise self._failed(f"has gone: {error}") from error
        finally:
            self._end()

    def _begin(self, timeout_ms: float) -> Stream:
        """Starts the call's deadline, and connects on the first call."""
        with self._lock:
            if self._closed_by is not None:
                raise _again(self._closed_by)
            self._deadline_ms = self._clock.monotonic_ms() + timeout_ms
            if self._stream is not None:
                return self._stream
        try:
            stream = self._transport.connect(self._host, self._port, timeout_s=timeout_ms / 1000)
        except TimeoutError as error:
            raise self._timed_out() from error
        except OSError as error:
            raise self._failed(f"cannot be reached: {error}") from error
        with self._lock:
            if self._closed_by is not None:  # while it connected
                stream.close()
                raise _again(self._closed_by)
            self._stream = stream
            self._unsubscribe = self._clock.subscribe(self._on_jump)
            return stream

    def _end(self) -> None:
        with self._lock:
            self._deadline_ms = None
            if self._closed_by is not None:
                self._release()

    def _send(self, stream: Stream, parts: Sequence[Part]) -> None:
        self._writer.add(parts)
        while self._writer:
            piece = self._writer.next()
            assert isinstance(piece, Gather), "requests between brokers are in memory"
            self._writer.sent(
                self._in_time(stream, partial(stream.send, piece.buffers, more=False))
            )

    def _receive(self, stream: Stream) -> memoryview:
        reader = self._reader
        while True:
            target = reader.target()
            buffer = self._scratch if target is None else target
            count = self._in_time(stream, partial(stream.recv_into, buffer))
            if count == 0:
                raise ConnectionResetError("the broker closed the connection")
            frame = reader.feed(buffer[:count]) if target is None else reader.filled(count)
            if frame is not None:
                return frame

    def _in_time(self, stream: Stream, blocking: Callable[[], int]) -> int:
        """Runs `blocking` with the time the call has left."""
        assert self._deadline_ms is not None
        while (left_ms := self._deadline_ms - self._clock.monotonic_ms()) > 0:
            stream.set_timeout(left_ms / 1000)
            try:
                return blocking()
            except TimeoutError:
                pass  # real time has passed; the clock may stand still, so read it again
        raise TimeoutError

    def _on_jump(self) -> None:
        """Ends a call whose deadline a jump of the clock has passed; runs on the jumping thread."""
        deadline_ms = self._deadline_ms
        if deadline_ms is not None and self._clock.monotonic_ms() >= deadline_ms:
            self._timed_out()

    def _timed_out(self) -> OSError:
        return self._close(CallTimedOut(f"{self.address} did not answer in time"))

    def _failed(self, what: str) -> OSError:
        return self._close(BrokerDisconnected(f"{self.address} {what}"))

    def _close(self, why: OSError) -> OSError:
        """Closes, and returns the reason for the first close.

        A call in progress keeps the stream, sees its end now, and releases it.
        """
        with self._lock:
            if self._closed_by is None:
                self._closed_by = why
            reason = self._closed_by
            if self._deadline_ms is None:
                self._release()
            elif self._stream is not None:
                self._stream.abort()
            unsubscribe, self._unsubscribe = self._unsubscribe, _nothing
        unsubscribe()
        return _again(reason)

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _again(error: OSError) -> OSError:
    """A copy of the error, to raise in another place."""
    return type(error)(*error.args)


def _nothing() -> None:
    """The initial value of a subscription."""
