"""Every setting works, or is in the table of settings without effect.

One broker runs with each setting at a value other than the default. Each setting has a probe, which
looks into the part that obeys it. A client then changes the dynamic settings, and the probe looks
again. A key without a probe or a row in the table fails here.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from embedkafka import EmbeddedKafka
from embedkafka.broker import listener_authentication
from embedkafka.broker.adapters import LocalPartitions
from embedkafka.broker.apis import fetch, groups, metadata, txns
from embedkafka.broker.broker import Broker
from embedkafka.broker.controlled_shutdown import ShutdownPolicy
from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignors import ASSIGNORS
from embedkafka.broker.coordinator.runtime import CoordinatorRuntime
from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.broker.log import config as log_config
from embedkafka.broker.log.cleaning.cleaner import CleanerConfig
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.log import Log
from embedkafka.broker.log.manager import LogManagerConfig
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.following.remote_leader import RemoteLeader
from embedkafka.broker.settings import group as group_settings
from embedkafka.broker.settings import part_configs
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.definition import (
    READ_ONLY,
    ConfigKey,
    ConfigType,
    ConfigValue,
    format_value,
)
from embedkafka.broker.settings.group import GROUP_KEYS
from embedkafka.broker.settings.ignored_keys import INERT, INERT_TOPIC
from embedkafka.broker.settings.listener_keys import find_inert
from embedkafka.broker.settings.topic import effective_topic_config
from embedkafka.broker.settings.topic_keys import SYNONYMS, TOPIC_KEYS
from embedkafka.broker.topics.rules import DEFAULT
from embedkafka.cluster import broker_process
from embedkafka.cluster.lifecycle import ensemble
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.scheduler import _Task
from embedkafka.security.tokens import TokenSettings
from embedkafka.wire.net.limits import Limits
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import IncrementalAlterConfigsRequest
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.zk import kazoo_store
from embedkafka.zk.store import ZkStore
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

WAIT_S: Final = 30
TOPIC, OTHER_TOPIC, INTERNAL_TOPIC = "inherits", "has-its-own", "has-small-segments"
ROOT: Final = Path(log_config.__file__).parents[2]

Probe = Callable[[Broker], Any]

# -- access to the parts


def cleaner_backoff_ms(broker: Broker) -> float | None:
    task = broker.logs._cleaner_task
    assert isinstance(task, _Task)
    return task.period_ms


def local_partitions(coordinator: CoordinatorRuntime[Any, Any]) -> LocalPartitions:
    """The logs of the coordinator's partitions, whatever the types of its shards and effects."""
    logs = coordinator._host._logs
    assert isinstance(logs, LocalPartitions)
    return logs


def log_of(broker: Broker, topic: str = TOPIC) -> Log:
    log = broker.logs.find(TopicPartition(topic, 0))
    assert log is not None
    return log


PARTS: Final[Mapping[type, Probe]] = {
    CleanerConfig: lambda broker: broker.logs._cleaner.config,
    ControllerConfig: lambda broker: present(broker.controller)._core._config,
    GroupConfig: lambda broker: broker.groups._config,
    Limits: lambda broker: broker._built.server._quota._limits,
    LogManagerConfig: lambda broker: broker.logs.config,
    ReplicaConfig: lambda broker: broker.replicas.config,
    TokenSettings: lambda broker: present(broker.tokens)._settings,
    TxnConfig: lambda broker: broker.txns._config,
}
"""The config of a part of a running broker: its fields are named after the settings."""


def field_of(part: type, name: str) -> Probe:
    assert is_read(name, part), f"nothing reads {name}"
    return lambda broker: getattr(PARTS[part](broker), name)


def is_read(field: str, part: type) -> bool:
    """Whether product code outside `part`, or a property of it, reads this field."""
    where = Path(inspect.getfile(part))
    source = inspect.getsource(part) + where.read_text().replace(inspect.getsource(part), "")
    return f".{field}" in source or any(
        f".{field}" in path.read_text() for path in ROOT.rglob("*.py") if path != where
    )


def times(factor: int, probe: Probe) -> Probe:
    """For a part that uses another unit than the setting."""
    return lambda broker: probe(broker) / factor


