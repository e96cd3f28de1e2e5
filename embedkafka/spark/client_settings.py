"""How clients connect to a cluster, from the properties of Kafka's Java client.

Spark's connector is a Java client and takes every property as it is, with `kafka.` before its name.
Topic handles use librdkafka, whose settings mostly have the same names. The tables below hold the
exceptions, and the properties that concern only the Java client.
Not here: reading the file.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, field

Properties = Mapping[str, str]

_BOOTSTRAP: Final = "bootstrap.servers"
_JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism"
_UNSECURED_SUBJECT: Final = "unsecuredLoginStringClaim_sub"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"

SAME_NAME: Final = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        _MECHANISM,
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.key.password",
    }
)
"""Properties that librdkafka has under the same name, with the same values."""

TRANSLATED: Final[Mapping[str, str]] = {
    _JAAS: "`sasl.username` and `sasl.password`, or the settings of OAUTHBEARER and GSSAPI",
    _TOKEN_URL: f"`{_TOKEN_URL}`, with `sasl.oauthbearer.method=oidc`",
    "ssl.endpoint.identification.algorithm": "the same; an empty value becomes `none`",
    "ssl.keystore.certificate.chain": "`ssl.certificate.pem`",
    "ssl.keystore.key": "`ssl.key.pem`",
    "ssl.keystore.location": "`ssl.certificate.location` and `ssl.key.location`; PKCS12: the same",
    "ssl.keystore.password": "the same",
    "ssl.keystore.type": "PEM or PKCS12; JKS is refused",
    "ssl.truststore.certificates": "`ssl.ca.pem`",
    "ssl.truststore.location": "`ssl.ca.location`",
    "ssl.truststore.password": "nothing: a PEM file has none",
    "ssl.truststore.type": "PEM; JKS and PKCS12 are refused",
}
"""Properties that librdkafka has in another form -> that form."""

JAVA_ONLY: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "isolation.level",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "max.request.size",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "retries",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Properties that only Spark gets: tuning, and what Java names differently in every detail."""

REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "the reader decides it: `startingOffsets` for Spark",
    "enable.auto.commit": "neither Spark nor `Topic.read` commits offsets",
    "group.id": "all readers would share one group; give it to the one that needs it",
    "interceptor.classes": "Spark refuses it",
    "key.deserializer": "Spark and `Topic.read` take bytes",
    "key.serializer": "Spark and `Topic.send` write bytes",
    "value.deserializer": "Spark and `Topic.read` take bytes",
    "value.serializer": "Spark and `Topic.send` write bytes",
}
"""Properties that cannot hold for all clients of a cluster -> the reason."""

