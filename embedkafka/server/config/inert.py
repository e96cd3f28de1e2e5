"""Settings of Kafka that have no effect here, each with the reason. The one table of them.

Three things come from it: the warning or the refusal when a cluster starts, the answer when a
client wants to change such a setting, and a part of `docs/compatibility.md`. A setting in
`broker_keys`, `topic_keys` or `group` that is not in this table works;
`tests/cluster/test_settings.py` goes through all of them.

The rules:

- A setting whose being ignored would make a test pass that should fail (an authorizer, a policy)
  is refused: `ConfigError` when a cluster starts.
- Any other produces a `ConfigWarning` when it is set to something else than what holds anyway.
- A change of a broker's while it runs answers INVALID_REQUEST with the reason. Kafka would accept
  some of these; a success would be a lie. DescribeConfigs calls them read-only.
- A topic's is accepted in silence if Kafka, set up like this broker, would do nothing with it
  either.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.values import dataclass
from embedkafka.server.config.listeners import LISTENER_FACTS


@dataclass(frozen=True, slots=True)
class Inert:
    """Why a setting has no effect, and whether giving it is a mistake."""

    reason: str
    refused: bool = False


_WARNED: Final[Mapping[str, tuple[str, ...]]] = {
    "security is not there yet: connections are plaintext and anonymous": (
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
    "one thread per broker does this work": (
        "background.threads",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
    ),
    "a follower is told of news by its leader, and needs no more than one fetcher per leader": (
        "num.replica.fetchers",
    ),
    "a coordinator appends its records at once and keeps no buffers": (
        "group.coordinator.append.linger.ms",
        "group.coordinator.cached.buffer.max.bytes",
    ),
    "a group is assigned its partitions as soon as it changes": (
        "group.consumer.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
    ),
    "the operating system chooses the sizes of socket buffers": (
        "replica.socket.receive.buffer.bytes",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
    ),
    "compaction reads batch by batch": ("log.cleaner.io.buffer.size",),
    "brokers connect over loopback, within their request timeout": (
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ),
    "brokers are all of one version and write the newest message format": (
        "inter.broker.protocol.version",
        "log.message.format.version",
    ),
    "broker ids are given, never generated": (
        "broker.id.generation.enable",
        "reserved.broker.max.id",
    ),
    "quotas of topic changes are stored and not enforced": ("controller.quota.window.",),
    "moves between log directories are not throttled": (
        "alter.log.dirs.replication.quota.window.",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    "requests to ZooKeeper are not limited": (
        "zookeeper.clientCnxnSocket",
        "zookeeper.max.in.flight.requests",
    ),
    "the cluster is one of the ZooKeeper era; KRaft is not there": (
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
    "tiered storage is not there": (
        "follower.fetch.last.tiered.offset.enable",
        "log.local.retention.",
        "remote.",
    ),
    "share groups and Streams groups are not there": (
        "errors.deadletterqueue.",
        "group.share.",
        "group.streams.",
        "share.",
    ),
    "two-phase commit is not there": ("transaction.two.phase.commit.enable",),
}

_JAVA_CLASS: Final = "it names a Java class, which cannot run here"

_REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "there is no authorizer: everyone may do everything": ("authorizer.class.name",),
    "topics would be created and changed without asking the policy: " + _JAVA_CLASS: (
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
    ),
    "quotas would not be those of the callback: " + _JAVA_CLASS: ("client.quota.callback.class",),
    "every client is User:ANONYMOUS: " + _JAVA_CLASS: ("principal.builder.class",),
    "security is not there yet: brokers speak PLAINTEXT to each other": (
        "security.inter.broker.protocol",
    ),
    "znodes have no access lists": ("zookeeper.set.acl",),
    "values are taken as they are: " + _JAVA_CLASS: ("config.providers",),
    "it is gone from Kafka; use log.message.timestamp.before.max.ms and .after.max.ms": (
        "log.message.timestamp.difference.max.ms",
    ),
}

INERT: Final[Mapping[str, Inert]] = {
    name: Inert(reason, refused)
    for table, refused in ((_WARNED, False), (_REFUSED, True))
    for reason, names in table.items()
    for name in names
}
"""By name, or by the beginning of a name, up to and with a dot."""

INERT_TOPIC: Final[Mapping[str, Inert]] = {
    name: Inert("it only counts with tiered storage, which is not there")
    for name in (
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    )
}
"""Settings of topics. Kafka does nothing with these either, unless tiered storage is on."""

_PREFIXES: Final = tuple(name for name in INERT if name.endswith("."))
_LISTENER_PREFIX: Final = "listener.name."


def find_inert(name: str) -> Inert | None:
    """Why the broker setting `name` has no effect; None when it has one, or is unknown."""
    if name.startswith(_LISTENER_PREFIX):
        # A setting for one listener; those that can be given in this way are about security.
        return INERT["ssl."]
    found = INERT.get(name)
    if found is None and name.startswith(_PREFIXES):
        return next(INERT[prefix] for prefix in _PREFIXES if name.startswith(prefix))
    return found


def holds_anyway(name: str, value: object) -> bool:
    """Whether `value` is what holds here, whatever is set."""
    return LISTENER_FACTS.get(name) == value
