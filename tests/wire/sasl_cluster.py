"""One broker whose clients must log in, embedded or Apache Kafka, and ways to log in to it.

It has a listener without security too, over which tests create users.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from embedkafka import EmbeddedKafka
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.configs import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

USER, PASSWORD = "alice", "a-secret"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SCRAM: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
MAX_REAUTH_MS: Final = 3_600_000

_KAFKA: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "plain": f'{_KAFKA}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="b";',
    "scram-sha-256": f"{_KAFKA}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_KAFKA}.scram.ScramLoginModule required;",
    "oauthbearer": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}


def jaas(listener: str) -> dict[str, str]:
    return {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
        for mechanism, module in _MODULES.items()
    }


#: SASL has sessions without an end, REAUTH has sessions of an hour.
SETTINGS: Final[Mapping[str, object]] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
    "REAUTH:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.reauth.connections.max.reauth.ms": MAX_REAUTH_MS,
    "sasl.server.max.receive.size": 20_000,
    "delegation.token.secret.key": "the brokers' secret",
    **jaas("sasl"),
    **jaas("reauth"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslCluster:
    """The addresses of its listeners."""

    kind: str
    listeners: Mapping[str, str]

    @property
    def bootstrap_servers(self) -> str:
        return self.listeners["SASL"]

    def connect(self, listener: str = "SASL") -> RawClient:
        return RawClient(*parse_address(self.listeners[listener]))

    def log_in(
        self, listener: str = "SASL", user: str = USER, password: str = PASSWORD
    ) -> RawClient:
        """A raw connection that has authenticated with PLAIN."""
        client = self.connect(listener)
        handshake(client, "PLAIN")
        answer = authenticate(client, f"\0{user}\0{password}".encode())
        assert answer.error_code == 0, answer.error_message
        return client

    def add_user(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Gives a user a SCRAM credential and waits until the broker knows it."""
        upsertion = scram_upsertion(user, password, mechanism)
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        with self.connect("PLAINTEXT") as client:
            (result,) = client.call(request).results
            assert result.error_code == 0, result.error_message
            wanted = DescribeUserScramCredentialsRequest.User(name=user)
            describe = DescribeUserScramCredentialsRequest(users=[wanted])
            eventually(lambda: not client.call(describe).results[0].error_code, f"{user} is known")

    def librdkafka(
        self, mechanism: str, user: str, password: str, listener: str = "SASL"
    ) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.listeners[listener],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@contextmanager
def running(kind: str, config: Mapping[str, object], version: str) -> Iterator[SaslCluster]:
    """A cluster with the settings above."""
    names = ("SASL", "REAUTH")
    if kind == "apache":
        ports = dict(zip(names, free_ports(2), strict=True))
        settings = {**config, **SETTINGS}
        with ApacheKafka(version=version, config=settings, more_listeners=ports) as apache:
            listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
            listeners["PLAINTEXT"] = apache.bootstrap_servers
            yield SaslCluster(kind=kind, listeners=listeners)
        return
    listening = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *names))
    with EmbeddedKafka(config={**config, **SETTINGS, "listeners": listening}) as kafka:
        yield SaslCluster(kind=kind, listeners=kafka.listeners)


def scram_upsertion(
    user: str, password: str, mechanism: str
) -> AlterUserScramCredentialsRequest.Upsertion:
    number, algorithm = SCRAM[mechanism]
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), b"salt", 4096)
    return AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=number, iterations=4096, salt=b"salt", salted_password=salted
    )


def handshake(client: RawClient, mechanism: str, version: int = 1) -> Any:  # Any: the response
    return client.call(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(client: RawClient, token: bytes, version: int = 2) -> Any:  # Any: the response
    return client.call(SaslAuthenticateRequest(auth_bytes=token), version)


def scram_final(mechanism: str, password: str, first_bare: bytes, challenge: bytes) -> bytes:
    """The second message of a SCRAM client, written from the RFC for these tests alone."""
    algorithm = SCRAM[mechanism][1]
    fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salt, iterations = base64.b64decode(fields[b"s"]), int(fields[b"i"])
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    without_proof = b"c=biws,r=" + fields[b"r"]
    message = b",".join((first_bare, challenge, without_proof))
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, message, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


def unsecured_token(**claims: object) -> str:
    """A token of an unsecured JWS, valid for an hour."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 5, "exp": now + 3600, **claims})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return ".".join(part.decode() for part in encoded) + "."


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()
