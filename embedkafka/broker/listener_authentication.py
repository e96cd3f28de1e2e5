"""Who may connect: turns the SASL settings of a broker into authenticators and logins.

Owner: the broker makes it, and starts it; it does not change after that, but for `revoked`.
Invariants: bad settings raise ConfigError before the broker listens. Errors never contain a value
of a JAAS text.
Not here: the exchanges (`security.sasl`), what a connection may send
(`security.sasl_authenticator`).
"""

import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.listener_keys import LISTENER_PREFIX
from embedkafka.broker.settings.listeners import Listeners, NamedListener
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import Files
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.principals import USER, KafkaPrincipal
from embedkafka.security.sasl import oauth_bearer, plain
from embedkafka.security.sasl.exchange import Exchange
from embedkafka.security.sasl.jaas import LoginModule, parse_login_module
from embedkafka.security.sasl.logins import plain_login, unsecured_bearer_login
from embedkafka.security.sasl.oauth_bearer import OAuthBearerExchange, TokenValidator
from embedkafka.security.sasl.plain import PlainExchange
from embedkafka.security.sasl.scram import ScramAccount, ScramExchange, ScramLogin
from embedkafka.security.sasl.scram_credentials import HASHES
from embedkafka.security.sasl.unsecured_token import UnsecuredTokenValidator
from embedkafka.security.sasl_authenticator import GSSAPI, SaslAuthenticator, SaslSettings
from embedkafka.security.tokens import DelegationTokens
from embedkafka.wire.net.channel_authenticator import Login, NewAuthenticator, NewLogin

_LOG = logging.getLogger(__name__)

