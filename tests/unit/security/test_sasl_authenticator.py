"""What a connection may send before and after it has authenticated."""

from collections.abc import Callable

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.sasl.exchange import Exchange, Identity, InvalidCredentials
from embedkafka.security.sasl.plain import PlainExchange
from embedkafka.security.sasl_authenticator import SaslAuthenticator, SaslSettings
from embedkafka.wire.net.channel_authenticator import Verdict
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, MetadataRequest
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest
from embedkafka.wire.protocol.messages.registry import response_type
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.presence import present

ALICE = KafkaPrincipal("User", "alice")
PASSWORDS = {"alice": "a", "bob": "b"}
DELAY_MS = 100


class Fussy:
    """A mechanism whose token is the name; it may ask twice, and its credential may expire."""

    def __init__(self, expires_ms: int | None = None) -> None:
        self.identity: Identity | None = None
        self._expires_ms = expires_ms

    def evaluate(self, token: bytes) -> bytes | None:
        if token == b"?":
            return b"who?"
        if token == b"wrong":
            raise InvalidCredentials("a secret reason")
        self.identity = Identity(name=token.decode(), expires_ms=self._expires_ms)
        return None


class Bench:
    """A connection's authenticator, driven with whole requests."""

    def __init__(self, *, max_reauth_ms: int = 0, expires_ms: int | None = None) -> None:
        self.clock = ManualClock()
        if expires_ms is not None:
            expires_ms += self.clock.now_ms()
        mechanisms: dict[str, Callable[[], Exchange]] = {
            "PLAIN": lambda: PlainExchange(PASSWORDS.get),
            "FUSSY": lambda: Fussy(expires_ms),
        }
        self.login = SaslAuthenticator(
            SaslSettings(
                new_exchange=mechanisms,
                max_reauth_ms=dict.fromkeys(mechanisms, max_reauth_ms),
                failure_delay_ms=DELAY_MS,
                max_receive_bytes=1000,
                clock=self.clock,
            )
        )

    def send(self, frame: bytes) -> Verdict | None:
        return self.login.receive(memoryview(bytearray(frame)), self.clock.monotonic_ms())

    def pass_on(self, request: object, version: int) -> Verdict | None:
        """None: the handlers answer."""
        key = present(schema_of(type(request)).api)
        header = encode_request_header(key, version, 7, "client")
        return self.send(header + codec.encode(request, version))

    def call(self, request: object, version: int) -> Verdict:
        return present(self.pass_on(request, version))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Verdict:
        return self.call(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> Verdict:
        return self.call(SaslAuthenticateRequest(auth_bytes=token), version)

    def authenticate(self, token: bytes = b"\0alice\0a", mechanism: str = "PLAIN") -> Verdict:
        self.handshake(mechanism)
        return self.token(token)


def decode(verdict: Verdict, key: ApiKey, version: int):  # type: ignore[no-untyped-def]
    frame = b"".join(bytes(part) for part in present(verdict.reply))  # type: ignore[arg-type]  # no file
    correlation_id, body = decode_response_header(key, version, frame)
    assert correlation_id == 7
    return codec.decode(response_type(key), version, body)


def authenticated(verdict: Verdict, version: int = 2):  # type: ignore[no-untyped-def]
    return decode(verdict, ApiKey.SASL_AUTHENTICATE, version)


METADATA = MetadataRequest(topics=None)


def test_versions_handshake_and_token_in_this_order() -> None:
    bench = Bench()
    assert bench.pass_on(ApiVersionsRequest(), 0) is None, "the handlers answer ApiVersions"
    shaken = decode(bench.handshake(), ApiKey.SASL_HANDSHAKE, 1)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "FUSSY"])
    assert bench.login.principal is None
    verdict = bench.token(b"\0alice\0a")
    answer = authenticated(verdict)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert verdict.failure is None
    assert bench.login.principal == ALICE
    assert bench.login.is_settled


def test_a_mechanism_may_take_several_tokens() -> None:
    bench = Bench()
    bench.handshake("FUSSY")
    assert authenticated(bench.token(b"?")).auth_bytes == b"who?"
    assert bench.login.principal is None
    assert authenticated(bench.token(b"alice")).auth_bytes == b""
    assert bench.login.principal == ALICE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_wrong_password_gets_kafkas_message_and_a_late_end(version: int) -> None:
    bench = Bench()
    bench.handshake()
    verdict = bench.token(b"\0alice\0wrong", version)
    answer = authenticated(verdict, version)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert verdict.delay_ms == DELAY_MS
    assert "failed authentication" in present(verdict.failure)
    assert bench.login.principal is None


def test_what_exactly_is_wrong_stays_in_the_broker() -> None:
    bench = Bench()
    answer = authenticated(bench.authenticate(b"wrong", "FUSSY"))
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism FUSSY"
    )


def test_an_unknown_mechanism_gets_the_enabled_ones() -> None:
    bench = Bench()
    verdict = bench.handshake("GSSAPI")
    answer = decode(verdict, ApiKey.SASL_HANDSHAKE, 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "FUSSY"]
    assert (bool(verdict.failure), verdict.delay_ms) == (True, DELAY_MS)


def test_other_requests_before_the_handshake_end_the_connection() -> None:
    verdict = Bench().call(METADATA, 12)
    assert verdict.reply is None
    assert "Unexpected Kafka request of type METADATA during SASL handshake." in present(
        verdict.failure
    )
    assert verdict.delay_ms == 0