def read_by(module: ModuleType, name: str) -> Probe:
    """For a setting that is read on demand from the current settings."""

    def probe(broker: Broker) -> ConfigValue:
        assert f'"{name}"' in inspect.getsource(module), f"{module.__name__} does not read {name}"
        return broker.config.broker[name]

    return probe


def limit_of_groups(name: str) -> Probe:
    """For a limit on what a group may set: the check gets the current limits."""

    def probe(broker: Broker) -> ConfigValue:
        assert name in {
            group_settings._limit_key(own, bound) for own in GROUP_KEYS for bound in ("min", "max")
        }
        return broker.config.broker[name]

    return probe


def plan(broker: Broker) -> Any:
    return broker.parts.topics.plan_topic(
        "planned",
        partitions=DEFAULT,
        replication=DEFAULT,
        config={},
        broker_config=broker.config.broker,
    )


def internal(*, of_groups: bool) -> Callable[[Broker], tuple[int, int, dict[str, str]]]:
    return lambda broker: part_configs.internal_topic_settings(
        broker.config.broker, group=of_groups
    )


def remote_leader(broker: Broker) -> RemoteLeader:
    """The connection to a leader in another process, which a cluster in one process never needs."""
    find_peer, broker._built._find_peer = broker._built._find_peer, None
    try:
        leader = broker._built._reach_leader(BrokerId(1), lambda *_: None)
    finally:
        broker._built._find_peer = find_peer
    assert isinstance(leader, RemoteLeader)
    return leader


