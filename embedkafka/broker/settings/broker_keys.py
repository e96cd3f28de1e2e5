"""The broker's configuration keys: a row each, with what it does.

Names, types, defaults and limits are those of Kafka 3.9, the last release with ZooKeeper, with the
newer defaults of 4.x where both have a key. The one addition: `num.io.threads` may be 0, and then
network threads handle requests themselves. The one restriction: `listeners` cannot change while the
broker runs.

A row without a sentence shares that of the topic key whose default it supplies.
Not here: keys without an effect (`ignored_keys`), topic keys (`topic_keys`), and settings for one
listener (`listener.name.<listener>.<key>`), which take a limit, or any SSL or SASL key.
"""

import re
from collections.abc import Mapping
from typing import Final

from embedkafka.broker.settings.definition import (
    CLUSTER_WIDE,
    MAX_DOUBLE,
    PER_BROKER,
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
    password_key,
    short_key,
    string_key,
)
from embedkafka.broker.settings.ignored_keys import IGNORED_KEYS
from embedkafka.wire.protocol.wire_types import MAX_INT, MAX_LONG

OFFERED_GROUPS: Final = ("classic", "consumer")
_OTHER_GROUPS: Final = ("share", "streams")
OFFERED_TLS: Final = ("TLSv1.2", "TLSv1.3")
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


_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)


def _kafkas_authorizer(value: ConfigValue) -> str | None:
    """Accepts the authorizers of Kafka itself, which decide alike, and so does ours."""
    if not value or value in _AUTHORIZERS:
        return None
    return f"a Java class cannot run in Python; use {' or '.join(_AUTHORIZERS)}"


