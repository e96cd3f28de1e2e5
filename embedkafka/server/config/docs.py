"""What settings mean, in a sentence: the documentation part of a DescribeConfigs answer."""

from collections.abc import Mapping
from typing import Final

from embedkafka.server.config.group import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from embedkafka.server.config.topic_keys import SYNONYMS

TOPIC_DOCS: Final[Mapping[str, str]] = {
    "cleanup.policy": "What becomes of old segments: deleted, compacted by key, or both.",
    "compression.gzip.level": "How hard the broker compresses with gzip, if it compresses.",
    "compression.lz4.level": "How hard the broker compresses with lz4, if it compresses.",
    "compression.type": "The codec batches are stored in; 'producer' keeps what was sent.",
    "compression.zstd.level": "How hard the broker compresses with zstd, if it compresses.",
    "delete.retention.ms": "How long a compacted topic keeps tombstones for slow readers.",
    "file.delete.delay.ms": "How long files stay on disk after their segment was deleted.",
    "flush.messages": "Records after which the log is forced to disk.",
    "flush.ms": "Time after which the log is forced to disk.",
    "follower.replication.throttled.replicas": "Replicas throttled as followers, or '*' for all.",
    "index.interval.bytes": "Bytes of log between two entries of the offset index.",
    "leader.replication.throttled.replicas": "Replicas throttled as leaders, or '*' for all.",
    "local.retention.bytes": "Bytes kept on local disk with tiered storage; -2 is retention.bytes.",
    "local.retention.ms": "Time kept on local disk with tiered storage; -2 is retention.ms.",
    "max.compaction.lag.ms": "The longest time a record may stay uncompacted.",
    "max.message.bytes": "The largest batch that is accepted, after compression.",
    "message.downconversion.enable": "Whether old consumers get batches converted for them.",
    "message.timestamp.after.max.ms": "How far a timestamp may be ahead of the broker's time.",
    "message.timestamp.before.max.ms": "How far a timestamp may be behind the broker's time.",
    "message.timestamp.type": "Whose time a record carries: the producer's or the broker's.",
    "min.cleanable.dirty.ratio": "The share of uncompacted log that makes compaction worth it.",
    "min.compaction.lag.ms": "The shortest time a record stays uncompacted.",
    "min.insync.replicas": "In-sync replicas without which acks=all is refused.",
    "preallocate": "Whether a segment's file gets its full size when it is made.",
    "remote.log.copy.disable": "Whether tiered storage stops taking up segments.",
    "remote.log.delete.on.disable": "Whether turning tiered storage off deletes what it holds.",
    "remote.storage.enable": "Whether tiered storage is used; this broker has none.",
    "retention.bytes": "The size beyond which a partition's oldest segments go; -1 for no limit.",
    "retention.ms": "The age at which segments go; -1 for no limit.",
    "segment.bytes": "The size at which a new segment begins.",
    "segment.index.bytes": "The largest size of an offset index.",
    "segment.jitter.ms": "Random time taken off segment.ms, so that segments do not roll together.",
    "segment.ms": "The age at which a new segment begins, full or not.",
    "unclean.leader.election.enable": "Whether a replica out of sync may lead, losing data.",
}

GROUP_DOCS: Final[Mapping[str, str]] = {
    HEARTBEAT_INTERVAL: "How often members of this consumer group are to be heard of.",
    SESSION_TIMEOUT: "The silence after which a member of this consumer group is left out.",
}

_BROKER_DOCS: Final[Mapping[str, str]] = {
    synonym.name: doc for name, doc in TOPIC_DOCS.items() for synonym in SYNONYMS.get(name, ())
}


def documentation(name: str) -> str:
    """A sentence on a topic, broker or group key."""
    found = TOPIC_DOCS.get(name) or _BROKER_DOCS.get(name) or GROUP_DOCS.get(name)
    return found or f"Kafka's broker setting {name}."
