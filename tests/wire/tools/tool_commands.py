"""The calls of Kafka's command-line tools that are compared.

`{topic}` and the like stand for names, `{brokers}` for the addresses, which otherwise come first.
Left out: ReplicaVerificationTool and JmxTool, which never end.
"""

from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "cli-"
TOPIC: Final = f"{PREFIX}orders"

Command = tuple[str, Sequence[str]]
"""The tool, in Kafka's package of tools unless it names another, and its arguments."""


def _configs(*arguments: str) -> Command:
    return "kafka.admin.ConfigCommand", arguments


def _describe(kind: str, *name: str) -> Command:
    return _configs("--describe", "--entity-type", kind, *_named(name))


def _alter(kind: str, name: tuple[str, ...], *change: str) -> Command:
    return _configs("--alter", "--entity-type", kind, *_named(name), *change)


def _named(name: tuple[str, ...]) -> tuple[str, ...]:
    return ("--entity-name", *name) if name else ("--entity-default",)


COMMANDS: Final[Mapping[str, Command]] = {
    "topics: describe": ("TopicCommand", ["--describe", "--topic", TOPIC]),
    "topics: list": ("TopicCommand", ["--list"]),
    "topics: describe missing": ("TopicCommand", ["--describe", "--topic", f"{PREFIX}none"]),
    "topics: create again": ("TopicCommand", ["--create", "--topic", TOPIC]),
    "topics: create": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}new", "--partitions", "2", "--config", "retention.ms=5"],
    ),
    "topics: bad config": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}bad", "--config", "retention.ms=soon"],
    ),
    "topics: too many replicas": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}bad", "--replication-factor", "9"],
    ),
    "topics: shrink": ("TopicCommand", ["--alter", "--topic", TOPIC, "--partitions", "1"]),
    "topics: delete missing": ("TopicCommand", ["--delete", "--topic", f"{PREFIX}none"]),
    "topics: under-replicated": (
        "TopicCommand",
        ["--describe", "--under-replicated-partitions"],
    ),
    "configs: topic": (
        "kafka.admin.ConfigCommand",
        ["--describe", "--entity-type", "topics", "--entity-name", TOPIC],
    ),
    "configs: alter topic": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--add-config", "retention.ms=777777777"),
        ],
    ),
    "configs: bad topic config": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--add-config", "cleanup.policy=burn"),
        ],
    ),
    "configs: delete unset": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "topics", "--entity-name", TOPIC),
            *("--delete-config", "segment.ms"),
        ],
    ),
    "configs: static broker config": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "brokers", "--entity-name", "1"),
            *("--add-config", "num.partitions=7"),
        ],
    ),
    "configs: user quota": (
        "kafka.admin.ConfigCommand",
        [
            *("--alter", "--entity-type", "users", "--entity-name", "alice"),
            *("--add-config", "producer_byte_rate=1024"),
        ],
    ),
    "configs: quotas": ("kafka.admin.ConfigCommand", ["--describe", "--entity-type", "users"]),
    "groups: describe": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--group", f"{PREFIX}none"],
    ),
    "groups: delete": (
        "consumer.group.ConsumerGroupCommand",
        ["--delete", "--group", f"{PREFIX}none"],
    ),
    "groups: reset": (
        "consumer.group.ConsumerGroupCommand",
        [
            *("--reset-offsets", "--group", f"{PREFIX}group", "--topic", TOPIC),
            *("--to-offset", "1", "--execute"),
        ],
    ),
    "groups: offsets": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--group", f"{PREFIX}group"],
    ),
    "groups: all": ("GroupsCommand", ["--list"]),
    "offsets: latest": ("GetOffsetShell", ["--topic", TOPIC]),
    "offsets: earliest": ("GetOffsetShell", ["--topic", TOPIC, "--time", "earliest"]),
    "offsets: greatest timestamp": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-3"]),
    "offsets: local": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-4"]),
    "records: delete": ("DeleteRecordsCommand", ["--offset-json-file", "{records}"]),
    "log directories": (
        "LogDirsCommand",
        ["--describe", "--broker-list", "1", "--topic-list", TOPIC],
    ),
    "election": (
        "LeaderElectionCommand",
        ["--election-type", "preferred", "--topic", TOPIC, "--partition", "0"],
    ),
    "reassign: verify": (
        "reassign.ReassignPartitionsCommand",
        ["--verify", "--reassignment-json-file", "{moves}"],
    ),
    "reassign: list": ("reassign.ReassignPartitionsCommand", ["--list"]),
    "transactions: list": ("TransactionsCommand", ["list"]),
    "transactions: producers": (
        "TransactionsCommand",
        ["describe-producers", "--topic", TOPIC, "--partition", "0"],
    ),
    "transactions: hanging": ("TransactionsCommand", ["find-hanging", "--broker-id", "1"]),
    "transactions: unknown": (
        "TransactionsCommand",
        ["describe", "--transactional-id", f"{PREFIX}none"],
    ),
    "transactions: abort": (
        "TransactionsCommand",
        [
            *("abort", "--topic", TOPIC, "--partition", "0", "--producer-id", "5"),
            *("--producer-epoch", "0", "--coordinator-epoch", "0"),
        ],
    ),
    "transactions: abort at an offset": (
        "TransactionsCommand",
        ["abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0"],
    ),
    "transactions: terminate": (
        "TransactionsCommand",
        ["forceTerminateTransaction", "--transactional-id", f"{PREFIX}none"],
    ),
    "versions": ("BrokerApiVersionsCommand", []),
    "acls: list": ("AclCommand", ["--list"]),
    "acls: add": (
        "AclCommand",
        ["--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", TOPIC],
    ),
    "acls: remove": (
        "AclCommand",
        ["--remove", "--force", "--allow-principal", "User:a", "--topic", TOPIC],
    ),
    "tokens: describe": ("DelegationTokenCommand", ["--describe", "--command-config", "{empty}"]),
    "tokens: create": (
        "DelegationTokenCommand",
        ["--create", "--max-life-time-period", "-1", "--command-config", "{empty}"],
    ),
    "quorum: remove a controller": (
        "MetadataQuorumCommand",
        [
            *("remove-controller", "--controller-id", "9"),
            *("--controller-directory-id", "AAAAAAAAAAAAAAAAAAAwOQ"),
        ],
    ),
    "features: describe": ("FeatureCommand", ["describe"]),
    "features: upgrade": (
        "FeatureCommand",
        ["upgrade", "--feature", "metadata.version=30", "--dry-run"],
    ),
    "features: upgrade too far": (
        "FeatureCommand",
        ["upgrade", "--feature", "metadata.version=99", "--dry-run"],
    ),
    "features: unknown": ("FeatureCommand", ["disable", "--feature", "made.up", "--dry-run"]),
    "cluster: unregister": (
        "ClusterTool",
        ["unregister", "--bootstrap-server", "{brokers}", "--id", "99"],
    ),
    "cluster: endpoints": (
        "ClusterTool",
        ["list-endpoints", "--bootstrap-server", "{brokers}", "--include-fenced-brokers"],
    ),
    "log directories: unknown broker": (
        "LogDirsCommand",
        ["--describe", "--broker-list", "9", "--topic-list", TOPIC],
    ),
    "log directories: unknown topic": (
        "LogDirsCommand",
        ["--describe", "--broker-list", "2", "--topic-list", f"{PREFIX}none"],
    ),
    "offsets: unknown": ("GetOffsetShell", ["--topic", f"{PREFIX}none"]),
    "offsets: of partitions": (
        "GetOffsetShell",
        ["--topic-partitions", f"{TOPIC}:0-5", "--exclude-internal-topics"],
    ),
    "offsets: at a time": ("GetOffsetShell", ["--topic", TOPIC, "--time", "0"]),
    "offsets: tiered": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-5"]),
    "offsets: pending upload": ("GetOffsetShell", ["--topic", TOPIC, "--time", "-6"]),
    "offsets: bad time": ("GetOffsetShell", ["--topic", TOPIC, "--time", "soon"]),
    "records: delete beyond": ("DeleteRecordsCommand", ["--offset-json-file", "{beyond}"]),
    "records: delete twice": ("DeleteRecordsCommand", ["--offset-json-file", "{twice}"]),
    "election: unclean": (
        "LeaderElectionCommand",
        ["--election-type", "unclean", "--topic", TOPIC, "--partition", "0"],
    ),
    "election: unknown": (
        "LeaderElectionCommand",
        ["--election-type", "preferred", "--topic", f"{PREFIX}none", "--partition", "0"],
    ),
    "election: from a file": (
        "LeaderElectionCommand",
        ["--election-type", "preferred", "--path-to-json-file", "{moves}"],
    ),
    "reassign: execute": (
        "reassign.ReassignPartitionsCommand",
        ["--execute", "--reassignment-json-file", "{away}"],
    ),
    "reassign: execute badly": (
        "reassign.ReassignPartitionsCommand",
        ["--execute", "--reassignment-json-file", "{nowhere}"],
    ),
    "reassign: cancel": (
        "reassign.ReassignPartitionsCommand",
        ["--cancel", "--reassignment-json-file", "{moves}"],
    ),
    "metrics: list": ("ClientMetricsCommand", ["--list"]),
    "metrics: alter": (
        "ClientMetricsCommand",
        [
            *("--alter", "--name", f"{PREFIX}m", "--interval", "1000"),
            *("--match", "client_id=a", "--metrics", "org.apache.kafka."),
        ],
    ),
    "metrics: alter badly": (
        "ClientMetricsCommand",
        ["--alter", "--name", f"{PREFIX}m", "--interval", "1"],
    ),
    "metrics: describe": ("ClientMetricsCommand", ["--describe", "--name", f"{PREFIX}m"]),
    "metrics: delete": ("ClientMetricsCommand", ["--delete", "--name", f"{PREFIX}m"]),
    "metrics: delete unknown": ("ClientMetricsCommand", ["--delete", "--name", f"{PREFIX}none"]),
    "groups: by type": ("GroupsCommand", ["--list", "--group-type", "classic"]),
    "groups: consumers": ("GroupsCommand", ["--list", "--consumer"]),
    "groups: bad type": ("GroupsCommand", ["--list", "--group-type", "made-up"]),
    "groups: listed with states": (
        "consumer.group.ConsumerGroupCommand",
        ["--list", "--state", "--type"],
    ),
    "groups: members": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--group", f"{PREFIX}group", "--members", "--verbose"],
    ),
    "groups: verbose offsets": (
        "consumer.group.ConsumerGroupCommand",
        ["--describe", "--all-groups", "--offsets", "--verbose"],
    ),
    "groups: delete offsets": (
        "consumer.group.ConsumerGroupCommand",
        ["--delete-offsets", "--group", f"{PREFIX}group", "--topic", TOPIC],
    ),
    "groups: delete existing": (
        "consumer.group.ConsumerGroupCommand",
        ["--delete", "--group", f"{PREFIX}group"],
    ),
    "groups: validate": (
        "consumer.group.ConsumerGroupCommand",
        ["--validate-regex", "a.*"],
    ),
    "configs: topic of all": _configs(
        "--describe", "--entity-type", "topics", "--all", "--entity-name", TOPIC
    ),
    "configs: missing topic": _describe("topics", f"{PREFIX}none"),
    "configs: missing topic altered": _alter(
        "topics", (f"{PREFIX}none",), "--add-config", "retention.ms=1"
    ),
    "configs: unknown topic config": _alter("topics", (TOPIC,), "--add-config", "made.up=1"),
    "configs: list appended": _alter(
        "topics", (TOPIC,), "--add-config", "cleanup.policy=[compact,delete]"
    ),
    "configs: broker altered": _alter("brokers", ("1",), "--add-config", "log.retention.ms=99999"),
    "configs: broker": _describe("brokers", "1"),
    "configs: broker restored": _alter("brokers", ("1",), "--delete-config", "log.retention.ms"),
    "configs: brokers altered": _alter("brokers", (), "--add-config", "log.retention.ms=99999"),
    "configs: brokers": _describe("brokers"),
    "configs: brokers restored": _alter("brokers", (), "--delete-config", "log.retention.ms"),
    "configs: unknown broker": _describe("brokers", "one"),
    "configs: bad broker config": _alter("brokers", ("1",), "--add-config", "log.retention.ms=x"),
    "configs: logger": _alter("broker-loggers", ("1",), "--add-config", "made.up=DEBUG"),
    "configs: bad level": _alter("broker-loggers", ("1",), "--add-config", "root=LOUD"),
    "configs: clients altered": _alter("clients", ("c d",), "--add-config", "request_percentage=5"),
    "configs: clients": _configs("--describe", "--entity-type", "clients"),
    "configs: default client": _alter("clients", (), "--add-config", "consumer_byte_rate=5"),
    "configs: default client described": _describe("clients"),
    "configs: client restored": _alter("clients", (), "--delete-config", "consumer_byte_rate"),
    "configs: ip altered": _alter(
        "ips", ("10.0.0.1",), "--add-config", "connection_creation_rate=5"
    ),
    "configs: ip": _describe("ips", "10.0.0.1"),
    "configs: bad ip": _alter("ips", ("10.0.0.1",), "--add-config", "producer_byte_rate=5"),
    "configs: user credential": _alter(
        "users", (f"{PREFIX}u",), "--add-config", "SCRAM-SHA-256=[iterations=8192,password=p]"
    ),
    "configs: user": _describe("users", f"{PREFIX}u"),
    "configs: bad user credential": _alter(
        "users", (f"{PREFIX}u",), "--add-config", "SCRAM-SHA-256=[iterations=1,password=p]"
    ),
    "configs: user credential deleted": _alter(
        "users", (f"{PREFIX}u",), "--delete-config", "SCRAM-SHA-256"
    ),
    "configs: unknown credential deleted": _alter(
        "users", (f"{PREFIX}u",), "--delete-config", "SCRAM-SHA-512"
    ),
    "configs: bad user config": _alter("users", (f"{PREFIX}u",), "--add-config", "made.up=1"),
    "configs: group": _alter(
        "groups", (f"{PREFIX}g",), "--add-config", "consumer.session.timeout.ms=50000"
    ),
    "configs: group restored": _alter(
        "groups", (f"{PREFIX}g",), "--delete-config", "consumer.session.timeout.ms"
    ),
    "configs: bad group config": _alter(
        "groups", (f"{PREFIX}g",), "--add-config", "consumer.session.timeout.ms=1"
    ),
    "configs: metrics": _alter(
        "client-metrics", (f"{PREFIX}m",), "--add-config", "interval.ms=500"
    ),
    "configs: metrics described": _describe("client-metrics", f"{PREFIX}m"),
    "configs: metrics restored": _alter(
        "client-metrics", (f"{PREFIX}m",), "--delete-config", "interval.ms"
    ),
    "topics: delete": ("TopicCommand", ["--delete", "--topic", f"{PREFIX}new"]),
    "topics: unavailable": ("TopicCommand", ["--describe", "--unavailable-partitions"]),
    "topics: below the minimum": ("TopicCommand", ["--describe", "--under-min-isr-partitions"]),
    "topics: with overrides": ("TopicCommand", ["--describe", "--topics-with-overrides"]),
    "topics: by id": ("TopicCommand", ["--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAwOQ"]),
    "topics: bad name": ("TopicCommand", ["--create", "--topic", "a b"]),
    "topics: placed": (
        "TopicCommand",
        ["--create", "--topic", f"{PREFIX}placed", "--replica-assignment", "1:2,2:3"],
    ),
    "topics: grow": (
        "TopicCommand",
        ["--alter", "--topic", f"{PREFIX}placed", "--partitions", "3"],
    ),
}
