"""Whatever a stranger sends before it has logged in, it gets an answer or loses its connection.

An exception here would be recorded as a bug of ours, and fail the test of a user whose cluster is
attacked.
"""

import base64
import random
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.runtime.clock import ManualClock
from embedkafka.security.sasl.exchange import Exchange, Identity
from embedkafka.security.sasl.oauth_bearer import OAuthBearerExchange
from embedkafka.security.sasl.plain import PlainExchange
from embedkafka.security.sasl.scram import ScramAccount, ScramExchange
from embedkafka.security.sasl.scram_credentials import credential_of
from embedkafka.security.sasl.unsecured_token import UnsecuredTokenValidator
from embedkafka.security.sasl_authenticator import SaslAuthenticator, SaslSettings
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.headers import encode_request_header
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest

MECHANISM: Final = "SCRAM-SHA-256"
_ALICE: Final = ScramAccount(
    identity=Identity(name="alice"), credential=credential_of(MECHANISM, "a", salt=b"salt")
)


class Accounts:
    decoy_secret = b"secret"

    def find_user(self, mechanism: str, name: str) -> ScramAccount | None:
        return _ALICE if name == "alice" else None

    def find_token(self, mechanism: str, token_id: str) -> ScramAccount | None:
        return None


def bearer(claims: str, *, authorization_id: str = "") -> bytes:
    """An unsecured token with these claims, in a client's message."""
    parts = (
        base64.urlsafe_b64encode(part.encode("utf-8", "surrogatepass"))
        for part in ('{"alg":"none"}', claims)
    )
    token = ".".join(part.rstrip(b"=").decode() for part in parts)
    who = f"a={authorization_id}" if authorization_id else ""
    return f"n,{who},\x01auth=Bearer {token}.\x01\x01".encode()


class Stranger:
    """A connection that has not logged in."""

    def __init__(self) -> None:
        clock = ManualClock()
        now_ms = clock.now_ms()
        mechanisms: dict[str, Callable[[], Exchange]] = {
            "PLAIN": lambda: PlainExchange({"alice": "a"}.get),
            MECHANISM: lambda: ScramExchange(MECHANISM, Accounts(), random.Random(1)),
            "OAUTHBEARER": lambda: OAuthBearerExchange(UnsecuredTokenValidator(), now_ms=now_ms),
        }
        self._login = SaslAuthenticator(
            SaslSettings(
                new_exchange=mechanisms,
                max_reauth_ms=dict.fromkeys(mechanisms, 0),
                failure_delay_ms=0,
                max_receive_bytes=1 << 19,
                clock=clock,
            )
        )

    def send(self, frame: bytes) -> bool:
        """Whether the connection goes on; the answer has been encoded by then."""
        verdict = self._login.receive(memoryview(bytearray(frame)), 0)
        return verdict is None or verdict.failure is None

    def begin(self, mechanism: str) -> None:
        self.send(framed(SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE, 1))

    def token(self, token: bytes, version: int = 2) -> bool:
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.send(framed(request, ApiKey.SASL_AUTHENTICATE, version))

    @property
    def user(self) -> str | None:
        return None if self._login.principal is None else self._login.principal.name


def framed(request: object, key: ApiKey, version: int) -> bytes:
    return encode_request_header(key, version, 7, "x") + codec.encode(request, version)


@pytest.mark.parametrize(
    "claims",
    [
        '{"sub":"mallory","exp":NaN}',
        '{"sub":"mallory","exp":Infinity}',
        '{"sub":"mallory","exp":-1e999}',
        '{"sub":"mallory","exp":99999999999,"iat":1e999}',
        '{"sub":"mallory","exp":1' + "0" * 5000 + "}",
        '{"sub":"mallory","exp":99999999999,"x":' + "[" * 60_000 + "]" * 60_000 + "}",
        '{"sub":"\\ud800","exp":99999999999}',
        '{"sub":["mallory"],"exp":{}}',
        "[" * 60_000,
        "\ud800",
        "",
    ],
    ids=lambda claims: claims[:40],
)
def test_a_token_that_makes_no_sense_is_refused(claims: str) -> None:
    stranger = Stranger()
    stranger.begin("OAUTHBEARER")
    assert stranger.token(bearer(claims))
    assert not stranger.token(b"\x01")
    assert stranger.user is None


@pytest.mark.parametrize("exp", ["9223372036854775807", "1" + "0" * 400, "1e999", "1e308"])
def test_a_token_that_never_expires_lets_its_bearer_in(exp: str) -> None:
    for version in (1, 2):
        stranger = Stranger()
        stranger.begin("OAUTHBEARER")
        assert stranger.token(bearer(f'{{"sub":"alice","exp":{exp}}}'), version)
        assert stranger.user == "alice"


def test_a_refusal_that_repeats_a_long_name_fits_into_every_version() -> None:
    for version in (0, 1, 2):
        stranger = Stranger()
        stranger.begin("OAUTHBEARER")
        claims = f'{{"sub":"{"n" * 100_000}","exp":99999999999}}'
        assert not stranger.token(bearer(claims, authorization_id="m" * 100_000), version)


SENSIBLE: Final = {
    "PLAIN": [b"\0alice\0a", b"alice\0alice\0a"],
    MECHANISM: [b"n,,n=alice,r=abc", b"n,,n=bob,r=abc,tokenauth=true", b"c=biws,r=abc,p=YQ=="],
    "OAUTHBEARER": [bearer('{"sub":"alice","exp":99999999999}'), b"\x01"],
}


@st.composite
def damaged(draw: st.DrawFn, good: list[bytes]) -> bytes:
    """A sensible token with some bytes replaced, or none of it."""
    token = bytearray(draw(st.sampled_from(good)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(token)))
        end = draw(st.integers(start, len(token)))
        token[start:end] = draw(st.binary(max_size=6))
    return bytes(token)


@pytest.mark.parametrize("mechanism", SENSIBLE)
@given(data=st.data())
def test_damaged_tokens_are_refused_or_answered(mechanism: str, data: st.DataObject) -> None:
    stranger = Stranger()
    stranger.begin(mechanism)
    for token in data.draw(st.lists(damaged(SENSIBLE[mechanism]), max_size=3)):
        if not stranger.token(token) or stranger.user is not None:
            break


@given(st.sampled_from(ApiKey), st.integers(-1, 20), st.binary(max_size=40), st.booleans())
def test_any_request_before_the_login_is_refused_or_answered(
    key: ApiKey, version: int, body: bytes, has_begun: bool
) -> None:
    stranger = Stranger()
    if has_begun:
        stranger.begin("PLAIN")
    head = key.to_bytes(2) + version.to_bytes(2, signed=True) + b"\0\0\0\7\0\1x\0"
    stranger.send(head + body)
    assert stranger.user is None
