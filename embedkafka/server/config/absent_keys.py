"""The keys of parts that this broker does not have, so that tools find all of Kafka's keys.

Names, types, defaults and limits are those of Kafka 4.3. None of them has an effect (`inert`).
"""

import re
from typing import Final

from embedkafka.protocol.wire_types import MAX_INT, MAX_LONG
from embedkafka.server.config.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    ConfigKey,
    ConfigValue,
    at_least,
    between,
    boolean_key,
    distinct,
    int_key,
    list_key,
    long_key,
    not_empty,
    one_of,
    short_key,
    string_key,
)

_VOTER: Final = r"\d+@[^:]+:\d+"


def _voters(value: ConfigValue) -> str | None:
    voters = value if isinstance(value, tuple) else ()
    if all(re.fullmatch(_VOTER, voter) for voter in voters):
        return None
    return "Each entry should be in the form `{id}@{host}:{port}`."


_KRAFT: Final = (
    int_key("broker.heartbeat.interval.ms", 2000),
    int_key("broker.session.timeout.ms", 9000),
    list_key("controller.listener.names", None, distinct),
    int_key("controller.quorum.append.linger.ms", 25, at_least(0)),
    boolean_key("controller.quorum.auto.join.enable", False),
    list_key("controller.quorum.bootstrap.servers", (), distinct),
    int_key("controller.quorum.election.backoff.max.ms", 1000, at_least(0)),
    int_key("controller.quorum.election.timeout.ms", 1000, at_least(0)),
    int_key("controller.quorum.fetch.max.bytes", 1_048_576, at_least(1)),
    int_key("controller.quorum.fetch.snapshot.max.bytes", 1_048_576, at_least(1)),
    int_key("controller.quorum.fetch.timeout.ms", 2000, at_least(0)),
    int_key("controller.quorum.request.timeout.ms", 2000, at_least(0)),
    int_key("controller.quorum.retry.backoff.ms", 20, at_least(0)),
    list_key("controller.quorum.voters", (), _voters),
    list_key("cordoned.log.dirs", (), distinct, update=PER_BROKER),
    int_key("initial.broker.registration.timeout.ms", 60_000),
    long_key("log.dir.failure.timeout.ms", 30_000, at_least(1)),
    string_key("metadata.log.dir", None),
    long_key("metadata.log.max.record.bytes.between.snapshots", 20_971_520, at_least(1)),
    long_key("metadata.log.max.snapshot.interval.ms", 3_600_000, at_least(0)),
    int_key("metadata.log.segment.bytes", 1_073_741_824, at_least(8_388_608)),
    long_key("metadata.log.segment.ms", 604_800_000),
    int_key("metadata.max.idle.interval.ms", 500, at_least(0)),
    long_key("metadata.max.retention.bytes", 104_857_600),
    long_key("metadata.max.retention.ms", 604_800_000),
    list_key("process.roles", None, one_of("broker", "controller")),
)

