"""The settings of SASL: what they mean, and how a mistake is reported."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from embedkafka.broker.listener_authentication import Authentication
from embedkafka.broker.settings.broker import BrokerConfig, idle_settings, parse_broker_settings
from embedkafka.broker.settings.listeners import plan_listeners
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import ConfigError, Failures
from embedkafka.runtime.files import SystemFiles
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.sasl.unsecured_token import UnsecuredTokenValidator
from embedkafka.security.sasl_authenticator import SaslAuthenticator
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk
from tests.presence import present

SECURITY = "org.apache.kafka.common.security"
PLAIN = f"{SECURITY}.plain.PlainLoginModule required"
SCRAM = f"{SECURITY}.scram.ScramLoginModule required"
OAUTH = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required"
BROKER = 'username="admin" password="s3cret"'
SIGNED = f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"

NO_STREAM: Any = None  # Any: SASL does not look at it

CLIENTS = {
    "listeners": "INSIDE://:0,CLIENTS://:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}
BETWEEN = {
    "listeners": "CLIENTS://:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
}


@pytest.fixture
def zk() -> KafkaZk:
    clock = ManualClock()
    zk = KafkaZk(MemoryZk(clock, Failures()).connect(), clock)
    zk.make_persistent_paths()
    return zk


def authentication(zk: Any, settings: Mapping[str, object]) -> Authentication:
    config = BrokerConfig(parse_broker_settings(settings))
    return Authentication(
        config,
        plan_listeners(config.given),
        credentials=ScramCredentials(zk),
        tokens=None,
        clock=ManualClock(),
        files=SystemFiles(),
        rng=random.Random(1),
    )


def exchange(authentication: Authentication, mechanism: str) -> Any:
    made = present(authentication.find_authenticators("CLIENTS"))(NO_STREAM)
    assert isinstance(made, SaslAuthenticator)
    return made._settings.new_exchange[mechanism]()


def jaas(mechanism: str, text: str, listener: str = "clients") -> dict[str, object]:
    return {f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text}


def test_a_listener_without_sasl_asks_for_no_login() -> None:
    plain = authentication(
        None,
        {**CLIENTS, "sasl.enabled.mechanisms": "PLAIN", **jaas("plain", f'{PLAIN} user_a="b";')},
    )
    assert plain.find_authenticators("INSIDE") is None
    assert plain.find_authenticators("CLIENTS") is not None
    assert plain.find_login("INSIDE") is None


def test_the_users_of_plain_are_options() -> None:
    settings = {
        **CLIENTS,
        "sasl.enabled.mechanisms": "PLAIN",
        **jaas("plain", f'{PLAIN} user_alice="a";'),
    }
    login = exchange(authentication(None, settings), "PLAIN")
    login.evaluate(b"\0alice\0a")
    assert login.identity.name == "alice"


def test_a_text_without_listener_and_mechanism_serves_its_own() -> None:
    settings = {
        **CLIENTS,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} user_alice="a";',
    }
    exchange(authentication(None, settings), "PLAIN").evaluate(b"\0alice\0a")


def test_settings_of_a_listener_and_of_a_mechanism_take_precedence() -> None:
    settings = {
        **CLIENTS,
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms": 1000,
        "listener.name.clients.connections.max.reauth.ms": 2000,
        "listener.name.CLIENTS.plain.connections.max.reauth.ms": 3000,
        "connection.failed.authentication.delay.ms": 7,
        "listener.name.clients.sasl.server.max.receive.size": 99,
        **jaas("plain", f'{PLAIN} user_a="b";'),
        **jaas("scram-sha-256", f"{SCRAM};"),
    }
    assert idle_settings(settings) == {}
    found = authentication(None, settings).find_authenticators("CLIENTS")
    made = present(found)(NO_STREAM)
    assert isinstance(made, SaslAuthenticator)
    assert made._settings.max_reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000}
    assert made._settings.failure_delay_ms == 7
    assert made.max_frame_bytes == 99


def test_the_options_of_unsecured_tokens() -> None:
    settings = {
        **CLIENTS,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        **jaas("oauthbearer", f'{OAUTH} unsecuredValidatorPrincipalClaimName="user";'),
    }
    login = exchange(authentication(None, settings), "OAUTHBEARER")
    assert login._validator == UnsecuredTokenValidator(principal_claim="user", required_scope=[])


def test_signed_tokens_are_checked_with_a_local_key_set(tmp_path: Path) -> None:
    jwt = pytest.importorskip("jwt")
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    keys = tmp_path / "keys of the test.json"
    keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    settings = {
        **CLIENTS,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        **jaas("oauthbearer", f"{OAUTH};"),
        "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": SIGNED,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.sub.claim.name": "email",
    }
    login = exchange(authentication(None, settings), "OAUTHBEARER")
    now = ManualClock().now_ms() // 1000
    claims = {"iat": now, "exp": now + 60, "aud": "kafka", "email": "a@b"}
    token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k"})
    login.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    assert login.identity.name == "a@b"


def test_the_user_that_brokers_log_in_as_is_added_if_it_is_new(zk: KafkaZk) -> None:
    settings = {
        **BETWEEN,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        **jaas("scram-sha-512", f"{SCRAM} {BROKER};"),
    }
    made = authentication(zk, settings)
    config = BrokerConfig(parse_broker_settings(settings))
    made.start(config)
    first = zk.config("users", "admin")
    assert list(first) == ["SCRAM-SHA-512"]
    assert "s3cret" not in str(first)
    made.start(config)
    assert zk.config("users", "admin") == first
    for listener in ("CLIENTS", "CONTROLLER"):
        login = present(made.find_login(listener))("localhost")
        accepting = exchange(made, "SCRAM-SHA-512")
        token = login.respond(None)
        while token is not None:
            token = login.respond(accepting.evaluate(token))
        assert accepting.identity.name == "admin"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**CLIENTS, "sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({**CLIENTS, "sasl.enabled.mechanisms": "PLIAN"}, "no mechanism PLIAN; choose from PLAIN"),
        (
            {**CLIENTS, "sasl.enabled.mechanisms": "PLAIN"},
            r"set listener\.name\.clients\.plain\.sasl\.jaas\.config=.*PlainLoginModule required",
        ),
        (
            {
                **CLIENTS,
                "sasl.enabled.mechanisms": "PLAIN",
                **jaas("plain", f'{SCRAM} password="s3cret";'),
            },
            "clients.plain.sasl.jaas.config: PLAIN needs the login module .*PlainLoginModule, not",
        ),
        (
            {
                **CLIENTS,
                "sasl.enabled.mechanisms": "PLAIN",
                **jaas("plain", f'{PLAIN} user_a="s3cret"'),
            },
            "clients.plain.sasl.jaas.config: .* must end with a semicolon",
        ),
        (
            {**BETWEEN, "sasl.enabled.mechanisms": "PLAIN", **jaas("plain", f"{PLAIN};")},
            "sasl.mechanism.inter.broker.protocol must be included in .*; GSSAPI is not",
        ),
        (
            {
                **BETWEEN,
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                **jaas("plain", f'{PLAIN} user_a="s3cret";'),
            },
            "needs username and password",
        ),
        (
            {
                **BETWEEN,
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                **jaas("plain", f'{PLAIN} {BROKER} user_admin="other";'),
            },
            "brokers log in to each other as admin, so it needs user_admin",
        ),
        (
            {
                **CLIENTS,
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                **jaas("oauthbearer", f"{OAUTH};"),
                "sasl.server.callback.handler.class": "com.example.Mine",
            },
            "com.example.Mine is a Java class, which cannot run in Python; for signed tokens",
        ),
        (
            {
                **CLIENTS,
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                **jaas("oauthbearer", f"{OAUTH};"),
                "sasl.server.callback.handler.class": SIGNED,
                "sasl.oauthbearer.jwks.endpoint.url": "https://example.org/keys",
            },
            "must be a file:// URL",
        ),
        (
            {
                **CLIENTS,
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                **jaas("oauthbearer", f"{OAUTH};"),
                "sasl.server.callback.handler.class": SIGNED,
                "sasl.oauthbearer.jwks.endpoint.url": "file:///no/such/file",
            },
            "cannot read /no/such/file",
        ),
        ({**CLIENTS, "listener.name.clients.sasl.nothing": "x"}, "unknown broker setting"),
        ({**CLIENTS, "listener.name.clients.log.dirs": "x"}, "unknown broker setting"),
    ],
)
def test_a_mistake_is_named_without_its_secret(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        authentication(None, settings)
    assert "s3cret" not in str(refused.value)
