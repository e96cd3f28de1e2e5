"""Settings for one listener: `listener.name.<listener>.<key>`, as Kafka spells them.

A key of SASL may also be for one mechanism: `listener.name.<listener>.<mechanism>.<key>`. Such a
setting takes precedence over the one without a prefix, on that listener. Names are compared in
lower case.
"""

from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.server.config.definition import ConfigKey
from embedkafka.server.config.security_keys import SECURITY_KEYS

LISTENER_PREFIX: Final = "listener.name."

_KEYS: Final = {
    key.name: key
    for key in SECURITY_KEYS
    if key.name.startswith(("ssl.", "sasl.", "connections.max.reauth."))
    or key.name == "principal.builder.class"
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
            f"{LISTENER_PREFIX}<listener>.<key>, with a key of SSL or SASL"
        )
    return key
