"""Settings of one listener, `listener.name.<listener>.…`: how they show, and which may change."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import authenticate, handshake
from tests.wire.settings import BROKER, DELETE, SET, altered, entry
from tests.wire.tls_cluster import HOSTS, TlsCluster

STRING, INT, PASSWORD, UNKNOWN = 2, 3, 9, 0
DYNAMIC, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
NOT_FOR_ALL = (
    "Cannot update these configs at default cluster level, broker id must be specified: [{}]"
)


@pytest.fixture
def admin(tls_cluster: TlsCluster) -> Iterator[RawClient]:
    with tls_cluster.connect("PLAINTEXT") as client:
        yield client


@contextmanager
def changed(admin: RawClient, name: str, value: str, broker: str = "1") -> Iterator[None]:
    assert altered(admin, BROKER, broker, (name, SET, value), validate_only=False) == ("NONE", None)
    eventually(lambda: source_of(admin, broker, name) in (2, 3), f"{name} is set")
    try:
        yield
    finally:
        altered(admin, BROKER, broker, (name, DELETE, None), validate_only=False)
        eventually(lambda: source_of(admin, broker, name) not in (2, 3), f"{name} is as before")


def source_of(admin: RawClient, broker: str, name: str) -> Any:
    found = entry(admin, BROKER, broker, name)
    return found and found["config_source"]


def shown(admin: RawClient, name: str, broker: str = "1") -> tuple[Any, ...]:
    """Value, type, source, whether it is a secret, and the synonyms."""
    found = entry(admin, BROKER, broker, name)
    assert found["read_only"]
    synonyms = [(one["name"], one["value"], one["source"]) for one in found["synonyms"]]
    value, kind, source = found["value"], found["config_type"], found["config_source"]
    return value, kind, source, found["is_sensitive"], synonyms


# What DescribeConfigs shows.


def test_super_users_are_known_to_the_authorizer_only(admin: RawClient) -> None:
    assert shown(admin, "super.users") == (
        None,
        UNKNOWN,
        STATIC,
        True,
        [("super.users", None, STATIC)],
    )
    assert entry(admin, BROKER, "1", "allow.everyone.if.no.acl.found") is None


def test_settings_of_listeners_have_the_type_of_their_key(admin: RawClient) -> None:
    name = "listener.name.mutual.ssl.client.auth"
    synonyms = [(name, "required", STATIC), ("ssl.client.auth", "none", DEFAULT)]
    assert shown(admin, name) == ("required", STRING, STATIC, False, synonyms)
    for name in (
        "listener.name.old.ssl.keystore.password",
        "listener.name.safe.plain.sasl.jaas.config",
    ):
        assert shown(admin, name) == (None, PASSWORD, STATIC, True, [(name, None, STATIC)])


def test_a_changed_password_is_not_among_the_synonyms(admin: RawClient) -> None:
    name = "listener.name.safe.plain.sasl.jaas.config"
    with changed(admin, name, f'{PLAIN} required user_eve="e-secret";'):
        synonyms = [(name, None, DYNAMIC), (name, None, STATIC)]
        assert shown(admin, name) == (None, PASSWORD, DYNAMIC, True, synonyms)
    name = "sasl.jaas.config"
    with changed(admin, name, f'{PLAIN} required user_eve="e-secret";'):
        assert entry(admin, BROKER, "1", name)["synonyms"] == [
            {"name": name, "value": None, "source": DYNAMIC}
        ]
    with changed(admin, "listener.name.open.colour", "e-secret"):
        synonyms = [("listener.name.open.colour", None, DYNAMIC)]
        assert shown(admin, "listener.name.open.colour") == (
            None,
            UNKNOWN,
            DYNAMIC,
            True,
            synonyms,
        )


def test_a_limit_of_a_listener_may_be_set_for_all_brokers(admin: RawClient) -> None:
    name = "listener.name.open.max.connection.creation.rate"
    ours = (name, "2000", DYNAMIC_DEFAULT)
    with changed(admin, name, "2000", ""):
        assert shown(admin, name, "") == ("2000", INT, DYNAMIC_DEFAULT, False, [ours])
        eventually(lambda: entry(admin, BROKER, "1", name), "the broker has it")
        default = ("max.connection.creation.rate", "2147483647", DEFAULT)
        assert shown(admin, name) == ("2000", INT, DYNAMIC_DEFAULT, False, [ours, default])


# What may change.


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.safe.plain.sasl.jaas.config",
        "listener.name.safe.sasl.enabled.mechanisms",
        "listener.name.safe.connections.max.reauth.ms",
        "listener.name.open.ssl.client.auth",
        "listener.name.open.ssl.keystore.location",
        "listener.name.open.colour",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "ssl.client.auth",
    ],
)
def test_a_listener_is_one_brokers(admin: RawClient, name: str) -> None:
    refused = ("INVALID_REQUEST", NOT_FOR_ALL.format(name))
    value = "required" if name.endswith("client.auth") else "1"
    assert altered(admin, BROKER, "", (name, SET, value)) == refused


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ssl.principal.mapping.rules", "Cannot update these configs dynamically: [{}]"),
        ("connections.max.reauth.ms", "Cannot update these configs dynamically: [{}]"),
        ("delegation.token.secret.key", "Cannot update these configs dynamically: [{}]"),
        (
            "ssl.keystore.location",
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: [{}]",
        ),
    ],
)
def test_settings_of_all_listeners_that_do_not_change(
    admin: RawClient, name: str, message: str
) -> None:
    for broker in ("1", ""):
        assert altered(admin, BROKER, broker, (name, SET, "1")) == (
            "INVALID_REQUEST",
            message.format(name),
        )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "listener.name.open.max.connection.creation.rate",
            "Invalid value -1 for configuration max.connection.creation.rate: Value must be at "
            "least 0",
        ),
        (
            "listener.name.open.max.connections",
            "Invalid value -1 for configuration max.connections: Value must be at least 0",
        ),
    ],
)
def test_limits_are_checked(admin: RawClient, name: str, message: str) -> None:
    for broker in ("1", ""):
        assert altered(admin, BROKER, broker, (name, SET, "-1")) == ("INVALID_REQUEST", message)


def test_logins_of_a_running_listener_stay_as_they_are(
    tls_cluster: TlsCluster, admin: RawClient
) -> None:
    name = "listener.name.safe.plain.sasl.jaas.config"
    with changed(admin, name, f'{PLAIN} required user_eve="e-secret";'):
        with tls_cluster.log_in("alice") as client:
            assert client.call(ApiVersionsRequest(), 0).error_code == 0
        with tls_cluster.connect("SAFE") as client:
            handshake(client, "PLAIN")
            answer = authenticate(client, b"\0eve\0e-secret")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with (
        changed(admin, "sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
        tls_cluster.connect("SAFE") as client,
    ):
        assert handshake(client, "PLAIN").mechanisms == ["PLAIN"]


def test_what_tls_asks_of_clients_stays_as_it_is(tls_cluster: TlsCluster, admin: RawClient) -> None:
    with (
        changed(admin, "listener.name.mutual.ssl.client.auth", "none"),
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        answers(tls_cluster, "MUTUAL")
    with changed(admin, "listener.name.open.ssl.client.auth", "required"):
        assert answers(tls_cluster, "OPEN")


def answers(cluster: TlsCluster, listener: str) -> bool:
    with cluster.connect(listener) as client:
        return bool(client.call(ApiVersionsRequest(), 0).error_code == 0)


def test_settings_of_all_listeners_change_only_if_no_listener_waits_for_a_restart(
    admin: RawClient,
) -> None:
    with changed(admin, "listener.name.safe.sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER"):
        for name, value in (("sasl.jaas.config", "x"), ("ssl.client.auth", "required")):
            assert altered(admin, BROKER, "1", (name, SET, value)) == (
                "INVALID_REQUEST",
                "Invalid value org.apache.kafka.common.config.ConfigException: Configs cannot be "
                "updated dynamically for existing listener ListenerName(SAFE), restart broker or "
                "create a new listener for update for configuration Invalid dynamic configuration",
            )


# Key stores.


def served(cluster: TlsCluster, listener: str) -> str:
    return ssl.get_server_certificate(parse_address(cluster.listeners[listener]))


def test_a_listener_gets_a_new_certificate_while_it_runs(
    tls_cluster: TlsCluster, admin: RawClient
) -> None:
    before = served(tls_cluster, "OPEN")
    new = tls_cluster.directory / "new.pem"
    new.write_text(tls_cluster.authority.issue("broker", HOSTS))
    with tls_cluster.connect("OPEN") as kept:
        with changed(admin, "listener.name.open.ssl.keystore.location", str(new)):
            eventually(lambda: served(tls_cluster, "OPEN") in new.read_text(), "it is served")
            assert served(tls_cluster, "REQUESTED") == before
        eventually(lambda: served(tls_cluster, "OPEN") == before, "the former one is served")
        assert kept.call(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(
    ("name", "hosts", "reason"),
    [
        (
            "another",
            HOSTS,
            "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=broker}, "
            "new={alias=kafka, DN=CN=another}",
        ),
        (
            "broker",
            ("localhost",),
            "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=[[2, localhost], "
            "[7, 127.0.0.1]]}, new={alias=kafka, SAN=[[2, localhost]]}",
        ),
        (None, (), "refused.pem"),
    ],
    ids=["subject", "hosts", "unreadable"],
)
def test_a_certificate_for_another_server_is_refused(
    tls_cluster: TlsCluster, admin: RawClient, name: str | None, hosts: Any, reason: str
) -> None:
    path = tls_cluster.directory / "refused.pem"
    path.unlink(missing_ok=True)
    if name is not None:
        path.write_text(tls_cluster.authority.issue(name, hosts))
    change = ("listener.name.open.ssl.keystore.location", SET, str(path))
    code, message = altered(admin, BROKER, "1", change)
    assert code == "INVALID_REQUEST"
    assert message is not None
    assert message.startswith(
        "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic "
        "config update of SSLFactory failed: "
    )
    assert message.endswith(" for configuration Invalid dynamic configuration")
    assert reason in message


def test_the_wrong_password_of_a_store_is_refused_and_not_shown(admin: RawClient) -> None:
    change = ("listener.name.old.ssl.keystore.password", SET, "w-secret")
    code, message = altered(admin, BROKER, "1", change)
    assert code == "INVALID_REQUEST"
    assert message is not None
    assert "broker.p12" in message
    assert "w-secret" not in message


# Limits.


def test_a_listener_has_room_for_so_many_connections(
    tls_cluster: TlsCluster, admin: RawClient
) -> None:
    with changed(admin, "listener.name.requested.max.connections", "1"):
        assert answers(tls_cluster, "OPEN"), "other listeners have room"
        first = eventually(lambda: try_to_connect(tls_cluster), "there is room for one")
        waiting = RawClient(*parse_address(tls_cluster.listeners["REQUESTED"]))
        waiting._socket.settimeout(0.5)
        waiting._socket.sendall(b"\x16")
        assert answers(tls_cluster, "OPEN")
        with pytest.raises(TimeoutError):
            waiting._receive(1)
        waiting.close()
        first.close()
        eventually(lambda: try_to_connect(tls_cluster), "there is room again").close()


def try_to_connect(cluster: TlsCluster) -> RawClient | None:
    client = cluster.connect("REQUESTED")
    return client if client.call(ApiVersionsRequest(), 0).error_code == 0 else None


def test_connections_to_a_listener_come_at_its_rate(
    tls_cluster: TlsCluster, admin: RawClient
) -> None:
    """Beyond the rate they wait; those to other listeners do not."""
    with changed(admin, "listener.name.open.max.connection.creation.rate", "1"):
        address = parse_address(tls_cluster.listeners["OPEN"])

        def is_held_up() -> bool:
            with RawClient(*address) as client:
                client._socket.settimeout(0.2)
                client._socket.sendall(b"plain text")
                try:
                    client._receive(1)
                except TimeoutError:
                    return True
                except ConnectionError:
                    pass
            return False

        eventually(is_held_up, "a connection has to wait")
        assert answers(tls_cluster, "REQUESTED")
    eventually(lambda: answers(tls_cluster, "OPEN"), "connections wait no longer")
