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
- A topic setting is accepted silently if Kafka without tiered storage ignores it too.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.values import dataclass
from embedkafka.server.config.listeners import LISTENER_FACTS


@dataclass(frozen=True, slots=True)
class Inert:
    """Why a setting has no effect, and whether it is refused."""

    reason: str
    refused: bool = False


_WARNED: Final[Mapping[str, tuple[str, ...]]] = {
    "security is not supported: connections are plaintext and anonymous": (
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "delegation.token.",
        "password.encoder.",
        "sasl.",
        "security.providers",
        "ssl.",
        "zookeeper.ssl.",
    ),
    "a broker has two listeners, PLAINTEXT for clients and CONTROLLER for its controller": (
        "control.plane.listener.name",
        "early.start.listeners",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
    ),
    "no metrics are collected": (
        "auto.include.jmx.reporter",
        "kafka.metrics.",
        "metric.reporters",
        "metrics.",
        "telemetry.max.bytes",
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
    "all brokers have the same version and write the newest message format": (
        "inter.broker.protocol.version",
        "log.message.format.version",
    ),
    "broker ids are assigned, never generated": (
        "broker.id.generation.enable",
        "reserved.broker.max.id",
    ),
    "quotas on topic changes are stored but not enforced": ("controller.quota.window.",),
    "moves between log directories are not throttled": (
        "alter.log.dirs.replication.quota.window.",
        "replica.alter.log.dirs.io.max.bytes.per.second",
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
    "there is no authorizer: every client may do everything": ("authorizer.class.name",),
    "the policy would not be applied: " + _JAVA_CLASS: (
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
    ),
    "the callback would not be called: " + _JAVA_CLASS: ("client.quota.callback.class",),
    "every client is User:ANONYMOUS: " + _JAVA_CLASS: ("principal.builder.class",),
    "security is not supported: brokers speak PLAINTEXT to each other": (
        "security.inter.broker.protocol",
    ),
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

_PREFIXES: Final = tuple(name for name in INERT if name.endswith("."))
_LISTENER_PREFIX: Final = "listener.name."


def find_inert(name: str) -> Inert | None:
    """Why the broker setting `name` has no effect; None if it has one or is unknown."""
    if name.startswith(_LISTENER_PREFIX):
        # A setting for one listener; only security settings can be given this way.
        return INERT["ssl."]
    found = INERT.get(name)
    if found is None and name.startswith(_PREFIXES):
        return next(INERT[prefix] for prefix in _PREFIXES if name.startswith(prefix))
    return found


def holds_anyway(name: str, value: object) -> bool:
    """Whether `value` is in force here, whatever the setting says."""
    return LISTENER_FACTS.get(name) == value
