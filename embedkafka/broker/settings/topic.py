"""One topic's settings: parsing, checks, and the values in force.

A topic that does not set a key takes the value of a broker key, or Kafka's default.
"""

from collections.abc import Mapping

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.definition import ConfigValue
from embedkafka.broker.settings.topic_keys import SYNONYMS, TOPIC_KEYS
from embedkafka.runtime.failures import ConfigError


def parse_topic_settings(settings: Mapping[str, object]) -> dict[str, ConfigValue]:
    """Typed values of a topic's own settings; unknown names and bad values raise ConfigError."""
    for name in settings:
        if name not in TOPIC_KEYS:
            raise ConfigError(f"Unknown topic config name: {name}")
    parsed: dict[str, ConfigValue] = {}
    for name, text in settings.items():
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        parsed[name] = TOPIC_KEYS[name].parse(text)
    _check_together(parsed)
    return parsed


def broker_default(name: str, broker: BrokerConfig) -> ConfigValue:
    """The value of `name` for a topic that does not set it."""
    for synonym in SYNONYMS.get(name, ()):
        value = broker[synonym.name]
        if value is not None:
            return (
                value * synonym.factor if synonym.factor > 1 and isinstance(value, int) else value
            )
    return TOPIC_KEYS[name].default


def effective_topic_config(
    own: Mapping[str, ConfigValue], broker: BrokerConfig
) -> dict[str, ConfigValue]:
    """The value of every topic key for a topic with these settings on this broker."""
    values = {
        name: own[name] if name in own else broker_default(name, broker) for name in TOPIC_KEYS
    }
    if own.get("internal.segment.bytes") is not None:
        values["segment.bytes"] = own["internal.segment.bytes"]
    return values


def _check_together(values: Mapping[str, ConfigValue]) -> None:
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    low, high = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})"
        )
