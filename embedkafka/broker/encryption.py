"""What the listeners of a broker that speak TLS need, made from its `ssl.…` settings.

Owner: the broker makes it; the thread that applies settings replaces certificates.
Invariants: bad settings raise ConfigError before the broker listens.
Not here: the protocol (`security.tls_stream`), SASL (`listener_authentication`).
"""

from collections.abc import Mapping

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.listener_keys import invalid_store, is_store
from embedkafka.broker.settings.listeners import Listeners, NamedListener
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import Files
from embedkafka.security.certificate_names import check_same_names
from embedkafka.security.key_stores import KeyPair
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.tls import CertificateAuthenticator, ListenerTls, TlsTransport
from embedkafka.wire.net.channel_authenticator import NewAuthenticator
from embedkafka.wire.net.transport import Encrypt, Stream, TcpTransport, Transport


class Encryption:
    """The certificates of a broker's TLS listeners, and of its connections to other brokers."""

    def __init__(
        self, config: BrokerConfig, listeners: Listeners, files: Files, below: Transport | None
    ) -> None:
        self._listeners = listeners
        self._files = files
        self._below = below or TcpTransport()
        self._at_start = config
        self._secured: Mapping[str, ListenerTls] = {
            one.name: ListenerTls(one.name, one.protocol, self._settings(config, one), files.read)
            for one in listeners.all
            if one.speaks_tls
        }
        self._transports: Mapping[str, TlsTransport] = {
            one.name: TlsTransport(self._below, self._settings(config, one), files.read)
            for one in listeners.all
            if one.speaks_tls and one.name in (listeners.inter_broker, listeners.control.name)
        }

    def start(self, config: BrokerConfig) -> None:
        """Applies settings that were stored before; raises ConfigError and changes nothing."""
        former, self._at_start = self._at_start, config
        try:
            self.reconfigure(config)
        except ConfigError:
            self._at_start = former
            raise

    def reconfigure(self, config: BrokerConfig) -> None:
        """Uses other certificates for connections to come; raises ConfigError if it cannot."""
        for listener in self._listeners.all:
            if listener.speaks_tls:
                settings = self._settings(config, listener)
                self._secured[listener.name].replace(settings)
                if listener.name in self._transports:
                    self._transports[listener.name].replace(settings)

    def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError if `reconfigure` would, or if the names of a listener would change."""
        for listener in self._listeners.all:
            if not listener.speaks_tls:
                continue
            settings = self._settings(config, listener)
            try:
                new = ListenerTls(listener.name, listener.protocol, settings, self._files.read)
                check_same_names(
                    self._secured[listener.name].key_pair.certificate,
                    new.key_pair.certificate,
                    subject_may_change=bool(settings.get("ssl.allow.dn.changes")),
                    hosts_may_change=bool(settings.get("ssl.allow.san.changes")),
                )
            except ConfigError as error:
                raise invalid_store(error) from error

    def find_encrypt(self, listener: str) -> Encrypt | None:
        """Encrypts the connections of a listener; None if they are plain text."""
        return self._secured[listener].encrypt if listener in self._secured else None

    def find_authenticators(self, listener: NamedListener) -> NewAuthenticator | None:
        """Names the clients of a listener by their certificates; None unless it speaks SSL."""
        if listener.protocol != "SSL":
            return None
        tls = self._secured[listener.name]

        def authenticate(stream: Stream) -> CertificateAuthenticator:
            return CertificateAuthenticator(tls, stream)

        return authenticate

    def own_principal(self, listener: str) -> KafkaPrincipal:
        """Who this broker would be on that listener, by its own certificate."""
        return self._secured[listener].own_principal

    def key_pair(self, listener: str) -> KeyPair:
        """The key of a listener, with its certificates."""
        return self._secured[listener].key_pair

    def trusted(self, listener: str) -> str | None:
        """The certificates that a listener trusts, as PEM; None if they are the system's."""
        return self._secured[listener].trusted

    def own_transport(self) -> Transport:
        """How clients in this process connect to the listener that brokers use."""
        name = self._listeners.inter_broker
        return (
            self._transports[name].over(TcpTransport())
            if name in self._transports
            else TcpTransport()
        )

    def transport_to(self, listener: str) -> Transport | None:
        """How this broker connects to that listener of another one."""
        return self._transports.get(listener, self._below)

    def _settings(self, config: BrokerConfig, listener: NamedListener) -> dict[str, object]:
        """The `ssl.…` settings of a listener: stores as of now, the others as of the start."""
        return {
            name: value
            for source, stores in ((self._at_start, False), (config, True))
            for name, value in self._own(source, listener).items()
            if is_store(name) == stores
        }

    def _own(self, config: BrokerConfig, listener: NamedListener) -> dict[str, object]:
        """All `ssl.…` settings of a listener; the controller's shares those that brokers use."""
        shared = dict(config.given)
        if listener.protocol == "SASL_SSL":
            # As in Kafka, only a setting for this listener asks clients for certificates too.
            shared.pop("ssl.client.auth", None)
        own = BrokerConfig(shared)
        if listener.is_control_plane:
            own = own.for_listener(self._listeners.inter_broker)
        own = own.for_listener(listener.name)
        return {name: value for name, value in own.given.items() if name.startswith("ssl.")}