def connection_timeout_ms(broker: Broker) -> int:
    """The timeout with which a process and a cluster open a session on a real ZooKeeper."""
    made: list[int] = []

    class Kazoo:
        def __init__(self, hosts: str, *, connect_timeout_ms: int, **other: object) -> None:
            made.append(connect_timeout_ms)

        def on_session_change(self, listener: object) -> None:
            """Never changes."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_process, "KazooZk", Kazoo)
        patch.setattr(kazoo_store, "KazooZk", Kazoo)
        broker_process.BrokerProcess(zookeeper="zk:1", broker_id=1)._connect(broker.spec.config)
        timeout_ms = part_configs.zookeeper_connect_timeout_ms(broker.spec.config)
        ensemble.RealEnsemble("zk:1", Failures(), connect_timeout_ms=timeout_ms).observe()
    (timeout_ms,) = set(made)
    return timeout_ms


def session_timeout_ms(broker: Broker) -> int:
    store: ZkStore = broker._built.store
    return store._timeout_ms  # type: ignore[attr-defined]  # the in-memory store


def default_assignors(broker: Broker) -> tuple[str, ...]:
    assert set(broker.groups._config.group_consumer_assignors) <= set(ASSIGNORS)
    return broker.groups._config.group_consumer_assignors


PROBES: Final[Mapping[str, Probe]] = {
    **{
        key: field_of(part, field)
        for part in PARTS
        for field, key in part_configs.keys_of(part).items()
        if key in BROKER_KEYS
    },
    "add.partitions.to.txn.retry.backoff.max.ms": lambda broker: (
        broker.parts.find_txn_verification()._setting("retry.backoff.max.ms")
    ),
    "add.partitions.to.txn.retry.backoff.ms": lambda broker: (
        broker.parts.find_txn_verification()._setting("retry.backoff.ms")
    ),
    "auto.create.topics.enable": read_by(metadata, "auto.create.topics.enable"),
    "broker.rack": lambda broker: broker.bound.info().rack,
    "controlled.shutdown.enable": lambda broker: broker.spec.config["controlled.shutdown.enable"],
    "controlled.shutdown.max.retries": lambda broker: (
        ShutdownPolicy.of(broker.spec.config).max_retries
    ),
    "controlled.shutdown.retry.backoff.ms": lambda broker: (
        ShutdownPolicy.of(broker.spec.config).retry_backoff_ms
    ),
    "controller.socket.timeout.ms": lambda broker: (
        broker._built.connect_to(broker.bound.info().endpoint("PLAINTEXT"))._request_timeout_ms
    ),
    "default.replication.factor": lambda broker: len(plan(broker).assignment[0]),
    "delete.records.purgatory.purge.interval.requests": (
        lambda broker: broker.replicas.waiters.delete_records._purge_interval
    ),
    "fetch.max.bytes": read_by(fetch, "fetch.max.bytes"),
    "fetch.purgatory.purge.interval.requests": (
        lambda broker: broker.replicas.waiters.fetch._purge_interval
    ),
    "follower.replication.throttled.rate": (
        lambda broker: broker.replicas.follower_quota._bytes_per_second
    ),
    "group.consumer.assignors": default_assignors,
    "group.consumer.max.heartbeat.interval.ms": limit_of_groups(
        "group.consumer.max.heartbeat.interval.ms"
    ),
    "group.consumer.max.session.timeout.ms": limit_of_groups(
        "group.consumer.max.session.timeout.ms"
    ),
    "group.consumer.migration.policy": (
        lambda broker: broker.groups._config.group_consumer_migration_policy.value
    ),
    "group.consumer.min.heartbeat.interval.ms": limit_of_groups(
        "group.consumer.min.heartbeat.interval.ms"
    ),
    "group.consumer.min.session.timeout.ms": limit_of_groups(
        "group.consumer.min.session.timeout.ms"
    ),
    "group.coordinator.rebalance.protocols": read_by(
        groups, "group.coordinator.rebalance.protocols"
    ),
    "leader.replication.throttled.rate": (
        lambda broker: broker.replicas.leader_quota._bytes_per_second
    ),
    "log.cleaner.backoff.ms": cleaner_backoff_ms,
    "log.cleaner.io.max.bytes.per.second": (
        lambda broker: broker.logs._cleaner_threads._throttle._bytes_per_ms * 1000
    ),
    "log.cleaner.threads": (
        lambda broker: broker.logs._cleaner_threads._config.log_cleaner_threads
    ),
    "max.connections.per.ip.overrides": lambda broker: ",".join(
        f"{host}:{count}"
        for host, count in PARTS[Limits](broker).max_connections_per_ip_overrides.items()
    ),
    "max.incremental.fetch.session.cache.slots": lambda broker: broker.parts.fetches._cache._slots,
    "max.request.partition.size.limit": read_by(metadata, "max.request.partition.size.limit"),
    "num.io.threads": lambda broker: sum(t.is_alive() for t in broker._built.pool._threads),
    "num.network.threads": lambda broker: len(broker._built.server._acceptors[0].owners),
    "num.partitions": lambda broker: len(plan(broker).assignment),
    "offsets.commit.timeout.ms": (
        lambda broker: local_partitions(broker.groups.coordinator).append_timeout_ms
    ),
    "offsets.load.buffer.size": (
        lambda broker: local_partitions(broker.groups.coordinator).load_bytes
    ),
    "offsets.topic.compression.codec": (
        lambda broker: int(broker.groups.coordinator._host._compression)
    ),
    "offsets.topic.num.partitions": lambda broker: internal(of_groups=True)(broker)[0],
    "offsets.topic.replication.factor": lambda broker: internal(of_groups=True)(broker)[1],
    "offsets.topic.segment.bytes": lambda broker: int(
        internal(of_groups=True)(broker)[2]["segment.bytes"]
    ),
    "producer.id.expiration.ms": lambda broker: log_of(broker)._contents.producers.expiration_ms,
    "producer.purgatory.purge.interval.requests": (
        lambda broker: broker.replicas.waiters.produce._purge_interval
    ),
    "queued.max.request.bytes": lambda broker: broker._built.pool._channel.max_bytes,
    "queued.max.requests": lambda broker: broker._built.pool._channel.capacity,
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        lambda broker: broker.logs._moves._bytes_per_second
    ),
    "replica.fetch.min.bytes": lambda broker: remote_leader(broker)._config.replica_fetch_min_bytes,
    "replica.fetch.response.max.bytes": (
        lambda broker: remote_leader(broker)._config.replica_fetch_response_max_bytes
    ),
    "replica.selector.class": lambda broker: (
        f"org.apache.kafka.common.replica.{type(broker.replicas.reads._selector).__name__}"
    ),
    "replica.socket.timeout.ms": (
        lambda broker: broker._built._connect_to_leader(BrokerId(1))._request_timeout_ms
    ),
    "replication.quota.window.num": lambda broker: broker.replicas.leader_quota._windows,
    "replication.quota.window.size.seconds": times(
        1000, lambda broker: broker.replicas.follower_quota._window_ms
    ),
    "request.timeout.ms": read_by(txns, "request.timeout.ms"),
    "socket.listen.backlog.size": lambda broker: broker._built.server._config.backlog,
    "transaction.partition.verification.enable": (
        lambda broker: broker.parts.find_txn_verification()._config.broker[
            "transaction.partition.verification.enable"
        ]
    ),
    "transaction.state.log.load.buffer.size": (
        lambda broker: local_partitions(broker.txns.coordinator).load_bytes
    ),
    "transaction.state.log.min.isr": lambda broker: int(
        internal(of_groups=False)(broker)[2]["min.insync.replicas"]
    ),
    "transaction.state.log.num.partitions": lambda broker: internal(of_groups=False)(broker)[0],
    "transaction.state.log.replication.factor": lambda broker: internal(of_groups=False)(broker)[1],
    "transaction.state.log.segment.bytes": lambda broker: int(
        internal(of_groups=False)(broker)[2]["segment.bytes"]
    ),
    "zookeeper.connection.timeout.ms": connection_timeout_ms,
    "zookeeper.session.timeout.ms": session_timeout_ms,
    "delegation.token.expiry.check.interval.ms": lambda broker: next(
        task.period_ms
        for _, _, task in broker._built.background._heap
        if task.name == "expire-tokens"
    ),
    # Listeners that ask for SASL read these when they are made, and again after a change.
    **{
        name: read_by(listener_authentication, name)
        for name in BROKER_KEYS
        if name.startswith(("connection.failed.", "connections.max.reauth.", "sasl."))
        and find_inert(name) is None
    },
}

ONE_VALUE: Final[Mapping[str, str]] = {
    "delegation.token.master.key": "the former name of delegation.token.secret.key (test_tokens)",
    "offsets.commit.required.acks": "no other is accepted (test_config)",
}
"""Settings that accept only one value."""

FACTS: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "control.plane.listener.name",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "zookeeper.connect",
    }
)
"""Settings that identify a broker; the wire tests' `test_configs` reads them with a client."""

