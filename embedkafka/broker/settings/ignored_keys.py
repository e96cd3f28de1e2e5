"""Kafka settings that have no effect here: a row each, by the reason.

The table drives the warning or refusal at start, the answer to a client that changes such a
setting, its documentation in DescribeConfigs, and a part of `docs/reference/settings.md`. Every
setting in `broker_keys`, `topic_keys` or `group` that is not in this table works;
`tests/cluster/lifecycle/test_settings.py` checks each one.

The rules:

- If ignoring a setting could make a test pass that should fail (an authorizer, a policy), the
  cluster refuses to start with a `ConfigError`.
- Any other setting produces a `ConfigWarning`, unless its value is in force anyway.
- Changing a broker setting at run time answers INVALID_REQUEST with the reason. Kafka would accept
  some of these changes; a success here would be a lie. DescribeConfigs shows them as read-only.
- Kerberos's settings may change on a broker without SASL, where Kafka would not use them either.
- A topic setting is accepted silently if Kafka without tiered storage ignores it too.
"""

import re
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Final

from embedkafka.broker.settings.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    ConfigKey,
    ConfigType,
    ConfigValue,
    at_least,
    between,
    boolean_key,
    class_key,
    distinct,
    double_key,
    int_key,
    list_key,
    long_key,
    not_empty,
    one_of,
    password_key,
    short_key,
    string_key,
)
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.wire_types import MAX_INT, MAX_LONG


@dataclass(frozen=True, slots=True)
class Inert:
    """Why a setting has no effect, and whether it is refused."""

    reason: str
    refused: bool = False


_unlisted: Final = partial(ConfigKey, ConfigType.UNKNOWN)
"""A setting that DescribeConfigs does not show, or, with a dot at the end, all that begin so."""

_VOTER: Final = r"\d+@[^:]+:\d+"


def _voters(value: ConfigValue) -> str | None:
    voters = value if isinstance(value, tuple) else ()
    if all(re.fullmatch(_VOTER, voter) for voter in voters):
        return None
    return "Each entry should be in the form `{id}@{host}:{port}`."


_JAVA_CLASS: Final = "it names a Java class, which cannot run in Python"