_KNOWN: Final = frozenset({_BOOTSTRAP, *SAME_NAME, *TRANSLATED, *JAVA_ONLY, *REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What clients need besides the brokers' addresses; nothing for a plaintext cluster."""

    bootstrap_servers: str | None = None
    """The file's `bootstrap.servers`, if it has one."""
    librdkafka: Properties = field(default_factory=dict, repr=False)
    """Settings for confluent-kafka; they hold passwords."""
    spark_options: Properties = field(default_factory=dict, repr=False)
    """Options of Spark's source and sink, `kafka.security.protocol` and so on."""


def translate_properties(properties: Properties) -> ClientSettings:
    """Settings for both kinds of client from the Java client's properties.

    Raises:
        ConfigError: a property does not exist, cannot hold for all clients, or has a value that
            librdkafka has no counterpart for. The message says what to write instead.
    """
    given = {name: value for name, value in properties.items() if name != _BOOTSTRAP}
    for name in given:
        _require_usable(name)
    librdkafka = {name: value for name, value in given.items() if name in SAME_NAME}
    librdkafka |= _truststore(given) | _keystore(given) | _host_check(given) | _login(given)
    return ClientSettings(
        bootstrap_servers=properties.get(_BOOTSTRAP) or None,
        librdkafka=librdkafka,
        spark_options={f"kafka.{name}": value for name, value in given.items()},
    )


def _require_usable(name: str) -> None:
    if name in REFUSED:
        raise ConfigError(f"{name} cannot be set for all clients of a cluster: {REFUSED[name]}")
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{name} is not a client property that is known here{hint}")


def _truststore(given: Properties) -> dict[str, str]:
    if certificates := given.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": certificates}
    location = given.get("ssl.truststore.location")
    if not location:
        return {}
    if _store_type(given, "truststore") != "PEM":
        raise ConfigError(
            f"ssl.truststore.location={location} is a Java key store, which librdkafka cannot read."
            " Export its certificates as PEM, which Spark reads too:\n"
            f"  keytool -list -rfc -keystore {location} > ca.pem\n"
            "and set ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
        )
    return {"ssl.ca.location": location}


def _keystore(given: Properties) -> dict[str, str]:
    if chain := given.get("ssl.keystore.certificate.chain"):
        return {"ssl.certificate.pem": chain, "ssl.key.pem": given.get("ssl.keystore.key", "")}
    location = given.get("ssl.keystore.location")
    if not location:
        return {}
    match _store_type(given, "keystore"):
        case "PEM":
            return {"ssl.certificate.location": location, "ssl.key.location": location}
        case "PKCS12":
            password = given.get("ssl.keystore.password", "")
            return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    raise ConfigError(
        f"ssl.keystore.location={location} is a JKS store, which librdkafka cannot read. Convert it"
        " to PKCS12, which Spark reads too:\n"
        f"  keytool -importkeystore -srckeystore {location} -destkeystore client.p12"
        " -deststoretype PKCS12\n"
        "and set ssl.keystore.type=PKCS12 and ssl.keystore.location=client.p12"
    )


def _store_type(given: Properties, store: str) -> str:
    return given.get(f"ssl.{store}.type", "JKS").upper()


def _host_check(given: Properties) -> dict[str, str]:
    name = "ssl.endpoint.identification.algorithm"
    return {name: given[name] or "none"} if name in given else {}


def _login(given: Properties) -> dict[str, str]:
    """The credentials, which Java has in one text and librdkafka in separate settings."""
    if "SASL" not in given.get("security.protocol", "").upper():
        return {}
    mechanism = given.get(_MECHANISM, "GSSAPI").upper()
    login = _LOGINS.get(mechanism)
    if login is None:
        raise ConfigError(
            f"librdkafka has no mechanism {mechanism}; it has {', '.join(sorted(_LOGINS))}"
        )
    return login(given, _jaas_options(given.get(_JAAS, "")))


def _password_login(given: Properties, jaas: Properties) -> dict[str, str]:
    for wanted in ("username", "password"):
        if wanted not in jaas:
            raise ConfigError(
                f"{_JAAS} must hold the {wanted}, as in: org.apache.kafka.common.security."
                'plain.PlainLoginModule required username="alice" password="secret";'
            )
    return {"sasl.username": jaas["username"], "sasl.password": jaas["password"]}


def _token_login(given: Properties, jaas: Properties) -> dict[str, str]:
    if _UNSECURED_SUBJECT in jaas:
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={jaas[_UNSECURED_SUBJECT]}",
        }
    if _TOKEN_URL not in given:
        raise ConfigError(f"OAUTHBEARER needs {_TOKEN_URL}: librdkafka runs no Java login module")
    wanted = {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    }
    found = {theirs: jaas[name] for name, theirs in wanted.items() if name in jaas}
    return {"sasl.oauthbearer.method": "oidc", _TOKEN_URL: given[_TOKEN_URL], **found}


def _kerberos_login(given: Properties, jaas: Properties) -> dict[str, str]:
    wanted = {
        "keyTab": "sasl.kerberos.keytab",
        "principal": "sasl.kerberos.principal",
        "serviceName": "sasl.kerberos.service.name",
    }
    return {theirs: jaas[name] for name, theirs in wanted.items() if name in jaas}


_LOGINS: Final[Mapping[str, Callable[[Properties, Properties], dict[str, str]]]] = {
    "GSSAPI": _kerberos_login,
    "OAUTHBEARER": _token_login,
    "PLAIN": _password_login,
    "SCRAM-SHA-256": _password_login,
    "SCRAM-SHA-512": _password_login,
}

_JAAS_OPTION: Final = re.compile(
    r"""(?P<name>\w+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"']+))"""
)


def _jaas_options(jaas: str) -> dict[str, str]:
    """The options of a login module: `Module required username="alice" password="secret";`."""
    return {
        found["name"]: re.sub(
            r"\\(.)", r"\1", found["double"] or found["single"] or found["bare"] or ""
        )
        for found in _JAAS_OPTION.finditer(jaas)
    }
