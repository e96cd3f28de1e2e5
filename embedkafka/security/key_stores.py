"""Keys and certificates that the user gives: PEM and PKCS12, in files or in settings.

The contents decide the format, as in Java, whose type JKS reads PKCS12 too. Java's own format, JKS,
is refused with the command that converts it.
Not here: what they are used for (`tls`).
"""

import binascii
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, field

ReadFile = Callable[[Path], bytes]
SslSettings = Mapping[str, object]
"""Settings by Kafka's names, `ssl.…`."""

_PEM: Final = b"-----BEGIN"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"
_JKS: Final = bytes.fromhex("feedfeed")
_DER: Final = b"\x30"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A private key and its chain of certificates, as one PEM text."""

    pem: bytes = field(repr=False)
    password: str | None = field(default=None, repr=False)
    """Of the key, if it is encrypted."""

    @property
    def certificate(self) -> bytes:
        """Its own certificate as DER: the first of the chain."""
        start = self.pem.index(_CERTIFICATE)
        encoded = self.pem[start + len(_CERTIFICATE) : self.pem.index(_END, start)]
        return binascii.a2b_base64(encoded)


def load_key_pair(settings: SslSettings, read: ReadFile) -> KeyPair | None:
    """What `ssl.keystore.*` says; None if it says nothing."""
    key_password = _text(settings, "ssl.key.password") or None
    chain = _text(settings, "ssl.keystore.certificate.chain")
    if chain:
        key = _text(settings, "ssl.keystore.key")
        if not key:
            raise ConfigError("ssl.keystore.certificate.chain needs ssl.keystore.key")
        return KeyPair(pem=f"{key}\n{chain}\n".encode(), password=key_password)
    location = _text(settings, "ssl.keystore.location")
    if not location:
        return None
    data = _read(settings, "keystore", location, read)
    if data.lstrip().startswith(_PEM):
        return KeyPair(pem=data, password=key_password)
    return KeyPair(pem=_key_pair_of(location, data, _password(settings, "keystore")))


def load_trusted(settings: SslSettings, read: ReadFile) -> str | None:
    """The certificates in `ssl.truststore.*` as PEM; None if it says nothing."""
    given = _text(settings, "ssl.truststore.certificates")
    if given:
        return given
    location = _text(settings, "ssl.truststore.location")
    if not location:
        return None
    data = _read(settings, "truststore", location, read)
    if data.lstrip().startswith(_PEM):
        return data.decode("utf-8", "replace")
    return _certificates_of(location, data, _password(settings, "truststore"))


def _read(settings: SslSettings, store: str, location: str, read: ReadFile) -> bytes:
    try:
        data = read(Path(location))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"ssl.{store}.location={location} cannot be read: {reason}") from error
    is_pem = data.lstrip().startswith(_PEM)
    if is_pem and _text(settings, f"ssl.{store}.password"):
        raise ConfigError(
            f"ssl.{store}.password is set, but {location} holds PEM, which has none; "
            "ssl.key.password is that of its key"
        )
    if data.startswith(_JKS):
        raise ConfigError(
            f"ssl.{store}.location={location} is a JKS store, which only Java reads. Convert it to "
            "PKCS12:\n"
            f"  keytool -importkeystore -srckeystore {location} -destkeystore {store}.p12"
            " -deststoretype PKCS12\n"
            f"and set ssl.{store}.type=PKCS12 and ssl.{store}.location={store}.p12"
        )
    wanted = _text(settings, f"ssl.{store}.type").upper() or "JKS"
    if wanted not in ("JKS", "PEM", "PKCS12"):
        raise ConfigError(f"ssl.{store}.type={wanted} is not known: use PEM or PKCS12")
    if is_pem != (wanted == "PEM") or not (is_pem or data.startswith(_DER)):
        found = "PEM" if is_pem else "PKCS12" if data.startswith(_DER) else "unknown"
        raise ConfigError(
            f"ssl.{store}.location={location} does not hold {wanted}: its format is {found}"
        )
    return data


def _key_pair_of(location: str, data: bytes, password: bytes | None) -> bytes:
    _require_cryptography()
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        key, certificate, chain = pkcs12.load_key_and_certificates(data, password)
    except ValueError:
        raise _unreadable("keystore", location) from None  # its text may hold the password
    if key is None or certificate is None:
        raise ConfigError(f"ssl.keystore.location={location} holds no private key")
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
        one.public_bytes(Encoding.PEM) for one in (certificate, *chain)
    )


def _certificates_of(location: str, data: bytes, password: bytes | None) -> str:
    _require_cryptography()
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password)
    except ValueError:
        raise _unreadable("truststore", location) from None  # its text may hold the password
    found = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    if not found:
        raise ConfigError(f"ssl.truststore.location={location} holds no certificate")
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  # only to see whether it is there
    except ImportError as error:
        raise ConfigError(
            "PKCS12 stores need the package cryptography: pip install 'embedkafka[security]', or "
            "use PEM files"
        ) from error


def _unreadable(store: str, location: str) -> ConfigError:
    return ConfigError(
        f"ssl.{store}.location={location} cannot be opened: is ssl.{store}.password right?"
    )


def _password(settings: SslSettings, store: str) -> bytes | None:
    return _text(settings, f"ssl.{store}.password").encode() or None


def _text(settings: SslSettings, name: str) -> str:
    return str(settings.get(name) or "")
