"""A listener that shows its clients' frames to an authenticator first."""

import socket

import pytest

from embedkafka.wire.net.channel_authenticator import Verdict
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.net.transport import Stream
from tests.unit.wire.net.conftest import Bench, connect


class Porter:
    """Lets in who knows the word, and asks regulars at every frame."""

    max_frame_bytes: int | None = 20
    failure_delay_ms = 100

    def __init__(self, *, is_settled: bool = True) -> None:
        self.principal: str | None = None
        self.is_settled = False
        self._settles = is_settled
        self.seen: list[bytes] = []

    def receive(self, frame: memoryview, now_ms: float) -> Verdict | None:
        self.seen.append(bytes(frame))
        match bytes(frame):
            case b"knock":
                return Verdict(reply=[b"who is ", b"there?"])
            case b"psst":
                return Verdict()
            case b"sesame":
                self.principal, self.is_settled = "ali", self._settles
                return Verdict(reply=[b"welcome"])
            case b"wrong":
                return Verdict(reply=[b"go away"], failure="wrong word", delay_ms=100)
            case b"foul":
                return Verdict(failure="foul word")
        return None


@pytest.fixture
def porters() -> list[Porter]:
    return []


def whoami(request: Request) -> None:
    request.reply([str(request.principal).encode(), b":", request.frame])


def test_the_authenticator_answers_until_it_lets_frames_pass(
    bench: Bench, porters: list[Porter]
) -> None:
    def new_porter(stream: Stream) -> Porter:
        porters.append(Porter())
        return porters[-1]

    with connect(bench.serve(whoami, new_authenticator=new_porter)) as peer:
        assert peer.ask(b"anonymous") == b"None:anonymous"
        assert peer.ask(b"knock") == b"who is there?"
        peer.send(b"psst", b"sesame", b"first")
        assert [peer.receive(), peer.receive()] == [b"welcome", b"ali:first"]
        assert peer.ask(b"knock") == b"ali:knock", "it is settled"
    assert porters[0].seen == [b"anonymous", b"knock", b"psst", b"sesame"]


def test_every_connection_has_its_own_authenticator(bench: Bench) -> None:
    server = bench.serve(whoami, new_authenticator=lambda stream: Porter())
    with connect(server) as first, connect(server) as second:
        assert first.ask(b"sesame") == b"welcome"
        assert second.ask(b"x") == b"None:x"


def test_an_authenticator_that_is_not_settled_sees_all_frames(bench: Bench) -> None:
    server = bench.serve(whoami, new_authenticator=lambda stream: Porter(is_settled=False))
    with connect(server) as peer:
        peer.ask(b"sesame")
        assert peer.ask(b"x") == b"ali:x"
        assert peer.ask(b"knock") == b"who is there?"


def test_a_refused_client_waits_for_its_answer_and_then_loses_the_connection(bench: Bench) -> None:
    server = bench.serve(whoami, new_authenticator=lambda stream: Porter())
    with connect(server) as refused, connect(server) as other:
        refused.send(b"wrong", b"sesame")
        assert other.ask(b"x") == b"None:x", "the thread waits with it"
        refused.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            refused.socket.recv(1)
        refused.socket.settimeout(10)
        bench.clock.advance(ms=100)
        assert refused.receive() == b"go away"
        refused.assert_hung_up()
        assert server.connection_count == 1


def test_a_client_may_be_refused_without_an_answer(bench: Bench) -> None:
    with connect(bench.serve(whoami, new_authenticator=lambda stream: Porter())) as peer:
        peer.send(b"foul")
        peer.assert_hung_up()


def test_a_refused_client_that_leaves_first_is_forgotten(bench: Bench) -> None:
    server = bench.serve(whoami, new_authenticator=lambda stream: Porter())
    with connect(server) as other:
        with connect(server) as refused:
            refused.send(b"wrong")
            assert other.ask(b"x") == b"None:x"
            refused.socket.shutdown(socket.SHUT_WR)
            refused.assert_hung_up()
        assert server.connection_count == 1
        bench.clock.advance(ms=100)
        assert other.ask(b"y") == b"None:y"


def test_frames_are_short_until_the_client_has_authenticated(bench: Bench) -> None:
    server = bench.serve(whoami, new_authenticator=lambda stream: Porter())
    with connect(server) as stranger:
        stranger.send(b"x" * 21)
        with connect(server) as other:
            assert other.ask(b"x") == b"None:x"
        bench.clock.advance(ms=100)
        stranger.assert_hung_up()
    with connect(server) as friend:
        friend.ask(b"sesame")
        assert friend.ask(b"x" * 5000) == b"ali:" + b"x" * 5000


def test_an_authenticator_without_a_limit_of_its_own_leaves_that_of_requests(bench: Bench) -> None:
    class Trusting(Porter):
        max_frame_bytes: int | None = None

    server = bench.serve(
        whoami, new_authenticator=lambda stream: Trusting(), socket_request_max_bytes=1000
    )
    with connect(server) as stranger:
        assert stranger.ask(b"x" * 1000) == b"None:" + b"x" * 1000
        stranger.send(b"x" * 1001)
        with connect(server) as other:
            assert other.ask(b"x") == b"None:x"
        bench.clock.advance(ms=100)
        stranger.assert_hung_up()
