"""What clients need to connect to a cluster, as the properties of Kafka's Java client.

The library's own clients log in as the brokers do, at the listener that brokers use. So they work
on every cluster whose brokers can talk to each other, wherever its settings come from.
Not here: the same for librdkafka and Spark (`spark.client_settings` translates).
"""

from collections.abc import Mapping
from pathlib import Path

from embedkafka.broker.broker import Broker
from embedkafka.broker.listener_authentication import LOGIN_MODULES
from embedkafka.broker.settings.listeners import PLAINTEXT, NamedListener
from embedkafka.cluster.access.sasl_settings import BROKERS_USER, SUBJECT, login_module
from embedkafka.cluster.access.security import PreparedSecurity, user_key
from embedkafka.runtime.arguments import shown
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.files import Files
from embedkafka.runtime.temporary import replace_private
from embedkafka.security.key_stores import KeyPair
from embedkafka.security.sasl.jaas import LoginModule

Properties = dict[str, str]


class ClientAccess:
    """Properties of the clients of one cluster, whose files are in `directory`."""

    def __init__(self, prepared: PreparedSecurity | None, directory: Path, files: Files) -> None:
        self._prepared = prepared
        self._directory = directory
        self._files = files

    def own(self, broker: Broker) -> tuple[str, Properties]:
        """Those of the library's own clients, after the name of the listener that brokers use."""
        name = broker.listeners.inter_broker
        listener = next(one for one in broker.listeners.clients if one.name == name)
        properties = self._for_listener(broker, listener)
        if listener.protocol.startswith("SASL_"):
            assert broker.authentication is not None
            mechanism, module = broker.authentication.own_login(name)
            properties |= _login(mechanism, _without_users(module))
        if listener.speaks_tls:
            assert broker.encryption is not None
            properties |= self._key_store("brokers.pem", broker.encryption.key_pair(name))
        return name, properties

    def of_user(
        self, user: str, broker: Broker, mechanism: str | None = None
    ) -> tuple[str, Properties]:
        """Those of a user, after the name of the first listener with this way to log in.

        Without a mechanism it is the first of the cluster's.
        """
        secured = self._secured_listeners(broker)
        if secured[0].protocol == "SSL":
            if mechanism is not None:
                raise InvalidArgument("this cluster has no mechanisms: clients show certificates")
            return secured[0].name, self._for_listener(broker, secured[0]) | self._certificate(user)
        assert broker.authentication is not None
        known = ["PLAIN"] if self._prepared is None else self._prepared.security.mechanisms
        wanted = known[0] if mechanism is None else mechanism
        if wanted not in known:
            raise InvalidArgument(
                f"mechanism must be one of {', '.join(known)}, got {shown(mechanism)}"
            )
        enabled = broker.authentication.mechanisms
        having = (one for one in secured if wanted in enabled(one.name))
        listener = next(having, secured[0])
        options = self._credentials(user, broker, listener, wanted)
        return listener.name, self._for_listener(broker, listener) | _login(wanted, options)

    def _secured_listeners(self, broker: Broker) -> list[NamedListener]:
        """Those of `security`'s protocol come first."""
        clients = broker.listeners.clients
        secured = [one for one in clients if one.protocol != PLAINTEXT]
        if not secured:
            raise InvalidArgument(
                "this cluster has no users: its clients are anonymous. "
                'EmbeddedKafka(security=Security(users={"alice": "a-secret"})) has some'
            )
        wanted = None if self._prepared is None else self._prepared.security.protocol
        return sorted(secured, key=lambda one: one.protocol != wanted)

    def _for_listener(self, broker: Broker, listener: NamedListener) -> Properties:
        if listener.protocol == PLAINTEXT:
            return {}
        properties = {"security.protocol": listener.protocol}
        if listener.speaks_tls:
            assert broker.encryption is not None
            trusted = broker.encryption.trusted(listener.name)
            if trusted is not None:
                path = self._write("trusted.pem", trusted)
                properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": path}
        return properties

    def _credentials(
        self, user: str, broker: Broker, listener: NamedListener, mechanism: str
    ) -> Mapping[str, str]:
        assert broker.authentication is not None
        if self._prepared is None:
            known = broker.authentication.plain_users(listener.name)
        else:
            known = self._prepared.accounts
        if user not in known:
            raise self._no_user(user, [name for name in known if name != BROKERS_USER])
        if mechanism == "OAUTHBEARER":
            return {SUBJECT: user}
        return {"username": user, "password": known[user]}

    def _certificate(self, user: str) -> Properties:
        prepared = self._prepared
        if prepared is None or prepared.certificates is None:
            raise self._no_user(user, [])
        if user not in (BROKERS_USER, *prepared.security.names):
            raise self._no_user(user, prepared.security.names)
        path = str(user_key(prepared.directory, user))
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": path}

    def _no_user(self, user: str, known: list[str]) -> InvalidArgument:
        names = ", ".join(known) or "none"
        return InvalidArgument(
            f"the credentials of user {user!r} are not known here, only those of: {names}"
        )

    def _key_store(self, name: str, pair: KeyPair) -> Properties:
        path = self._write(name, pair.pem)
        password = {} if pair.password is None else {"ssl.key.password": pair.password}
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": path, **password}

    def _write(self, name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        self._files.make_directory(self._directory)
        replace_private(self._directory / name, data)
        return str(self._directory / name)


def _login(mechanism: str, options: Mapping[str, str]) -> Properties:
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login_module(mechanism, options)}


def _without_users(module: LoginModule) -> dict[str, str]:
    """The options with which brokers log in, without the passwords of others."""
    assert module.name in LOGIN_MODULES.values()
    return {name: value for name, value in module.options.items() if not name.startswith("user_")}