_TIERED_STORAGE: Final = (
    boolean_key("follower.fetch.last.tiered.offset.enable", False, update=CLUSTER_WIDE),
    long_key("log.local.retention.bytes", -2, at_least(-2), update=CLUSTER_WIDE),
    long_key("log.local.retention.ms", -2, at_least(-2), update=CLUSTER_WIDE),
    int_key("remote.fetch.max.wait.ms", 500, at_least(1), update=CLUSTER_WIDE),
    long_key("remote.list.offsets.request.timeout.ms", 30_000, at_least(1), update=CLUSTER_WIDE),
    long_key(
        "remote.log.index.file.cache.total.size.bytes",
        1_073_741_824,
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    int_key("remote.log.manager.copier.thread.pool.size", 10, at_least(1), update=CLUSTER_WIDE),
    long_key(
        "remote.log.manager.copy.max.bytes.per.second", MAX_LONG, at_least(1), update=CLUSTER_WIDE
    ),
    int_key("remote.log.manager.copy.quota.window.num", 11, at_least(1)),
    int_key("remote.log.manager.copy.quota.window.size.seconds", 1, at_least(1)),
    int_key("remote.log.manager.expiration.thread.pool.size", 10, at_least(1), update=CLUSTER_WIDE),
    long_key(
        "remote.log.manager.fetch.max.bytes.per.second", MAX_LONG, at_least(1), update=CLUSTER_WIDE
    ),
    int_key("remote.log.manager.fetch.quota.window.num", 11, at_least(1)),
    int_key("remote.log.manager.fetch.quota.window.size.seconds", 1, at_least(1)),
    int_key("remote.log.manager.follower.thread.pool.size", 2, at_least(1), update=CLUSTER_WIDE),
    long_key("remote.log.manager.task.interval.ms", 30_000, at_least(1)),
    int_key("remote.log.manager.thread.pool.size", 2, at_least(1)),
    int_key("remote.log.metadata.custom.metadata.max.bytes", 128, at_least(0)),
    string_key(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        not_empty,
    ),
    string_key("remote.log.metadata.manager.class.path", None),
    string_key("remote.log.metadata.manager.impl.prefix", "rlmm.config.", not_empty),
    string_key("remote.log.metadata.manager.listener.name", None, not_empty),
    int_key("remote.log.reader.max.pending.tasks", 100, at_least(1)),
    int_key("remote.log.reader.threads", 10, at_least(1), update=CLUSTER_WIDE),
    string_key("remote.log.storage.manager.class.name", None, not_empty),
    string_key("remote.log.storage.manager.class.path", None),
    string_key("remote.log.storage.manager.impl.prefix", "rsm.config.", not_empty),
    boolean_key("remote.log.storage.system.enable", False),
)

_SHARE_GROUPS: Final = (
    int_key("group.share.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE),
    list_key("group.share.assignors", ("simple",), distinct),
    int_key("group.share.delivery.count.limit", 5, between(2, 10)),
    int_key("group.share.heartbeat.interval.ms", 5000, at_least(1)),
    int_key("group.share.max.assignment.interval.ms", 15_000, at_least(0)),
    int_key("group.share.max.delivery.count.limit", 10, between(5, 25)),
    int_key("group.share.max.heartbeat.interval.ms", 15_000, at_least(1)),
    int_key("group.share.max.partition.max.record.locks", 4000, between(2000, 10_000)),
    int_key("group.share.max.record.lock.duration.ms", 60_000, between(30_000, 3_600_000)),
    int_key("group.share.max.session.timeout.ms", 60_000, at_least(1)),
    int_key("group.share.max.share.sessions", 2000, at_least(1)),
    int_key("group.share.max.size", 200, between(1, 1000)),
    int_key("group.share.min.assignment.interval.ms", 0, at_least(0)),
    int_key("group.share.min.delivery.count.limit", 2, between(2, 5)),
    int_key("group.share.min.heartbeat.interval.ms", 5000, at_least(1)),
    int_key("group.share.min.partition.max.record.locks", 100, between(100, 2000)),
    int_key("group.share.min.record.lock.duration.ms", 15_000, between(1000, 30_000)),
    int_key("group.share.min.session.timeout.ms", 45_000, at_least(1)),
    int_key("group.share.partition.max.record.locks", 2000, between(100, 10_000)),
    int_key("group.share.record.lock.duration.ms", 30_000, between(1000, 3_600_000)),
    int_key("group.share.session.timeout.ms", 45_000, at_least(1)),
    int_key("share.coordinator.append.linger.ms", -1, at_least(-1)),
    int_key(
        "share.coordinator.cached.buffer.max.bytes",
        1_048_588,
        at_least(524_288),
        update=CLUSTER_WIDE,
    ),
    int_key("share.coordinator.load.buffer.size", 5_242_880, at_least(1)),
    int_key("share.coordinator.snapshot.update.records.per.snapshot", 500, between(0, 500)),
    int_key("share.coordinator.state.topic.compression.codec", 0),
    short_key("share.coordinator.state.topic.min.isr", 2, at_least(1)),
    int_key("share.coordinator.state.topic.num.partitions", 50, at_least(1)),
    short_key("share.coordinator.state.topic.replication.factor", 3, at_least(1)),
    int_key("share.coordinator.state.topic.segment.bytes", 104_857_600, at_least(1)),
    int_key("share.coordinator.threads", 1, at_least(1)),
    int_key("share.coordinator.write.timeout.ms", 5000, at_least(1)),
    int_key("share.fetch.purgatory.purge.interval.requests", 1000),
)

_STREAMS_GROUPS: Final = (
    int_key("group.streams.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE),
    int_key("group.streams.heartbeat.interval.ms", 5000, at_least(1)),
    int_key("group.streams.initial.rebalance.delay.ms", 3000, at_least(0)),
    int_key("group.streams.max.assignment.interval.ms", 15_000, at_least(0)),
    int_key("group.streams.max.heartbeat.interval.ms", 15_000, at_least(1)),
    int_key("group.streams.max.session.timeout.ms", 60_000, at_least(1)),
    int_key("group.streams.max.size", MAX_INT, at_least(1)),
    int_key("group.streams.max.standby.replicas", 2, at_least(0)),
    int_key("group.streams.min.assignment.interval.ms", 0, at_least(0)),
    int_key("group.streams.min.heartbeat.interval.ms", 5000, at_least(1)),
    int_key("group.streams.min.session.timeout.ms", 45_000, at_least(1)),
    int_key("group.streams.num.standby.replicas", 0, at_least(0)),
    int_key("group.streams.session.timeout.ms", 45_000, at_least(1)),
)

ABSENT_KEYS: Final[tuple[ConfigKey, ...]] = (
    *_KRAFT,
    *_TIERED_STORAGE,
    *_SHARE_GROUPS,
    *_STREAMS_GROUPS,
)