_KAFKA: Final = "org.apache.kafka.common.security"
_SCRAM_MODULE: Final = f"{_KAFKA}.scram.ScramLoginModule"
LOGIN_MODULES: Final[Mapping[str, str]] = {
    plain.MECHANISM: f"{_KAFKA}.plain.PlainLoginModule",
    **dict.fromkeys(HASHES, _SCRAM_MODULE),
    oauth_bearer.MECHANISM: f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
"""The login module of each mechanism."""

_SIGNED_TOKENS: Final = frozenset(
    {
        f"{_KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{_KAFKA}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
_USER: Final = "user_"
_SECRET_BYTES: Final = 32


def asks_for_sasl(listener: NamedListener) -> bool:
    return listener.protocol.startswith("SASL_")


class Authentication:
    """The authenticators of a broker's SASL listeners, and its logins to other brokers."""

    def __init__(
        self,
        config: BrokerConfig,
        listeners: Listeners,
        *,
        credentials: ScramCredentials,
        tokens: DelegationTokens | None,
        clock: Clock,
        files: Files,
        rng: random.Random,
    ) -> None:
        self._listeners = listeners
        self._credentials = credentials
        self._accounts = _Accounts(credentials, tokens)
        self._clock = clock
        self._files = files
        self._rng = rng
        self._settings: Mapping[str, SaslSettings] = {}
        self.revoked: frozenset[str] = frozenset()
        """Users whose passwords of PLAIN do not count until the broker restarts."""
        self._logins: Mapping[str, NewLogin] = {}
        self._apply(config)

    def _apply(self, config: BrokerConfig) -> None:
        secured = [one for one in self._listeners.all if asks_for_sasl(one)]
        between = {self._listeners.inter_broker, self._listeners.control.name}
        settings = {one.name: self._sasl_settings(config, one) for one in secured}
        logins = {one.name: self._new_login(config, one) for one in secured if one.name in between}
        self._settings, self._logins, self._config = settings, logins, config

    def start(self, config: BrokerConfig) -> None:
        """Reads the users, and adds the one that brokers log in as, if it is new.

        Kafka's brokers need that user before they start, and have other tools to create it.
        Settings that were stored before hold from now on; raises ConfigError if they cannot, and
        goes on without them.
        """
        # Not from `_rng`: clients see its numbers, and could reckon back.
        self._credentials.load(random.Random().randbytes(_SECRET_BYTES))
        try:
            self._apply(config)
        finally:
            self._add_own_users()

    def _add_own_users(self) -> None:
        for name in self._logins:
            mechanism, module = self.own_login(name)
            if mechanism in HASHES:
                user, password = module.options["username"], module.options["password"]
                if self._credentials.find_user(mechanism, user) is None:
                    self._credentials.set_password(user, mechanism, password, self._rng)

    def revoke(self, user: str) -> bool:
        """Takes a user's password of PLAIN away until the broker restarts; False without one."""
        known = {name for listener in self._settings for name in self.plain_users(listener)}
        if user not in known - self.revoked:
            return False
        self.revoked |= {user}
        return True

    def find_authenticators(self, listener: str) -> NewAuthenticator | None:
        """Makes the authenticators of a listener's connections; None without SASL."""
        if listener not in self._settings:
            return None
        return lambda stream: SaslAuthenticator(self._settings[listener])

    def find_login(self, listener: str) -> NewLogin | None:
        """How this broker logs in to that listener of another one; None without SASL."""
        if listener not in self._logins:
            return None
        return lambda host: self._logins[listener](host)

    def own_login(self, listener: str) -> tuple[str, LoginModule]:
        """The mechanism and the login module with which brokers log in to that listener."""
        return self._inter_broker_module(self._config, listener)

    def find_own_principal(self, listener: str) -> KafkaPrincipal | None:
        """Who brokers are on that listener; None if they do not log in by a user's name."""
        user = self.own_login(listener)[1].options.get("username")
        return None if user is None else KafkaPrincipal(USER, user)

    def mechanisms(self, listener: str) -> list[str]:
        """What clients of a listener may log in with; nothing without SASL."""
        found = self._settings.get(listener)
        return [] if found is None else list(found.new_exchange)

    def plain_users(self, listener: str) -> dict[str, str]:
        """The passwords of a listener's users, if it enables PLAIN."""
        own = self._settings_of(self._config, listener)
        if plain.MECHANISM not in own.items("sasl.enabled.mechanisms"):
            return {}
        return _passwords(_login_module(own, listener, plain.MECHANISM))

    # -- listeners

    def _settings_of(self, config: BrokerConfig, listener: str) -> BrokerConfig:
        """The settings of a listener; the controller's shares those that brokers use."""
        if listener == self._listeners.control.name:
            config = config.for_listener(self._listeners.inter_broker)
        return config.for_listener(listener)

    def _sasl_settings(self, config: BrokerConfig, listener: NamedListener) -> SaslSettings:
        own = self._settings_of(config, listener.name)
        mechanisms = [name.strip() for name in own.items("sasl.enabled.mechanisms")]
        if not mechanisms:
            raise ConfigError(f"sasl.enabled.mechanisms is empty, and {listener.name} needs one")
        return SaslSettings(
            new_exchange={
                mechanism: self._new_exchange(own, listener.name, mechanism)
                for mechanism in mechanisms
            },
            max_reauth_ms={
                mechanism: _for_mechanism(own, mechanism, "connections.max.reauth.ms")
                for mechanism in mechanisms
            },
            failure_delay_ms=config.integer("connection.failed.authentication.delay.ms"),
            max_receive_bytes=own.integer("sasl.server.max.receive.size"),
            clock=self._clock,
        )

    def _new_exchange(
        self, own: BrokerConfig, listener: str, mechanism: str
    ) -> Callable[[], Exchange]:
        module = _login_module(own, listener, mechanism)
        if mechanism == plain.MECHANISM:
            passwords = _passwords(module)
            return lambda: PlainExchange(
                lambda user: None if user in self.revoked else passwords.get(user)
            )
        if mechanism in HASHES:
            return partial(ScramExchange, mechanism, self._accounts, self._rng)
        if mechanism == oauth_bearer.MECHANISM:
            validator = self._token_validator(own, module)
            return lambda: OAuthBearerExchange(validator, now_ms=self._clock.now_ms())
        return _kerberos(own, listener, module)

    def _token_validator(self, own: BrokerConfig, module: LoginModule) -> TokenValidator:
        handler = _for_mechanism(own, oauth_bearer.MECHANISM, "sasl.server.callback.handler.class")
        if not handler:
            return UnsecuredTokenValidator.of(module.options)
        if handler not in _SIGNED_TOKENS:
            raise ConfigError(
                f"sasl.server.callback.handler.class={handler} is a Java class, which cannot run "
                f"in Python; for signed tokens, set it to {min(_SIGNED_TOKENS)}"
            )
        from embedkafka.security.sasl.signed_token import SignedTokenValidator

        return SignedTokenValidator(
            self._read_key_set(own.text("sasl.oauthbearer.jwks.endpoint.url")),
            principal_claim=own.text("sasl.oauthbearer.sub.claim.name"),
            scope_claim=own.text("sasl.oauthbearer.scope.claim.name"),
            audiences=own.items("sasl.oauthbearer.expected.audience"),
            issuer=own.text("sasl.oauthbearer.expected.issuer") or None,
            clock_skew_s=own.integer("sasl.oauthbearer.clock.skew.seconds"),
        )

    def _read_key_set(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "file":
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url={url!r} must be a file:// URL: brokers read "
                "keys from local files only"
            )
        try:
            return self._files.read(Path(unquote(parts.path))).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url: cannot read {parts.path}: {error}"
            ) from error

    # -- logins

    def _new_login(self, config: BrokerConfig, listener: NamedListener) -> NewLogin:
        mechanism, module = self._inter_broker_module(config, listener.name)
        if mechanism == GSSAPI:
            return _kerberos_login(self._settings_of(config, listener.name), listener.name, module)
        if mechanism == oauth_bearer.MECHANISM:
            return lambda _: unsecured_bearer_login(module.options, now_ms=self._clock.now_ms())
        user, password = module.options.get("username"), module.options.get("password")
        if not user or not password:
            raise ConfigError(
                f"{jaas_key(listener.name, mechanism)}: it needs username and password, with which"
                " brokers log in to each other"
            )
        if mechanism == plain.MECHANISM:
            if _passwords(module).get(user) != password:
                raise ConfigError(
                    f"{jaas_key(listener.name, mechanism)}: brokers log in to each other as "
                    f"{user}, so it needs {_USER}{user} with the same password"
                )
            return lambda _: plain_login(user, password)
        return lambda _: _scram_login(mechanism, user, password, self._rng)

    def _inter_broker_module(self, config: BrokerConfig, listener: str) -> tuple[str, LoginModule]:
        own = self._settings_of(config, listener)
        mechanism = own.text("sasl.mechanism.inter.broker.protocol")
        if mechanism not in own.items("sasl.enabled.mechanisms"):
            raise ConfigError(
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
                f"when SASL is used for inter-broker communication; {mechanism} is not"
            )
        return mechanism, _login_module(own, listener, mechanism)


class _Accounts:
    """Everyone who may log in with SCRAM."""

    def __init__(self, credentials: ScramCredentials, tokens: DelegationTokens | None) -> None:
        self._tokens = tokens
        self._credentials = credentials
        self.find_user = credentials.find_user

    @property
    def decoy_secret(self) -> bytes:
        return self._credentials.decoy_secret

    def find_token(self, mechanism: str, token_id: str) -> ScramAccount | None:
        return None if self._tokens is None else self._tokens.find_account(mechanism, token_id)


def _kerberos(own: BrokerConfig, listener: str, module: LoginModule) -> Callable[[], Exchange]:
    from embedkafka.security.sasl.kerberos import new_kerberos_exchange
    from embedkafka.security.sasl.kerberos_names import KerberosNames

    principal, keytab = _kerberos_key(listener, module)
    names = KerberosNames(
        own.items("sasl.kerberos.principal.to.local.rules"),
        default_realm=principal.rpartition("@")[2],
    )
    return new_kerberos_exchange(principal=principal, keytab=keytab, names=names)


def _kerberos_login(own: BrokerConfig, listener: str, module: LoginModule) -> NewLogin:
    from embedkafka.security.sasl.kerberos import new_kerberos_login

    principal, keytab = _kerberos_key(listener, module)
    service = module.options.get("serviceName") or own.text("sasl.kerberos.service.name")
    if not service:
        raise ConfigError(
            f"{jaas_key(listener, GSSAPI)}: brokers log in to each other with GSSAPI, so it needs "
            "serviceName, or sasl.kerberos.service.name must be set"
        )
    return new_kerberos_login(principal=principal, keytab=keytab, service=service)


def _kerberos_key(listener: str, module: LoginModule) -> tuple[str, str]:
    """The principal of a login module, and the file with its key."""
    principal, keytab = module.options.get("principal", ""), module.options.get("keyTab", "")
    if not keytab or "@" not in principal:
        raise ConfigError(
            f"{jaas_key(listener, GSSAPI)}: it needs keyTab, and principal as kafka/host@REALM"
        )
    return principal, keytab


def _scram_login(mechanism: str, user: str, password: str, rng: random.Random) -> Login:
    return ScramLogin(mechanism, user, password, rng)


def find_login_module(own: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    """The module that a listener's JAAS text names for a mechanism; None if there is no text."""
    wanted = LOGIN_MODULES.get(mechanism)
    if wanted is None:
        raise ConfigError(
            f"sasl.enabled.mechanisms: there is no mechanism {mechanism}; choose from "
            f"{', '.join(LOGIN_MODULES)}"
        )
    key = jaas_key(listener, mechanism)
    text = own.given.get(f"{mechanism.lower()}.sasl.jaas.config")
    if text is None:
        # Kafka takes no text without a mechanism. It is plain what is meant if the module fits.
        key, text = "sasl.jaas.config", own["sasl.jaas.config"]
    module = None if text is None else parse_login_module(str(text), setting=key)
    if module is not None and module.name == wanted:
        return module
    if module is not None and key != "sasl.jaas.config":
        raise ConfigError(f"{key}: {mechanism} needs the login module {wanted}, not {module.name}")
    return None


def _login_module(own: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    module = find_login_module(own, listener, mechanism)
    if module is None:
        raise ConfigError(
            f"{mechanism} on listener {listener} needs a login module: set "
            f"{jaas_key(listener, mechanism)}={LOGIN_MODULES[mechanism]} required …;"
        )
    return module


def jaas_key(listener: str, mechanism: str) -> str:
    """The setting with the login module of a mechanism on one listener."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _passwords(module: LoginModule) -> dict[str, str]:
    return {
        name.removeprefix(_USER): password
        for name, password in module.options.items()
        if name.startswith(_USER)
    }


def _for_mechanism(own: BrokerConfig, mechanism: str, key: str) -> Any:  # Any: as the key's type
    """The value for one mechanism, or for all of them."""
    value = own.given.get(f"{mechanism.lower()}.{key}")
    return own[key] if value is None else value
