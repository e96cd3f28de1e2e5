"""The broker's configuration keys.

Names, types, defaults and limits are those of Kafka 3.9, the last release with ZooKeeper, with the
newer defaults of 4.x where both have a key. The one addition: `num.io.threads` may be 0, and then
network threads handle requests themselves. The one restriction: `listeners` cannot change while the
broker runs.
Not here: which keys have no effect (`inert`), topic keys (`topic_keys`).
"""

import re
from collections.abc import Mapping
from typing import Final

from embedkafka.protocol.wire_types import MAX_INT, MAX_LONG
from embedkafka.server.config.absent_keys import ABSENT_KEYS
from embedkafka.server.config.definition import (
    CLUSTER_WIDE,
    MAX_DOUBLE,
    ConfigKey,
    ConfigValue,
    at_least,
    between,
    boolean_key,
    by_name,
    class_key,
    distinct,
    double_key,
    int_key,
    list_key,
    long_key,
    one_of,
    short_key,
    string_key,
)
from embedkafka.server.config.security_keys import SECURITY_KEYS

OFFERED_GROUPS: Final = ("classic", "consumer")
_OTHER_GROUPS: Final = ("share", "streams")
_RELEASE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})(?:-IV([0-9]{1,9}))?")
_ASSIGNOR_CLASSES: Final = {
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
}


def assignor_name(text: str) -> str:
    """The name of a built-in assignor, given by name or by its Java class."""
    return _ASSIGNOR_CLASSES.get(text, text)


def parse_ip_overrides(text: str) -> dict[str, int]:
    """Parses `host:count,...`; raises ValueError for anything else."""
    pairs = (item.rpartition(":") for item in text.split(",") if item.strip())
    return {host.strip(): int(count) for host, _, count in pairs}


def parse_release(text: str) -> tuple[tuple[int, ...], int]:
    """A release such as `2.7` or `2.7-IV1`: its numbers and its internal version.

    A release without one stands for its last. Raises ValueError for anything else.
    """
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return tuple(map(int, found[1].split("."))), int(found[2] or MAX_INT)


def _release(value: ConfigValue) -> str | None:
    try:
        parse_release(str(value))
    except ValueError:
        return f"Version {value} is not a valid version, such as 2.6 or 3.9-IV0"
    return None


def _ip_overrides(value: ConfigValue) -> str | None:
    try:
        parse_ip_overrides(str(value or ""))
    except ValueError:
        return "Expected a list of host:count"
    return None


def _known_assignors(value: ConfigValue) -> str | None:
    names = value if isinstance(value, tuple) else ()
    unknown = [name for name in names if assignor_name(name) not in ("range", "uniform")]
    if unknown:
        return f"only uniform and range are supported, not the Java class {unknown[0]}"
    return None if names else "at least one assignor is required"


def _rebalance_protocols(value: ConfigValue) -> str | None:
    names = value if isinstance(value, tuple) else ()
    unknown = [name for name in names if name not in (*OFFERED_GROUPS, *_OTHER_GROUPS)]
    if unknown:
        return f"String must be one of: {', '.join((*OFFERED_GROUPS, *_OTHER_GROUPS))}"
    return None if "classic" in names else "Disabling the 'classic' protocol is not supported."


def _all_acks(value: ConfigValue) -> str | None:
    return None if value == -1 else "a commit always waits for all in-sync replicas (-1)"