OF_TLS: Final = frozenset(
    {
        "security.inter.broker.protocol",
        *(name for name in BROKER_KEYS if name.startswith("ssl.") and find_inert(name) is None),
    }
)
"""Settings that matter only to TLS; `test_tls` and `unit/security` use them."""

#: Values at the start and after the change, where the rule below would pick a wrong one.
VALUES: Final[Mapping[str, tuple[object, object]]] = {
    "broker.rack": ("r1", None),
    "compression.gzip.level": (5, None),
    "compression.type": ("zstd", None),
    "default.replication.factor": (1, None),  # there is only one broker
    "delegation.token.secret.key": ("the brokers' secret", None),
    "group.consumer.assignors": (("range",), None),
    "group.consumer.migration.policy": ("upgrade", None),
    "group.coordinator.rebalance.protocols": (("classic",), None),
    "log.cleaner.enable": (True, None),  # a disabled cleaner shows nothing
    "log.message.timestamp.type": ("LogAppendTime", None),
    "max.connection.creation.rate": (5000, 6000),
    "max.connections": (500, 400),
    "max.connections.per.ip": (450, 350),
    "max.connections.per.ip.overrides": ("10.0.0.9:3", "10.0.0.9:4,::1:7"),
    "num.io.threads": (2, 3),
    "num.network.threads": (2, 3),
    "offsets.topic.replication.factor": (1, None),
    "queued.max.request.bytes": (200_000_000, None),
    "sasl.jaas.config": ("A required;", "B required;"),
    "sasl.kerberos.service.name": ("kafka", "broker"),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN", "SCRAM-SHA-256"),
    "sasl.oauthbearer.expected.issuer": ("me", None),
    "sasl.oauthbearer.jwks.endpoint.url": ("file:///keys", None),
    "sasl.oauthbearer.scope.claim.name": ("scp", None),
    "sasl.oauthbearer.sub.claim.name": ("email", None),
    "sasl.server.callback.handler.class": ("a.Handler", None),
    "replica.selector.class": (
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        None,
    ),
    "transaction.state.log.min.isr": (1, None),
    "transaction.state.log.replication.factor": (1, None),
    "zookeeper.connection.timeout.ms": (12_345, None),
    "zookeeper.session.timeout.ms": (12_345, None),
}


