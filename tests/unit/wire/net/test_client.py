"""The blocking client, against a server that the test controls."""

import struct
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import Clock, SystemClock
from embedkafka.wire.net.client import (
    REQUEST_TIMEOUT_MS,
    BrokerClient,
    BrokerDisconnected,
    CallTimedOut,
)
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.net.transport import Listener, Stream
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.headers import decode_request_header, encode_response_header
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.unit.wire.net.conftest import WAIT_S, Bench, Inbox

VERSION = 4


def heartbeat(group: str = "group") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="member")


def answer(request: Request, *, error_code: int = 0, id_offset: int = 0) -> None:
    header, _ = decode_request_header(request.frame)
    reply_header = encode_response_header(
        header.api_key, header.api_version, header.correlation_id + id_offset
    )
    body = encode(HeartbeatResponse(error_code=error_code), header.api_version)
    request.reply([reply_header, body])


class Line:
    """A client, and the requests that reach the server."""

    def __init__(
        self,
        bench: Bench,
        *,
        clock: Clock | None = None,
        server_clock: Clock | None = None,
        request_timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.inbox = Inbox()
        self.server = bench.serve(self.inbox, clock=server_clock)
        self.clock = bench.clock
        self.client = BrokerClient(
            "127.0.0.1",
            self.server.bound_port("PLAINTEXT"),
            clock or bench.clock,
            "test",
            request_timeout_ms=request_timeout_ms,
        )
        self._pool = ThreadPoolExecutor(1)

    def call(self, timeout_ms: float | None = None) -> "Future[HeartbeatResponse]":
        return self._pool.submit(self.client.call, heartbeat(), VERSION, timeout_ms=timeout_ms)

    def close(self) -> None:
        self.client.close()
        self._pool.shutdown()


@pytest.fixture
def line(bench: Bench) -> Iterator[Line]:
    line = Line(bench)
    yield line
    line.close()


def failure(call: "Future[HeartbeatResponse]") -> BaseException | None:
    return call.exception(timeout=WAIT_S)


def test_a_call_returns_the_response(line: Line) -> None:
    call = line.call()
    request = line.inbox.next()
    header, body = decode_request_header(request.frame)
    assert (header.api_version, header.client_id) == (VERSION, "test")
    assert decode(HeartbeatRequest, VERSION, body) == heartbeat()
    answer(request, error_code=27)
    assert call.result(WAIT_S) == HeartbeatResponse(error_code=27)


def test_calls_use_one_connection_and_rising_correlation_ids(line: Line) -> None:
    ids = []
    for _ in range(3):
        call = line.call()
        request = line.inbox.next()
        ids.append(decode_request_header(request.frame)[0].correlation_id)
        answer(request)
        call.result(WAIT_S)
    assert ids == [1, 2, 3]
    assert len({request.connection_id for request in line.inbox.requests}) == 1


def test_a_broker_that_is_not_there_is_named(bench: Bench) -> None:
    server = bench.serve(Inbox())
    port = server.bound_port("PLAINTEXT")
    server.kill()
    client = BrokerClient("127.0.0.1", port, bench.clock, "test")
    with pytest.raises(BrokerDisconnected, match=rf"127\.0\.0\.1:{port} cannot be reached"):
        client.call(heartbeat(), VERSION)
    assert client.is_closed


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_that_goes_away_ends_the_call(line: Line, end: str) -> None:
    call = line.call()
    line.inbox.next()
    getattr(line.server, end)()
    assert isinstance(failure(call), BrokerDisconnected)
    with pytest.raises(BrokerDisconnected):
        line.client.call(heartbeat(), VERSION)


def test_a_broker_that_hangs_up_ends_the_call(line: Line) -> None:
    call = line.call()
    line.inbox.next().close_connection()
    assert isinstance(failure(call), BrokerDisconnected)


def test_a_call_times_out_when_the_clock_says_so(line: Line) -> None:
    call = line.call(timeout_ms=60_000)
    line.inbox.next()
    line.clock.advance(59_999)
    assert not call.done()
    line.clock.advance(1)
    assert isinstance(failure(call), CallTimedOut)
    with pytest.raises(CallTimedOut):
        line.client.call(heartbeat(), VERSION)


def test_a_jump_of_the_clock_between_calls_harms_nothing(line: Line) -> None:
    for _ in range(2):
        call = line.call()
        answer(line.inbox.next())
        call.result(WAIT_S)
        line.clock.advance(60_000)


def test_a_call_times_out_in_real_time(bench: Bench) -> None:
    line = Line(bench, clock=SystemClock(), request_timeout_ms=30)
    assert isinstance(failure(line.call()), CallTimedOut)
    line.close()


def test_a_clock_that_stands_still_does_not_time_out(bench: Bench) -> None:
    line = Line(bench, request_timeout_ms=20)
    call = line.call()
    request = line.inbox.next()
    assert not isinstance(wait_for(call, 0.1), CallTimedOut)
    answer(request)
    assert call.result(WAIT_S) == HeartbeatResponse(error_code=0)
    line.close()


def wait_for(call: "Future[HeartbeatResponse]", seconds: float) -> BaseException | None:
    try:
        return call.exception(timeout=seconds)
    except TimeoutError:
        return None


def test_closing_from_another_thread_ends_the_call(line: Line) -> None:
    call = line.call()
    line.inbox.next()
    line.client.close()
    assert isinstance(failure(call), BrokerDisconnected)
    assert "was closed" in str(failure(call))


def test_a_closed_client_refuses_calls_and_closes_again(bench: Bench) -> None:
    client = BrokerClient("127.0.0.1", 1, bench.clock, "test")
    client.close()
    client.close()
    with pytest.raises(BrokerDisconnected, match="was closed"):
        client.call(heartbeat(), VERSION)


def test_both_errors_are_os_errors() -> None:
    assert issubclass(BrokerDisconnected, OSError)
    assert issubclass(CallTimedOut, OSError)


def test_an_answer_to_another_request_closes_the_client(line: Line) -> None:
    call = line.call()
    answer(line.inbox.next(), id_offset=5)
    assert "answered request 6 instead of 1" in str(failure(call))
    assert line.client.is_closed


@pytest.mark.parametrize("reply", [b"", b"\0\0", b"\0\0\0\1\0\xff\xff\xff\xff"])
def test_an_answer_that_is_no_response_closes_the_client(line: Line, reply: bytes) -> None:
    call = line.call()
    line.inbox.next().reply([reply])
    assert isinstance(failure(call), BrokerDisconnected)
    assert line.client.is_closed


class Garbage:
    """A transport to a peer that sends the test's bytes."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent

    def listen(self, host: str, port: int, *, backlog: int) -> Listener:
        raise NotImplementedError

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        return self

    local, peer, peer_host = "here:1", "there:2", "there"
    holds_input = holds_output = False

    def fileno(self) -> int:
        return -1

    def set_timeout(self, seconds: float) -> None:
        pass

    def send(self, buffers: Sequence[BytesLike], *, more: bool) -> int:
        return sum(map(len, buffers))

    def send_file(self, descriptor: int, *, position: int, count: int) -> int:
        raise NotImplementedError

    def recv_into(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), len(self.sent), 7)
        buffer[:count], self.sent = self.sent[:count], self.sent[count:]
        return count

    def flush(self) -> bool:
        return True

    def close(self) -> None:
        pass

    reset = abort = close


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", -5), "a frame of -5 bytes"),
        (struct.pack(">i", 100) + b"torn", "the broker closed the connection"),
        (b"", "the broker closed the connection"),
    ],
)
def test_a_broker_that_speaks_garbage_closes_the_client(
    bench: Bench, sent: bytes, reason: str
) -> None:
    client = BrokerClient("there", 2, bench.clock, "test", transport=Garbage(sent))
    with pytest.raises(BrokerDisconnected, match=reason):
        client.call(heartbeat(), VERSION)


def test_closing_while_connecting_ends_the_call(bench: Bench) -> None:
    connecting, go_on = threading.Event(), threading.Event()

    class SlowToConnect(Garbage):
        def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
            connecting.set()
            assert go_on.wait(WAIT_S)
            return self

    client = BrokerClient("there", 2, bench.clock, "test", transport=SlowToConnect(b""))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, heartbeat(), VERSION)
        assert connecting.wait(WAIT_S)
        client.close()
        go_on.set()
        assert "was closed" in str(failure(call))
