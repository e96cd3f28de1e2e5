"""TLS over streams that deliver a few bytes at a time, or take none."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from embedkafka.runtime.buffers import BytesLike
from embedkafka.security.certificates import CertificateAuthority
from embedkafka.security.principals import ANONYMOUS, USER, KafkaPrincipal
from embedkafka.security.tls import ListenerTls
from embedkafka.security.tls_stream import TlsStream
from embedkafka.wire.net.connection import ForeignProtocol
from embedkafka.wire.net.transport import Stream
from tests.doubles.pem import in_settings

AUTHORITY = CertificateAuthority(datetime.now(UTC))
BROKER = in_settings(AUTHORITY.issue("broker", ["broker.test"]), AUTHORITY.trusted)
ALICE = AUTHORITY.issue("alice")


class Pipe:
    """One end of a connection in memory; it does not block."""

    local, peer, peer_host = "here:1", "there:2", "there"
    holds_input = holds_output = False

    def __init__(self, received: bytearray, sent: bytearray) -> None:
        self.received, self.sent = received, sent
        self.room = 1 << 30
        self.most = 1 << 30
        self.ended = False

    def fileno(self) -> int:
        return -1

    def set_timeout(self, seconds: float) -> None:
        raise NotImplementedError

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self.received:
            if self.ended:
                return 0
            raise BlockingIOError
        count = min(len(buffer), len(self.received), self.most)
        buffer[:count] = self.received[:count]
        del self.received[:count]
        return count

    def send(self, buffers: Sequence[BytesLike], *, more: bool) -> int:
        data = b"".join(buffers)[: self.room]
        if not data:
            raise BlockingIOError
        self.sent += data
        self.room -= len(data)
        return len(data)

    def send_file(self, descriptor: int, *, position: int, count: int) -> int:
        raise NotImplementedError

    def flush(self) -> bool:
        return True

    def close(self) -> None:
        self.ended = True

    reset = abort = close


class Both:
    """A client and a server, joined by pipes."""

    def __init__(self, *, client_auth: str = "none", pem: str | None = None) -> None:
        there, back = bytearray(), bytearray()
        self.server_pipe, self.client_pipe = Pipe(there, back), Pipe(back, there)
        self.tls = ListenerTls(
            "SSL", "SSL", {**BROKER, "ssl.client.auth": client_auth}, Path.read_bytes
        )
        self.server = self.tls.encrypt(self.server_pipe)
        context = ssl.create_default_context(cadata=AUTHORITY.trusted)
        if pem is not None:
            from embedkafka.runtime.temporary import private_file

            with private_file(pem.encode()) as path:
                context.load_cert_chain(path)
        self.client = TlsStream(self.client_pipe, context, server_name="broker.test")

    def shake_hands(self) -> None:
        for _ in range(4000):
            for side in (self.client, self.server):
                try:
                    side.recv_into(memoryview(bytearray(10)))
                except BlockingIOError:
                    pass
        assert not self.server.holds_output

    def receive(self, side: Stream) -> bytes:
        received, buffer = bytearray(), memoryview(bytearray(5000))
        while True:
            try:
                count = side.recv_into(buffer)
            except BlockingIOError:
                return bytes(received)
            received += buffer[:count]


@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_a_handshake_takes_any_number_of_steps_and_blocks_nobody(most: int) -> None:
    both = Both()
    both.server_pipe.most = both.client_pipe.most = most
    both.shake_hands()
    assert both.client.send([b"hel", b"lo"], more=False) == 5
    assert both.receive(both.server) == b"hello"
    assert both.tls.principal_of(both.server) == ANONYMOUS


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_certificate_names_the_client(client_auth: str) -> None:
    both = Both(client_auth=client_auth, pem=ALICE)
    both.shake_hands()
    assert both.tls.principal_of(both.server) == KafkaPrincipal(USER, "CN=alice")


def test_a_requested_certificate_may_be_missing_and_a_required_one_may_not() -> None:
    both = Both(client_auth="requested")
    both.shake_hands()
    assert both.tls.principal_of(both.server) == ANONYMOUS
    with pytest.raises(ForeignProtocol, match="did not return a certificate"):
        Both(client_auth="required").shake_hands()


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_certificate_of_another_authority_is_refused(client_auth: str) -> None:
    stranger = CertificateAuthority(datetime.now(UTC)).issue("alice")
    with pytest.raises(ForeignProtocol, match="its certificate is not trusted"):
        Both(client_auth=client_auth, pem=stranger).shake_hands()


def test_plain_text_is_recognised() -> None:
    both = Both()
    both.server_pipe.received += b"\0\0\0\x10\0\x12"
    with pytest.raises(ForeignProtocol, match=r"it speaks plain text.*security\.protocol=SSL"):
        both.server.recv_into(memoryview(bytearray(10)))


def test_what_the_socket_does_not_take_is_held_and_sent_in_order() -> None:
    both = Both()
    both.shake_hands()
    both.server_pipe.room = 10
    assert both.server.send([b"a" * 1000], more=False) == 1000
    assert both.server.holds_output
    with pytest.raises(BlockingIOError):
        both.server.send([b"b" * 1000], more=False)
    assert not both.server.flush()
    both.server_pipe.room = 1 << 20
    assert both.server.send([b"c" * 1000], more=False) == 1000
    assert both.receive(both.client) == b"a" * 1000 + b"c" * 1000


def test_a_handshake_waits_for_a_socket_that_takes_nothing() -> None:
    both = Both()
    with pytest.raises(BlockingIOError):
        both.client.recv_into(memoryview(bytearray(10)))
    both.server_pipe.room = 10
    with pytest.raises(BlockingIOError):
        both.server.recv_into(memoryview(bytearray(10)))
    assert both.server.holds_output
    both.server_pipe.room = 1 << 20
    assert both.server.flush()
    both.shake_hands()


def test_records_that_came_together_are_read_without_waiting() -> None:
    both = Both()
    both.shake_hands()
    both.client.send([b"a" * 10], more=False)
    both.client.send([b"b" * 10], more=False)
    buffer = memoryview(bytearray(4))
    received = b""
    count = both.server.recv_into(buffer)
    while count:
        received += buffer[:count]
        count = both.server.recv_into(buffer) if both.server.holds_input else 0
    assert received == b"a" * 10 + b"b" * 10


def test_a_file_is_read_and_encrypted(tmp_path: Path) -> None:
    both = Both()
    both.shake_hands()
    path = tmp_path / "records"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        assert both.server.send_file(file.fileno(), position=2, count=5) == 5
        assert both.server.send_file(file.fileno(), position=10, count=5) == 0
    assert both.receive(both.client) == b"23456"


def test_a_closed_stream_says_goodbye_and_a_lost_one_ends_too() -> None:
    both = Both()
    both.shake_hands()
    both.server.close()
    assert both.client.recv_into(memoryview(bytearray(10))) == 0
    both = Both()
    both.shake_hands()
    both.server_pipe.ended = True
    assert both.server.recv_into(memoryview(bytearray(10))) == 0


def test_a_client_that_leaves_in_the_handshake_is_named() -> None:
    both = Both()
    both.server_pipe.ended = True
    with pytest.raises(ForeignProtocol, match="left in the middle of the TLS handshake"):
        both.server.recv_into(memoryview(bytearray(10)))


def test_other_certificates_hold_for_new_connections() -> None:
    both = Both()
    both.shake_hands()
    other = CertificateAuthority(datetime.now(UTC))
    both.tls.replace(in_settings(other.issue("broker", ["broker.test"]), other.trusted))
    both.client.send([b"still here"], more=False)
    assert both.receive(both.server) == b"still here"
    both.server = both.tls.encrypt(both.server_pipe)
    context = ssl.create_default_context(cadata=other.trusted)
    both.client = TlsStream(both.client_pipe, context, server_name="broker.test")
    both.shake_hands()
