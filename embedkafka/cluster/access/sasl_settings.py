"""The settings of listeners on which users log in, beside those that a user has given.

A user's settings may name other listeners, enable mechanisms of their own on each, and have users
in login modules: `Security` adds its users wherever its mechanisms are enabled.
Not here: certificates, and credentials in the store (`security`).
"""

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.broker.listener_authentication import LOGIN_MODULES, find_login_module, jaas_key
from embedkafka.broker.settings.broker import (
    BrokerConfig,
    find_broker_key,
    parse_broker_settings,
)
from embedkafka.broker.settings.listeners import PLAINTEXT, client_protocols, plan_listeners
from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.scram_credentials import HASHES

if TYPE_CHECKING:
    from embedkafka.cluster.access.security import Security

BROKERS_USER: Final = "embedkafka"
"""Whom brokers, and the library's own clients, log in as: a super user."""

SUBJECT: Final = "unsecuredLoginStringClaim_sub"
_ENABLED: Final = "sasl.enabled.mechanisms"
_OF_LISTENERS: Final = (
    "listeners",
    "listener.security.protocol.map",
    "listener.name",
    "listener.names",
    _ENABLED,
)
"""How their names end."""
_BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"


def listener_settings(security: "Security", given: Mapping[str, object]) -> dict[str, object]:
    """The settings that need nothing prepared; brokers use a secured listener.

    Raises ConfigError if those that are given leave no way in for some clients.
    """
    wanted = [security.protocol, *([PLAINTEXT] if security.anonymous else [])]
    settings: dict[str, object] = {"listeners": ",".join(f"{name}://:0" for name in wanted)}
    protocols = client_protocols(_listening({**settings, **given}).given)
    spoken = ", ".join(f"{name} speaks {protocol}" for name, protocol in protocols.items())
    if security.protocol not in protocols.values():
        raise ConfigError(
            f"no listener speaks {security.protocol}, the protocol of `security`: {spoken}"
        )
    if security.anonymous and PLAINTEXT not in protocols.values():
        raise ConfigError(f"anonymous clients need a listener with {PLAINTEXT} too: {spoken}")
    between = given.get("inter.broker.listener.name") or given.get("security.inter.broker.protocol")
    if not between:
        secured = (name for name, protocol in protocols.items() if protocol == security.protocol)
        between = settings["inter.broker.listener.name"] = next(secured)
    if security.uses_sasl:
        settings[_ENABLED] = ",".join(security.mechanisms)
        enabled = enabled_mechanisms({**settings, **given})
        settings[_BETWEEN_BROKERS] = _mechanism_of_brokers(security, enabled, str(between).upper())
    return settings


def _mechanism_of_brokers(
    security: "Security", enabled: Mapping[str, Collection[str]], between: str
) -> str:
    """The first mechanism on the listener `between` brokers, if they log in there."""
    has = "; ".join(f"{name} has {', '.join(found)}" for name, found in enabled.items())
    for mechanism in security.mechanisms:
        if not any(mechanism in found for found in enabled.values()):
            raise ConfigError(f"no listener has {mechanism}, a mechanism of `security`: {has}")
    usable = enabled.get(between, security.mechanisms)
    return next((one for one in security.mechanisms if one in usable), security.mechanisms[0])


def enabled_mechanisms(settings: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """The mechanisms of each listener where clients log in with SASL."""
    config = _listening(settings)
    return {
        name: config.for_listener(name).items(_ENABLED)
        for name, protocol in client_protocols(config.given).items()
        if protocol.startswith("SASL_")
    }


def _listening(settings: Mapping[str, object]) -> BrokerConfig:
    """Those that say where clients log in, and how; the others may be wrong."""
    found = {name: find_broker_key(name) for name in settings if name.endswith(_OF_LISTENERS)}
    keys = {name: key for name, key in found.items() if key is not None}
    return BrokerConfig({name.lower(): key.parse(settings[name]) for name, key in keys.items()})


def find_ways_in(settings: Mapping[str, object]) -> tuple[str, list[str]] | None:
    """The protocol and mechanisms of the listeners whose clients have passwords; None without one.

    The protocol is that of the first of them.
    """
    enabled = {
        name: [one for one in found if one in ("PLAIN", *HASHES)]
        for name, found in enabled_mechanisms(settings).items()
    }
    protocols = client_protocols(_listening(settings).given)
    having = [protocols[name] for name, found in enabled.items() if found]
    mechanisms = dict.fromkeys(one for found in enabled.values() for one in found)
    return (having[0], list(mechanisms)) if having else None


def login_settings(
    security: "Security", settings: Mapping[str, object], password: str
) -> dict[str, object]:
    """The login modules of all listeners: `password` is that of the brokers' user."""
    config = BrokerConfig(parse_broker_settings(settings))
    between = plan_listeners(config.given).inter_broker
    accounts = all_accounts(security, password)
    modules: dict[str, object] = {}
    for listener, enabled in enabled_mechanisms(settings).items():
        own = config.for_listener(listener)
        for mechanism in security.mechanisms:
            if mechanism not in enabled:
                continue
            module = find_login_module(own, listener, mechanism)
            options = {} if module is None else dict(module.options)
            if listener == between and mechanism == own.text(_BETWEEN_BROKERS):
                login = _login_of_brokers(mechanism, password)
                options |= {} if login.keys() & options.keys() else login
                _require_same_password(security, options, jaas_key(listener, mechanism))
            if mechanism == "PLAIN":
                options |= {f"user_{name}": word for name, word in accounts.items()}
            modules[jaas_key(listener, mechanism)] = login_module(mechanism, options)
    return modules


def _login_of_brokers(mechanism: str, password: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {SUBJECT: BROKERS_USER}
    return {"username": BROKERS_USER, "password": password}


def _require_same_password(security: "Security", options: Mapping[str, str], key: str) -> None:
    """Refuses what would keep brokers from logging in to each other."""
    user = options.get("username", "")
    wanted = find_password(security, user)
    if wanted is not None and wanted != options.get("password"):
        raise ConfigError(
            f"{key}: brokers log in as {user}, whose password in `security` is another"
        )


def all_accounts(security: "Security", password: str) -> dict[str, str]:
    """The passwords of all users, `password` being that of the brokers' user."""
    users = {user: find_password(security, user) or "" for user in security.names}
    return {BROKERS_USER: password, **users}


def find_password(security: "Security", user: str) -> str | None:
    """A user's password; None if there is no such user. Empty if users need none."""
    if isinstance(security.users, Mapping):
        return security.users.get(user)
    return "" if user in security.users else None


def login_module(mechanism: str, options: Mapping[str, str]) -> str:
    """The value of `sasl.jaas.config`."""
    pairs = (f" {_word(name)}={_quoted(value)}" for name, value in options.items())
    return f"{LOGIN_MODULES[mechanism]} required{''.join(pairs)};"


def _word(name: str) -> str:
    """An option's name, which may contain that of a user."""
    return name if re.fullmatch(r"\w[\w.-]*", name, re.ASCII) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
