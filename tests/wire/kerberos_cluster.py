"""A realm with a KDC of its own, and clusters whose clients or brokers log in with its tickets."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from embedkafka import EmbeddedKafka
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.sasl_cluster import SaslCluster

SERVICE: Final = "kafka/localhost"
_NO_LAYER: Final = struct.pack(">I", 1 << 24)


class Realm:
    """A realm with one user, and a service whose key the brokers have."""

    def __init__(self) -> None:
        import k5test

        self._realm: Any = k5test.K5Realm(get_creds=False)  # Any: an optional package
        self._realm.addprinc(self.service)
        self._realm.extract_keytab(self.service, self._realm.keytab)
        self._realm.extract_keytab(self.user, self._realm.client_keytab)

    @property
    def environment(self) -> Mapping[str, str]:
        """What points the Kerberos library of this process to the realm."""
        env: Mapping[str, str] = self._realm.env
        return env

    @property
    def properties(self) -> Mapping[str, str]:
        """What points a JVM to the realm."""
        return {"java.security.krb5.conf": self.environment["KRB5_CONFIG"]}

    @property
    def service(self) -> str:
        return f"{SERVICE}@{self._realm.realm}"

    @property
    def user(self) -> str:
        return str(self._realm.user_princ)

    def stop(self) -> None:
        self._realm.stop()

    def get_ticket(self) -> None:
        """Logs the user of this process in."""
        self._realm.kinit(self.user, self._realm.password("user"))

    def service_name(self) -> Any:
        import gssapi

        return gssapi.Name(self.service, gssapi.NameType.kerberos_principal)

    def initiate(self) -> Any:
        """A client's side of the context, with a ticket of the user."""
        import gssapi

        self.get_ticket()
        return gssapi.SecurityContext(name=self.service_name(), usage="initiate")

    def broker_login(self, **options: str) -> str:
        """The JAAS text of a broker."""
        return _module(keyTab=self._realm.keytab, **{"principal": self.service, **options})

    def user_login(self) -> str:
        """The JAAS text of a Java client."""
        return _module(keyTab=self._realm.client_keytab, principal=self.user)


def _module(**options: str) -> str:
    shown = " ".join(f'{name}="{value}"' for name, value in options.items())
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f"{shown};"
    )


def negotiate(context: Any, send: Callable[[bytes], bytes]) -> None:
    """The exchange of RFC 4752, without a security layer."""
    challenge = send(context.step())
    while not context.complete:
        challenge = send(context.step(challenge) or b"")
    offered = context.unwrap(challenge or send(b"")).message
    assert offered[:1] == _NO_LAYER[:1], "other layers are offered too"
    send(context.wrap(_NO_LAYER, False).message)


def for_clients(login: str) -> dict[str, object]:
    """Clients log in, with a name that a rule makes of their principal; brokers need not."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](.*)s/user/job/,DEFAULT",
        "delegation.token.secret.key": "the brokers' secret",
        "listener.name.sasl.gssapi.sasl.jaas.config": login,
    }


def between_brokers(login: str) -> dict[str, object]:
    """Brokers log in to each other, and to Apache Kafka's controller; clients need not."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
        "CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "listener.name.sasl.gssapi.sasl.jaas.config": login,
        "listener.name.controller.gssapi.sasl.jaas.config": login,
    }


@contextmanager
def running(
    kind: str, realm: Realm, config: Mapping[str, object], version: str, brokers: int = 1
) -> Iterator[SaslCluster]:
    """A cluster of either kind; Apache Kafka has one broker only."""
    if kind == "apache":
        (port,) = free_ports(1)
        with ApacheKafka(
            version=version,
            config=config,
            more_listeners={"SASL": port},
            properties=realm.properties,
        ) as apache:
            listeners = {"PLAINTEXT": apache.bootstrap_servers, "SASL": f"127.0.0.1:{port}"}
            yield SaslCluster(kind=kind, listeners=listeners)
        return
    listening = "PLAINTEXT://127.0.0.1:0,SASL://localhost:0"
    with EmbeddedKafka(brokers=brokers, config={**config, "listeners": listening}) as kafka:
        yield SaslCluster(kind=kind, listeners=kafka.listeners)
