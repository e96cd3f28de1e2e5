"""A broker logs in to another one: `BrokerClient` against a real authenticator."""

import random
from collections.abc import Callable, Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.security.sasl.logins import plain_login, unsecured_bearer_login
from embedkafka.security.sasl.oauth_bearer import OAuthBearerExchange
from embedkafka.security.sasl.plain import PlainExchange
from embedkafka.security.sasl.scram import ScramExchange, ScramLogin
from embedkafka.security.sasl.unsecured_token import UnsecuredTokenValidator
from embedkafka.security.sasl_authenticator import SaslAuthenticator, SaslSettings
from embedkafka.wire.net.channel_authenticator import Login
from embedkafka.wire.net.client import BrokerClient, BrokerDisconnected
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.net.socket_server import ListenerConfig, ServerConfig, SocketServer
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.headers import decode_request_header, encode_response_header
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.unit.security.accounts import Accounts

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
MAX_REAUTH_MS = 10_000
NewLogin = Callable[[str], Login]


class Server:
    """A server that asks for a login and notes who sent each request."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.heard: list[str] = []
        self.logins = 0
        mechanisms = {
            "PLAIN": lambda: PlainExchange({"broker": "b"}.get),
            "SCRAM-SHA-512": lambda: ScramExchange(
                "SCRAM-SHA-512", Accounts(broker="b"), random.Random(1)
            ),
            "OAUTHBEARER": lambda: OAuthBearerExchange(
                UnsecuredTokenValidator(), now_ms=self.clock.now_ms()
            ),
        }
        settings = SaslSettings(
            new_exchange={name: self._counted(make) for name, make in mechanisms.items()},
            max_reauth_ms=dict.fromkeys(mechanisms, MAX_REAUTH_MS),
            failure_delay_ms=0,
            max_receive_bytes=10_000,
            clock=self.clock,
        )
        listener = ListenerConfig(
            name="SASL", new_authenticator=lambda stream: SaslAuthenticator(settings)
        )
        self.server = SocketServer(
            ServerConfig(listeners=[listener]), self._handle, self.clock, Failures(), 1
        )
        self.server.start()

    def client(self, new_login: NewLogin) -> BrokerClient:
        port = self.server.bound_port("SASL")
        return BrokerClient("127.0.0.1", port, self.clock, "test", new_login=new_login)

    def _counted(self, make: Callable) -> Callable:
        def counting() -> object:
            self.logins += 1
            return make()

        return counting

    def _handle(self, request: Request) -> None:
        header, _ = decode_request_header(request.frame)
        self.heard.append(str(request.principal))
        first = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        request.reply([first, *codec.encode_parts(HeartbeatResponse(), header.api_version)])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.server.kill()


LOGINS: dict[str, NewLogin] = {
    "PLAIN": lambda _: plain_login("broker", "b"),
    "SCRAM-SHA-512": lambda _: ScramLogin("SCRAM-SHA-512", "broker", "b", random.Random(2)),
}


@pytest.mark.parametrize("mechanism", [*LOGINS, "OAUTHBEARER"])
def test_a_broker_logs_in_once_and_before_its_session_ends(server: Server, mechanism: str) -> None:
    options = {"unsecuredLoginStringClaim_sub": "broker", "unsecuredLoginExtension_zone": "a"}
    new_login = LOGINS.get(
        mechanism, lambda _: unsecured_bearer_login(options, now_ms=server.clock.now_ms())
    )
    client = server.client(new_login)
    for _ in range(3):
        client.call(HEARTBEAT, 4)
    assert server.logins == 1
    for count in (2, 3):
        server.clock.advance(ms=8_600)
        client.call(HEARTBEAT, 4)
        assert server.logins == count
    assert server.heard == ["User:broker"] * 5
    client.close()


@pytest.mark.parametrize(
    ("new_login", "said"),
    [
        (lambda _: plain_login("broker", "s3cret"), "Invalid username or password"),
        (
            lambda _: ScramLogin("SCRAM-SHA-512", "broker", "s3cret", random.Random(2)),
            "invalid credentials",
        ),
        (
            lambda _: ScramLogin("SCRAM-SHA-256", "broker", "s3cret", random.Random(2)),
            "SCRAM-SHA-256 is not enabled there, only PLAIN",
        ),
        (lambda _: unsecured_bearer_login({}, now_ms=0), "invalid_token"),
    ],
)
def test_a_refused_login_is_logged_with_the_reason_and_without_the_secret(
    server: Server, caplog: pytest.LogCaptureFixture, new_login: NewLogin, said: str
) -> None:
    client = server.client(new_login)
    with pytest.raises(BrokerDisconnected, match=said) as refused:
        client.call(HEARTBEAT, 4)
    assert said in caplog.text
    assert "s3cret" not in caplog.text + str(refused.value)
    assert server.heard == []
