"""A client that does not speak the protocol loses its own connection; others notice nothing.

Every test ends with requests from two good clients: one connected before, and a new one.
"""

import random
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from tests.wire.clients import Cluster
from tests.wire.raw_client import TIMEOUT_SECONDS, RawClient

API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 7, -1)


@pytest.fixture
def address(cluster: Cluster) -> Iterator[tuple[str, int]]:
    host, port = parse_address(cluster.bootstrap_servers.split(",")[0])
    with cluster.connect() as good:
        assert_served(good)
        yield host, port
        assert_served(good)
    with cluster.connect() as new:
        assert_served(new)


def assert_served(client: RawClient) -> None:
    assert client.call(ApiVersionsRequest(), 0).error_code == 0


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=TIMEOUT_SECONDS)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def assert_hung_up(bad: socket.socket) -> None:
    """The broker closed the connection, gently or not, and sent nothing."""
    try:
        assert bad.recv(1) == b""
    except ConnectionResetError:
        pass


def receive(sender: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sender.recv(size - len(data))
        assert chunk, f"the broker hung up after {len(data)} of {size} bytes"
        data += chunk
    return data


def receive_frame(sender: socket.socket) -> bytes:
    return receive(sender, *struct.unpack(">i", receive(sender, 4)))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", -(2**31)), id="most negative length"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="two gigabytes"),
        pytest.param(struct.pack(">i", 100 * 1024 * 1024 + 1), id="one byte too long"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", id="HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), id="TLS"),
        pytest.param(framed(b""), id="empty request"),
        pytest.param(framed(b"\0"), id="one byte"),
        pytest.param(framed(struct.pack(">hhi", 18, 0, 1)[:-1]), id="torn header"),
        pytest.param(framed(struct.pack(">hhih", 3, 0, 1, 500)), id="client id beyond the end"),
        pytest.param(framed(struct.pack(">hhih", 9999, 0, 1, -1)), id="unknown API"),
        pytest.param(framed(struct.pack(">hhih", 3, 999, 1, -1)), id="unknown version"),
        pytest.param(framed(struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff"), id="no body"),
        pytest.param(framed(b"\xff" * 1000), id="all ones"),
    ],
)
def test_nonsense_is_answered_by_hanging_up(address: tuple[str, int], sent: Any) -> None:
    with connected(address) as bad:
        bad.sendall(sent)
        assert_hung_up(bad)


def test_random_frames_never_stop_the_broker(address: tuple[str, int]) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(100):
        with connected(address) as bad:
            bad.sendall(framed(rng.randbytes(60)))
            bad.shutdown(socket.SHUT_WR)
            while bad_answers(bad):
                pass


def bad_answers(bad: socket.socket) -> bool:
    """Whether there is more to read. Random bytes may well form a valid request now and then."""
    try:
        return bad.recv(65536) != b""
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 13])
def test_a_client_that_stops_in_the_middle_of_a_request_is_hung_up_on(
    address: tuple[str, int], cut: int
) -> None:
    with connected(address) as bad:
        bad.sendall(framed(API_VERSIONS_V0)[:cut])
        bad.shutdown(socket.SHUT_WR)
        assert_hung_up(bad)


def test_a_request_may_arrive_byte_by_byte(address: tuple[str, int]) -> None:
    with connected(address) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(API_VERSIONS_V0):
            slow.sendall(bytes([byte]))
        assert receive_frame(slow)[:4] == struct.pack(">i", 7)


def test_two_requests_cut_at_an_odd_place_are_both_answered(address: tuple[str, int]) -> None:
    two = framed(API_VERSIONS_V0) * 2
    for cut in range(1, len(two)):
        with connected(address) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(two[:cut])
            peer.sendall(two[cut:])
            assert receive_frame(peer) == receive_frame(peer)


def test_a_long_promise_that_is_not_kept_holds_up_nobody(address: tuple[str, int]) -> None:
    with connected(address) as bad:
        bad.sendall(struct.pack(">i", 50 * 1024 * 1024) + b"\0\0")
        with connected(address) as good:
            good.sendall(framed(API_VERSIONS_V0))
            assert receive_frame(good)[:4] == struct.pack(">i", 7)


def test_answers_before_the_nonsense_are_sent(address: tuple[str, int]) -> None:
    with connected(address) as bad:
        bad.sendall(framed(API_VERSIONS_V0))
        assert receive_frame(bad)[:4] == struct.pack(">i", 7)
        bad.sendall(b"\xff\xff\xff\xff")
        assert_hung_up(bad)


def test_clients_that_connect_and_leave_are_served_no_worse_than_others(
    address: tuple[str, int],
) -> None:
    """`tests/unit/wire/net/test_socket_server.py` checks that the broker also forgets them."""
    with connected(address) as patient:
        for number in range(500):
            leave_at_once(address, reset=number % 2 == 1)
            if number % 50 == 0:
                patient.sendall(framed(API_VERSIONS_V0))
                assert receive_frame(patient)[:4] == struct.pack(">i", 7)


def leave_at_once(address: tuple[str, int], *, reset: bool) -> None:
    bad = connected(address)
    if reset:
        bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    bad.close()


def test_hundreds_of_connections_at_once_are_served(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(connected(address)) for _ in range(300)]
        for peer in peers:
            peer.sendall(framed(API_VERSIONS_V0))
        for peer in peers:
            assert receive_frame(peer)[:4] == struct.pack(">i", 7)


def test_a_client_that_never_reads_its_answers_holds_up_nobody(address: tuple[str, int]) -> None:
    with connected(address) as bad:
        bad.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bad.settimeout(0.2)
        requests = framed(API_VERSIONS_V0) * 1000
        try:
            for _ in range(2000):
                bad.sendall(requests)
        except TimeoutError:
            pass  # unread answers fill the socket, so the broker stops reading requests
        else:
            pytest.fail("the broker reads without bound")
