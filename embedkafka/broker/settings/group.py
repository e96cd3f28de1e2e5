"""Settings of single groups, which override the broker's settings for all groups.

A group can have settings before it exists. The assignment interval has no effect: a group gets
a new assignment as soon as it changes. Share groups and Streams groups are not supported, and
neither are their settings.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.definition import READ_ONLY, ConfigKey
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import replace

ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"


def broker_key(name: str) -> str:
    """The broker key that the group key `name` overrides."""
    return f"group.{name}"


GROUP_KEYS: Final[Mapping[str, ConfigKey]] = {
    name: replace(BROKER_KEYS[broker_key(name)], name=name, update=READ_ONLY, doc=doc)
    for name, doc in {
        ASSIGNMENT_INTERVAL: "How often this consumer group may get a new assignment. Has no "
        "effect: it gets one as soon as it changes.",
        HEARTBEAT_INTERVAL: "How often members of this consumer group send heartbeats.",
        SESSION_TIMEOUT: "Removes a member of this consumer group after this long without a "
        "heartbeat.",
    }.items()
}


def parse_group_settings(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, int]:
    """Typed values; raises ConfigError, in Kafka's words, outside the broker's limits."""
    for name in overrides:
        if name not in GROUP_KEYS:
            raise ConfigError(f"Unknown group config name: {name}")
    settings: dict[str, int] = {}
    for name, text in overrides.items():
        value = GROUP_KEYS[name].parse(text)
        assert isinstance(value, int), f"{name} is {value!r}"
        settings[name] = value
        low, high = (_limit_key(name, bound) for bound in ("min", "max"))
        if value < broker.integer(low):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if value > broker.integer(high):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    effective = {name: broker.integer(broker_key(name)) for name in GROUP_KEYS} | settings
    if effective[SESSION_TIMEOUT] <= effective[HEARTBEAT_INTERVAL]:
        raise ConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")
    return settings


def _limit_key(name: str, bound: str) -> str:
    """`group.consumer.min.session.timeout.ms` limits `consumer.session.timeout.ms`."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{bound}.{rest}"
