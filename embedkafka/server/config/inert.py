"""Kafka settings that have no effect here, each with the reason.

The table drives the warning or refusal at start, the answer to a client that changes such a
setting, its documentation in DescribeConfigs, and a part of `docs/reference/settings.md`. Every
setting in `broker_keys`, `topic_keys` or `group` that is not in this table works;
`tests/cluster/test_settings.py` checks each one.

The rules:

- If ignoring a setting could make a test pass that should fail (an authorizer, a policy), the
  cluster refuses to start with a `ConfigError`.
- Any other setting produces a `ConfigWarning`, unless its value is in force anyway.
- Changing a broker setting at run time answers INVALID_REQUEST with the reason. Kafka would accept
  some of these changes; a success here would be a lie. DescribeConfigs shows them as read-only.
- Kerberos's settings may change on a broker without SASL, where Kafka would not use them either.
- A topic setting is accepted silently if Kafka without tiered storage ignores it too.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.values import dataclass
from embedkafka.server.config.listener_keys import LISTENER_PREFIX, find_listener_key


@dataclass(frozen=True, slots=True)
class Inert:
    """Why a setting has no effect, and whether it is refused."""

    reason: str
    refused: bool = False


_WARNED: Final[Mapping[str, tuple[str, ...]]] = {
    "passwords are stored as they are": ("password.encoder.",),
    "connections to ZooKeeper are plaintext": ("zookeeper.ssl.",),
    "OpenSSL decides it, not Java": (
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
    "the Kerberos library gets new tickets by itself": (
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.",
    ),
    "brokers obtain no tokens from other servers": (
        "sasl.login.",
        "sasl.oauthbearer.assertion.",
        "sasl.oauthbearer.client.",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.",
        "sasl.oauthbearer.jwt.",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    ),
    "no listener needs to start before the authorizer": ("early.start.listeners",),
    "`kafka.metrics()` and `serve --metrics-port` show metrics; there are no reporters": (
        "auto.include.jmx.reporter",
        "kafka.metrics.",
        "metric.reporters",
        "metrics.",
    ),
    "each broker uses one thread for this work": (
        "background.threads",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
    ),
    "leaders notify their followers, so one fetcher per leader is enough": (
        "num.replica.fetchers",
    ),
    "a coordinator appends its records at once, without buffering": (
        "group.coordinator.append.linger.ms",
        "group.coordinator.cached.buffer.max.bytes",
    ),
    "a group gets a new assignment as soon as it changes": (
        "group.consumer.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
    ),
    "the operating system chooses socket buffer sizes": (
        "replica.socket.receive.buffer.bytes",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
    ),
    "compaction reads one batch at a time": ("log.cleaner.io.buffer.size",),
    "brokers connect over loopback, and the request timeout applies": (
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ),
    "records are stored in the newest message format": ("log.message.format.version",),
    "broker ids are assigned, never generated": (
        "broker.id.generation.enable",
        "reserved.broker.max.id",
    ),
    "a move between log directories waits after each chunk for as long as its rate demands": (
        "alter.log.dirs.replication.quota.window.",
    ),
    "requests to ZooKeeper are not limited": (
        "zookeeper.clientCnxnSocket",
        "zookeeper.max.in.flight.requests",
    ),
    "the cluster runs in ZooKeeper mode; KRaft is not supported": (
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "controller.listener.names",
        "controller.performance.",
        "controller.quorum.",
        "cordoned.log.dirs",
        "eligible.leader.replicas.enable",
        "initial.broker.registration.timeout.ms",
        "log.dir.failure.timeout.ms",
        "metadata.",
        "process.roles",
        "sasl.mechanism.controller.protocol",
        "server.max.startup.time.ms",
        "unstable.",
        "zookeeper.metadata.migration.enable",
    ),
    "tiered storage is not supported": (
        "follower.fetch.last.tiered.offset.enable",
        "log.local.retention.",
        "remote.",
    ),
    "share groups and Streams groups are not supported": (
        "errors.deadletterqueue.",
        "group.share.",
        "group.streams.",
        "share.",
    ),
    "two-phase commit is not supported": ("transaction.two.phase.commit.enable",),
}

_JAVA_CLASS: Final = "it names a Java class, which cannot run in Python"

_REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "the policy would not be applied: " + _JAVA_CLASS: (
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
    ),
    "the callback would not be called: " + _JAVA_CLASS: (
        "client.quota.callback.class",
        "sasl.client.callback.handler.class",
    ),
    "clients are named by their login or certificate: " + _JAVA_CLASS: ("principal.builder.class",),
    "TLS is OpenSSL's: " + _JAVA_CLASS: ("ssl.engine.factory.class",),
    "znodes have no ACLs": ("zookeeper.set.acl",),
    "values are used literally: " + _JAVA_CLASS: ("config.providers",),
    "Kafka 4.0 removed it; use log.message.timestamp.before.max.ms and .after.max.ms": (
        "log.message.timestamp.difference.max.ms",
    ),
}

INERT: Final[Mapping[str, Inert]] = {
    name: Inert(reason, refused)
    for table, refused in ((_WARNED, False), (_REFUSED, True))
    for reason, names in table.items()
    for name in names
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

_SHARED_THREADS: Final = Inert("all listeners share the broker's network threads")
_PREFIXES: Final = tuple(name for name in INERT if name.endswith("."))


def find_inert(name: str) -> Inert | None:
    """Why the broker setting `name` has no effect; None if it has one or is unknown."""
    if name.startswith(LISTENER_PREFIX):
        if name.endswith(".num.network.threads"):
            return _SHARED_THREADS
        key = find_listener_key(name)
        return None if key is None else find_inert(key.name)
    found = INERT.get(name)
    if found is None and name.startswith(_PREFIXES):
        return next(INERT[prefix] for prefix in _PREFIXES if name.startswith(prefix))
    return found