def some_value(key: ConfigKey, *, step: int) -> Any:
    """A value other than the default, and another one for the next step."""
    if key.name in VALUES:
        return VALUES[key.name][step - 1]
    if key.type is ConfigType.BOOLEAN:
        return (step == 1) != key.default
    if key.type is ConfigType.DOUBLE:
        default = key.default
        assert isinstance(default, float)
        return default - 0.1 * step if default < 1 else float(1_000_000 * step)
    if key.type is ConfigType.LIST:
        return ("compact",) if step == 1 else ("compact", "delete")
    if isinstance(key.default, int) and key.default < 2**31 - 100:
        return key.default + step
    return 1_000_000 * step


def about(value: object) -> object:
    return pytest.approx(value) if isinstance(value, float) else value


def is_dynamic(key: ConfigKey) -> bool:
    return key.update is not READ_ONLY


STARTED_WITH: Final = {name: some_value(BROKER_KEYS[name], step=1) for name in PROBES}
CHANGED_TO: Final = {
    name: some_value(BROKER_KEYS[name], step=2) for name in PROBES if is_dynamic(BROKER_KEYS[name])
}
BROKER_SYNONYMS: Final = {
    synonym.name: (name, synonym.factor)
    for name, synonyms in SYNONYMS.items()
    if name not in INERT_TOPIC
    for synonym in synonyms
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with pytest.warns(UserWarning, match=r"setting replica\."):
        kafka = EmbeddedKafka(
            config=STARTED_WITH, topics={TOPIC: 1, OTHER_TOPIC: 1, INTERNAL_TOPIC: 1}
        )
    with kafka:
        yield kafka


@pytest.fixture(scope="module")
def broker(kafka: EmbeddedKafka) -> Broker:
    return kafka.broker(1)._lifecycle.require_broker()


@pytest.fixture(scope="module")
def started(broker: Broker) -> Mapping[str, object]:
    """The probes' results before any change."""
    return {name: probe(broker) for name, probe in PROBES.items()}


@pytest.fixture(scope="module")
def changed(
    kafka: EmbeddedKafka, broker: Broker, started: Mapping[str, object]
) -> Mapping[str, object]:
    """The probes' results after a client has changed every dynamic setting."""
    alter(kafka, ResourceType.BROKER, "1", CHANGED_TO)
    drain_controller(broker)

    def all_hold() -> bool:
        return all(PROBES[name](broker) == about(value) for name, value in CHANGED_TO.items())

    with suppress(AssertionError):  # the test of each setting says more
        eventually(all_hold, "the new settings hold")
    return {name: PROBES[name](broker) for name in CHANGED_TO}


def drain_controller(broker: Broker) -> None:
    """Waits until the controller has handled all earlier events."""
    answered = threading.Event()
    broker.parts.registration.require_controller().list_partition_reassignments(
        None, lambda *_: answered.set()
    )
    assert answered.wait(WAIT_S)


def alter(
    kafka: EmbeddedKafka, kind: ResourceType, name: str, values: Mapping[str, object]
) -> None:
    entries = [
        ConfigEntry(key, format_value(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


def describe(kafka: EmbeddedKafka) -> Mapping[str, Any]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return described.result(WAIT_S)


# -- brokers


#: Settings that a cluster without an authorizer and quotas cannot show.
TESTED_ELSEWHERE: Final = {
    "allow.everyone.if.no.acl.found": "tests/unit/security/acl/test_index.py",
    "authorizer.class.name": "tests/cluster/security/test_acls.py",
    "controller.quota.window.num": "tests/unit/security/quotas/test_client_quotas.py",
    "controller.quota.window.size.seconds": "tests/unit/security/quotas/test_client_quotas.py",
    "inter.broker.protocol.version": "tests/cluster/replication/test_replication_by_wire.py",
    "super.users": "tests/unit/security/acl/test_authorizer.py",
}


@pytest.mark.parametrize("name", BROKER_KEYS)
def test_a_broker_setting_works_or_is_in_the_table(name: str) -> None:
    homes = {
        "a probe": name in PROBES or name in BROKER_SYNONYMS,
        "a fact": name in FACTS,
        "one value": name in ONE_VALUE,
        "a test elsewhere": name in TESTED_ELSEWHERE,
        "tests of TLS": name in OF_TLS,
        "the table": find_inert(name) is not None,
    }
    found = [home for home, is_there in homes.items() if is_there]
    assert len(found) == 1, f"{name} has {found or 'no probe and no row in the table'}"


def test_what_is_probed_exists() -> None:
    assert {*PROBES, *FACTS, *ONE_VALUE, *VALUES} <= set(BROKER_KEYS)


@pytest.mark.parametrize("name", PROBES)
def test_a_broker_setting_arrives_where_it_is_obeyed(
    started: Mapping[str, object], name: str
) -> None:
    assert started[name] == about(STARTED_WITH[name])


@pytest.mark.parametrize("name", CHANGED_TO)
def test_a_broker_setting_changes_while_the_broker_runs(
    changed: Mapping[str, object], name: str
) -> None:
    assert CHANGED_TO[name] != STARTED_WITH[name]
    assert changed[name] == about(CHANGED_TO[name])


@pytest.mark.parametrize("name", BROKER_SYNONYMS)
def test_a_default_for_topics_reaches_them(name: str) -> None:
    topic_key, factor = BROKER_SYNONYMS[name]
    value = some_value(BROKER_KEYS[name], step=1)
    effective = effective_topic_config({}, BrokerConfig({name: value}))
    assert effective[topic_key] == (value * factor if factor > 1 else value)


@pytest.mark.parametrize("name", [n for n in BROKER_SYNONYMS if is_dynamic(BROKER_KEYS[n])])
def test_a_default_for_topics_changes_while_the_broker_runs(
    kafka: EmbeddedKafka, broker: Broker, changed: Mapping[str, object], name: str
) -> None:
    value = changed.get(name, some_value(BROKER_KEYS[name], step=1))
    alter(kafka, ResourceType.BROKER, "1", {name: value})
    assert in_log(broker, BROKER_SYNONYMS[name][0]) == as_log_has_it(value)


def test_a_row_of_the_table_names_a_setting_or_begins_the_names_of_some() -> None:
    assert all(row.reason for row in INERT.values())
    assert not {name for name in INERT if name.endswith(".") and name in BROKER_KEYS}


def test_a_change_of_a_setting_without_effect_is_refused_with_the_reason(
    kafka: EmbeddedKafka,
) -> None:
    for name, value in {
        "background.threads": "12",
        "num.replica.fetchers": "2",
        "listener.name.plaintext.ssl.provider": "/keys",
    }.items():
        with pytest.raises(KafkaException, match=f"{name}.* has no effect: .") as told:
            alter(kafka, ResourceType.BROKER, "1", {name: value})
        assert told.value.args[0].code() == KafkaError.INVALID_REQUEST
    alter(kafka, ResourceType.BROKER, "1", {"num.replica.fetchers": "1"})  # its actual value


def test_a_setting_without_effect_is_described_as_read_only(kafka: EmbeddedKafka) -> None:
    described = describe(kafka)
    assert described["num.replica.fetchers"].is_read_only
    assert not described["log.cleaner.threads"].is_read_only


def test_requests_are_handled_by_network_threads_or_by_others_for_life() -> None:
    with EmbeddedKafka() as kafka:
        with pytest.raises(KafkaException, match="network threads handle requests themselves"):
            alter(kafka, ResourceType.BROKER, "1", {"num.io.threads": 1})
        alter(kafka, ResourceType.BROKER, "1", {"num.network.threads": 2})
        broker = kafka.broker(1)._lifecycle.require_broker()
        assert PROBES["num.network.threads"](broker) == 2
        served = kafka.topic("served")
        served.send("x")
        assert [message.text for message in served.read()] == ["x"]


def test_a_broker_begins_with_what_was_changed_in_its_former_life() -> None:
    changes = {
        "max.connections": 99,
        "num.network.threads": 2,
        "log.cleaner.backoff.ms": 7,
        "producer.id.expiration.ms": 12_345,
        "unclean.leader.election.enable": True,
    }
    with EmbeddedKafka(topics={TOPIC: 1}) as kafka:
        alter(kafka, ResourceType.BROKER, "1", changes)
        kafka.broker(1).restart()
        broker = kafka.broker(1)._lifecycle.require_broker()
        assert {name: PROBES[name](broker) for name in changes} == changes


def test_one_client_more_than_there_may_be_waits() -> None:
    with EmbeddedKafka() as kafka:
        server = kafka.broker(1)._lifecycle.require_broker()._built.server
        with connect(kafka) as first:
            answer = first.call(limit_connections(1))
            assert answer.responses[0].error_code == ErrorCode.NONE
            waiting = connect(kafka)
            sent = waiting.send(MetadataRequest(topics=None), 9)
            assert first.call(MetadataRequest(topics=None), 9).brokers
            assert server._quota.count == 1
        with waiting:  # the first connection is closed
            assert waiting.receive(MetadataRequest(topics=None), 9, sent).brokers


def connect(kafka: EmbeddedKafka) -> RawClient:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    return RawClient(host, int(port))


def limit_connections(count: int) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequest.Resource.Config(
        name="max.connections", config_operation=0, value=str(count)
    )
    resource = IncrementalAlterConfigsRequest.Resource(
        resource_type=4, resource_name="1", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def test_consumer_groups_can_be_switched_off() -> None:
    config = {"group.coordinator.rebalance.protocols": "classic"}
    with EmbeddedKafka(config=config) as kafka:
        with connect(kafka) as raw:
            heartbeat = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000
            )
            assert raw.call(heartbeat).error_code == ErrorCode.UNSUPPORTED_VERSION
            (group,) = raw.call(
                ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
            ).groups
            assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
        orders = kafka.topic("orders")
        orders.send("x")
        assert [message.text for message in orders.read()] == ["x"]


# -- topics and groups


@pytest.mark.parametrize("name", TOPIC_KEYS)
def test_a_topic_setting_works_or_is_in_the_table(
    kafka: EmbeddedKafka, broker: Broker, name: str
) -> None:
    if name in INERT_TOPIC:
        assert name not in log_config._NAMES
        return
    if name == "remote.storage.enable":
        with pytest.raises(Exception, match="Tiered Storage functionality is disabled"):
            alter(kafka, ResourceType.TOPIC, OTHER_TOPIC, {name: True})
        return
    if name == "internal.segment.bytes":  # it takes the place of `segment.bytes`
        alter(kafka, ResourceType.TOPIC, INTERNAL_TOPIC, {name: 1000})
        assert in_log(broker, "segment.bytes", INTERNAL_TOPIC) == 1000
        return
    key = TOPIC_KEYS[name]
    value: object = some_value(key, step=1)
    if name.endswith(".throttled.replicas"):
        value = ("0:1",)
    elif name == "message.timestamp.type":
        value = "LogAppendTime"
    assert value != key.default
    alter(kafka, ResourceType.TOPIC, OTHER_TOPIC, {name: value})
    assert in_log(broker, name, OTHER_TOPIC) == as_log_has_it(value)
    assert is_read(log_config._NAMES[name], LogConfig), f"nothing reads {name}"


def in_log(broker: Broker, topic_key: str, topic: str = TOPIC) -> object:
    return getattr(log_of(broker, topic).config, log_config._NAMES[topic_key])


def as_log_has_it(value: object) -> object:
    is_policy = isinstance(value, tuple) and set(value) <= {"compact", "delete"}
    return frozenset(value) if is_policy else value  # type: ignore[call-overload]


@pytest.mark.parametrize("name", GROUP_KEYS)
def test_a_group_setting_reaches_its_coordinator(
    kafka: EmbeddedKafka, broker: Broker, name: str
) -> None:
    value = broker.config.broker.integer(group_settings.broker_key(name)) + 1
    alter(kafka, ResourceType.GROUP, "readers", {name: value})
    assert broker.groups._overrides.find_group_value("readers", name) == value


def test_a_cluster_works_with_the_defaults_of_kafka() -> None:
    with EmbeddedKafka(brokers=2, defaults="kafka") as kafka:
        orders = kafka.topic("orders", replication=2)
        orders.send("tea")
        kafka.broker(orders.leader()).stop()
        orders.send("cup")
        assert [record.text for record in orders.read()] == ["tea", "cup"]
