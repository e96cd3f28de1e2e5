"""The server as its clients see it, on real sockets."""

import logging
import os
import resource
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.runtime.files import FileRegion, SystemFiles
from embedkafka.runtime.values import replace
from embedkafka.wire.net.request_channel import Request, RequestChannel
from embedkafka.wire.net.socket_server import ListenerConfig, ServerConfig, SocketServer
from embedkafka.wire.net.transport import TcpListener
from tests.unit.wire.net.conftest import (
    CONTROL,
    DATA,
    WAIT_S,
    Bench,
    Inbox,
    connect,
    echo,
    open_descriptors,
)

MEBIBYTE = 1024 * 1024


# Requests and replies.


def test_a_request_is_answered(bench: Bench) -> None:
    with connect(bench.serve(echo)) as peer:
        assert peer.ask(b"hello") == b"re:hello"
        assert peer.ask(b"") == b"re:"


def test_a_request_tells_where_it_came_from(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        request = inbox.next()
        local, remote = peer.socket.getsockname()[1], server.bound_port("PLAINTEXT")
        assert request.connection_id == f"127.0.0.1:{remote}-127.0.0.1:{local}-0"
        assert (request.listener, request.is_control_plane) == ("PLAINTEXT", False)
        assert (request.client_address, request.principal) == ("127.0.0.1", None)
        assert request.received_ms == bench.clock.monotonic_ms()


def test_pipelined_requests_are_answered_in_order(bench: Bench) -> None:
    bodies = [str(number).encode() for number in range(500)]
    with connect(bench.serve(echo)) as peer:
        peer.send(*bodies)
        assert [peer.receive() for _ in bodies] == [b"re:" + body for body in bodies]


def test_no_request_of_a_connection_is_delivered_before_the_one_before_is_answered(
    bench: Bench,
) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer, connect(server) as other:
        peer.send(b"first", b"second")
        first = inbox.next()
        peer.send(b"third")
        other.send(b"other")  # when it arrives, the server has seen everything that `peer` sent
        other_request = inbox.next()
        assert [bytes(request.frame) for request in inbox.requests] == [b"first", b"other"]
        other_request.reply([b""])
        first.reply([b"1"])
        inbox.next().reply([b"2"])
        inbox.next().reply([b"3"])
        assert [peer.receive() for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_reply_may_come_from_any_thread(bench: Bench) -> None:
    inbox = Inbox()
    with connect(bench.serve(inbox)) as peer:
        for number in range(50):
            peer.send(b"ask")
            inbox.next().reply([str(number).encode()])
            assert peer.receive() == str(number).encode()


def test_a_network_thread_tells_how_much_time_it_spares_once_it_is_asked(bench: Bench) -> None:
    began, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def handle(request: Request) -> None:
        began.release()
        go_on.acquire(timeout=WAIT_S)
        request.reply([b"done"])

    server = bench.serve(handle)
    with connect(server) as peer:
        [processor] = server._clients
        assert processor._busy is None
        server.measure(on=True)
        bench.clock.advance(70)
        peer.send(b"x")
        assert began.acquire(timeout=WAIT_S)
        bench.clock.advance(30)
        [view] = server.processor_views()
        go_on.release()
        assert peer.receive() == b"done"
        peer.send(b"y")
        assert began.acquire(timeout=WAIT_S)
        bench.clock.advance(100)
        [later] = server.processor_views()
        go_on.release()
        assert peer.receive() == b"done"
    assert (view.idle_share, later.idle_share) == (0.7, 0.35)
    assert view.connections == {("PLAINTEXT", "127.0.0.1"): 1}
    assert view.muted == {"PLAINTEXT": 1}
    server.measure(on=False)
    assert processor._busy is None


def test_replies_of_other_threads_wait_for_the_network_thread(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        request = inbox.next()
        server.pause()
        told: list[str] = []
        request.watch(Watcher(told))
        request.reply([b"done"])
        [view] = server.processor_views()
        assert view.response_count == 1
        assert told == []
        server.resume()
        assert peer.receive() == b"done"
        [view] = server.processor_views()
        assert view.response_count == 0
        peer.send(b"y")
        inbox.next().reply([b"again"])  # nobody watches this one
        assert peer.receive() == b"again"
        assert told == ["taken", "sent"]


class Watcher:
    """Notes what becomes of a reply."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def taken(self) -> None:
        self._told.append("taken")

    def sent(self) -> None:
        self._told.append("sent")


def test_a_listener_that_is_full_blocks_its_acceptor(bench: Bench) -> None:
    server = bench.serve(echo, max_connections=1)
    bench.clock.advance(50)
    with connect(server) as peer:
        assert peer.ask(b"a") == b"re:a"
        assert server.blocked_shares() == {"PLAINTEXT": 0.0}
        bench.clock.advance(50)
        assert server.blocked_shares() == {"PLAINTEXT": 0.5}


def test_a_handler_may_answer_another_connections_request(bench: Bench) -> None:
    waiting = []
    arrived = threading.Event()

    def handle(request: Request) -> None:
        if bytes(request.frame) == b"wait":
            waiting.append(request)
            arrived.set()
        else:
            while waiting:
                waiting.pop().reply([b"woken"])
            request.reply([b"done"])

    server = bench.serve(handle)
    with connect(server) as sleeper, connect(server) as waker:
        sleeper.send(b"wait", b"go on")
        assert arrived.wait(WAIT_S)
        assert waker.ask(b"wake") == b"done"
        assert sleeper.receive() == b"woken"
        assert sleeper.receive() == b"done"


def test_a_request_without_a_reply_lets_the_next_one_in(bench: Bench) -> None:
    def handle(request: Request) -> None:
        if bytes(request.frame) == b"acks=0":
            request.no_reply()
        else:
            echo(request)

    with connect(bench.serve(handle)) as peer:
        peer.send(b"acks=0", b"acks=0", b"acks=1")
        assert peer.receive() == b"re:acks=1"


def test_no_reply_may_come_from_another_thread(bench: Bench) -> None:
    inbox = Inbox()
    with connect(bench.serve(inbox)) as peer:
        peer.send(b"acks=0", b"next")
        inbox.next().no_reply()
        inbox.next().reply([b"ok"])
        assert peer.receive() == b"ok"


@pytest.mark.parametrize("size", [16 * 1024 - 4, 16 * 1024, 100_000, 5 * MEBIBYTE])
def test_long_requests_and_replies_arrive_whole(bench: Bench, size: int) -> None:
    body = os.urandom(size)
    with connect(bench.serve(echo)) as peer:
        sender = threading.Thread(target=peer.send, args=(body, body))
        sender.start()
        assert peer.receive() == b"re:" + body
        assert peer.receive() == b"re:" + body
        sender.join()


def test_the_frames_of_a_connection_do_not_share_memory(bench: Bench) -> None:
    frames = []

    def handle(request: Request) -> None:
        frames.append(request.frame)
        request.reply([b"ok"])

    with connect(bench.serve(handle)) as peer:
        for body in (b"one", b"two", b"x" * 40_000, b"three"):
            peer.ask(body)
    assert [bytes(frame[:5]) for frame in frames] == [b"one", b"two", b"xxxxx", b"three"]


# Replies from files.


@contextmanager
def a_file(size: int) -> Iterator[tuple[bytes, Path]]:
    data = os.urandom(size)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "segment.log"
        path.write_bytes(data)
        yield data, path


@pytest.mark.parametrize("size", [0, 100, 16 * 1024, 16 * 1024 + 1, 3 * MEBIBYTE])
def test_a_reply_may_hold_ranges_of_a_file(bench: Bench, size: int) -> None:
    with a_file(size + 20) as (data, path):

        def handle(request: Request) -> None:
            file = SystemFiles().open(path)
            first, second = FileRegion(file, 10, size), FileRegion(file, 0, 10)
            request.reply([b"header", first, b"between", second])

        with connect(bench.serve(handle)) as peer:
            expected = b"header" + data[10 : 10 + size] + b"between" + data[:10]
            assert peer.ask(b"fetch") == expected
            assert peer.ask(b"fetch again") == expected


def test_a_slow_reader_gets_its_whole_reply_and_holds_up_nobody(bench: Bench) -> None:
    with a_file(20 * MEBIBYTE) as (data, path):

        def handle(request: Request) -> None:
            if bytes(request.frame) == b"fetch":
                file = SystemFiles().open(path)
                request.reply([b"head", FileRegion(file, 0, len(data)), bytes(5 * MEBIBYTE)])
            else:
                echo(request)

        server = bench.serve(handle)
        with connect(server) as slow, connect(server) as quick:
            slow.send(b"fetch", b"and more")
            assert slow.receive_raw(8) == struct.pack(">i", 25 * MEBIBYTE + 4) + b"head"
            assert quick.ask(b"quick") == b"re:quick"
            assert slow.receive_raw(len(data)) == data
            assert slow.receive_raw(5 * MEBIBYTE) == bytes(5 * MEBIBYTE)
            assert slow.receive() == b"re:and more"


@pytest.mark.parametrize("size", [100, 50_000])
def test_a_file_that_was_truncated_ends_the_connection_and_not_the_server(
    bench: Bench, size: int
) -> None:
    with a_file(size - 1) as (_, path):

        def handle(request: Request) -> None:
            if bytes(request.frame) == b"fetch":
                request.reply([b"head", FileRegion(SystemFiles().open(path), 0, size)])
            else:
                echo(request)

        server = bench.serve(handle)
        with connect(server) as peer, connect(server) as other:
            peer.send(b"fetch")
            with pytest.raises((EOFError, ConnectionResetError)):
                peer.receive()
            assert other.ask(b"alive") == b"re:alive"


# When handlers and clients misbehave.


def test_a_failing_handler_is_recorded_and_costs_its_client_only(bench: Bench) -> None:
    def handle(request: Request) -> None:
        if bytes(request.frame) == b"bad":
            raise OSError("the disk is gone")
        echo(request)

    server = bench.serve(handle)
    with connect(server) as peer, connect(server) as other:
        peer.send(b"bad")
        peer.assert_hung_up()
        assert other.ask(b"alive") == b"re:alive"
    with pytest.raises(BackgroundFailure, match="the disk is gone"):
        bench.failures.check()


def test_an_answer_that_comes_after_the_handler_failed_is_dropped(bench: Bench) -> None:
    parked = []

    def handle(request: Request) -> None:
        if bytes(request.frame) == b"alive":
            return echo(request)
        parked.append(request)
        raise RuntimeError("failed after parking")

    server = bench.serve(handle)
    with connect(server) as peer:
        peer.send(b"x")
        peer.assert_hung_up()
        parked[0].reply([b"late"])
        with connect(server) as other:
            # After the second answer, the server has handled the late one.
            assert [other.ask(b"alive") for _ in range(2)] == [b"re:alive"] * 2
    with pytest.raises(BackgroundFailure, match=r"(?s)^1 background failure\n.*after parking"):
        bench.failures.check()


def test_a_handler_may_close_the_connection(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def handle(request: Request) -> None:
        request.close_connection("not on my listener")

    with caplog.at_level(logging.INFO), connect(bench.serve(handle)) as peer:
        peer.send(b"x", b"y")
        peer.assert_hung_up()
        address = "{}:{}".format(*peer.socket.getsockname())
    [line] = [record.getMessage() for record in caplog.records]
    assert address in line
    assert "not on my listener" in line


TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)


@pytest.mark.parametrize(
    ("sent", "hint"),
    [
        (TLS_HELLO, "set security.protocol=PLAINTEXT"),
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "it speaks HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it speaks HTTP"),
    ],
)
def test_another_protocol_is_named_once_a_minute_however_often_it_comes(
    bench: Bench, caplog: pytest.LogCaptureFixture, sent: bytes, hint: str
) -> None:
    server = bench.serve(echo)

    def come(times: int) -> list[logging.LogRecord]:
        for _ in range(times):
            with connect(server) as peer:
                peer.send_raw(sent)
                peer.assert_hung_up()
        return [record for record in caplog.records if record.levelno >= logging.WARNING]

    [line] = come(39)
    assert hint in line.getMessage()
    bench.clock.advance(seconds=60)
    assert len(come(39)) == 2


def test_a_client_that_left_before_its_answer_harms_nobody(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as other:
        for leave in ("close", "reset"):
            peer = connect(server)
            peer.send(b"ask")
            request = inbox.next()
            peer.socket.close() if leave == "close" else peer.reset()
            request.reply([bytes(10 * MEBIBYTE)])
            other.send(b"alive")
            inbox.next().reply([b"yes"])
            assert other.receive() == b"yes"


@pytest.mark.parametrize("sent", [b"", b"\0", struct.pack(">i", 100) + b"torn"])
def test_clients_that_come_and_leave_are_forgotten(bench: Bench, sent: bytes) -> None:
    server = bench.serve(echo)
    before = open_descriptors()
    for number in range(100):
        peer = connect(server)
        peer.send_raw(sent)
        peer.reset() if number % 2 else peer.socket.close()
    await_fact(lambda: server.connection_count == 0, "the quota has let go of all of them")
    await_fact(lambda: open_descriptors() <= before, "their descriptors are closed")


def await_fact(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"timed out; expected that {what}"


def test_a_client_that_leaves_in_the_middle_of_its_answer_harms_nobody(bench: Bench) -> None:
    def handle(request: Request) -> None:
        request.reply([bytes(30 * MEBIBYTE) if bytes(request.frame) == b"much" else b"ok"])

    server = bench.serve(handle)
    with connect(server) as other:
        for _ in range(3):
            peer = connect(server)
            peer.send(b"much")
            peer.receive_raw(1000)
            peer.reset()
            assert other.ask(b"alive") == b"ok"


def test_a_client_may_close_its_sending_side_and_still_get_its_answers(bench: Bench) -> None:
    inbox = Inbox()
    with connect(bench.serve(inbox)) as peer:
        peer.send(b"one", b"two")
        peer.socket.shutdown(socket.SHUT_WR)
        inbox.next().reply([b"1"])
        inbox.next().reply([b"2"])
        assert (peer.receive(), peer.receive()) == (b"1", b"2")
        peer.assert_hung_up()


# Limits.


def test_an_address_with_too_many_connections_is_refused(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    server = bench.serve(echo, max_connections_per_ip=2)
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(2)]
        assert [peer.ask(b"x") for peer in peers] == [b"re:x"] * 2
        with connect(server) as refused:
            refused.assert_hung_up()
        assert server.connection_count == 2
    [line] = [record.getMessage() for record in caplog.records]
    assert "too many connections" in line


def test_a_full_broker_leaves_connections_waiting_until_one_ends(bench: Bench) -> None:
    server = bench.serve(echo, max_connections=1)
    with connect(server) as first:
        assert first.ask(b"x") == b"re:x"
        with connect(server) as second:
            second.send(b"waiting")
            assert first.ask(b"still the only one") == b"re:still the only one"
            assert server.connection_count == 1
            first.socket.close()
            assert second.receive() == b"re:waiting"
            with connect(server) as third:
                third.send(b"next")
                second.socket.close()
                assert third.receive() == b"re:next"


def test_a_lower_limit_closes_the_connections_longest_unused(bench: Bench) -> None:
    server = bench.serve(echo)
    with connect(server) as unused, connect(server) as used:
        assert unused.ask(b"x") == b"re:x"
        bench.clock.advance(seconds=1)
        assert used.ask(b"x") == b"re:x"
        server.set_limits(replace(server.limits, max_connections=1))
        unused.assert_hung_up()
        assert used.ask(b"x") == b"re:x"
        with connect(server) as waiting:
            waiting.send(b"waiting")
            assert used.ask(b"still the only one") == b"re:still the only one"
            server.set_limits(replace(server.limits, max_connections=2))
            assert waiting.receive() == b"re:waiting"


def test_a_limit_for_an_address_changes_while_the_server_runs(bench: Bench) -> None:
    server = bench.serve(echo)
    overrides = {"127.0.0.1": 1}
    server.set_limits(replace(server.limits, max_connections_per_ip_overrides=overrides))
    with connect(server) as first:
        assert first.ask(b"x") == b"re:x"
        with connect(server) as refused:
            refused.assert_hung_up()
        server.set_limits(replace(server.limits, max_connections_per_ip_overrides={}))
        with connect(server) as second:
            assert second.ask(b"x") == b"re:x"


def test_clients_that_fill_the_broker_do_not_shut_out_the_controller(bench: Bench) -> None:
    server = bench.serve(echo, control_handle=echo, max_connections=1)
    with connect(server) as client, connect(server, CONTROL) as controller:
        assert client.ask(b"x") == b"re:x"
        assert controller.ask(b"x") == b"re:x"


def test_connections_come_no_faster_than_the_rate_allows(bench: Bench) -> None:
    """At two per second in a window of ten seconds, the twenty-first is one too many."""
    server = bench.serve(echo, max_connection_creation_rate=2)
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(21)]
        assert [peer.ask(b"x") for peer in peers] == [b"re:x"] * 21
        late = stack.enter_context(connect(server))
        late.send(b"late")
        assert peers[0].ask(b"x") == b"re:x"  # the acceptor has run in between
        assert server.connection_count == 21
        bench.clock.advance(seconds=1)
        assert late.receive() == b"re:late"


def test_network_threads_come_and_go_while_the_server_runs(bench: Bench) -> None:
    server = bench.serve(echo, threads=1)
    server.resize(3)
    assert {"ek-b1-processor-1", "ek-b1-processor-2"} <= set(bench.own_threads.names())
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(3)]
        assert [peer.ask(b"x") for peer in peers] == [b"re:x"] * 3
        server.resize(1)
        for peer in peers[1:]:
            peer.assert_hung_up()
        assert peers[0].ask(b"x") == b"re:x"
        with connect(server) as another:
            assert another.ask(b"x") == b"re:x"


def test_a_server_that_has_ended_still_says_where_it_was(bench: Bench) -> None:
    """Who looks at a broker while it ends must not fail."""
    server = bench.serve(echo)
    port = server.bound_port("PLAINTEXT")
    server.stop()
    assert server.bound_port("PLAINTEXT") == port


def test_a_server_that_has_ended_starts_no_network_thread(bench: Bench) -> None:
    server = bench.serve(echo, threads=1)
    server.stop()
    server.resize(3)
    assert not bench.own_threads.names()


def test_without_descriptors_a_connection_is_turned_away_and_the_next_one_served(
    bench: Bench,
) -> None:
    server = bench.serve(echo)
    server.pause()
    with connect(server) as unlucky:
        with no_descriptors_left():
            server.resume()
            unlucky.assert_hung_up()
        with connect(server) as lucky:
            assert lucky.ask(b"x") == b"re:x"


def test_a_connection_waits_that_cannot_even_be_turned_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has taken the descriptor that the listener spent to accept and close it."""
    rests = threading.Event()
    logger = logging.getLogger("embedkafka.wire.net.processor")
    monkeypatch.setattr(logger, "warning", lambda *_: rests.set())
    server = bench.serve(echo)
    server.pause()
    with connect(server) as patient:
        with no_descriptors_left():
            listener = server._listeners[DATA]
            assert isinstance(listener, TcpListener)
            listener._spend_reserve()
            stolen = os.dup(0)
            server.resume()
            assert rests.wait(WAIT_S)
        os.close(stolen)
        bench.clock.advance(seconds=1)
        assert patient.ask(b"x") == b"re:x"


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in fillers:
            os.close(descriptor)


def test_idle_connections_are_closed_when_the_clock_says_so(bench: Bench) -> None:
    server = bench.serve(echo, connections_max_idle_ms=600_000)
    with connect(server) as idle, connect(server) as busy:
        assert idle.ask(b"x") == b"re:x"
        assert busy.ask(b"x") == b"re:x"
        bench.clock.advance(400_000)
        assert busy.ask(b"x") == b"re:x"
        bench.clock.advance(200_000)
        idle.assert_hung_up()
        assert busy.ask(b"x") == b"re:x"
        assert server.connection_count == 1


def test_a_jump_of_real_time_closes_idle_connections_too(bench: Bench) -> None:
    clock = SystemClock()
    with connect(bench.serve(echo, clock=clock, connections_max_idle_ms=600_000)) as peer:
        assert peer.ask(b"x") == b"re:x"
        clock.advance(600_000)
        peer.assert_hung_up()


def test_idle_connections_are_closed_in_real_time(bench: Bench) -> None:
    with connect(bench.serve(echo, clock=SystemClock(), connections_max_idle_ms=30)) as peer:
        peer.assert_hung_up()


def test_a_client_that_waits_for_its_answer_is_not_idle(bench: Bench) -> None:
    inbox = Inbox()
    with connect(bench.serve(inbox, connections_max_idle_ms=1000)) as peer:
        peer.send(b"join the group")
        request = inbox.next()
        bench.clock.advance(300_000)
        request.reply([b"joined"])
        assert peer.receive() == b"joined"


def test_a_client_that_does_not_take_its_answer_is_idle_some_day(bench: Bench) -> None:
    def handle(request: Request) -> None:
        request.reply([bytes(30 * MEBIBYTE) if bytes(request.frame) == b"much" else b"ok"])

    server = bench.serve(handle, connections_max_idle_ms=1000)
    with connect(server) as stuck:
        stuck.send(b"much")
        stuck.receive_raw(4)
        bench.clock.advance(1000)
        with connect(server) as other:
            assert other.ask(b"x") == b"ok"  # so the processor has seen the new time
        with pytest.raises((EOFError, ConnectionResetError)):
            stuck.receive_raw(30 * MEBIBYTE)


# Planes, processors and the request queue.


def test_an_idle_broker_has_two_network_threads(bench: Bench) -> None:
    bench.serve(echo, control_handle=echo)
    assert bench.own_threads.names() == ["ek-b1-control", "ek-b1-processor-0"]


def test_the_control_plane_answers_while_the_data_plane_is_stuck(bench: Bench) -> None:
    stuck, release = threading.Event(), threading.Event()

    def block(request: Request) -> None:
        stuck.set()
        assert release.wait(WAIT_S)
        request.reply([b"at last"])

    def control(request: Request) -> None:
        request.reply([b"control" if request.is_control_plane else b"data"])

    server = bench.serve(block, control_handle=control)
    with connect(server) as data, connect(server, CONTROL) as controller:
        data.send(b"x")
        assert stuck.wait(WAIT_S)
        assert controller.ask(b"x") == b"control"
        release.set()
        assert data.receive() == b"at last"


def test_connections_are_spread_over_the_processors(bench: Bench) -> None:
    def handle(request: Request) -> None:
        request.reply([threading.current_thread().name.encode()])

    server = bench.serve(handle, threads=3)
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(6)]
        names = [peer.ask(b"who") for peer in peers]
    assert sorted(set(names)) == [f"ek-b1-processor-{index}".encode() for index in range(3)]
    assert all(names.count(name) == 2 for name in names)


def test_requests_go_through_a_channel_to_handler_threads(bench: Bench) -> None:
    channel = RequestChannel()
    for _ in range(2):
        bench.handle_from(channel, echo)
    with connect(bench.serve(channel)) as peer:
        peer.send(*[b"x"] * 200)
        assert [peer.receive() for _ in range(200)] == [b"re:x"] * 200


def test_a_full_channel_stops_reading_and_loses_nothing(bench: Bench) -> None:
    channel = RequestChannel(capacity=1)
    server = bench.serve(channel)
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(8)]
        for number, peer in enumerate(peers):
            peer.send(*[str(number).encode()] * 20)
        bench.handle_from(channel, echo)
        for number, peer in enumerate(peers):
            assert [peer.receive() for _ in range(20)] == [b"re:%d" % number] * 20


# Pausing and ending.


def test_a_paused_server_accepts_in_the_kernel_and_answers_after_resuming(bench: Bench) -> None:
    order = []

    def handle(request: Request) -> None:
        order.append("handled")
        echo(request)

    server = bench.serve(handle, control_handle=handle)
    with connect(server) as old:
        assert old.ask(b"x") == b"re:x"
        server.pause()
        server.pause()
        order.clear()
        with connect(server) as new, connect(server, CONTROL) as controller:
            for peer in (old, new, controller):
                peer.send(b"while paused")
            order.append("resumed")
            server.resume()
            for peer in (old, new, controller):
                assert peer.receive() == b"re:while paused"
        assert order == ["resumed", "handled", "handled", "handled"]


def test_replies_to_a_paused_server_are_sent_after_resuming(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        request = inbox.next()
        server.pause()
        request.reply([b"late"])
        peer.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.socket.recv(1)
        peer.socket.settimeout(WAIT_S)
        server.resume()
        assert peer.receive() == b"late"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_paused_server_can_be_ended(bench: Bench, end: str) -> None:
    server = bench.serve(echo)
    with connect(server) as peer:
        peer.ask(b"x")
        server.pause()
        peer.send(b"never answered")
        getattr(server, end)()
        peer.assert_hung_up()
    assert bench.own_threads.names() == []


def test_a_server_killed_while_paused_sends_nothing_more(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        request = inbox.next()
        server.pause()
        request.reply([b"acknowledged"])
        server.kill()
        with pytest.raises(ConnectionResetError):
            peer.receive()


def test_a_killed_server_resets_its_connections_and_refuses_new_ones(bench: Bench) -> None:
    server = bench.serve(echo)
    port = server.bound_port("PLAINTEXT")
    with connect(server) as peer:
        assert peer.ask(b"x") == b"re:x"
        server.kill()
        with pytest.raises(ConnectionResetError):
            peer.socket.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


def test_a_kill_refuses_connections_even_while_a_handler_is_busy(bench: Bench) -> None:
    busy, release = threading.Event(), threading.Event()

    def block(request: Request) -> None:
        busy.set()
        assert release.wait(WAIT_S)

    server = bench.serve(block)
    port = server.bound_port("PLAINTEXT")
    with connect(server) as peer:
        peer.send(b"x")
        assert busy.wait(WAIT_S)
        killer = threading.Thread(target=server.kill)
        killer.start()
        try:
            await_refusal(port)
        finally:
            release.set()
            killer.join(WAIT_S)
    assert not killer.is_alive()


def await_refusal(port: int) -> None:
    """Connects repeatedly until the kernel refuses."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
        except (ConnectionRefusedError, ConnectionResetError):
            return
    pytest.fail("connections are accepted while the handler is busy")


def test_a_handler_may_kill_its_own_server(bench: Bench) -> None:
    def handle(request: Request) -> None:
        server.kill()

    server = bench.serve(handle)
    processors = bench.own_threads.alive()
    with connect(server) as peer:
        peer.send(b"x")
        peer.assert_hung_up()
    assert processors
    for thread in processors:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_stopped_server_finishes_the_replies_it_began(bench: Bench) -> None:
    def handle(request: Request) -> None:
        request.reply([bytes(20 * MEBIBYTE)])

    server = bench.serve(handle)
    with connect(server) as peer, connect(server) as idle:
        peer.send(b"much")
        peer.receive_raw(4)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        assert peer.receive_raw(20 * MEBIBYTE) == bytes(20 * MEBIBYTE)
        peer.assert_hung_up()
        idle.assert_hung_up()
        stopper.join(WAIT_S)
        assert not stopper.is_alive()


def test_a_stopped_server_does_not_wait_for_ever_for_a_client_that_does_not_read(
    bench: Bench,
) -> None:
    def handle(request: Request) -> None:
        request.reply([bytes(30 * MEBIBYTE)])

    server = bench.serve(handle)
    with connect(server) as peer:
        peer.send(b"much")
        peer.receive_raw(4)
        server.stop()
        assert bench.own_threads.names() == []


def test_replies_given_before_the_stop_are_sent(bench: Bench) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        inbox.next().reply([b"just in time"])
        server.stop()
        assert peer.receive() == b"just in time"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_answers_that_come_after_the_end_are_dropped(bench: Bench, end: str) -> None:
    inbox = Inbox()
    server = bench.serve(inbox)
    with connect(server) as peer:
        peer.send(b"x")
        request = inbox.next()
        getattr(server, end)()
        request.reply([b"too late"])
        request.close_connection()
        peer.assert_hung_up()  # with nothing sent before


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_ending_closes_every_descriptor_and_thread_and_may_be_repeated(
    bench: Bench, end: str
) -> None:
    before = open_descriptors()
    server = bench.serve(echo, threads=2, control_handle=echo)
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(20)]
        for peer in peers:
            peer.ask(b"x")
        getattr(server, end)()
        getattr(server, end)()
        assert bench.own_threads.names() == []
        assert open_descriptors() <= before + len(peers)
    assert server.connection_count == 0


def test_a_server_that_was_bound_and_never_started_leaves_nothing_behind(bench: Bench) -> None:
    before = open_descriptors()
    config = ServerConfig(listeners=[ListenerConfig(name="PLAINTEXT")])
    server = SocketServer(config, echo, bench.clock, Failures(), 1)
    server.bind()
    with connect(server) as peer:
        server.kill()
        peer.assert_hung_up()
    assert open_descriptors() <= before


def test_clients_of_a_bound_server_wait_for_its_start(bench: Bench) -> None:
    config = ServerConfig(listeners=[ListenerConfig(name="PLAINTEXT")])
    server = SocketServer(config, echo, bench.clock, bench.failures, 1)
    server.bind()
    with connect(server) as peer:
        peer.send(b"early")
        server.start()
        assert peer.receive() == b"re:early"
        server.stop()


def test_a_port_that_is_taken_is_named_and_nothing_leaks(bench: Bench) -> None:
    server = bench.serve(echo)
    port = server.bound_port("PLAINTEXT")
    before = open_descriptors()
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        bench.serve(echo, port=port)
    assert open_descriptors() <= before


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_takes_its_port_back_at_once(bench: Bench, end: str) -> None:
    server = bench.serve(echo)
    port = server.bound_port("PLAINTEXT")
    with connect(server) as peer:
        peer.ask(b"x")
        getattr(server, end)()
        with connect(bench.serve(echo, port=port)) as again:
            assert again.ask(b"x") == b"re:x"


def test_connections_go_past_a_processor_that_has_twenty_waiting(bench: Bench) -> None:
    answered, stuck, held = Inbox(), threading.Event(), threading.Event()

    def handle(request: Request) -> None:
        if bytes(request.frame) == b"hold":
            stuck.set()
            assert held.wait(WAIT_S)
        answered(request)
        request.reply([request.frame])

    server = bench.serve(handle, threads=2)
    with ExitStack() as stack:
        first, second = (stack.enter_context(connect(server)) for _ in range(2))
        assert first.ask(b"a") == b"a"
        stack.callback(held.set)
        second.send(b"hold")
        assert stuck.wait(WAIT_S)
        peers = [stack.enter_context(connect(server)) for _ in range(60)]
        for peer in peers:
            peer.send(b"x")
        for _ in range(41):  # the first one's, and those of all but twenty
            answered.next()
        held.set()
        assert {peer.receive() for peer in peers} == {b"x"}
