"""Key stores and trust stores that a user gives."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.certificates import CertificateAuthority
from embedkafka.security.key_stores import load_key_pair, load_trusted

AUTHORITY = CertificateAuthority(datetime.now(UTC))
ALICE = AUTHORITY.issue("alice")
PASSWORD = "s3cret"


def pkcs12_store() -> bytes:
    key = load_pem_private_key(ALICE.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate, authority = x509.load_pem_x509_certificates(ALICE.encode())
    return pkcs12.serialize_key_and_certificates(
        b"alice", key, certificate, [authority], BestAvailableEncryption(PASSWORD.encode())
    )


FILES = {
    Path("a.pem"): ALICE.encode(),
    Path("ca.pem"): AUTHORITY.trusted.encode(),
    Path("a.p12"): pkcs12_store(),
    Path("a.jks"): bytes.fromhex("feedfeed00000002"),
    Path("a.txt"): b"hello",
}


def read(path: Path) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return FILES[path]


def certificates(pem: bytes | str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.encode() if isinstance(pem, str) else pem)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", ""])
def test_a_pkcs12_store_holds_the_same_as_the_pem_file(kind: str) -> None:
    store = {"ssl.keystore.location": "a.p12", "ssl.keystore.type": kind}
    pair = load_key_pair({**store, "ssl.keystore.password": PASSWORD}, read)
    assert pair is not None
    assert certificates(pair.pem) == certificates(ALICE)
    assert b"PRIVATE KEY" in pair.pem
    trust = {"ssl.truststore.location": "a.p12", "ssl.truststore.type": kind}
    trusted = load_trusted({**trust, "ssl.truststore.password": PASSWORD}, read)
    assert trusted is not None
    assert certificates(AUTHORITY.trusted)[0] in certificates(trusted)


def test_a_setting_can_hold_the_pem_itself() -> None:
    key, chain = ALICE[: ALICE.index("-----BEGIN C")], ALICE[ALICE.index("-----BEGIN C") :]
    given = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    pair = load_key_pair(given, read)
    assert pair is not None
    assert certificates(pair.pem) == certificates(ALICE)
    assert "PRIVATE" not in repr(pair)
    assert load_trusted({"ssl.truststore.certificates": "pem"}, read) == "pem"


def test_nothing_given_is_nothing() -> None:
    assert load_key_pair({}, read) is None
    assert load_trusted({}, read) is None


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"location": "a.jks"}, "keytool -importkeystore -srckeystore a.jks -destkeystore"),
        ({"location": "none.pem", "type": "PEM"}, "none.pem cannot be read: No such file"),
        ({"location": "a.pem", "type": "PKCS12"}, "does not hold PKCS12: its format is PEM"),
        ({"location": "a.p12", "type": "PEM"}, "does not hold PEM: its format is PKCS12"),
        ({"location": "a.txt", "type": "PKCS12"}, "its format is unknown"),
        ({"location": "a.pem", "type": "BKS"}, "BKS is not known: use PEM or PKCS12"),
        ({"location": "a.p12", "password": "wr0ng"}, r"is ssl\.\w+\.password right"),
    ],
)
@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_store_that_cannot_be_used_is_refused(
    store: str, settings: dict[str, str], complaint: str
) -> None:
    given = {f"ssl.{store}.{name}": value for name, value in settings.items()}
    load = load_key_pair if store == "keystore" else load_trusted
    with pytest.raises(ConfigError, match=complaint) as refused:
        load(given, read)
    assert "wr0ng" not in str(refused.value)