BROKER_KEYS: Final[Mapping[str, ConfigKey]] = by_name(
    [
        *ABSENT_KEYS,
        *SECURITY_KEYS,
        int_key("add.partitions.to.txn.retry.backoff.max.ms", 100, at_least(0)),
        int_key("add.partitions.to.txn.retry.backoff.ms", 20, at_least(1)),
        string_key("advertised.listeners", None),
        class_key("alter.config.policy.class.name", None),
        int_key("alter.log.dirs.replication.quota.window.num", 11, at_least(1)),
        int_key("alter.log.dirs.replication.quota.window.size.seconds", 1, at_least(1)),
        boolean_key("auto.create.topics.enable", True),
        boolean_key("auto.leader.rebalance.enable", True),
        int_key("background.threads", 10, at_least(1), update=CLUSTER_WIDE),
        int_key("broker.id", -1),
        boolean_key("broker.id.generation.enable", True),
        string_key("broker.rack", None),
        int_key("compression.gzip.level", -1, between(1, 9, also=-1), update=CLUSTER_WIDE),
        int_key("compression.lz4.level", 9, between(1, 17), update=CLUSTER_WIDE),
        string_key(
            "compression.type",
            "producer",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            update=CLUSTER_WIDE,
        ),
        int_key("compression.zstd.level", 3, between(-131072, 22), update=CLUSTER_WIDE),
        list_key("config.providers", (), distinct, update=CLUSTER_WIDE),
        long_key("connections.max.idle.ms", 600_000),
        string_key("control.plane.listener.name", None),
        boolean_key("controlled.shutdown.enable", True),
        int_key("controlled.shutdown.max.retries", 3),
        long_key("controlled.shutdown.retry.backoff.ms", 5000),
        string_key("controller.listener.names", None),
        int_key("controller.socket.timeout.ms", 30_000),
        class_key("create.topic.policy.class.name", None),
        int_key("default.replication.factor", 1),
        int_key("delete.records.purgatory.purge.interval.requests", 1),
        boolean_key("delete.topic.enable", True),
        int_key("fetch.max.bytes", 57_671_680, at_least(1024)),
        int_key("fetch.purgatory.purge.interval.requests", 1000),
        long_key("follower.replication.throttled.rate", MAX_LONG, at_least(0), update=CLUSTER_WIDE),
        int_key("group.consumer.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE),
        list_key("group.consumer.assignors", ("uniform", "range"), _known_assignors),
        int_key("group.consumer.heartbeat.interval.ms", 5000, at_least(1)),
        int_key("group.consumer.max.assignment.interval.ms", 15_000, at_least(0)),
        int_key("group.consumer.max.heartbeat.interval.ms", 15_000, at_least(1)),
        int_key("group.consumer.max.session.timeout.ms", 60_000, at_least(1)),
        int_key("group.consumer.max.size", MAX_INT, at_least(1)),
        string_key(
            "group.consumer.migration.policy",
            "bidirectional",
            one_of("disabled", "downgrade", "upgrade", "bidirectional"),
        ),
        int_key("group.consumer.min.assignment.interval.ms", 0, at_least(0)),
        int_key("group.consumer.min.heartbeat.interval.ms", 5000, at_least(1)),
        int_key("group.consumer.min.session.timeout.ms", 45_000, at_least(1)),
        int_key("group.consumer.session.timeout.ms", 45_000, at_least(1)),
        int_key("group.coordinator.append.linger.ms", -1, at_least(-1)),
        int_key("group.coordinator.background.threads", 2, at_least(1)),
        int_key(
            "group.coordinator.cached.buffer.max.bytes",
            1_048_588,
            at_least(524_288),
            update=CLUSTER_WIDE,
        ),
        list_key(
            "group.coordinator.rebalance.protocols",
            OFFERED_GROUPS,
            _rebalance_protocols,
        ),
        int_key("group.coordinator.threads", 4, at_least(1)),
        int_key("group.initial.rebalance.delay.ms", 3000),
        int_key("group.max.session.timeout.ms", 1_800_000),
        int_key("group.max.size", MAX_INT, at_least(1)),
        int_key("group.min.session.timeout.ms", 6000),
        int_key("internal.isr.change.linger.ms", 5000, at_least(1)),
        string_key("inter.broker.protocol.version", "3.9-IV0", _release),
        int_key("kafka.metrics.polling.interval.secs", 10, at_least(1)),
        list_key("kafka.metrics.reporters", (), distinct),
        long_key("leader.imbalance.check.interval.seconds", 300, at_least(1)),
        int_key("leader.imbalance.per.broker.percentage", 10),
        long_key("leader.replication.throttled.rate", MAX_LONG, at_least(0), update=CLUSTER_WIDE),
        string_key("listeners", "PLAINTEXT://:9092"),
        long_key("log.cleaner.backoff.ms", 15_000, at_least(0), update=CLUSTER_WIDE),
        long_key("log.cleaner.dedupe.buffer.size", 134_217_728, update=CLUSTER_WIDE),
        long_key("log.cleaner.delete.retention.ms", 86_400_000, at_least(0), update=CLUSTER_WIDE),
        boolean_key("log.cleaner.enable", True),
        double_key("log.cleaner.io.buffer.load.factor", 0.9, update=CLUSTER_WIDE),
        int_key("log.cleaner.io.buffer.size", 524_288, at_least(0), update=CLUSTER_WIDE),
        double_key("log.cleaner.io.max.bytes.per.second", MAX_DOUBLE, update=CLUSTER_WIDE),
        long_key("log.cleaner.max.compaction.lag.ms", MAX_LONG, at_least(1), update=CLUSTER_WIDE),
        double_key("log.cleaner.min.cleanable.ratio", 0.5, between(0, 1), update=CLUSTER_WIDE),
        long_key("log.cleaner.min.compaction.lag.ms", 0, at_least(0), update=CLUSTER_WIDE),
        int_key("log.cleaner.threads", 1, at_least(1), update=CLUSTER_WIDE),
        list_key(
            "log.cleanup.policy", ("delete",), one_of("compact", "delete"), update=CLUSTER_WIDE
        ),
        string_key("log.dir", "/tmp/kafka-logs"),
        string_key("log.dirs", None),
        long_key("log.flush.interval.messages", MAX_LONG, at_least(1), update=CLUSTER_WIDE),
        long_key("log.flush.interval.ms", None, update=CLUSTER_WIDE),
        int_key("log.flush.offset.checkpoint.interval.ms", 60_000, at_least(0)),
        long_key("log.flush.scheduler.interval.ms", MAX_LONG),
        int_key("log.flush.start.offset.checkpoint.interval.ms", 60_000, at_least(0)),
        int_key("log.index.interval.bytes", 4096, at_least(0), update=CLUSTER_WIDE),
        int_key("log.index.size.max.bytes", 10_485_760, at_least(4), update=CLUSTER_WIDE),
        long_key("log.initial.task.delay.ms", 30_000, at_least(0)),
        long_key("log.local.retention.bytes", -2, at_least(-2), update=CLUSTER_WIDE),
        long_key("log.local.retention.ms", -2, at_least(-2), update=CLUSTER_WIDE),
        boolean_key("log.message.downconversion.enable", True, update=CLUSTER_WIDE),
        string_key("log.message.format.version", "3.0-IV1"),
        long_key("log.message.timestamp.after.max.ms", 3_600_000, at_least(0), update=CLUSTER_WIDE),
        long_key("log.message.timestamp.before.max.ms", MAX_LONG, at_least(0), update=CLUSTER_WIDE),
        string_key(
            "log.message.timestamp.type",
            "CreateTime",
            one_of("CreateTime", "LogAppendTime"),
            update=CLUSTER_WIDE,
        ),
        boolean_key("log.preallocate", False, update=CLUSTER_WIDE),
        long_key("log.retention.bytes", -1, update=CLUSTER_WIDE),
        long_key("log.retention.check.interval.ms", 300_000, at_least(1)),
        int_key("log.retention.hours", 168),
        int_key("log.retention.minutes", None),
        long_key("log.retention.ms", None, update=CLUSTER_WIDE),
        int_key("log.roll.hours", 168, at_least(1)),
        int_key("log.roll.jitter.hours", 0, at_least(0)),
        long_key("log.roll.jitter.ms", None, update=CLUSTER_WIDE),
        long_key("log.roll.ms", None, update=CLUSTER_WIDE),
        int_key("log.segment.bytes", 1_073_741_824, at_least(14), update=CLUSTER_WIDE),
        long_key("log.segment.delete.delay.ms", 60_000, at_least(0), update=CLUSTER_WIDE),
        int_key("max.connections.per.ip", MAX_INT, at_least(0), update=CLUSTER_WIDE),
        string_key("max.connections.per.ip.overrides", "", _ip_overrides, update=CLUSTER_WIDE),
        int_key("max.incremental.fetch.session.cache.slots", 1000, at_least(0)),
        int_key("max.request.partition.size.limit", 2000, at_least(1)),
        int_key("message.max.bytes", 1_048_588, at_least(0), update=CLUSTER_WIDE),
        list_key("metric.reporters", (), update=CLUSTER_WIDE),
        int_key("metrics.num.samples", 2, at_least(1)),
        string_key("metrics.recording.level", "INFO"),
        long_key("metrics.sample.window.ms", 30_000, at_least(1)),
        int_key("min.insync.replicas", 1, at_least(1), update=CLUSTER_WIDE),
        int_key("node.id", -1),
        int_key("num.io.threads", 8, at_least(0), update=CLUSTER_WIDE),
        int_key("num.network.threads", 3, at_least(1), update=CLUSTER_WIDE),
        int_key("num.partitions", 1, at_least(1)),
        int_key("num.recovery.threads.per.data.dir", 2, at_least(1), update=CLUSTER_WIDE),
        int_key("num.replica.alter.log.dirs.threads", None),
        int_key("num.replica.fetchers", 1, at_least(1), update=CLUSTER_WIDE),
        int_key("offset.metadata.max.bytes", 4096),
        short_key("offsets.commit.required.acks", -1, _all_acks),
        int_key("offsets.commit.timeout.ms", 5000, at_least(1)),
        int_key("offsets.load.buffer.size", 5_242_880, at_least(1)),
        long_key("offsets.retention.check.interval.ms", 600_000, at_least(1)),
        int_key("offsets.retention.minutes", 10_080, at_least(1)),
        int_key("offsets.topic.compression.codec", 0, between(0, 4)),
        int_key("offsets.topic.num.partitions", 50, at_least(1)),
        short_key("offsets.topic.replication.factor", 3, at_least(1)),
        int_key("offsets.topic.segment.bytes", 104_857_600, at_least(1)),
        int_key("producer.id.expiration.check.interval.ms", 600_000, at_least(1)),
        int_key("producer.id.expiration.ms", 86_400_000, at_least(1), update=CLUSTER_WIDE),
        int_key("producer.purgatory.purge.interval.requests", 1000),
        long_key("queued.max.request.bytes", -1),
        int_key("queued.max.requests", 500, at_least(1)),
        long_key(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            MAX_LONG,
            at_least(0),
            update=CLUSTER_WIDE,
        ),
        int_key("replica.fetch.backoff.ms", 1000, at_least(0)),
        int_key("replica.fetch.max.bytes", 1_048_576, at_least(0)),
        int_key("replica.fetch.min.bytes", 1),
        int_key("replica.fetch.response.max.bytes", 10_485_760, at_least(0)),
        int_key("replica.fetch.wait.max.ms", 500),
        long_key("replica.high.watermark.checkpoint.interval.ms", 5000),
        long_key("replica.lag.time.max.ms", 30_000),
        string_key("replica.selector.class", None),
        int_key("replica.socket.receive.buffer.bytes", 65_536),
        int_key("replica.socket.timeout.ms", 30_000),
        int_key("replication.quota.window.num", 11, at_least(1)),
        int_key("replication.quota.window.size.seconds", 1, at_least(1)),
        int_key("request.timeout.ms", 30_000),
        int_key("reserved.broker.max.id", 1000, at_least(0)),
        long_key("socket.connection.setup.timeout.max.ms", 30_000),
        long_key("socket.connection.setup.timeout.ms", 10_000),
        int_key("socket.listen.backlog.size", 50, at_least(1)),
        int_key("socket.receive.buffer.bytes", 102_400),
        int_key("socket.request.max.bytes", 104_857_600, at_least(1)),
        int_key("socket.send.buffer.bytes", 102_400),
        int_key("telemetry.max.bytes", 1_048_576, at_least(1)),
        int_key("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, at_least(1)),
        int_key("transaction.max.timeout.ms", 900_000, at_least(1)),
        boolean_key("transaction.partition.verification.enable", True, update=CLUSTER_WIDE),
        int_key(
            "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, at_least(1)
        ),
        int_key("transaction.state.log.load.buffer.size", 5_242_880, at_least(1)),
        int_key("transaction.state.log.min.isr", 2, at_least(1)),
        int_key("transaction.state.log.num.partitions", 50, at_least(1)),
        short_key("transaction.state.log.replication.factor", 3, at_least(1)),
        int_key("transaction.state.log.segment.bytes", 104_857_600, at_least(1)),
        boolean_key("transaction.two.phase.commit.enable", False),
        int_key("transactional.id.expiration.ms", 604_800_000, at_least(1)),
        boolean_key("unclean.leader.election.enable", False, update=CLUSTER_WIDE),
        string_key("zookeeper.connect", None),
        int_key("zookeeper.connection.timeout.ms", None),
        int_key("zookeeper.max.in.flight.requests", 10, at_least(1)),
        int_key("zookeeper.session.timeout.ms", 18_000),
        boolean_key("zookeeper.set.acl", False),
    ]
)
