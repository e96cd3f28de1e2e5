"""TLS for listeners and for connections between brokers, as Kafka's `ssl.…` settings describe it.

Owner: `ListenerTls` is read by acceptors and replaced by the thread that applies settings; the
replacement is one assignment. Connections keep the certificates they began with.
Not here: the bytes (`tls_stream`), the formats of stores (`key_stores`).
"""

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.temporary import private_file
from embedkafka.security.certificate_names import NameRule, map_name, parse_rules, subject_of
from embedkafka.security.key_stores import (
    KeyPair,
    ReadFile,
    SslSettings,
    load_key_pair,
    load_trusted,
)
from embedkafka.security.principals import ANONYMOUS, USER, KafkaPrincipal
from embedkafka.security.tls_stream import TlsStream
from embedkafka.wire.net.channel_authenticator import Verdict
from embedkafka.wire.net.connection import ForeignProtocol
from embedkafka.wire.net.transport import Listener, Stream, Transport

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_OLD_VERSIONS: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Others that Java knows. OpenSSL lacks them, or offers them to clients of weak security only."""
_CLIENT_AUTH: Final[Mapping[str, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class ListenerTls:
    """What one listener needs: encrypts its connections, and names their clients."""

    def __init__(self, listener: str, protocol: str, settings: SslSettings, read: ReadFile) -> None:
        self._listener = listener
        self._protocol = protocol
        self._read = read
        self._loaded = _Stores(listener, settings, read)
        self._context = self._loaded.server_context()
        self._rules = _rules(settings)

    @property
    def key_pair(self) -> KeyPair:
        """Its key and certificates."""
        assert self._loaded.key_pair is not None
        return self._loaded.key_pair

    @property
    def trusted(self) -> str | None:
        """The certificates that it trusts, as PEM; None if they are the system's."""
        return self._loaded.trusted

    def encrypt(self, stream: Stream) -> Stream:
        """The encrypted stream of a connection that was accepted."""
        return TlsStream(stream, self._context, protocol=self._protocol)

    def principal_of(self, stream: Stream) -> KafkaPrincipal:
        """Who the certificate of an established connection says the client is."""
        assert isinstance(stream, TlsStream)
        return self._principal_named_by(stream.peer_certificate)

    @property
    def own_principal(self) -> KafkaPrincipal:
        """Who the listener's own certificate says its holder is, as a client."""
        asks = self._loaded.asks_for_certificates
        return self._principal_named_by(self.key_pair.certificate if asks else None)

    def _principal_named_by(self, certificate: bytes | None) -> KafkaPrincipal:
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = map_name(self._rules, subject)
        if name is None:
            raise ForeignProtocol(f"no rule of ssl.principal.mapping.rules applies to {subject}")
        return KafkaPrincipal(USER, name)

    def replace(self, settings: SslSettings) -> None:
        """Uses other settings, or files whose contents have changed, for connections to come."""
        rules, loaded = _rules(settings), _Stores(self._listener, settings, self._read)
        if loaded != self._loaded:
            self._context = loaded.server_context()
            self._loaded = loaded
        self._rules = rules


class CertificateAuthenticator:
    """Lets every request pass; the first one proves that the handshake is over."""

    is_settled = True
    failure_delay_ms = 0
    max_frame_bytes: int | None = None

    def __init__(self, tls: ListenerTls, stream: Stream) -> None:
        self.principal: KafkaPrincipal | None = None
        self._tls = tls
        self._stream = stream

    def receive(self, frame: memoryview, now_ms: float) -> Verdict | None:
        self.principal = self._tls.principal_of(self._stream)
        return None


