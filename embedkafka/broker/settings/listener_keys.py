"""Settings for one listener: `listener.name.<listener>.<key>`, as Kafka spells them.

A key of SASL may also be for one mechanism: `listener.name.<listener>.<mechanism>.<key>`. Such a
setting takes precedence over the one without a prefix, on that listener. Names are compared in
lower case.

While a broker runs, new key stores, trust stores and limits take effect at once. Any other setting
of a listener is kept and takes effect when the broker starts again, as in Kafka.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.definition import ConfigKey
from embedkafka.broker.settings.ignored_keys import INERT, Inert
from embedkafka.runtime.failures import ConfigError

LISTENER_PREFIX: Final = "listener.name."

LIMITS: Final = ("max.connection.creation.rate", "max.connections")
"""They may also be set for a listener of all brokers."""

_INVALID: Final = "Invalid value {} for configuration Invalid dynamic configuration"
_STORES: Final = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")
_KEYS: Final = {
    name: key
    for name, key in BROKER_KEYS.items()
    if name.startswith(("ssl.", "sasl.", "connections.max.reauth."))
    or name in (*LIMITS, "principal.builder.class")
}


def is_store(name: str) -> bool:
    """Whether a key, without a prefix, says where keys and certificates are."""
    return name.startswith(_STORES)


def check_listeners_keep(
    listeners: Iterable[str], before: Mapping[str, object], after: Mapping[str, object]
) -> None:
    """Refuses, in Kafka's words, if listeners would need a restart for their own settings.

    Kafka looks at this whenever a setting of all listeners changes, and at no other time.
    """
    for listener in listeners:
        if _waiting(listener, before) != _waiting(listener, after):
            raise ConfigError(
                _INVALID.format(
                    "org.apache.kafka.common.config.ConfigException: Configs cannot be updated "
                    f"dynamically for existing listener ListenerName({listener}), restart broker "
                    "or create a new listener for update"
                )
            )


def invalid_store(error: ConfigError) -> ConfigError:
    """Kafka's frame around the reason why a store cannot be used."""
    return ConfigError(
        _INVALID.format(
            "org.apache.kafka.common.config.ConfigException: Validation of dynamic config update "
            f"of SSLFactory failed: {error}"
        )
    )


def _waiting(listener: str, settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a listener that take effect only when the broker starts."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    own = {name.removeprefix(prefix): name for name in settings if name.startswith(prefix)}
    return {
        key: settings[name] for key, name in own.items() if not is_store(key) and key not in LIMITS
    }


def find_listener_key(name: str) -> ConfigKey | None:
    """The key behind a setting for one listener, or None."""
    parts = name.removeprefix(LISTENER_PREFIX).split(".")
    candidates = (".".join(parts[start:]) for start in range(1, len(parts)))
    return next((_KEYS[one] for one in candidates if one in _KEYS), None)


def require_listener_key(name: str) -> ConfigKey:
    """The same; raises ConfigError if there is none."""
    key = find_listener_key(name)
    if key is None:
        raise ConfigError(
            f"unknown broker setting {name!r}: a setting for one listener is "
            f"{LISTENER_PREFIX}<listener>.<key>, with a key of SSL or SASL, or a limit"
        )
    return key


_SHARED_THREADS: Final = Inert("all listeners share the broker's network threads")
_PREFIXES: Final = tuple(name for name in INERT if name.endswith("."))


def find_inert(name: str) -> Inert | None:
    """Why the broker setting `name` has no effect; None if it has one or is unknown."""
    if name.startswith(LISTENER_PREFIX):
        if name.endswith(".num.network.threads"):
            return _SHARED_THREADS
        key = find_listener_key(name)
        return None if key is None else find_inert(key.name)
    found = INERT.get(name)
    if found is None and name.startswith(_PREFIXES):
        return next(INERT[prefix] for prefix in _PREFIXES if name.startswith(prefix))
    return found
