"""OAUTHBEARER with tokens of both kinds: unsecured ones, and signed ones."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.exchange import AuthenticationFailed, Identity, InvalidCredentials
from embedkafka.security.sasl.oauth_bearer import (
    IllegalToken,
    OAuthBearerExchange,
    TokenValidator,
    encode_client_first,
)
from embedkafka.security.sasl.signed_token import SignedTokenValidator
from embedkafka.security.sasl.unsecured_token import (
    UnsecuredTokenValidator,
    encode_unsecured_token,
)
from tests.presence import present

NOW_MS = 1_000_000_000
NOW_S = NOW_MS // 1000
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
REFUSED = b'{"status":"invalid_token"}'


def exchange(validator: TokenValidator | None = None) -> OAuthBearerExchange:
    return OAuthBearerExchange(validator or UnsecuredTokenValidator(), now_ms=NOW_MS)


def unsecured(**claims: object) -> str:
    return encode_unsecured_token({**CLAIMS, **claims})


def test_a_valid_token_is_accepted_until_it_expires() -> None:
    login = exchange()
    assert login.evaluate(encode_client_first(unsecured())) == b""
    assert login.identity == Identity(name="alice", expires_ms=NOW_MS + 60_000)


def test_extensions_are_accepted() -> None:
    login = exchange()
    login.evaluate(encode_client_first(unsecured(), {"traceId": "123", "region": "a b"}))
    assert present(login.identity).name == "alice"


@pytest.mark.parametrize(
    "token",
    [
        unsecured(exp=NOW_S),
        unsecured(exp=None),
        unsecured(exp="soon"),
        unsecured(iat=NOW_S + 1),
        unsecured(sub=" "),
        unsecured(sub=7),
        unsecured(scope=7),
        unsecured()[:-1],
        unsecured() + "signature",
        "a.b.c",
        "nonsense",
        encode_unsecured_token(CLAIMS).replace(".", "..", 1),
    ],
)
def test_a_refused_token_gets_its_reason_and_then_fails(token: str) -> None:
    login = exchange()
    assert login.evaluate(encode_client_first(token)) == REFUSED
    with pytest.raises(AuthenticationFailed) as refused:
        login.evaluate(b"\x01")
    assert str(refused.value) == REFUSED.decode()
    assert login.identity is None


def test_a_missing_scope_is_named_as_kafka_names_it() -> None:
    validator = UnsecuredTokenValidator.of({"unsecuredValidatorRequiredScope": "read write"})
    login = exchange(validator)
    answer = login.evaluate(encode_client_first(unsecured(scope=["read"])))
    assert answer == b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    exchange(validator).evaluate(encode_client_first(unsecured(scope=["read", "write", "x"])))


def test_the_options_of_the_login_module() -> None:
    validator = UnsecuredTokenValidator.of(
        {
            "unsecuredValidatorPrincipalClaimName": "user",
            "unsecuredValidatorScopeClaimName": "roles",
            "unsecuredValidatorRequiredScope": "admin",
            "unsecuredValidatorAllowableClockSkewMs": "1000",
        }
    )
    late = unsecured(user="bob", roles="admin", exp=NOW_S, iat=NOW_S - 5)
    assert validator.validate(late, now_ms=NOW_MS).principal == "bob"
    with pytest.raises(ConfigError, match="AllowableClockSkewMs must be a number"):
        UnsecuredTokenValidator.of({"unsecuredValidatorAllowableClockSkewMs": "-1"})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
    ],
)
def test_a_malformed_message_is_refused_without_repeating_it(message: bytes) -> None:
    with pytest.raises(InvalidCredentials) as refused:
        exchange().evaluate(message)
    assert "abc" not in str(refused.value)


def test_an_authorization_id_must_be_the_principal() -> None:
    first = encode_client_first(unsecured())
    exchange().evaluate(first.replace(b"n,,", b"n,a=alice,"))
    with pytest.raises(AuthenticationFailed, match="different from the token's principal name"):
        exchange().evaluate(first.replace(b"n,,", b"n,a=bob,"))


# Signed tokens.


class Signer:
    """A key set with one RSA key, and tokens signed with it."""

    def __init__(self) -> None:
        import jwt
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._jwt = jwt
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.key_set = json.dumps({"keys": [{**self.public, "kid": "k1", "use": "sig"}]})

    def __call__(self, key: Any = None, alg: str = "RS256", kid: str = "k1", **more: Any) -> str:
        claims = {name: value for name, value in {**CLAIMS, **more}.items() if value is not None}
        return self._jwt.encode(claims, key or self.key, algorithm=alg, headers={"kid": kid})


@pytest.fixture(scope="module")
def sign() -> Signer:
    pytest.importorskip("jwt")
    return Signer()


def test_a_signed_token_is_accepted(sign: Signer) -> None:
    found = SignedTokenValidator(sign.key_set).validate(sign(scope="read"), now_ms=NOW_MS)
    assert (found.principal, found.expires_ms) == ("alice", NOW_MS + 60_000)
    assert found.scope == {"read"}


@pytest.mark.parametrize(
    "make",
    [
        lambda sign: sign(kid="other"),
        lambda sign: sign(exp=NOW_S - 31),
        lambda sign: sign(exp=None),
        lambda sign: sign(iat=None),
        lambda sign: sign(iat=-5),
        lambda sign: sign(exp=float("nan")),
        lambda sign: sign(exp=True),
        lambda sign: sign(exp=str(NOW_S + 60)),
        lambda sign: sign(nbf=float("inf")),
        lambda sign: sign(nbf="soon"),
        lambda sign: sign(sub="\ud800"),
        lambda sign: sign(nbf=NOW_S + 60),
        lambda sign: sign(sub=None),
        lambda sign: sign(scope=["a", "a"]),
        lambda sign: sign(Signer().key),
        lambda sign: sign(key=b"x" * 32, alg="HS256"),
        lambda sign: unsecured(),
        lambda sign: "nonsense",
        lambda sign: sign()[:-4] + "AAAA",
    ],
)
def test_a_token_that_does_not_hold_is_refused(sign: Signer, make: Callable[[Signer], str]) -> None:
    token = make(sign)
    with pytest.raises(IllegalToken) as refused:
        SignedTokenValidator(sign.key_set).validate(token, now_ms=NOW_MS)
    assert token not in str(refused.value)


@pytest.mark.parametrize("exp", [2**63 - 1, 10**400, float("inf"), 1e308])
def test_a_signed_token_that_never_expires_is_accepted(sign: Signer, exp: float) -> None:
    found = SignedTokenValidator(sign.key_set).validate(sign(exp=exp), now_ms=NOW_MS)
    assert found.expires_ms == 2**63 - 1


def test_a_signed_token_of_any_depth_is_refused_or_read(sign: Signer) -> None:
    head, claims, signature = sign().split(".")
    deep = base64.urlsafe_b64encode(b"[" * 60_000).decode().rstrip("=")
    for token in (f"{deep}.{claims}.{signature}", f"{head}.{deep}.{signature}"):
        with pytest.raises(IllegalToken):
            SignedTokenValidator(sign.key_set).validate(token, now_ms=NOW_MS)


def test_audience_and_issuer_must_fit_when_they_are_set(sign: Signer) -> None:
    validator = SignedTokenValidator(sign.key_set, audiences=["kafka"], issuer="https://idp")
    good = sign(aud="kafka", iss="https://idp")
    assert validator.validate(good, now_ms=NOW_MS).principal == "alice"
    for bad in (sign(aud="kafka"), sign(iss="https://idp"), sign(aud="x", iss="https://idp")):
        with pytest.raises(IllegalToken):
            validator.validate(bad, now_ms=NOW_MS)


def test_other_claims_can_hold_the_principal(sign: Signer) -> None:
    validator = SignedTokenValidator(sign.key_set, principal_claim="email", scope_claim="scp")
    found = validator.validate(sign(email="a@b", scp=["x"]), now_ms=NOW_MS)
    assert (found.principal, found.scope) == ("a@b", frozenset({"x"}))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "x"}]}'])
def test_a_bad_key_set_is_refused_at_once(sign: Signer, text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        SignedTokenValidator(text)