# fmt: off
_KEYS: Final = (
    int_key("add.partitions.to.txn.retry.backoff.max.ms", 100, at_least(0),
        doc="How long a write waits for the producer's previous transaction to complete."),
    int_key("add.partitions.to.txn.retry.backoff.ms", 20, at_least(1),
        doc="How often a waiting write checks whether that transaction has completed."),
    string_key("advertised.listeners", None,
        doc="The addresses that clients are given; by default those listened on."),
    boolean_key("allow.everyone.if.no.acl.found", False,
        doc="Whether a resource without ACLs is open to everyone."),
    string_key("authorizer.class.name", "", _kafkas_authorizer,
        doc="Kafka's AclAuthorizer or StandardAuthorizer: clients need ACLs."),
    boolean_key("auto.create.topics.enable", True,
        doc="Whether asking for the metadata of a missing topic creates it."),
    boolean_key("auto.leader.rebalance.enable", True,
        doc="Whether the controller restores preferred leaders by itself."),
    int_key("broker.id", -1, doc="The broker's id."),
    string_key("broker.rack", None,
        doc="The broker's rack, for replica placement and for fetching from a near replica."),
    int_key("compression.gzip.level", -1, between(1, 9, also=-1), update=CLUSTER_WIDE),
    int_key("compression.lz4.level", 9, between(1, 17), update=CLUSTER_WIDE),
    string_key("compression.type", "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), update=CLUSTER_WIDE),
    int_key("compression.zstd.level", 3, between(-131072, 22), update=CLUSTER_WIDE),
    int_key("connection.failed.authentication.delay.ms", 100, at_least(0),
        doc="The wait of a client that is refused."),
    long_key("connections.max.idle.ms", 600_000,
        doc="Closes a connection after this long without a request."),
    long_key("connections.max.reauth.ms", 0,
        doc="How long a session lasts until clients log in again; 0: no end."),
    string_key("control.plane.listener.name", None,
        doc="The listener for the controller's requests."),
    boolean_key("controlled.shutdown.enable", True,
        doc="Whether a stopping broker first hands its leaders over."),
    int_key("controlled.shutdown.max.retries", 3,
        doc="How often a stopping broker asks the controller for that."),
    long_key("controlled.shutdown.retry.backoff.ms", 5000,
        doc="The wait between two such requests."),
    int_key("controller.quota.window.num", 11, at_least(1),
        doc="The number of windows for the quota on topic changes."),
    int_key("controller.quota.window.size.seconds", 1, at_least(1),
        doc="The length of one such window."),
    int_key("controller.socket.timeout.ms", 30_000,
        doc="The timeout of the controller's requests to brokers."),
    int_key("default.replication.factor", 1,
        doc="The replication factor of topics that do not ask for one."),
    long_key("delegation.token.expiry.check.interval.ms", 3_600_000, at_least(1),
        doc="How often the controller removes expired tokens."),
    long_key("delegation.token.expiry.time.ms", 86_400_000, at_least(1),
        doc="How long a delegation token is valid until it is renewed."),
    password_key("delegation.token.master.key",
        doc="The former name of delegation.token.secret.key."),
    long_key("delegation.token.max.lifetime.ms", 604_800_000, at_least(1),
        doc="The longest life of a token, renewals included."),
    password_key("delegation.token.secret.key",
        doc="The secret of all brokers that makes tokens; without it, none."),
    int_key("delete.records.purgatory.purge.interval.requests", 1,
        doc="Completed DeleteRecords requests per purge of the purgatory."),
    boolean_key("delete.topic.enable", True, doc="Whether topics can be deleted."),
    int_key("fetch.max.bytes", 57_671_680, at_least(1024),
        doc="The largest fetch response, unless its first batch alone is larger."),
    int_key("fetch.purgatory.purge.interval.requests", 1000,
        doc="Completed fetches per purge of the purgatory."),
    long_key("follower.replication.throttled.rate", MAX_LONG, at_least(0), update=CLUSTER_WIDE,
        doc="Bytes per second that throttled followers may fetch."),
    list_key("group.consumer.assignors", ("uniform", "range"), _known_assignors,
        doc="Assignors of consumer groups, the default first: uniform, range."),
    int_key("group.consumer.heartbeat.interval.ms", 5000, at_least(1),
        doc="How often members of consumer groups send heartbeats."),
    int_key("group.consumer.max.heartbeat.interval.ms", 15_000, at_least(1),
        doc="The largest heartbeat interval a group may set."),
    int_key("group.consumer.max.session.timeout.ms", 60_000, at_least(1),
        doc="The largest session timeout a group may set."),
    int_key("group.consumer.max.size", MAX_INT, at_least(1),
        doc="The most members a consumer group may have."),
    string_key("group.consumer.migration.policy", "bidirectional",
        one_of("disabled", "downgrade", "upgrade", "bidirectional"),
        doc="Which groups may change protocol: up, down, both, none."),
    int_key("group.consumer.min.heartbeat.interval.ms", 5000, at_least(1),
        doc="The smallest heartbeat interval a group may set."),
    int_key("group.consumer.min.session.timeout.ms", 45_000, at_least(1),
        doc="The smallest session timeout a group may set."),
    int_key("group.consumer.session.timeout.ms", 45_000, at_least(1),
        doc="Removes a member after this long without a heartbeat."),
    list_key("group.coordinator.rebalance.protocols", OFFERED_GROUPS, _rebalance_protocols,
        doc="The group protocols offered: classic, consumer."),
    int_key("group.initial.rebalance.delay.ms", 3000,
        doc="How long a new classic group waits for more members."),
    int_key("group.max.session.timeout.ms", 1_800_000,
        doc="The largest session timeout a classic member may ask for."),
    int_key("group.max.size", MAX_INT, at_least(1),
        doc="The most members a classic group may have."),
    int_key("group.min.session.timeout.ms", 6000,
        doc="The smallest session timeout a classic member may ask for."),
    string_key("inter.broker.listener.name", None,
        doc="The listener that brokers use among themselves."),
    string_key("inter.broker.protocol.version", "3.9-IV0", _release,
        doc="The release whose protocol brokers use. Below 2.7, followers ask where their epoch "
            "ends (OffsetForLeaderEpoch) before they fetch; it decides nothing else."),
    int_key("internal.isr.change.linger.ms", 5000, at_least(1),
        doc="How long no ISR may change before a leader announces changes; Kafka's is fixed."),
    long_key("leader.imbalance.check.interval.seconds", 300, at_least(1),
        doc="How often the controller checks leader balance."),
    int_key("leader.imbalance.per.broker.percentage", 10,
        doc="The imbalance that makes it restore leaders."),
    long_key("leader.replication.throttled.rate", MAX_LONG, at_least(0), update=CLUSTER_WIDE,
        doc="Bytes per second that throttled leaders may send."),
    string_key("listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        doc="What each listener speaks."),
    string_key("listeners", "PLAINTEXT://:9092",
        doc="The addresses the broker listens on; they cannot change while it runs."),
    long_key("log.cleaner.backoff.ms", 15_000, at_least(0), update=CLUSTER_WIDE,
        doc="How long the cleaner sleeps when there is nothing to compact."),
    long_key("log.cleaner.dedupe.buffer.size", 134_217_728, update=CLUSTER_WIDE,
        doc="Memory for the keys that compaction remembers."),
    long_key("log.cleaner.delete.retention.ms", 86_400_000, at_least(0), update=CLUSTER_WIDE),
    boolean_key("log.cleaner.enable", True, doc="Whether logs are compacted at all."),
    double_key("log.cleaner.io.buffer.load.factor", 0.9, update=CLUSTER_WIDE,
        doc="How full the memory for keys may get."),
    double_key("log.cleaner.io.max.bytes.per.second", MAX_DOUBLE, update=CLUSTER_WIDE,
        doc="Limits what the cleaner reads and writes."),
    long_key("log.cleaner.max.compaction.lag.ms", MAX_LONG, at_least(1), update=CLUSTER_WIDE),
    double_key("log.cleaner.min.cleanable.ratio", 0.5, between(0, 1), update=CLUSTER_WIDE),
    long_key("log.cleaner.min.compaction.lag.ms", 0, at_least(0), update=CLUSTER_WIDE),
    int_key("log.cleaner.threads", 1, at_least(1), update=CLUSTER_WIDE,
        doc="The number of threads that compact logs."),
    list_key("log.cleanup.policy", ("delete",), one_of("compact", "delete"), update=CLUSTER_WIDE),
    string_key("log.dir", "/tmp/kafka-logs",
        doc="The directory of the logs, if log.dirs is not set."),
    string_key("log.dirs", None, doc="The directories of the logs."),
    long_key("log.flush.interval.messages", MAX_LONG, at_least(1), update=CLUSTER_WIDE),
    long_key("log.flush.interval.ms", None, update=CLUSTER_WIDE),
    int_key("log.flush.offset.checkpoint.interval.ms", 60_000, at_least(0),
        doc="How often the recovery point is written to disk."),
    long_key("log.flush.scheduler.interval.ms", MAX_LONG),
    int_key("log.flush.start.offset.checkpoint.interval.ms", 60_000, at_least(0),
        doc="How often log starts are written to disk."),
    int_key("log.index.interval.bytes", 4096, at_least(0), update=CLUSTER_WIDE),
    int_key("log.index.size.max.bytes", 10_485_760, at_least(4), update=CLUSTER_WIDE),
    long_key("log.initial.task.delay.ms", 30_000, at_least(0),
        doc="How long after the start the first background task runs."),
    boolean_key("log.message.downconversion.enable", True, update=CLUSTER_WIDE),
    long_key("log.message.timestamp.after.max.ms", 3_600_000, at_least(0), update=CLUSTER_WIDE),
    long_key("log.message.timestamp.before.max.ms", MAX_LONG, at_least(0), update=CLUSTER_WIDE),
    string_key("log.message.timestamp.type", "CreateTime", one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE),
    boolean_key("log.preallocate", False, update=CLUSTER_WIDE),
    long_key("log.retention.bytes", -1, update=CLUSTER_WIDE),
    long_key("log.retention.check.interval.ms", 300_000, at_least(1),
        doc="How often the broker looks for segments to delete."),
    int_key("log.retention.hours", 168),
    int_key("log.retention.minutes", None),
    long_key("log.retention.ms", None, update=CLUSTER_WIDE),
    int_key("log.roll.hours", 168, at_least(1)),
    int_key("log.roll.jitter.hours", 0, at_least(0)),
    long_key("log.roll.jitter.ms", None, update=CLUSTER_WIDE),
    long_key("log.roll.ms", None, update=CLUSTER_WIDE),
    int_key("log.segment.bytes", 1_073_741_824, at_least(14), update=CLUSTER_WIDE),
    long_key("log.segment.delete.delay.ms", 60_000, at_least(0), update=CLUSTER_WIDE),
    int_key("max.connection.creation.rate", MAX_INT, at_least(0), update=CLUSTER_WIDE,
        doc="New connections per second that the broker accepts."),
    int_key("max.connections", MAX_INT, at_least(0), update=CLUSTER_WIDE,
        doc="The most connections the broker accepts."),
    int_key("max.connections.per.ip", MAX_INT, at_least(0), update=CLUSTER_WIDE,
        doc="The most connections the broker accepts from one address."),
    string_key("max.connections.per.ip.overrides", "", _ip_overrides, update=CLUSTER_WIDE,
        doc="Limits for single addresses, as host:count pairs."),
    int_key("max.incremental.fetch.session.cache.slots", 1000, at_least(0),
        doc="The most fetch sessions the broker keeps."),
    int_key("max.request.partition.size.limit", 2000, at_least(1),
        doc="The most partitions in one page of topic descriptions."),
    int_key("message.max.bytes", 1_048_588, at_least(0), update=CLUSTER_WIDE),
    int_key("min.insync.replicas", 1, at_least(1), update=CLUSTER_WIDE),
    int_key("node.id", -1, doc="The same as broker.id."),
    int_key("num.io.threads", 8, at_least(0), update=CLUSTER_WIDE,
        doc="The threads that handle requests; with 0, network threads handle them."),
    int_key("num.network.threads", 3, at_least(1), update=CLUSTER_WIDE,
        doc="The threads that read requests and write responses."),
    int_key("num.partitions", 1, at_least(1),
        doc="The partition count of topics that do not ask for one."),
    int_key("offset.metadata.max.bytes", 4096,
        doc="The largest metadata that a committed offset may carry."),
    short_key("offsets.commit.required.acks", -1, _all_acks,
        doc="Always -1: a commit waits for all in-sync replicas."),
    int_key("offsets.commit.timeout.ms", 5000, at_least(1),
        doc="How long a commit waits for the replicas."),
    int_key("offsets.load.buffer.size", 5_242_880, at_least(1),
        doc="Bytes that a group coordinator loads at a time."),
    long_key("offsets.retention.check.interval.ms", 600_000, at_least(1),
        doc="How often the broker looks for expired offsets."),
    int_key("offsets.retention.minutes", 10_080, at_least(1),
        doc="How long a group's offsets outlive its last member or commit."),
    int_key("offsets.topic.compression.codec", 0, between(0, 4),
        doc="The codec of the offsets topic, by its number."),
    int_key("offsets.topic.num.partitions", 50, at_least(1),
        doc="The partition count of the offsets topic."),
    short_key("offsets.topic.replication.factor", 3, at_least(1),
        doc="The replication factor of the offsets topic."),
    int_key("offsets.topic.segment.bytes", 104_857_600, at_least(1),
        doc="The segment size of the offsets topic."),
    int_key("producer.id.expiration.check.interval.ms", 600_000, at_least(1),
        doc="How often the broker looks for expired producers."),
    int_key("producer.id.expiration.ms", 86_400_000, at_least(1), update=CLUSTER_WIDE,
        doc="Forgets a producer's sequence numbers after this silence."),
    int_key("producer.purgatory.purge.interval.requests", 1000,
        doc="Completed produces per purge of the purgatory."),
    long_key("queued.max.request.bytes", -1,
        doc="Stops reading while queued requests exceed this; -1 for no limit."),
    int_key("queued.max.requests", 500, at_least(1),
        doc="Stops reading while this many requests are queued."),
    int_key("quota.window.num", 11, at_least(1),
        doc="The number of windows over which rates are measured."),
    int_key("quota.window.size.seconds", 1, at_least(1), doc="The length of one such window."),
    long_key("replica.alter.log.dirs.io.max.bytes.per.second", MAX_LONG, at_least(0),
        update=CLUSTER_WIDE,
        doc="Bytes per second that replicas may move between log directories."),
    int_key("replica.fetch.backoff.ms", 1000, at_least(0),
        doc="How long a follower waits after a failed fetch."),
    int_key("replica.fetch.max.bytes", 1_048_576, at_least(0),
        doc="Bytes that a follower fetches from one partition at a time."),
    int_key("replica.fetch.min.bytes", 1,
        doc="Bytes for which a follower's fetch waits at a remote leader."),
    int_key("replica.fetch.response.max.bytes", 10_485_760, at_least(0),
        doc="The largest response to a follower's fetch."),
    int_key("replica.fetch.wait.max.ms", 500, doc="How long a follower's fetch waits for records."),
    long_key("replica.high.watermark.checkpoint.interval.ms", 5000,
        doc="How often high watermarks go to disk."),
    long_key("replica.lag.time.max.ms", 30_000,
        doc="A follower that has not caught up for this long leaves the ISR."),
    string_key("replica.selector.class", None,
        doc="Picks the replica to read from: Kafka's leader or rack-aware class."),
    int_key("replica.socket.timeout.ms", 30_000,
        doc="The timeout of a follower's requests to a remote leader."),
    int_key("replication.quota.window.num", 11, at_least(1),
        doc="The number of windows over which replication is throttled."),
    int_key("replication.quota.window.size.seconds", 1, at_least(1),
        doc="The length of one such window."),
    int_key("request.timeout.ms", 30_000,
        doc="How long transaction markers wait for the replicas."),
    list_key("sasl.enabled.mechanisms", ("GSSAPI",), distinct, update=PER_BROKER,
        doc="The SASL mechanisms that clients may use."),
    password_key("sasl.jaas.config", update=PER_BROKER,
        doc="The login module; usually set for one listener and mechanism."),
    list_key("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), distinct, update=PER_BROKER,
        doc="How Kerberos principals become users."),
    string_key("sasl.kerberos.service.name", None, update=PER_BROKER,
        doc="The service in the principals of the brokers, for their logins to each other with "
            "GSSAPI."),
    string_key("sasl.mechanism.inter.broker.protocol", "GSSAPI", update=PER_BROKER,
        doc="The SASL mechanism that brokers use among themselves."),
    int_key("sasl.oauthbearer.clock.skew.seconds", 30,
        doc="How much clocks may differ for signed tokens."),
    list_key("sasl.oauthbearer.expected.audience", (), distinct,
        doc="Audiences, one of which a signed token must have."),
    string_key("sasl.oauthbearer.expected.issuer", None,
        doc="The issuer that a signed token must have."),
    string_key("sasl.oauthbearer.jwks.endpoint.url", None,
        doc="The key set for signed tokens, a file:// URL."),
    string_key("sasl.oauthbearer.scope.claim.name", "scope",
        doc="The claim of a signed token that holds its scope."),
    string_key("sasl.oauthbearer.sub.claim.name", "sub",
        doc="The claim of a signed token that holds the user's name."),
    class_key("sasl.server.callback.handler.class", None,
        doc="Kafka's OAuthBearerValidatorCallbackHandler, or none."),
    int_key("sasl.server.max.receive.size", 524_288,
        doc="The longest request of a client before it has logged in."),
    string_key("security.inter.broker.protocol", "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="The listener that brokers use among themselves."),
    int_key("socket.listen.backlog.size", 50, at_least(1),
        doc="Connections that may wait to be accepted."),
    int_key("socket.request.max.bytes", 104_857_600, at_least(1),
        doc="The largest request; a larger one closes the connection."),
    boolean_key("ssl.allow.dn.changes", False,
        doc="Whether a new certificate of a running listener may have another subject."),
    boolean_key("ssl.allow.san.changes", False,
        doc="Whether it may lack hosts that the former one has."),
    list_key("ssl.cipher.suites", (), distinct, update=PER_BROKER,
        doc="The cipher suites of TLS 1.2, by Java's names."),
    string_key("ssl.client.auth", "none", one_of("required", "requested", "none"),
        update=PER_BROKER,
        doc="Whether clients must, may or need not show a certificate."),
    list_key("ssl.enabled.protocols", OFFERED_TLS, distinct, update=PER_BROKER,
        doc="The versions of TLS: TLSv1.2, TLSv1.3."),
    string_key("ssl.endpoint.identification.algorithm", "https", update=PER_BROKER,
        doc="If empty, brokers do not check each other's names in certificates."),
    password_key("ssl.key.password", update=PER_BROKER,
        doc="The password of the private key in a PEM file."),
    password_key("ssl.keystore.certificate.chain", update=PER_BROKER,
        doc="The broker's certificates, as PEM."),
    password_key("ssl.keystore.key", update=PER_BROKER, doc="The broker's private key, as PEM."),
    string_key("ssl.keystore.location", None, update=PER_BROKER,
        doc="A file with the broker's key and certificates, PEM or PKCS12."),
    password_key("ssl.keystore.password", update=PER_BROKER, doc="The password of a PKCS12 file."),
    string_key("ssl.keystore.type", "JKS", update=PER_BROKER, doc="PEM or PKCS12."),
    string_key("ssl.principal.mapping.rules", "DEFAULT",
        doc="How the subject of a certificate becomes a user's name."),
    password_key("ssl.truststore.certificates", update=PER_BROKER,
        doc="The trusted certificates, as PEM."),
    string_key("ssl.truststore.location", None, update=PER_BROKER,
        doc="A file with the trusted certificates, PEM or PKCS12."),
    password_key("ssl.truststore.password", update=PER_BROKER,
        doc="The password of a PKCS12 file."),
    string_key("ssl.truststore.type", "JKS", update=PER_BROKER, doc="PEM or PKCS12."),
    string_key("super.users", "", doc="Principals that may do everything, as User:alice;User:bob."),
    int_key("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, at_least(1),
        doc="How often the broker aborts transactions that have timed out."),
    int_key("transaction.max.timeout.ms", 900_000, at_least(1),
        doc="The largest transaction timeout a producer may ask for."),
    boolean_key("transaction.partition.verification.enable", True, update=CLUSTER_WIDE,
        doc="Whether a leader asks the coordinator before a transaction's first batch."),
    int_key("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, at_least(1),
        doc="How often the broker removes expired transactional ids."),
    int_key("transaction.state.log.load.buffer.size", 5_242_880, at_least(1),
        doc="Bytes that a coordinator loads at a time."),
    int_key("transaction.state.log.min.isr", 2, at_least(1),
        doc="min.insync.replicas of the transaction topic."),
    int_key("transaction.state.log.num.partitions", 50, at_least(1),
        doc="The partition count of the transaction topic."),
    short_key("transaction.state.log.replication.factor", 3, at_least(1),
        doc="The replication factor of the transaction topic."),
    int_key("transaction.state.log.segment.bytes", 104_857_600, at_least(1),
        doc="The segment size of the transaction topic."),
    int_key("transactional.id.expiration.ms", 604_800_000, at_least(1),
        doc="Forgets a transactional id after this long without use."),
    boolean_key("unclean.leader.election.enable", False, update=CLUSTER_WIDE),
    string_key("zookeeper.connect", None,
        doc="The ZooKeeper ensemble, where the cluster uses a real one."),
    int_key("zookeeper.connection.timeout.ms", None,
        doc="How long to wait for a connection to ZooKeeper."),
    int_key("zookeeper.session.timeout.ms", 18_000,
        doc="A broker silent for this long loses its registration."),
)
# fmt: on

BROKER_KEYS: Final[Mapping[str, ConfigKey]] = by_name([*IGNORED_KEYS, *_KEYS])
