"""One broker with TLS listeners and an authorizer, embedded or Apache Kafka.

`OPEN` asks clients for nothing, `REQUESTED` and `MUTUAL` for a certificate, `SAFE` for a password.
`OLD` speaks TLS 1.2 only. Clients of `PLAINTEXT` are anonymous, and super users like the broker.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.x509.oid import NameOID

from embedkafka import EmbeddedKafka
from embedkafka.runtime.addresses import parse_address
from embedkafka.security import certificates
from embedkafka.security.acl.acls import Acl
from embedkafka.security.certificates import CertificateAuthority
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import authenticate, handshake
from tests.wire.secured import replace_acls

LISTENERS: Final[Mapping[str, str]] = {
    "OPEN": "SSL",
    "REQUESTED": "SSL",
    "MUTUAL": "SSL",
    "OLD": "SSL",
    "SAFE": "SASL_SSL",
}
PASSWORDS: Final = {"alice": "a-secret", "bob": "b-secret", "carol": "c-secret", "root": "r-secret"}
STORE_PASSWORD: Final = "of-the-store"
HOSTS: Final = ("127.0.0.1", "localhost")

_OIDS: Final = {
    "CN": NameOID.COMMON_NAME,
    "C": NameOID.COUNTRY_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "emailAddress": NameOID.EMAIL_ADDRESS,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "UID": NameOID.USER_ID,
}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsCluster:
    """The addresses of its listeners, and the certificates of its clients."""

    kind: str
    listeners: Mapping[str, str]
    directory: Path
    authority: CertificateAuthority

    def connect(
        self, listener: str, certificate: str | None = None, *, tls: ssl.SSLContext | None = None
    ) -> RawClient:
        """A raw connection; `certificate` names a file of the directory."""
        address = parse_address(self.listeners[listener])
        if tls is None and listener != "PLAINTEXT":
            tls = self.client_context(certificate)
        return RawClient(*address, tls=tls)

    def client_context(self, certificate: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        if certificate is not None:
            context.load_cert_chain(self.directory / f"{certificate}.pem")
        return context

    def log_in(self, user: str) -> RawClient:
        """A raw connection to `SAFE` that has authenticated."""
        client = self.connect("SAFE")
        handshake(client, "PLAIN")
        answer = authenticate(client, f"\0{user}\0{PASSWORDS[user]}".encode())
        assert answer.error_code == 0, answer.error_message
        return client

    def librdkafka(self, listener: str, user: str | None = None) -> dict[str, Any]:
        """Settings of a client; `user` shows a certificate, or logs in."""
        protocol = LISTENERS[listener]
        config = {
            "bootstrap.servers": self.listeners[listener],
            "security.protocol": protocol,
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "log_level": 0,
        }
        if user is None:
            return config
        if protocol == "SASL_SSL":
            login = {"sasl.username": user, "sasl.password": PASSWORDS[user]}
            return {**config, "sasl.mechanism": "PLAIN", **login}
        pem = str(self.directory / f"{user}.pem")
        return {**config, "ssl.certificate.location": pem, "ssl.key.location": pem}

    def issue(self, name: str) -> None:
        """Makes a certificate for a client, with the subject `CN=name`."""
        (self.directory / f"{name}.pem").write_text(self.authority.issue(name))

    def issue_to(self, file: str, subject: Mapping[str, str]) -> None:
        """Makes a certificate with other attributes in its subject, the last of them first."""
        from cryptography import x509

        attributes = [x509.NameAttribute(_OIDS[name], text) for name, text in subject.items()]
        key = certificates._new_key()
        signed = self.authority._signed(
            x509.Name(reversed(attributes)),
            key,
            is_authority=False,
            hosts=(),
            lifetime=certificates.LIFETIME,
        )
        pem = certificates._key_pem(key) + certificates._pem_of(signed)
        (self.directory / f"{file}.pem").write_text(pem)

    def grant(self, *acls: Acl) -> None:
        """Makes these the only ACLs; returns when they are in force."""
        with self.connect("PLAINTEXT") as admin:
            replace_acls(admin, acls)


def settings(directory: Path) -> dict[str, object]:
    """Those of the broker, but for the addresses of its listeners."""
    protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS, "CONTROLLER": "PLAINTEXT"}
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return {
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": directory / "ca.pem",
        "listener.name.requested.ssl.client.auth": "requested",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": (
            r"RULE:^CN=(.*?),OU=Sales.*$/$1@sales/L,RULE:^CN=([^,]+)$/$1/"
        ),
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.old.ssl.keystore.type": "PKCS12",
        "listener.name.old.ssl.keystore.location": directory / "broker.p12",
        "listener.name.old.ssl.keystore.password": STORE_PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": f"{_PLAIN} {users};",
        "delegation.token.secret.key": "the brokers' secret",
    }


@contextmanager
def running(
    kind: str, config: Mapping[str, object], version: str, directory: Path
) -> Iterator[TlsCluster]:
    """A cluster whose certificates are in `directory`."""
    authority = _make_certificates(directory)
    ours = {**config, **settings(directory)}
    if kind == "apache":
        ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        with ApacheKafka(version=version, config=ours, more_listeners=ports) as apache:
            listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
            listeners["PLAINTEXT"] = apache.bootstrap_servers
            yield TlsCluster(
                kind=kind, listeners=listeners, directory=directory, authority=authority
            )
        return
    listening = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS))
    with EmbeddedKafka(brokers=1, config={**ours, "listeners": listening}) as kafka:
        yield TlsCluster(
            kind=kind, listeners=kafka.listeners, directory=directory, authority=authority
        )


def _make_certificates(directory: Path) -> CertificateAuthority:
    authority = CertificateAuthority(datetime.now(UTC))
    broker = authority.issue("broker", HOSTS)
    texts = {"ca": authority.trusted, "broker": broker, "alice": authority.issue("alice")}
    for name, text in texts.items():
        (directory / f"{name}.pem").write_text(text)
    (directory / "broker.p12").write_bytes(as_pkcs12(broker, STORE_PASSWORD))
    return authority


def as_pkcs12(pem: str, password: str) -> bytes:
    """The key and the certificates of `pem` as a store that Java reads."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )

    key: Any = load_pem_private_key(pem.encode(), None)  # Any: of one of many kinds
    first, *others = x509.load_pem_x509_certificates(pem.encode())
    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(b"broker", key, first, others, encryption)
