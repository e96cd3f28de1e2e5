"""The topic's configuration keys, and the broker keys that supply their defaults."""

from collections.abc import Mapping
from typing import Final

from embedkafka.protocol.wire_types import MAX_LONG
from embedkafka.runtime.values import dataclass
from embedkafka.server.config.definition import (
    ConfigKey,
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


def _throttled_key(name: str) -> ConfigKey:
    return list_key(name, (), throttled_replicas(name))


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
        _throttled_key("follower.replication.throttled.replicas"),
        int_key("index.interval.bytes", 4096, at_least(0)),
        int_key("internal.segment.bytes", None),
        _throttled_key("leader.replication.throttled.replicas"),
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


HIDDEN: Final = frozenset({"internal.segment.bytes", "message.downconversion.enable"})
"""Shown only for a topic that sets them.

The first is for tests, in Kafka too. Kafka 4.0 removed the second with the clients that need it.
"""


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A broker key that supplies a topic key's default, times `factor` to convert units."""

    name: str
    factor: int = 1


_HOURS, _MINUTES = 3_600_000, 60_000

SYNONYMS: Final[Mapping[str, tuple[ConfigSynonym, ...]]] = {
    "cleanup.policy": (ConfigSynonym("log.cleanup.policy"),),
    "compression.gzip.level": (ConfigSynonym("compression.gzip.level"),),
    "compression.lz4.level": (ConfigSynonym("compression.lz4.level"),),
    "compression.type": (ConfigSynonym("compression.type"),),
    "compression.zstd.level": (ConfigSynonym("compression.zstd.level"),),
    "delete.retention.ms": (ConfigSynonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (ConfigSynonym("log.segment.delete.delay.ms"),),
    "flush.messages": (ConfigSynonym("log.flush.interval.messages"),),
    "flush.ms": (
        ConfigSynonym("log.flush.interval.ms"),
        ConfigSynonym("log.flush.scheduler.interval.ms"),
    ),
    "index.interval.bytes": (ConfigSynonym("log.index.interval.bytes"),),
    "local.retention.bytes": (ConfigSynonym("log.local.retention.bytes"),),
    "local.retention.ms": (ConfigSynonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (ConfigSynonym("log.cleaner.max.compaction.lag.ms"),),
    "max.message.bytes": (ConfigSynonym("message.max.bytes"),),
    "message.downconversion.enable": (ConfigSynonym("log.message.downconversion.enable"),),
    "message.timestamp.after.max.ms": (ConfigSynonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (ConfigSynonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (ConfigSynonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (ConfigSynonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (ConfigSynonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (ConfigSynonym("min.insync.replicas"),),
    "preallocate": (ConfigSynonym("log.preallocate"),),
    "retention.bytes": (ConfigSynonym("log.retention.bytes"),),
    "retention.ms": (
        ConfigSynonym("log.retention.ms"),
        ConfigSynonym("log.retention.minutes", _MINUTES),
        ConfigSynonym("log.retention.hours", _HOURS),
    ),
    "segment.bytes": (ConfigSynonym("log.segment.bytes"),),
    "segment.index.bytes": (ConfigSynonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        ConfigSynonym("log.roll.jitter.ms"),
        ConfigSynonym("log.roll.jitter.hours", _HOURS),
    ),
    "segment.ms": (ConfigSynonym("log.roll.ms"), ConfigSynonym("log.roll.hours", _HOURS)),
    "unclean.leader.election.enable": (ConfigSynonym("unclean.leader.election.enable"),),
}