# fmt: off
_WARNED: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "passwords are stored as they are": (
        _unlisted("password.encoder.",
            doc="How passwords are encoded that are changed at run time."),
    ),
    "connections to ZooKeeper are plaintext": (
        _unlisted("zookeeper.ssl.", doc="TLS for the connection to ZooKeeper."),
    ),
    "OpenSSL decides it, not Java": (
        string_key("security.providers", None, doc="Java classes that provide algorithms."),
        string_key("ssl.keymanager.algorithm", "SunX509", update=PER_BROKER,
            doc="How Java looks for the broker's key."),
        string_key("ssl.protocol", "TLSv1.3", update=PER_BROKER,
            doc="The protocol of Java's TLS context."),
        string_key("ssl.provider", None, update=PER_BROKER, doc="The Java provider of TLS."),
        string_key("ssl.secure.random.implementation", None, update=PER_BROKER,
            doc="Java's source of random numbers."),
        string_key("ssl.trustmanager.algorithm", "PKIX", update=PER_BROKER,
            doc="How Java checks certificates."),
    ),
    "the Kerberos library gets new tickets by itself": (
        string_key("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", update=PER_BROKER,
            doc="The command that obtains Kerberos tickets."),
        long_key("sasl.kerberos.min.time.before.relogin", 60_000, update=PER_BROKER,
            doc="The shortest time between two such logins."),
        double_key("sasl.kerberos.ticket.renew.jitter", 0.05, update=PER_BROKER,
            doc="The random part of the time before a renewal."),
        double_key("sasl.kerberos.ticket.renew.window.factor", 0.8, update=PER_BROKER,
            doc="The share of a ticket's life before a renewal."),
        _unlisted("sasl.kerberos.ticket."),
    ),
    "brokers obtain no tokens from other servers": (
        class_key("sasl.login.callback.handler.class", None,
            doc="The class that provides a broker's own logins."),
        class_key("sasl.login.class", None, doc="The class that logs a broker in."),
        int_key("sasl.login.connect.timeout.ms", None,
            doc="How long to connect to a server of tokens."),
        int_key("sasl.login.read.timeout.ms", None, doc="How long to wait for its answer."),
        short_key("sasl.login.refresh.buffer.seconds", 300, update=PER_BROKER,
            doc="How long before its end a token must be renewed."),
        short_key("sasl.login.refresh.min.period.seconds", 60, update=PER_BROKER,
            doc="The shortest time between two renewals."),
        double_key("sasl.login.refresh.window.factor", 0.8, update=PER_BROKER,
            doc="The share of a token's life before it is renewed."),
        double_key("sasl.login.refresh.window.jitter", 0.05, update=PER_BROKER,
            doc="The random part of that share."),
        long_key("sasl.login.retry.backoff.max.ms", 10_000,
            doc="The longest pause before another attempt."),
        long_key("sasl.login.retry.backoff.ms", 100, doc="The first pause before another attempt."),
        string_key("sasl.oauthbearer.assertion.algorithm", "RS256", one_of("ES256", "RS256"),
            doc="How an assertion is signed."),
        string_key("sasl.oauthbearer.assertion.claim.aud", None,
            doc="The audience that an assertion names."),
        int_key("sasl.oauthbearer.assertion.claim.exp.seconds", 300, between(0, 86_400),
            doc="How long an assertion is valid."),
        string_key("sasl.oauthbearer.assertion.claim.iss", None,
            doc="The issuer that an assertion names."),
        boolean_key("sasl.oauthbearer.assertion.claim.jti.include", False,
            doc="Whether an assertion has an id."),
        int_key("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, between(0, 3600),
            doc="From when on an assertion is valid."),
        string_key("sasl.oauthbearer.assertion.claim.sub", None,
            doc="The subject that an assertion names."),
        string_key("sasl.oauthbearer.assertion.file", None, doc="A file with a ready assertion."),
        string_key("sasl.oauthbearer.assertion.private.key.file", None,
            doc="The key that signs assertions."),
        password_key("sasl.oauthbearer.assertion.private.key.passphrase",
            doc="The passphrase of that key."),
        string_key("sasl.oauthbearer.assertion.template.file", None,
            doc="A file with further claims."),
        string_key("sasl.oauthbearer.client.credentials.client.id", None,
            doc="The id with which a broker asks for tokens."),
        password_key("sasl.oauthbearer.client.credentials.client.secret",
            doc="The secret that goes with that id."),
        long_key("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000,
            doc="How often keys are fetched from their server."),
        long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000,
            doc="The longest pause between attempts."),
        long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100,
            doc="The first pause between attempts."),
        class_key("sasl.oauthbearer.jwt.retriever.class",
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            doc="The class that obtains tokens."),
        class_key("sasl.oauthbearer.jwt.validator.class",
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            doc="The class that checks tokens."),
        string_key("sasl.oauthbearer.scope", None, doc="The scope that a broker asks for."),
        string_key("sasl.oauthbearer.token.endpoint.url", None,
            doc="The server that gives out tokens."),
        _unlisted("sasl.login."),
        _unlisted("sasl.oauthbearer.assertion."),
        _unlisted("sasl.oauthbearer.client."),
        _unlisted("sasl.oauthbearer.jwks.endpoint.retry."),
        _unlisted("sasl.oauthbearer.jwt."),
    ),
    "no listener needs to start before the authorizer": (
        list_key("early.start.listeners", None, distinct,
            doc="Listeners that start before the authorizer has loaded."),
    ),
    "`kafka.metrics()` and `serve --metrics-port` show metrics; there are no reporters": (
        int_key("kafka.metrics.polling.interval.secs", 10, at_least(1),
            doc="How often reporters read the metrics."),
        list_key("kafka.metrics.reporters", (), distinct,
            doc="Classes that report the broker's older metrics."),
        list_key("metric.reporters", (), update=CLUSTER_WIDE, doc="Classes that report metrics."),
        int_key("metrics.num.samples", 2, at_least(1), doc="Samples kept for each metric."),
        string_key("metrics.recording.level", "INFO", doc="How detailed the metrics are."),
        long_key("metrics.sample.window.ms", 30_000, at_least(1),
            doc="The length of such a sample."),
        _unlisted("auto.include.jmx.reporter", doc="Whether metrics are reported by JMX."),
        _unlisted("kafka.metrics."),
        _unlisted("metrics."),
    ),
    "each broker uses one thread for this work": (
        int_key("background.threads", 10, at_least(1), update=CLUSTER_WIDE,
            doc="Threads for background work."),
        int_key("group.coordinator.background.threads", 2, at_least(1),
            doc="Threads for slow work of the group coordinator."),
        int_key("group.coordinator.threads", 4, at_least(1),
            doc="The threads of the group coordinator."),
        int_key("num.recovery.threads.per.data.dir", 2, at_least(1), update=CLUSTER_WIDE,
            doc="Threads that recover the logs of a directory."),
        int_key("num.replica.alter.log.dirs.threads", None,
            doc="Threads that move logs between directories."),
    ),
    "leaders notify their followers, so one fetcher per leader is enough": (
        int_key("num.replica.fetchers", 1, at_least(1), update=CLUSTER_WIDE,
            doc="Threads that fetch from each leader."),
    ),
    "a coordinator appends its records at once, without buffering": (
        int_key("group.coordinator.append.linger.ms", -1, at_least(-1),
            doc="How long the group coordinator collects writes."),
        int_key("group.coordinator.cached.buffer.max.bytes", 1_048_588, at_least(524_288),
            update=CLUSTER_WIDE,
            doc="The largest write buffer that it keeps."),
    ),
    "a group gets a new assignment as soon as it changes": (
        int_key("group.consumer.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE,
            doc="How often a group may get a new assignment."),
        int_key("group.consumer.max.assignment.interval.ms", 15_000, at_least(0),
            doc="The longest such interval of a group."),
        int_key("group.consumer.min.assignment.interval.ms", 0, at_least(0),
            doc="The shortest such interval of a group."),
    ),
    "the operating system chooses socket buffer sizes": (
        int_key("replica.socket.receive.buffer.bytes", 65_536,
            doc="The receive buffer of a follower's socket."),
        int_key("socket.receive.buffer.bytes", 102_400,
            doc="The receive buffer of a client's socket."),
        int_key("socket.send.buffer.bytes", 102_400, doc="The send buffer of a client's socket."),
    ),
    "compaction reads one batch at a time": (
        int_key("log.cleaner.io.buffer.size", 524_288, at_least(0), update=CLUSTER_WIDE,
            doc="Memory with which the cleaner reads and writes."),
    ),
    "brokers connect over loopback, and the request timeout applies": (
        long_key("socket.connection.setup.timeout.max.ms", 30_000,
            doc="The longest time to connect to a broker."),
        long_key("socket.connection.setup.timeout.ms", 10_000,
            doc="The time to connect to a broker at first."),
    ),
    "records are stored in the newest message format": (
        string_key("log.message.format.version", "3.0-IV1", doc="The format of stored records."),
    ),
    "broker ids are assigned, never generated": (
        boolean_key("broker.id.generation.enable", True,
            doc="Whether ZooKeeper gives a broker its id."),
        int_key("reserved.broker.max.id", 1000, at_least(0),
            doc="The highest id that a broker may choose itself."),
    ),
    "a move between log directories waits after each chunk for as long as its rate demands": (
        int_key("alter.log.dirs.replication.quota.window.num", 11, at_least(1),
            doc="Samples kept to measure moves of logs."),
        int_key("alter.log.dirs.replication.quota.window.size.seconds", 1, at_least(1),
            doc="The length of such a sample."),
        _unlisted("alter.log.dirs.replication.quota.window."),
    ),
    "requests to ZooKeeper are not limited": (
        int_key("zookeeper.max.in.flight.requests", 10, at_least(1),
            doc="Requests to ZooKeeper that may be unanswered."),
        _unlisted("zookeeper.clientCnxnSocket",
            doc="The Java class of the connection to ZooKeeper."),
    ),
    "the cluster runs in ZooKeeper mode; KRaft is not supported": (
        int_key("broker.heartbeat.interval.ms", 2000,
            doc="How often a broker tells the controller that it is alive."),
        int_key("broker.session.timeout.ms", 9000,
            doc="Fences a broker after this long without a heartbeat."),
        string_key("controller.listener.names", None, doc="The listeners of controllers."),
        int_key("controller.quorum.append.linger.ms", 25, at_least(0),
            doc="How long the leader collects records before a write."),
        boolean_key("controller.quorum.auto.join.enable", False,
            doc="Whether a new controller becomes a voter by itself."),
        list_key("controller.quorum.bootstrap.servers", (), distinct,
            doc="Where a node looks for the controllers."),
        int_key("controller.quorum.election.backoff.max.ms", 1000, at_least(0),
            doc="The longest pause before another election."),
        int_key("controller.quorum.election.timeout.ms", 1000, at_least(0),
            doc="How long an election may take."),
        int_key("controller.quorum.fetch.max.bytes", 1_048_576, at_least(1),
            doc="The most of the metadata log that one fetch returns."),
        int_key("controller.quorum.fetch.snapshot.max.bytes", 1_048_576, at_least(1),
            doc="The most of a snapshot that one fetch returns."),
        int_key("controller.quorum.fetch.timeout.ms", 2000, at_least(0),
            doc="A voter without a leader this long wants an election."),
        int_key("controller.quorum.request.timeout.ms", 2000, at_least(0),
            doc="How long a controller waits for an answer."),
        int_key("controller.quorum.retry.backoff.ms", 20, at_least(0),
            doc="The pause before a controller repeats a request."),
        list_key("controller.quorum.voters", (), _voters, doc="The controllers, as id@host:port."),
        list_key("cordoned.log.dirs", (), distinct, update=PER_BROKER,
            doc="Log directories that get no new replicas."),
        int_key("initial.broker.registration.timeout.ms", 60_000,
            doc="How long a starting broker tries to register."),
        long_key("log.dir.failure.timeout.ms", 30_000, at_least(1),
            doc="A broker ends if it cannot report a failed directory in time."),
        string_key("metadata.log.dir", None, doc="The directory of the metadata log."),
        long_key("metadata.log.max.record.bytes.between.snapshots", 20_971_520, at_least(1),
            doc="Writes a snapshot after this many bytes."),
        long_key("metadata.log.max.snapshot.interval.ms", 3_600_000, at_least(0),
            doc="Writes a snapshot after this time."),
        int_key("metadata.log.segment.bytes", 1_073_741_824, at_least(8_388_608),
            doc="The size of a segment of the metadata log."),
        long_key("metadata.log.segment.ms", 604_800_000,
            doc="Starts a new segment of the metadata log after this time."),
        int_key("metadata.max.idle.interval.ms", 500, at_least(0),
            doc="How often an idle controller writes an empty record."),
        long_key("metadata.max.retention.bytes", 104_857_600,
            doc="Deletes old snapshots and segments beyond this size."),
        long_key("metadata.max.retention.ms", 604_800_000,
            doc="Deletes snapshots and segments that are older than this."),
        list_key("process.roles", None, one_of("broker", "controller"),
            doc="Whether a node is a broker, a controller or both."),
        string_key("sasl.mechanism.controller.protocol", "GSSAPI",
            doc="The mechanism with which nodes log in to controllers."),
        _unlisted("controller.performance.", doc="When a controller reports slow events."),
        _unlisted("controller.quorum."),
        _unlisted("eligible.leader.replicas.enable",
            doc="Whether replicas that left the ISR safely may lead again."),
        _unlisted("metadata."),
        _unlisted("server.max.startup.time.ms", doc="How long a broker may take to start."),
        _unlisted("unstable.", doc="Switches on APIs and features that are not released."),
        _unlisted("zookeeper.metadata.migration.enable",
            doc="Whether a cluster moves from ZooKeeper to KRaft."),
    ),
    "tiered storage is not supported": (
        boolean_key("follower.fetch.last.tiered.offset.enable", False, update=CLUSTER_WIDE,
            doc="Whether a new follower begins after what is in remote storage."),
        long_key("log.local.retention.bytes", -2, at_least(-2), update=CLUSTER_WIDE,
            doc="Keeps this much of a partition on the broker's disks."),
        long_key("log.local.retention.ms", -2, at_least(-2), update=CLUSTER_WIDE,
            doc="Keeps records on the broker's disks for this long."),
        int_key("remote.fetch.max.wait.ms", 500, at_least(1), update=CLUSTER_WIDE,
            doc="How long a fetch waits for remote storage."),
        long_key("remote.list.offsets.request.timeout.ms", 30_000, at_least(1), update=CLUSTER_WIDE,
            doc="How long a search for an offset may take there."),
        long_key("remote.log.index.file.cache.total.size.bytes", 1_073_741_824, at_least(1),
            update=CLUSTER_WIDE,
            doc="Disk space for cached remote indexes."),
        int_key("remote.log.manager.copier.thread.pool.size", 10, at_least(1), update=CLUSTER_WIDE,
            doc="Threads that copy segments."),
        long_key("remote.log.manager.copy.max.bytes.per.second", MAX_LONG, at_least(1),
            update=CLUSTER_WIDE,
            doc="Limits the copying of segments."),
        int_key("remote.log.manager.copy.quota.window.num", 11, at_least(1),
            doc="Samples kept to measure the copying."),
        int_key("remote.log.manager.copy.quota.window.size.seconds", 1, at_least(1),
            doc="The length of such a sample."),
        int_key("remote.log.manager.expiration.thread.pool.size", 10, at_least(1),
            update=CLUSTER_WIDE,
            doc="Threads that delete remote segments."),
        long_key("remote.log.manager.fetch.max.bytes.per.second", MAX_LONG, at_least(1),
            update=CLUSTER_WIDE,
            doc="Limits reads from remote storage."),
        int_key("remote.log.manager.fetch.quota.window.num", 11, at_least(1),
            doc="Samples kept to measure these reads."),
        int_key("remote.log.manager.fetch.quota.window.size.seconds", 1, at_least(1),
            doc="The length of such a sample."),
        int_key("remote.log.manager.follower.thread.pool.size", 2, at_least(1), update=CLUSTER_WIDE,
            doc="Threads that follow remote segments."),
        long_key("remote.log.manager.task.interval.ms", 30_000, at_least(1),
            doc="How often segments are copied and deleted."),
        int_key("remote.log.manager.thread.pool.size", 2, at_least(1),
            doc="Threads for all work on remote storage."),
        int_key("remote.log.metadata.custom.metadata.max.bytes", 128, at_least(0),
            doc="The most a plug-in may note per segment."),
        string_key("remote.log.metadata.manager.class.name",
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            not_empty,
            doc="The class that knows the remote segments."),
        string_key("remote.log.metadata.manager.class.path", None,
            doc="Where to load that class from."),
        string_key("remote.log.metadata.manager.impl.prefix", "rlmm.config.", not_empty,
            doc="The prefix of that class's own settings."),
        string_key("remote.log.metadata.manager.listener.name", None, not_empty,
            doc="The listener that class connects to."),
        int_key("remote.log.reader.max.pending.tasks", 100, at_least(1),
            doc="How many reads may queue for remote storage."),
        int_key("remote.log.reader.threads", 10, at_least(1), update=CLUSTER_WIDE,
            doc="Threads that read from remote storage."),
        string_key("remote.log.storage.manager.class.name", None, not_empty,
            doc="The class that stores segments."),
        string_key("remote.log.storage.manager.class.path", None,
            doc="Where to load that class from."),
        string_key("remote.log.storage.manager.impl.prefix", "rsm.config.", not_empty,
            doc="The prefix of that class's own settings."),
        boolean_key("remote.log.storage.system.enable", False, doc="Switches tiered storage on."),
        _unlisted("log.local.retention."),
        _unlisted("remote."),
    ),
    "share groups and Streams groups are not supported": (
        int_key("group.share.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE,
            doc="How often a share group may be assigned again."),
        list_key("group.share.assignors", ("simple",), distinct,
            doc="The assignors of share groups."),
        int_key("group.share.delivery.count.limit", 5, between(2, 10),
            doc="How often a record is delivered before it is given up."),
        int_key("group.share.heartbeat.interval.ms", 5000, at_least(1),
            doc="How often members of a share group send heartbeats."),
        int_key("group.share.max.assignment.interval.ms", 15_000, at_least(0),
            doc="The longest such interval of a share group."),
        int_key("group.share.max.delivery.count.limit", 10, between(5, 25),
            doc="The highest such limit of a group."),
        int_key("group.share.max.heartbeat.interval.ms", 15_000, at_least(1),
            doc="The longest interval of heartbeats."),
        int_key("group.share.max.partition.max.record.locks", 4000, between(2000, 10_000),
            doc="The most locks that a group may ask for."),
        int_key("group.share.max.record.lock.duration.ms", 60_000, between(30_000, 3_600_000),
            doc="The longest lock of a record."),
        int_key("group.share.max.session.timeout.ms", 60_000, at_least(1),
            doc="The longest session timeout."),
        int_key("group.share.max.share.sessions", 2000, at_least(1),
            doc="The most share sessions of a broker."),
        int_key("group.share.max.size", 200, between(1, 1000),
            doc="The most members of a share group."),
        int_key("group.share.min.assignment.interval.ms", 0, at_least(0),
            doc="The shortest such interval of a share group."),
        int_key("group.share.min.delivery.count.limit", 2, between(2, 5),
            doc="The lowest such limit of a group."),
        int_key("group.share.min.heartbeat.interval.ms", 5000, at_least(1),
            doc="The shortest interval of heartbeats."),
        int_key("group.share.min.partition.max.record.locks", 100, between(100, 2000),
            doc="The fewest locks that a group may ask for."),
        int_key("group.share.min.record.lock.duration.ms", 15_000, between(1000, 30_000),
            doc="The shortest lock of a record."),
        int_key("group.share.min.session.timeout.ms", 45_000, at_least(1),
            doc="The shortest session timeout."),
        int_key("group.share.partition.max.record.locks", 2000, between(100, 10_000),
            doc="The most records of a partition in delivery."),
        int_key("group.share.record.lock.duration.ms", 30_000, between(1000, 3_600_000),
            doc="How long a record stays locked for its consumer."),
        int_key("group.share.session.timeout.ms", 45_000, at_least(1),
            doc="Removes a member of a share group after this long without a heartbeat."),
        int_key("group.streams.assignment.interval.ms", 1000, at_least(0), update=CLUSTER_WIDE,
            doc="How often a Streams group may be assigned again."),
        int_key("group.streams.heartbeat.interval.ms", 5000, at_least(1),
            doc="How often members of a Streams group send heartbeats."),
        int_key("group.streams.initial.rebalance.delay.ms", 3000, at_least(0),
            doc="How long a new group waits for more members."),
        int_key("group.streams.max.assignment.interval.ms", 15_000, at_least(0),
            doc="The longest such interval of a Streams group."),
        int_key("group.streams.max.heartbeat.interval.ms", 15_000, at_least(1),
            doc="The longest interval of heartbeats."),
        int_key("group.streams.max.session.timeout.ms", 60_000, at_least(1),
            doc="The longest session timeout."),
        int_key("group.streams.max.size", MAX_INT, at_least(1),
            doc="The most members of a Streams group."),
        int_key("group.streams.max.standby.replicas", 2, at_least(0),
            doc="The most standby replicas of a task."),
        int_key("group.streams.min.assignment.interval.ms", 0, at_least(0),
            doc="The shortest such interval of a Streams group."),
        int_key("group.streams.min.heartbeat.interval.ms", 5000, at_least(1),
            doc="The shortest interval of heartbeats."),
        int_key("group.streams.min.session.timeout.ms", 45_000, at_least(1),
            doc="The shortest session timeout."),
        int_key("group.streams.num.standby.replicas", 0, at_least(0),
            doc="The standby replicas of a task."),
        int_key("group.streams.session.timeout.ms", 45_000, at_least(1),
            doc="Removes a member of a Streams group after this long without a heartbeat."),
        int_key("share.coordinator.append.linger.ms", -1, at_least(-1),
            doc="How long the share coordinator collects writes."),
        int_key("share.coordinator.cached.buffer.max.bytes", 1_048_588, at_least(524_288),
            update=CLUSTER_WIDE,
            doc="The largest write buffer that it keeps."),
        int_key("share.coordinator.load.buffer.size", 5_242_880, at_least(1),
            doc="How much it reads at once when it loads its state."),
        int_key("share.coordinator.snapshot.update.records.per.snapshot", 500, between(0, 500),
            doc="Updates between two snapshots."),
        int_key("share.coordinator.state.topic.compression.codec", 0,
            doc="The codec of the topic with its state."),
        short_key("share.coordinator.state.topic.min.isr", 2, at_least(1),
            doc="The in-sync replicas that the topic needs."),
        int_key("share.coordinator.state.topic.num.partitions", 50, at_least(1),
            doc="The partitions of the topic."),
        short_key("share.coordinator.state.topic.replication.factor", 3, at_least(1),
            doc="The replicas of the topic."),
        int_key("share.coordinator.state.topic.segment.bytes", 104_857_600, at_least(1),
            doc="The size of a segment of the topic."),
        int_key("share.coordinator.threads", 1, at_least(1),
            doc="The threads of the share coordinator."),
        int_key("share.coordinator.write.timeout.ms", 5000, at_least(1),
            doc="How long it waits for a write."),
        int_key("share.fetch.purgatory.purge.interval.requests", 1000,
            doc="How often waiting share fetches are purged."),
        _unlisted("errors.deadletterqueue.", doc="Where records go that a share group gives up."),
        _unlisted("group.share."),
        _unlisted("group.streams."),
        _unlisted("share."),
    ),
    "clients are not asked for their metrics": (
        int_key("telemetry.max.bytes", 1_048_576, at_least(1),
            doc="The most metrics that a client may send at once."),
    ),
    "two-phase commit is not supported": (
        boolean_key("transaction.two.phase.commit.enable", False,
            doc="Whether transactions may wait for another system."),
    ),
}

