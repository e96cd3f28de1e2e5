"""Documentation of every setting, for DescribeConfigs: a sentence in our own words.

A broker key that supplies a topic key's default shares its sentence. For a key without an effect,
there is another sentence, the reason (`inert`).
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.server.config.client_metrics import CLIENT_METRICS_DOCS
from embedkafka.server.config.group import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
)
from embedkafka.server.config.inert import INERT_TOPIC, find_inert
from embedkafka.server.config.inert_docs import INERT_DOCS
from embedkafka.server.config.topic_keys import SYNONYMS

TOPIC_DOCS: Final[Mapping[str, str]] = {
    "cleanup.policy": "How old records go: deleted by age and size, compacted by key, or both.",
    "compression.gzip.level": "The gzip level, when the broker compresses batches itself.",
    "compression.lz4.level": "The lz4 level, when the broker compresses batches itself.",
    "compression.type": "The codec of stored batches; 'producer' keeps the producer's codec.",
    "compression.zstd.level": "The zstd level, when the broker compresses batches itself.",
    "delete.retention.ms": "How long compaction keeps tombstones, so slow readers can see them.",
    "file.delete.delay.ms": "How long the files of a deleted segment stay on disk.",
    "flush.messages": "Forces the log to disk after this many records.",
    "flush.ms": "Forces the log to disk after this time.",
    "follower.replication.throttled.replicas": "Replicas throttled as followers; '*' for all.",
    "index.interval.bytes": "Bytes of log between two entries of the offset index.",
    "internal.segment.bytes": "Starts a new segment at this size, however small; for tests.",
    "leader.replication.throttled.replicas": "Replicas throttled as leaders; '*' for all.",
    "max.compaction.lag.ms": "The longest time a record may stay uncompacted.",
    "max.message.bytes": "The largest batch the broker accepts, after compression.",
    "message.downconversion.enable": "Whether batches are converted for consumers before 0.11.",
    "message.timestamp.after.max.ms": "How far a timestamp may be ahead of the broker's clock.",
    "message.timestamp.before.max.ms": "How far a timestamp may be behind the broker's clock.",
    "message.timestamp.type": "Whether records carry the producer's time or the append time.",
    "min.cleanable.dirty.ratio": "The uncompacted share of the log that triggers compaction.",
    "min.compaction.lag.ms": "The shortest time a record stays uncompacted.",
    "min.insync.replicas": "A write with acks=all fails with fewer in-sync replicas than this.",
    "preallocate": "Whether a new segment's file gets its full size at once.",
    "remote.storage.enable": "Enables tiered storage; this broker has none and refuses 'true'.",
    "retention.bytes": "Deletes a partition's oldest segments beyond this size; -1 for no limit.",
    "retention.ms": "Deletes segments older than this; -1 for no limit.",
    "segment.bytes": "Starts a new segment at this size.",
    "segment.index.bytes": "The largest size of an offset index.",
    "segment.jitter.ms": "The most random time taken off segment.ms, to spread the rolling.",
    "segment.ms": "Starts a new segment after this time, even if the old one is not full.",
    "unclean.leader.election.enable": "Whether an out-of-sync replica may lead, losing records.",
}

GROUP_DOCS: Final[Mapping[str, str]] = {
    ASSIGNMENT_INTERVAL: "How often this consumer group may get a new assignment. Has no effect: "
    "it gets one as soon as it changes.",
    HEARTBEAT_INTERVAL: "How often members of this consumer group send heartbeats.",
    SESSION_TIMEOUT: "Removes a member of this consumer group after this long without a heartbeat.",
}

BROKER_DOCS: Final[Mapping[str, str]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "How long a write waits for the producer's previous transaction to complete."
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        "How often a waiting write checks whether that transaction has completed."
    ),
    "allow.everyone.if.no.acl.found": "Whether a resource without ACLs is open to everyone.",
    "authorizer.class.name": "Kafka's AclAuthorizer or StandardAuthorizer: clients need ACLs.",
    "advertised.listeners": "The addresses that clients are given; by default those listened on.",
    "auto.create.topics.enable": "Whether asking for the metadata of a missing topic creates it.",
    "auto.leader.rebalance.enable": "Whether the controller restores preferred leaders by itself.",
    "broker.id": "The broker's id.",
    "broker.rack": "The broker's rack, for replica placement and for fetching from a near replica.",
    "connection.failed.authentication.delay.ms": "The wait of a client that is refused.",
    "connections.max.idle.ms": "Closes a connection after this long without a request.",
    "connections.max.reauth.ms": "How long a session lasts until clients log in again; 0: no end.",
    "control.plane.listener.name": "The listener for the controller's requests.",
    "controlled.shutdown.enable": "Whether a stopping broker first hands its leaders over.",
    "controlled.shutdown.max.retries": "How often a stopping broker asks the controller for that.",
    "controlled.shutdown.retry.backoff.ms": "The wait between two such requests.",
    "controller.socket.timeout.ms": "The timeout of the controller's requests to brokers.",
    "default.replication.factor": "The replication factor of topics that do not ask for one.",
    "delegation.token.expiry.check.interval.ms": "How often the controller removes expired tokens.",
    "delegation.token.expiry.time.ms": "How long a delegation token is valid until it is renewed.",
    "delegation.token.master.key": "The former name of delegation.token.secret.key.",
    "delegation.token.max.lifetime.ms": "The longest life of a token, renewals included.",
    "delegation.token.secret.key": "The secret of all brokers that makes tokens; without it, none.",
    "delete.records.purgatory.purge.interval.requests": (
        "Completed DeleteRecords requests per purge of the purgatory."
    ),
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The largest fetch response, unless its first batch alone is larger.",
    "fetch.purgatory.purge.interval.requests": "Completed fetches per purge of the purgatory.",
    "follower.replication.throttled.rate": "Bytes per second that throttled followers may fetch.",
    "group.consumer.assignors": "Assignors of consumer groups, the default first: uniform, range.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups send heartbeats.",
    "group.consumer.max.heartbeat.interval.ms": "The largest heartbeat interval a group may set.",
    "group.consumer.max.session.timeout.ms": "The largest session timeout a group may set.",
    "group.consumer.max.size": "The most members a consumer group may have.",
    "group.consumer.migration.policy": "Which groups may change protocol: up, down, both, none.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest heartbeat interval a group may set.",
    "group.consumer.min.session.timeout.ms": "The smallest session timeout a group may set.",
    "group.consumer.session.timeout.ms": "Removes a member after this long without a heartbeat.",
    "group.coordinator.rebalance.protocols": "The group protocols offered: classic, consumer.",
    "group.initial.rebalance.delay.ms": "How long a new classic group waits for more members.",
    "group.max.session.timeout.ms": "The largest session timeout a classic member may ask for.",
    "group.max.size": "The most members a classic group may have.",
    "group.min.session.timeout.ms": "The smallest session timeout a classic member may ask for.",
    "inter.broker.listener.name": "The listener that brokers use among themselves.",
    "internal.isr.change.linger.ms": (
        "How long no ISR may change before a leader announces changes; Kafka's is fixed."
    ),
    "inter.broker.protocol.version": "The release whose protocol brokers use. Below 2.7, followers "
    "ask where their epoch ends (OffsetForLeaderEpoch) before they fetch; it decides nothing else.",
    "leader.imbalance.check.interval.seconds": "How often the controller checks leader balance.",
    "leader.imbalance.per.broker.percentage": "The imbalance that makes it restore leaders.",
    "leader.replication.throttled.rate": "Bytes per second that throttled leaders may send.",
    "listener.security.protocol.map": "What each listener speaks.",
    "listeners": "The addresses the broker listens on; they cannot change while it runs.",
    "log.cleaner.backoff.ms": "How long the cleaner sleeps when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys that compaction remembers.",
    "log.cleaner.enable": "Whether logs are compacted at all.",
    "log.cleaner.io.buffer.load.factor": "How full the memory for keys may get.",
    "log.cleaner.io.max.bytes.per.second": "Limits what the cleaner reads and writes.",
    "log.cleaner.threads": "The number of threads that compact logs.",
    "log.dir": "The directory of the logs, if log.dirs is not set.",
    "log.dirs": "The directories of the logs.",
    "log.flush.offset.checkpoint.interval.ms": "How often the recovery point is written to disk.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often log starts are written to disk.",
    "log.initial.task.delay.ms": "How long after the start the first background task runs.",
    "log.retention.check.interval.ms": "How often the broker looks for segments to delete.",
    "max.connection.creation.rate": "New connections per second that the broker accepts.",
    "max.connections": "The most connections the broker accepts.",
    "max.connections.per.ip": "The most connections the broker accepts from one address.",
    "max.connections.per.ip.overrides": "Limits for single addresses, as host:count pairs.",
    "max.incremental.fetch.session.cache.slots": "The most fetch sessions the broker keeps.",
    "max.request.partition.size.limit": "The most partitions in one page of topic descriptions.",
    "node.id": "The same as broker.id.",
    "num.io.threads": "The threads that handle requests; with 0, network threads handle them.",
    "num.network.threads": "The threads that read requests and write responses.",
    "num.partitions": "The partition count of topics that do not ask for one.",
    "offset.metadata.max.bytes": "The largest metadata that a committed offset may carry.",
    "offsets.commit.required.acks": "Always -1: a commit waits for all in-sync replicas.",
    "offsets.commit.timeout.ms": "How long a commit waits for the replicas.",
    "offsets.load.buffer.size": "Bytes that a group coordinator loads at a time.",
    "offsets.retention.check.interval.ms": "How often the broker looks for expired offsets.",
    "offsets.retention.minutes": "How long a group's offsets outlive its last member or commit.",
    "offsets.topic.compression.codec": "The codec of the offsets topic, by its number.",
    "offsets.topic.num.partitions": "The partition count of the offsets topic.",
    "offsets.topic.replication.factor": "The replication factor of the offsets topic.",
    "offsets.topic.segment.bytes": "The segment size of the offsets topic.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for expired producers.",
    "producer.id.expiration.ms": "Forgets a producer's sequence numbers after this silence.",
    "producer.purgatory.purge.interval.requests": "Completed produces per purge of the purgatory.",
    "queued.max.request.bytes": "Stops reading while queued requests exceed this; -1 for no limit.",
    "queued.max.requests": "Stops reading while this many requests are queued.",
    "controller.quota.window.num": "The number of windows for the quota on topic changes.",
    "controller.quota.window.size.seconds": "The length of one such window.",
    "quota.window.num": "The number of windows over which rates are measured.",
    "quota.window.size.seconds": "The length of one such window.",
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "Bytes per second that replicas may move between log directories."
    ),
    "replica.fetch.backoff.ms": "How long a follower waits after a failed fetch.",
    "replica.fetch.max.bytes": "Bytes that a follower fetches from one partition at a time.",
    "replica.fetch.min.bytes": "Bytes for which a follower's fetch waits at a remote leader.",
    "replica.fetch.response.max.bytes": "The largest response to a follower's fetch.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits for records.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks go to disk.",
    "replica.lag.time.max.ms": "A follower that has not caught up for this long leaves the ISR.",
    "replica.selector.class": "Picks the replica to read from: Kafka's leader or rack-aware class.",
    "replica.socket.timeout.ms": "The timeout of a follower's requests to a remote leader.",
    "replication.quota.window.num": "The number of windows over which replication is throttled.",
    "replication.quota.window.size.seconds": "The length of one such window.",
    "request.timeout.ms": "How long transaction markers wait for the replicas.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may use.",
    "sasl.jaas.config": "The login module; usually set for one listener and mechanism.",
    "sasl.kerberos.principal.to.local.rules": "How Kerberos principals become users.",
    "sasl.kerberos.service.name": "The service in the principals of the brokers, for their logins "
    "to each other with GSSAPI.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism that brokers use among themselves.",
    "sasl.oauthbearer.clock.skew.seconds": "How much clocks may differ for signed tokens.",
    "sasl.oauthbearer.expected.audience": "Audiences, one of which a signed token must have.",
    "sasl.oauthbearer.expected.issuer": "The issuer that a signed token must have.",
    "sasl.oauthbearer.jwks.endpoint.url": "The key set for signed tokens, a file:// URL.",
    "sasl.oauthbearer.scope.claim.name": "The claim of a signed token that holds its scope.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a signed token that holds the user's name.",
    "sasl.server.callback.handler.class": "Kafka's OAuthBearerValidatorCallbackHandler, or none.",
    "security.inter.broker.protocol": "The listener that brokers use among themselves.",
    "ssl.allow.dn.changes": "Whether a new certificate of a running listener may have another "
    "subject.",
    "ssl.allow.san.changes": "Whether it may lack hosts that the former one has.",
    "ssl.cipher.suites": "The cipher suites of TLS 1.2, by Java's names.",
    "ssl.client.auth": "Whether clients must, may or need not show a certificate.",
    "ssl.enabled.protocols": "The versions of TLS: TLSv1.2, TLSv1.3.",
    "ssl.endpoint.identification.algorithm": (
        "If empty, brokers do not check each other's names in certificates."
    ),
    "ssl.key.password": "The password of the private key in a PEM file.",
    "ssl.keystore.certificate.chain": "The broker's certificates, as PEM.",
    "ssl.keystore.key": "The broker's private key, as PEM.",
    "ssl.keystore.location": "A file with the broker's key and certificates, PEM or PKCS12.",
    "ssl.keystore.password": "The password of a PKCS12 file.",
    "ssl.keystore.type": "PEM or PKCS12.",
    "ssl.principal.mapping.rules": "How the subject of a certificate becomes a user's name.",
    "ssl.truststore.certificates": "The trusted certificates, as PEM.",
    "ssl.truststore.location": "A file with the trusted certificates, PEM or PKCS12.",
    "ssl.truststore.password": "The password of a PKCS12 file.",
    "ssl.truststore.type": "PEM or PKCS12.",
    "sasl.server.max.receive.size": "The longest request of a client before it has logged in.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.request.max.bytes": "The largest request; a larger one closes the connection.",
    "super.users": "Principals that may do everything, as User:alice;User:bob.",
    "telemetry.max.bytes": "The most metrics that a client may send at once.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often the broker aborts transactions that have timed out."
    ),
    "transaction.max.timeout.ms": "The largest transaction timeout a producer may ask for.",
    "transaction.partition.verification.enable": (
        "Whether a leader asks the coordinator before a transaction's first batch."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often the broker removes expired transactional ids."
    ),
    "transaction.state.log.load.buffer.size": "Bytes that a coordinator loads at a time.",
    "transaction.state.log.min.isr": "min.insync.replicas of the transaction topic.",
    "transaction.state.log.num.partitions": "The partition count of the transaction topic.",
    "transaction.state.log.replication.factor": "The replication factor of the transaction topic.",
    "transaction.state.log.segment.bytes": "The segment size of the transaction topic.",
    "transactional.id.expiration.ms": "Forgets a transactional id after this long without use.",
    "zookeeper.connect": "The ZooKeeper ensemble, where the cluster uses a real one.",
    "zookeeper.connection.timeout.ms": "How long to wait for a connection to ZooKeeper.",
    "zookeeper.session.timeout.ms": "A broker silent for this long loses its registration.",
    **{synonym.name: doc for name, doc in TOPIC_DOCS.items() for synonym in SYNONYMS.get(name, ())},
}


def documentation(name: str) -> str | None:
    """A sentence about a key of any resource; None for a name that Kafka does not know."""
    found = (
        TOPIC_DOCS.get(name)
        or BROKER_DOCS.get(name)
        or GROUP_DOCS.get(name)
        or CLIENT_METRICS_DOCS.get(name)
    )
    if found is not None:
        return found
    inert = INERT_TOPIC.get(name) or find_inert(name)
    if inert is None:
        return None
    what = INERT_DOCS.get(name)
    return f"{what} Has no effect: {inert.reason}." if what else f"Has no effect: {inert.reason}."
