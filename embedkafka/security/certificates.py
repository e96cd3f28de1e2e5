"""Certificates for one run: an authority, and what it issues to brokers and users.

Keys are on the curve P-256, which is quick to make. The PEM files are read by librdkafka, by
Kafka's Java clients and by OpenSSL. Needs the package `cryptography`.
Not here: stores that the user gives (`key_stores`).
"""

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.failures import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LIFETIME: Final = timedelta(days=30)
_SLACK: Final = timedelta(hours=1)


class CertificateAuthority:
    """Issues certificates that its own certificate, `trusted`, vouches for."""

    def __init__(self, now: datetime, name: str = "embedkafka") -> None:
        _require_cryptography()
        self._now = now
        self._key = _new_key()
        self._certificate = self._signed(
            _name(name), self._key, is_authority=True, hosts=(), lifetime=LIFETIME
        )
        self.trusted = _pem_of(self._certificate)
        """Its certificate, as PEM."""

    def issue(self, name: str, hosts: Iterable[str] = (), *, lifetime: timedelta = LIFETIME) -> str:
        """A key and its certificates as one PEM text; the subject is `CN=name`.

        `hosts` are the names and addresses of a server. A negative `lifetime` has already ended.
        """
        key = _new_key()
        certificate = self._signed(
            _name(name), key, is_authority=False, hosts=hosts, lifetime=lifetime
        )
        return _key_pem(key) + _pem_of(certificate) + self.trusted

    def _signed(
        self,
        subject: "x509.Name",
        key: "EllipticCurvePrivateKey",
        *,
        is_authority: bool,
        hosts: Iterable[str],
        lifetime: timedelta,
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256

        issuer = subject if is_authority else self._certificate.subject
        until = self._now + lifetime
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(self._now, until) - _SLACK)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_usage(is_authority=is_authority), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        alternatives = [_alternative(host) for host in dict.fromkeys(hosts)]
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        return builder.sign(self._key, SHA256())


def _usage(*, is_authority: bool) -> "x509.KeyUsage":
    """What the key is for. Strict clients ask for it, such as Python's own from 3.13 on."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  # only to see whether it is there
    except ImportError as error:
        raise ConfigError(
            "making certificates needs the package cryptography: pip install "
            "'embedkafka[security]', or give ssl.keystore.location"
        ) from error


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: "EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