_REFUSED: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "the policy would not be applied: " + _JAVA_CLASS: (
        class_key("alter.config.policy.class.name", None,
            doc="The class that may refuse changes of settings."),
        class_key("create.topic.policy.class.name", None,
            doc="The class that may refuse new topics."),
    ),
    "the callback would not be called: " + _JAVA_CLASS: (
        class_key("client.quota.callback.class", None, doc="The class that computes quotas."),
        class_key("sasl.client.callback.handler.class", None,
            doc="The class that answers as the client of a login."),
    ),
    "clients are named by their login or certificate: " + _JAVA_CLASS: (
        class_key("principal.builder.class",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            update=PER_BROKER,
            doc="The class that names clients."),
    ),
    "TLS is OpenSSL's: " + _JAVA_CLASS: (
        class_key("ssl.engine.factory.class", None, update=PER_BROKER,
            doc="The class that makes TLS engines."),
    ),
    "znodes have no ACLs": (
        boolean_key("zookeeper.set.acl", False, doc="Whether znodes are created with ACLs."),
    ),
    "values are used literally: " + _JAVA_CLASS: (
        list_key("config.providers", (), distinct, update=CLUSTER_WIDE,
            doc="Classes that look up values elsewhere."),
    ),
    "Kafka 4.0 removed it; use log.message.timestamp.before.max.ms and .after.max.ms": (
        _unlisted("log.message.timestamp.difference.max.ms", doc="How far a timestamp may be off."),
    ),
}
# fmt: on

IGNORED_KEYS: Final = tuple(
    key
    for key in chain(*_WARNED.values(), *_REFUSED.values())
    if key.type is not ConfigType.UNKNOWN
)

UNLISTED_DOCS: Final[dict[str, str]] = {
    key.name: key.doc
    for key in chain(*_WARNED.values(), *_REFUSED.values())
    if key.type is ConfigType.UNKNOWN and key.doc
}

INERT: Final[Mapping[str, Inert]] = {
    key.name: Inert(reason, refused)
    for table, refused in ((_WARNED, False), (_REFUSED, True))
    for reason, keys in table.items()
    for key in keys
}
"""By name, or by a prefix that ends in a dot."""

INERT_TOPIC: Final[Mapping[str, Inert]] = {
    name: Inert("it only matters with tiered storage, which is not supported")
    for name in (
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    )
}
"""Topic settings. Kafka ignores these too unless tiered storage is on."""
