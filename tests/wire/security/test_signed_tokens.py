"""OAUTHBEARER with tokens that are signed: which ones a broker with a key set accepts."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.errors import ErrorCode
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import SaslCluster, authenticate, bearer, handshake

KEYS: Final[Mapping[str, Any]] = {  # Any: private keys of two kinds
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
}
STRANGE: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_HANDLER: Final = f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"


ON_EITHER_KIND = ("signed",)


def key_set() -> str:
    rsa_key = RSAAlgorithm.to_jwk(KEYS["RS256"].public_key(), as_dict=True)
    ec_key = ECAlgorithm.to_jwk(KEYS["ES256"].public_key(), as_dict=True)
    return json.dumps({"keys": [{**rsa_key, "kid": "RS256"}, {**ec_key, "kid": "ES256"}]})


@pytest.fixture(scope="module")
def signed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SaslCluster]:
    """One broker that asks for tokens of a certain audience and issuer."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(key_set())
    config = settings(keys)
    if request.param == "embedded":
        listening = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0"}
        with EmbeddedKafka(config={**config, **listening}) as kafka:
            yield SaslCluster(kind="embedded", listeners=kafka.listeners)
        return
    (port,) = free_ports(1)
    allowed = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri()}
    with ApacheKafka(
        version=request.config.getoption("--oracle-version"),
        config=config,
        more_listeners={"SASL": port},
        properties=allowed,
    ):
        yield SaslCluster(kind="apache", listeners={"SASL": f"127.0.0.1:{port}"})


def settings(keys: Path) -> dict[str, object]:
    listener = "listener.name.sasl.oauthbearer.sasl"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{listener}.server.callback.handler.class": _HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka,other",
        "sasl.oauthbearer.expected.issuer": "the-issuer",
        "sasl.oauthbearer.clock.skew.seconds": 30,
    }


def token(
    algorithm: str = "RS256", key: Any = None, kid: str | None = None, **claims: object
) -> str:
    now = int(time.time())
    usual = {"sub": "alice", "iat": now, "exp": now + 3600, "aud": "kafka", "iss": "the-issuer"}
    given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    headers = {"kid": kid or algorithm}
    return jwt.encode(given, key or KEYS[algorithm], algorithm=algorithm, headers=headers)


def is_accepted(client: RawClient, text: str) -> bool:
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, bearer(text))
    if answer.error_code == ErrorCode.NONE and not answer.auth_bytes:
        return True
    assert json.loads(answer.auth_bytes)["status"] == "invalid_token", answer
    return False


NOW: Final = int(time.time())
HOUR: Final = 3600
ACCEPTED: Final = {
    "RSA": token(),
    "elliptic curve": token("ES256"),
    "other audience": token(aud="other"),
    "two audiences": token(aud=["nobody", "kafka"]),
    "scope as text": token(scope="a b"),
    "scope as list": token(scope=["a", "b"]),
    "long text": token(more="x" * 2000),
}
REFUSED: Final = {
    "strange key": token(key=STRANGE),
    "unknown key id": token(kid="no-such"),
    "expired": token(iat=NOW - 2 * HOUR, exp=NOW - HOUR),
    "no expiry": token(exp=None),
    "not yet": token(nbf=NOW + HOUR),
    "wrong audience": token(aud="nobody"),
    "no audience": token(aud=None),
    "wrong issuer": token(iss="nobody"),
    "no issuer": token(iss=None),
    "no subject": token(sub=None),
    "blank subject": token(sub=" "),
    "other text": "a.b.c",
    "damaged": token()[:-8] + "AAAAAAAA",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_token_that_is_signed_and_valid_lets_its_user_in(signed: SaslCluster, name: str) -> None:
    with signed.connect() as client:
        assert is_accepted(client, ACCEPTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_any_other_token_is_refused(signed: SaslCluster, name: str) -> None:
    with signed.connect() as client:
        assert not is_accepted(client, REFUSED[name])