class TlsTransport:
    """Connects to brokers with TLS; listens as the transport below does."""

    def __init__(self, below: Transport, settings: SslSettings, read: ReadFile) -> None:
        self._below = below
        self._read = read
        self.replace(settings)

    def replace(self, settings: SslSettings) -> None:
        """Uses other settings for connections to come."""
        self._settings = settings
        self._context = _Stores("between brokers", settings, self._read).client_context(
            checks_host=bool(settings.get("ssl.endpoint.identification.algorithm", "https"))
        )

    def over(self, below: Transport) -> "TlsTransport":
        """The same over another transport."""
        return TlsTransport(below, self._settings, self._read)

    def listen(self, host: str, port: int, *, backlog: int) -> Listener:
        return self._below.listen(host, port, backlog=backlog)

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        stream = TlsStream(
            self._below.connect(host, port, timeout_s=timeout_s), self._context, server_name=host
        )
        try:
            stream.shake_hands()
        except ForeignProtocol as error:
            stream.close()
            raise ConnectionError(f"{host}:{port}: {error}") from error
        except OSError:
            stream.close()
            raise
        return stream


class _Stores:
    """The contents of a key store and a trust store, and the settings beside them."""

    def __init__(self, listener: str, settings: SslSettings, read: ReadFile) -> None:
        self._listener = listener
        self.key_pair = load_key_pair(settings, read)
        self.trusted = load_trusted(settings, read)
        self._client_auth = str(settings.get("ssl.client.auth") or "none")
        protocols = settings.get("ssl.enabled.protocols")
        self._protocols = protocols if isinstance(protocols, tuple) else tuple(_VERSIONS)
        suites = settings.get("ssl.cipher.suites")
        self._suites = suites if isinstance(suites, tuple) else ()

    @property
    def asks_for_certificates(self) -> bool:
        return self._client_auth != "none"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stores) and vars(self) == vars(other)

    def server_context(self) -> ssl.SSLContext:
        if self.key_pair is None:
            raise ConfigError(
                f"listener {self._listener} speaks TLS and needs a key: set ssl.keystore.location, "
                "or ssl.keystore.key and ssl.keystore.certificate.chain"
            )
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = _CLIENT_AUTH[self._client_auth]
        context.num_tickets = 0  # clients keep their connections, and need not resume sessions
        return context

    def client_context(self, *, checks_host: bool) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = checks_host
        return context

    def _context(self, kind: int) -> ssl.SSLContext:
        context = ssl.SSLContext(kind)
        versions = _versions(self._protocols)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        # Java trusts every certificate in a trust store, not only those of authorities.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self._suites:
            _set_suites(context, self._suites)
        if self.key_pair is not None:
            _load(context, self.key_pair)
        if self.trusted is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(cadata=self.trusted)
            except ssl.SSLError as error:
                raise ConfigError(f"ssl.truststore holds no certificate: {error.reason}") from error
        return context


def _rules(settings: SslSettings) -> Sequence[NameRule]:
    return parse_rules(str(settings.get("ssl.principal.mapping.rules") or "DEFAULT"))


def _versions(names: Sequence[str]) -> list[ssl.TLSVersion]:
    offered = [name for name in names if name in _VERSIONS]
    unknown = [name for name in names if name not in (*_VERSIONS, *_OLD_VERSIONS)]
    if unknown or not offered:
        raise ConfigError(
            f"ssl.enabled.protocols: {', '.join(unknown or names) or 'empty'} is not supported, "
            f"only {', '.join(_VERSIONS)}"
        )
    return sorted(_VERSIONS[name] for name in offered)


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    with private_file(pair.pem) as path:  # `ssl` reads keys from files only
        try:
            context.load_cert_chain(path, password=pair.password or "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "is ssl.key.password right?"
            raise ConfigError(f"ssl.keystore cannot be used: {reason}") from None


def _set_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Takes Java's names; those of TLS 1.3 are always enabled."""
    names = [_openssl_name(suite) for suite in suites if "_WITH_" in suite]
    if not names:
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError as error:
        raise ConfigError(f"ssl.cipher.suites: none of {', '.join(suites)} is known") from error


def _openssl_name(suite: str) -> str:
    """`ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
    keys, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = (
        cipher.replace("AES_", "AES").replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
    )
    return "-".join(part for part in (*keys.split("_"), *cipher.split("_")) if part)