def test_other_requests_after_the_handshake_get_their_error() -> None:
    bench = Bench()
    bench.handshake()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    verdict = bench.call(heartbeat, 4)
    answer = decode(verdict, ApiKey.HEARTBEAT, 4)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert verdict.failure

    bench = Bench()
    bench.handshake()
    assert bench.call(METADATA, 12).failure, "this one has no error for all of it"


def test_tokens_need_a_handshake() -> None:
    assert Bench().token(b"\0alice\0a").failure


def test_api_versions_may_not_come_twice() -> None:
    bench = Bench()
    bench.pass_on(ApiVersionsRequest(), 0)
    verdict = bench.call(ApiVersionsRequest(), 0)
    assert (bool(verdict.failure), verdict.delay_ms) == (True, 0)


def test_api_versions_may_come_again_after_an_unsupported_version() -> None:
    bench = Bench()
    unknown = encode_request_header(ApiKey.API_VERSIONS, 0, 7, "client").replace(
        b"\0\x12\0\0", b"\0\x12\0\x63", 1
    )
    assert bench.send(unknown) is None
    named = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    assert bench.pass_on(named, 3) is None, "its answer is INVALID_REQUEST"
    assert bench.pass_on(ApiVersionsRequest(), 0) is None
    assert bench.handshake().failure is None


def test_tokens_are_bare_after_a_handshake_of_version_0() -> None:
    bench = Bench()
    bench.handshake(version=0)
    verdict = present(bench.send(b"\0alice\0a"))
    assert (verdict.failure, verdict.reply) == (None, [b""])
    assert bench.login.principal == ALICE


def test_a_bare_token_that_is_wrong_gets_no_answer() -> None:
    bench = Bench()
    bench.handshake(version=0)
    verdict = present(bench.send(b"\0alice\0wrong"))
    assert (verdict.reply, bool(verdict.failure)) == (None, True)


@pytest.mark.parametrize("frame", [b"", b"\x60\x82\x01\x02 a GSSAPI token", b"\0\x03"])
def test_nonsense_ends_the_connection(frame: bytes) -> None:
    verdict = present(Bench().send(frame))
    assert (bool(verdict.failure), verdict.delay_ms) == (True, 0)


def test_a_gssapi_client_of_kafka_0_9_begins_with_its_token() -> None:
    bench = Bench()
    made: list[Exchange] = []

    def new_exchange() -> Exchange:
        made.append(Fussy())
        return made[-1]

    bench.login._settings.new_exchange["GSSAPI"] = new_exchange  # type: ignore[index]
    assert present(bench.send(b"\x60token")).reply is None
    assert present(bench.login.principal).name == "`token"


# Sessions that end (KIP-368).


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_ms", "lifetime_ms"),
    [(0, None, 0), (5000, None, 5000), (0, 3000, 3000), (5000, 3000, 3000), (2000, 3000, 2000)],
)
def test_the_client_learns_how_long_its_session_lasts(
    max_reauth_ms: int, expires_ms: int | None, lifetime_ms: int
) -> None:
    bench = Bench(max_reauth_ms=max_reauth_ms, expires_ms=expires_ms)
    answer = authenticated(bench.authenticate(b"alice", "FUSSY"))
    assert answer.session_lifetime_ms == lifetime_ms
    assert bench.login.is_settled == (lifetime_ms == 0)


def test_a_request_after_the_session_ends_the_connection() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    bench.clock.advance(ms=5000)
    assert bench.pass_on(METADATA, 12) is None
    bench.clock.advance(ms=1)
    verdict = bench.call(METADATA, 12)
    assert (verdict.reply, verdict.delay_ms) == (None, 0)
    assert "session has expired" in present(verdict.failure)


def test_a_client_that_authenticates_again_goes_on() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    for _ in range(3):
        bench.clock.advance(ms=4000)
        assert authenticated(bench.authenticate()).session_lifetime_ms == 5000
        assert bench.pass_on(METADATA, 12) is None
    assert bench.login.principal == ALICE


def test_a_client_may_authenticate_again_when_its_session_has_just_ended() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    bench.clock.advance(ms=6000)
    assert authenticated(bench.authenticate()).error_code == 0


def test_another_user_may_not_take_the_session_over() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    answer = authenticated(bench.authenticate(b"\0bob\0b"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_a_failed_re_authentication_says_so() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate(b"alice", "FUSSY")
    verdict = bench.authenticate(b"wrong", "FUSSY")
    assert "during re-authentication due to" in authenticated(verdict).error_message
    assert present(verdict.failure).startswith("failed re-authentication")


def test_the_mechanism_stays() -> None:
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    assert decode(bench.handshake("FUSSY"), ApiKey.SASL_HANDSHAKE, 1).error_code == 0
    verdict = bench.token(b"alice")
    assert (verdict.reply, bool(verdict.failure)) == (None, True)


def test_a_second_re_authentication_within_a_second_reaches_the_handlers() -> None:
    """They answer ILLEGAL_SASL_STATE."""
    bench = Bench(max_reauth_ms=5000)
    bench.authenticate()
    bench.authenticate()
    bench.clock.advance(ms=999)
    assert bench.pass_on(SaslHandshakeRequest(mechanism="PLAIN"), 1) is None
    bench.clock.advance(ms=1)
    assert bench.handshake().failure is None
