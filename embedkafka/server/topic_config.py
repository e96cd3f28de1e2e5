"""The topic's configuration keys, and how a topic's effective values come about.

A topic's value is its own, or that of the broker key it falls back on, or Kafka's default.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.server.broker_config import BrokerConfig
from embedkafka.server.config_def import (
    MAX_LONG,
    ConfigKey,
    ConfigValue,
    at_least,
    between,
    boolean_key,
    by_name,
    double_key,
    int_key,
    list_key,
    long_key,
    one_of,
    string_key,
    throttled_replicas,
)

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = by_name(
    [
        list_key("cleanup.policy", ("delete",), one_of("compact", "delete")),
        int_key("compression.gzip.level", -1, between(1, 9, also=-1)),
        int_key("compression.lz4.level", 9, between(1, 17)),
        string_key(
            "compression.type",
            "producer",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        int_key("compression.zstd.level", 3, between(-131072, 22)),
        long_key("delete.retention.ms", 86_400_000, at_least(0)),
        long_key("file.delete.delay.ms", 60_000, at_least(0)),
        long_key("flush.messages", MAX_LONG, at_least(1)),
        long_key("flush.ms", MAX_LONG, at_least(0)),
        list_key("follower.replication.throttled.replicas", (), throttled_replicas),
        int_key("index.interval.bytes", 4096, at_least(0)),
        list_key("leader.replication.throttled.replicas", (), throttled_replicas),
        long_key("local.retention.bytes", -2, at_least(-2)),
        long_key("local.retention.ms", -2, at_least(-2)),
        long_key("max.compaction.lag.ms", MAX_LONG, at_least(1)),
        int_key("max.message.bytes", 1_048_588, at_least(0)),
        boolean_key("message.downconversion.enable", True),
        long_key("message.timestamp.after.max.ms", 3_600_000, at_least(0)),
        long_key("message.timestamp.before.max.ms", MAX_LONG, at_least(0)),
        string_key("message.timestamp.type", "CreateTime", one_of("CreateTime", "LogAppendTime")),
        double_key("min.cleanable.dirty.ratio", 0.5, between(0, 1)),
        long_key("min.compaction.lag.ms", 0, at_least(0)),
        int_key("min.insync.replicas", 1, at_least(1)),
        boolean_key("preallocate", False),
        boolean_key("remote.log.copy.disable", False),
        boolean_key("remote.log.delete.on.disable", False),
        boolean_key("remote.storage.enable", False),
        long_key("retention.bytes", -1),
        long_key("retention.ms", 604_800_000, at_least(-1)),
        int_key("segment.bytes", 1_073_741_824, at_least(14)),
        int_key("segment.index.bytes", 10_485_760, at_least(4)),
        long_key("segment.jitter.ms", 0, at_least(0)),
        long_key("segment.ms", 604_800_000, at_least(1)),
        boolean_key("unclean.leader.election.enable", False),
    ]
)


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key a topic key falls back on, and how many of its units make one of the topic's."""

    name: str
    factor: int = 1


_HOURS, _MINUTES = 3_600_000, 60_000

SYNONYMS: Final[Mapping[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "message.downconversion.enable": (Synonym("log.message.downconversion.enable"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "preallocate": (Synonym("log.preallocate"),),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTES),
        Synonym("log.retention.hours", _HOURS),
    ),
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", _HOURS),
    ),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOURS)),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
}


def parse_topic_settings(settings: Mapping[str, object]) -> dict[str, ConfigValue]:
    """Typed values of a topic's own settings; unknown names and bad values raise ConfigError."""
    parsed: dict[str, ConfigValue] = {}
    for name, text in settings.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        parsed[name] = key.parse(text)
    _check_together(parsed)
    return parsed


def broker_default(name: str, broker: BrokerConfig) -> ConfigValue:
    """What a topic that does not set `name` gets from this broker."""
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
    return {name: own[name] if name in own else broker_default(name, broker) for name in TOPIC_KEYS}


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
