"""The topic's configuration keys: a row each, and the broker keys that supply their defaults."""

from collections.abc import Mapping
from typing import Final

from embedkafka.broker.settings.definition import (
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
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.wire_types import MAX_LONG

_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"

# fmt: off
_KEYS: Final = (
    list_key("cleanup.policy", ("delete",), one_of("compact", "delete"),
        doc="How old records go: deleted by age and size, compacted by key, or both."),
    int_key("compression.gzip.level", -1, between(1, 9, also=-1),
        doc="The gzip level, when the broker compresses batches itself."),
    int_key("compression.lz4.level", 9, between(1, 17),
        doc="The lz4 level, when the broker compresses batches itself."),
    string_key("compression.type", "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="The codec of stored batches; 'producer' keeps the producer's codec."),
    int_key("compression.zstd.level", 3, between(-131072, 22),
        doc="The zstd level, when the broker compresses batches itself."),
    long_key("delete.retention.ms", 86_400_000, at_least(0),
        doc="How long compaction keeps tombstones, so slow readers can see them."),
    long_key("file.delete.delay.ms", 60_000, at_least(0),
        doc="How long the files of a deleted segment stay on disk."),
    long_key("flush.messages", MAX_LONG, at_least(1),
        doc="Forces the log to disk after this many records."),
    long_key("flush.ms", MAX_LONG, at_least(0), doc="Forces the log to disk after this time."),
    list_key(_FOLLOWERS, (), throttled_replicas(_FOLLOWERS),
        doc="Replicas throttled as followers; '*' for all."),
    int_key("index.interval.bytes", 4096, at_least(0),
        doc="Bytes of log between two entries of the offset index."),
    int_key("internal.segment.bytes", None,
        doc="Starts a new segment at this size, however small; for tests."),
    list_key(_LEADERS, (), throttled_replicas(_LEADERS),
        doc="Replicas throttled as leaders; '*' for all."),
    long_key("local.retention.bytes", -2, at_least(-2),
        doc="Keeps this much of a partition on the broker's disks."),
    long_key("local.retention.ms", -2, at_least(-2),
        doc="Keeps records on the broker's disks for this long."),
    long_key("max.compaction.lag.ms", MAX_LONG, at_least(1),
        doc="The longest time a record may stay uncompacted."),
    int_key("max.message.bytes", 1_048_588, at_least(0),
        doc="The largest batch the broker accepts, after compression."),
    boolean_key("message.downconversion.enable", True,
        doc="Whether batches are converted for consumers before 0.11."),
    long_key("message.timestamp.after.max.ms", 3_600_000, at_least(0),
        doc="How far a timestamp may be ahead of the broker's clock."),
    long_key("message.timestamp.before.max.ms", MAX_LONG, at_least(0),
        doc="How far a timestamp may be behind the broker's clock."),
    string_key("message.timestamp.type", "CreateTime", one_of("CreateTime", "LogAppendTime"),
        doc="Whether records carry the producer's time or the append time."),
    double_key("min.cleanable.dirty.ratio", 0.5, between(0, 1),
        doc="The uncompacted share of the log that triggers compaction."),
    long_key("min.compaction.lag.ms", 0, at_least(0),
        doc="The shortest time a record stays uncompacted."),
    int_key("min.insync.replicas", 1, at_least(1),
        doc="A write with acks=all fails with fewer in-sync replicas than this."),
    boolean_key("preallocate", False,
        doc="Whether a new segment's file gets its full size at once."),
    boolean_key("remote.log.copy.disable", False, doc="Stops copying the topic to remote storage."),
    boolean_key("remote.log.delete.on.disable", False,
        doc="Deletes the remote copy when the topic stops having one."),
    boolean_key("remote.storage.enable", False,
        doc="Enables tiered storage; this broker has none and refuses 'true'."),
    long_key("retention.bytes", -1,
        doc="Deletes a partition's oldest segments beyond this size; -1 for no limit."),
    long_key("retention.ms", 604_800_000, at_least(-1),
        doc="Deletes segments older than this; -1 for no limit."),
    int_key("segment.bytes", 1_073_741_824, at_least(14), doc="Starts a new segment at this size."),
    int_key("segment.index.bytes", 10_485_760, at_least(4),
        doc="The largest size of an offset index."),
    long_key("segment.jitter.ms", 0, at_least(0),
        doc="The most random time taken off segment.ms, to spread the rolling."),
    long_key("segment.ms", 604_800_000, at_least(1),
        doc="Starts a new segment after this time, even if the old one is not full."),
    boolean_key("unclean.leader.election.enable", False,
        doc="Whether an out-of-sync replica may lead, losing records."),
)
# fmt: on

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = by_name(_KEYS)

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
