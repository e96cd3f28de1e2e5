"""DescribeConfigs and both ways to alter configs: values, sources, synonyms, types and refusals."""

from collections.abc import Callable
from typing import Final

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    ListConfigResourcesRequest,
)
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.one_partition import batch, each_version, produce
from tests.wire.raw_client import RawClient
from tests.wire.settings import (
    alter,
    await_value,
    describe,
    replace,
)

pytestmark = pytest.mark.topic(config={"retention.ms": "1234"})

Unique = Callable[[str], str]

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# The source of a value, as on the wire.
TOPIC_CONFIG, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = range(1, 6)
# The type of a value, as on the wire.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)

#: Every topic config of Apache Kafka 4 with its default and type.
TOPIC_CONFIGS: Final = {
    "cleanup.policy": ("delete", LIST),
    "compression.gzip.level": ("-1", INT),
    "compression.lz4.level": ("9", INT),
    "compression.type": ("producer", STRING),
    "compression.zstd.level": ("3", INT),
    "delete.retention.ms": ("86400000", LONG),
    "file.delete.delay.ms": ("60000", LONG),
    "flush.messages": ("9223372036854775807", LONG),
    "flush.ms": ("9223372036854775807", LONG),
    "follower.replication.throttled.replicas": ("", LIST),
    "index.interval.bytes": ("4096", INT),
    "leader.replication.throttled.replicas": ("", LIST),
    "local.retention.bytes": ("-2", LONG),
    "local.retention.ms": ("-2", LONG),
    "max.compaction.lag.ms": ("9223372036854775807", LONG),
    "max.message.bytes": ("1048588", INT),
    "message.timestamp.after.max.ms": ("3600000", LONG),
    "message.timestamp.before.max.ms": ("9223372036854775807", LONG),
    "message.timestamp.type": ("CreateTime", STRING),
    "min.cleanable.dirty.ratio": ("0.5", DOUBLE),
    "min.compaction.lag.ms": ("0", LONG),
    "min.insync.replicas": ("1", INT),
    "preallocate": ("false", BOOLEAN),
    "remote.storage.enable": ("false", BOOLEAN),
    "retention.bytes": ("-1", LONG),
    "retention.ms": ("604800000", LONG),
    "segment.bytes": ("1073741824", INT),
    "segment.index.bytes": ("10485760", INT),
    "segment.jitter.ms": ("0", LONG),
    "segment.ms": ("604800000", LONG),
    "unclean.leader.election.enable": ("false", BOOLEAN),
}


def test_every_version_tells_values_and_where_they_come_from(raw: RawClient, topic: str) -> None:
    def check(version: int) -> None:
        configs = describe(raw, TOPIC, topic, version=version)
        retention, policy = configs["retention.ms"], configs["cleanup.policy"]
        assert (retention.value, policy.value) == ("1234", "delete")
        assert (retention.read_only, retention.is_sensitive) == (False, False)
        if version >= 1:
            assert (retention.config_source, policy.config_source) == (TOPIC_CONFIG, DEFAULT)
            assert (list(retention.synonyms), list(policy.synonyms)) == ([], [])
        if version >= 3:
            assert (retention.config_type, policy.config_type) == (LONG, LIST)

    each_version(raw, DescribeConfigsRequest, check)


def test_a_topic_has_every_config_of_kafka_with_its_default_and_type(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    configs = describe(raw, TOPIC, create_topic(cluster, unique("defaults")))
    seen = {name: (config.value, config.config_type) for name, config in configs.items()}
    assert {name: seen.get(name) for name in TOPIC_CONFIGS} == TOPIC_CONFIGS


def test_synonyms_show_the_values_that_a_topic_hides(raw: RawClient, topic: str) -> None:
    configs = describe(raw, TOPIC, topic, keys=["retention.ms", "max.message.bytes"], synonyms=True)
    synonyms = {
        name: [(s.name, s.value, s.source) for s in config.synonyms]
        for name, config in configs.items()
    }
    # log.retention.hours has another unit and another name, so it is no synonym.
    assert synonyms["retention.ms"] == [("retention.ms", "1234", TOPIC_CONFIG)]
    assert synonyms["max.message.bytes"] == [("message.max.bytes", "1048588", DEFAULT)]


def test_documentation_is_told_when_asked(raw: RawClient, topic: str) -> None:
    told = describe(raw, TOPIC, topic, keys=["retention.ms"], documentation=True)
    silent = describe(raw, TOPIC, topic, keys=["retention.ms"])
    assert told["retention.ms"].documentation
    assert silent["retention.ms"].documentation is None


def test_a_broker_tells_static_and_default_values(raw: RawClient) -> None:
    configs = describe(raw, BROKER, "1")
    assert (configs["log.retention.hours"].value, configs["log.retention.hours"].config_source) == (
        "168",
        DEFAULT,
    )
    rebalance = configs["group.initial.rebalance.delay.ms"]
    assert (rebalance.value, rebalance.config_source) == ("0", STATIC_BROKER)
    assert rebalance.read_only
    assert not configs["log.cleaner.threads"].read_only
    assert configs["auto.create.topics.enable"].config_type == BOOLEAN
    assert configs["log.dirs"].value


def test_a_broker_tells_where_it_listens_and_who_it_is(cluster: Cluster, raw: RawClient) -> None:
    configs = describe(raw, BROKER, "1")
    listener = f"PLAINTEXT://{cluster.bootstrap_servers}"
    facts = ("advertised.listeners", "broker.id", "inter.broker.listener.name", "node.id")
    assert [configs[name].value for name in facts] == [listener, "1", "PLAINTEXT", "1"]
    assert configs["listeners"].value.split(",")[0] == listener
    assert "PLAINTEXT:PLAINTEXT" in configs["listener.security.protocol.map"].value.split(",")
    told = (*facts, "listeners", "listener.security.protocol.map", "log.dirs")
    assert {configs[name].config_source for name in told} == {STATIC_BROKER}


@pytest.mark.both_io_modes
def test_a_topic_value_is_set_and_deleted(raw: RawClient, topic: str) -> None:
    assert alter(raw, TOPIC, topic, ("retention.ms", SET, "99")).error_code == ErrorCode.NONE
    changed = await_value(raw, TOPIC, topic, "retention.ms", "99")
    assert changed.config_source == TOPIC_CONFIG
    assert alter(raw, TOPIC, topic, ("retention.ms", DELETE, None)).error_code == ErrorCode.NONE
    restored = await_value(raw, TOPIC, topic, "retention.ms", "604800000")
    assert restored.config_source == DEFAULT


def test_lists_are_appended_to_and_subtracted_from(raw: RawClient, topic: str) -> None:
    assert alter(raw, TOPIC, topic, ("cleanup.policy", APPEND, "compact")).error_code == 0
    await_value(raw, TOPIC, topic, "cleanup.policy", "delete,compact")
    assert alter(raw, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    await_value(raw, TOPIC, topic, "cleanup.policy", "compact")


def test_a_changed_limit_holds_for_the_next_batch(raw: RawClient, topic: str) -> None:
    assert produce(raw, topic, batch(b"x" * 500)).error_code == ErrorCode.NONE
    alter(raw, TOPIC, topic, ("max.message.bytes", SET, "100"))
    await_value(raw, TOPIC, topic, "max.message.bytes", "100")
    too_large = ErrorCode.MESSAGE_TOO_LARGE
    eventually(
        lambda: produce(raw, topic, batch(b"x" * 500)).error_code == too_large, "the limit holds"
    )


def test_a_bad_change_changes_nothing(raw: RawClient, topic: str) -> None:
    of_topic = alter(raw, TOPIC, topic, ("retention.ms", SET, "soon"))
    of_broker = alter(raw, BROKER, "1", ("max.connections", SET, "-1"))
    assert of_topic.error_code == ErrorCode.INVALID_CONFIG
    assert of_broker.error_code == ErrorCode.INVALID_REQUEST
    assert describe(raw, TOPIC, topic, keys=["retention.ms"])["retention.ms"].value == "1234"
    key = "max.connections"
    assert describe(raw, BROKER, "1", keys=[key])[key].config_source == DEFAULT


def test_a_trial_changes_nothing(raw: RawClient, topic: str) -> None:
    fine = alter(raw, TOPIC, topic, ("retention.ms", SET, "99"), validate_only=True)
    bad = alter(raw, TOPIC, topic, ("retention.ms", SET, "soon"), validate_only=True)
    assert (fine.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    assert describe(raw, TOPIC, topic, keys=["retention.ms"])["retention.ms"].value == "1234"


def test_the_older_alter_replaces_the_whole_config(raw: RawClient, topic: str) -> None:
    assert replace(raw, TOPIC, topic, segment_ms="5000").error_code == ErrorCode.NONE
    await_value(raw, TOPIC, topic, "segment.ms", "5000")
    await_value(raw, TOPIC, topic, "retention.ms", "604800000")


def test_a_broker_value_is_changed_while_it_runs(raw: RawClient) -> None:
    key = "log.cleaner.threads"
    assert alter(raw, BROKER, "1", (key, SET, "2")).error_code == ErrorCode.NONE
    changed = await_value(raw, BROKER, "1", key, "2")
    assert changed.config_source == DYNAMIC_BROKER
    assert [(s.value, s.source) for s in changed.synonyms] == [
        ("2", DYNAMIC_BROKER),
        ("1", DEFAULT),
    ]
    assert alter(raw, BROKER, "1", (key, DELETE, None)).error_code == ErrorCode.NONE
    assert await_value(raw, BROKER, "1", key, "1").config_source == DEFAULT


def test_a_default_for_all_brokers_reaches_topics(raw: RawClient, topic: str) -> None:
    key, inherited = "log.segment.bytes", "segment.bytes"
    assert alter(raw, BROKER, "", (key, SET, "2097152")).error_code == ErrorCode.NONE
    changed = await_value(raw, TOPIC, topic, inherited, "2097152")
    assert changed.config_source == DYNAMIC_DEFAULT
    assert describe(raw, BROKER, "")[key].value == "2097152"
    assert alter(raw, BROKER, "", (key, DELETE, None)).error_code == ErrorCode.NONE
    await_value(raw, TOPIC, topic, inherited, "1073741824")


def test_what_clients_are_told_cannot_change_while_a_broker_runs(raw: RawClient) -> None:
    key = "advertised.listeners"
    assert describe(raw, BROKER, "1", keys=[key])[key].read_only
    answer = alter(raw, BROKER, "1", (key, SET, "PLAINTEXT://elsewhere:9092"))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_kerberos_setting_may_change_where_nobody_logs_in(raw: RawClient) -> None:
    """librdkafka's own tests change this one to see whether brokers can be altered."""
    key = "sasl.kerberos.min.time.before.relogin"
    assert not describe(raw, BROKER, "1", keys=[key])[key].read_only
    assert alter(raw, BROKER, "1", (key, SET, "58000")).error_code == ErrorCode.NONE
    await_value(raw, BROKER, "1", key, "58000")
    assert alter(raw, BROKER, "1", (key, DELETE, None)).error_code == ErrorCode.NONE
    await_value(raw, BROKER, "1", key, "60000")


def listed(raw: RawClient, *kinds: int, version: int = 1) -> tuple[int, set[tuple[int, str]]]:
    answer = raw.call(ListConfigResourcesRequest(resource_types=kinds), version)
    resources = {(found.resource_type, found.resource_name) for found in answer.config_resources}
    return answer.error_code, resources


def test_what_has_settings_is_listed_by_type(raw: RawClient, topic: str, unique: Unique) -> None:
    group = unique("group")
    assert alter(raw, GROUP, group, ("consumer.session.timeout.ms", SET, "50000")).error_code == 0
    assert (GROUP, group) in eventually(lambda: listed(raw, GROUP)[1], f"{group} is listed")
    assert listed(raw, BROKER) == (0, {(BROKER, "1")})
    assert listed(raw, BROKER_LOGGER) == (0, {(BROKER_LOGGER, "1")})
    assert listed(raw, CLIENT_METRICS) == (0, set())
    assert (TOPIC, topic) in listed(raw, TOPIC)[1]
    assert {kind for kind, _ in listed(raw, TOPIC, GROUP)[1]} == {TOPIC, GROUP}
    every = {(TOPIC, topic), (BROKER, "1"), (BROKER_LOGGER, "1"), (GROUP, group)}
    assert every <= listed(raw)[1]
    assert alter(raw, GROUP, group, ("consumer.session.timeout.ms", DELETE, None)).error_code == 0
    eventually(lambda: (GROUP, group) not in listed(raw)[1], f"{group} is no longer listed")


def test_the_first_version_lists_client_metrics_only(raw: RawClient, topic: str) -> None:
    assert listed(raw, version=0) == (0, set())
    assert listed(raw, TOPIC, 3) == (ErrorCode.UNSUPPORTED_VERSION, set())


#: Some keys of every part of Apache Kafka 4, with default and type.
BROKER_CONFIGS: Final = {
    "controller.quorum.election.timeout.ms": ("1000", INT),
    "controller.quorum.fetch.max.bytes": ("1048576", INT),
    "cordoned.log.dirs": ("", LIST),
    "delegation.token.max.lifetime.ms": ("604800000", LONG),
    "group.share.partition.max.record.locks": ("2000", INT),
    "group.streams.max.standby.replicas": ("2", INT),
    "log.local.retention.ms": ("-2", LONG),
    "metadata.log.segment.bytes": ("1073741824", INT),
    "quota.window.num": ("11", INT),
    "remote.log.manager.copy.max.bytes.per.second": ("9223372036854775807", LONG),
    "remote.log.metadata.manager.impl.prefix": ("rlmm.config.", STRING),
    "remote.log.storage.system.enable": ("false", BOOLEAN),
    "sasl.jaas.config": (None, PASSWORD),
    "sasl.kerberos.ticket.renew.jitter": ("0.05", DOUBLE),
    "sasl.login.class": (None, CLASS),
    "sasl.login.refresh.buffer.seconds": ("300", SHORT),
    "sasl.oauthbearer.jwt.validator.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        CLASS,
    ),
    "share.coordinator.state.topic.segment.bytes": ("104857600", INT),
    "ssl.enabled.protocols": ("TLSv1.2,TLSv1.3", LIST),
    "ssl.keystore.password": (None, PASSWORD),
    "telemetry.max.bytes": ("1048576", INT),
    "transaction.two.phase.commit.enable": ("false", BOOLEAN),
}


def test_a_broker_describes_all_keys_of_kafka_with_type_and_default(raw: RawClient) -> None:
    configs = describe(raw, BROKER, "1")
    assert len(configs) >= 320
    found = {name: (configs[name].value, configs[name].config_type) for name in BROKER_CONFIGS}
    assert found == BROKER_CONFIGS
    assert all(configs[name].config_source == DEFAULT for name in BROKER_CONFIGS)
    assert configs["ssl.keystore.password"].is_sensitive


def level(raw: RawClient, logger: str) -> str | None:
    return describe(raw, BROKER_LOGGER, "1")[logger].value


def test_a_logger_s_level_is_described_and_changed(raw: RawClient) -> None:
    before = level(raw, "root")
    entry = describe(raw, BROKER_LOGGER, "1", keys=["root"], documentation=True)["root"]
    assert (entry.config_source, entry.config_type, entry.read_only) == (6, 0, False)
    try:
        assert alter(raw, BROKER_LOGGER, "1", ("root", SET, "WARN")).error_code == 0
        assert level(raw, "root") == "WARN"
        trial = alter(raw, BROKER_LOGGER, "1", ("root", SET, "FATAL"), validate_only=True)
        assert (trial.error_code, level(raw, "root")) == (ErrorCode.NONE, "WARN")
    finally:
        alter(raw, BROKER_LOGGER, "1", ("root", SET, before))


def test_client_metrics_are_subscribed_listed_and_forgotten(raw: RawClient, unique: Unique) -> None:
    name = unique("subscription")
    defaults = {"interval.ms": "300000", "match": "", "metrics": ""}
    wanted = {"interval.ms": "1000", "match": "client_id=a.*", "metrics": "org.apache.kafka."}
    untouched = describe(raw, CLIENT_METRICS, name)
    assert {key: entry.value for key, entry in untouched.items()} == defaults
    assert {entry.config_source for entry in untouched.values()} == {DEFAULT}

    changes = [(key, SET, value) for key, value in wanted.items()]
    assert alter(raw, CLIENT_METRICS, name, *changes).error_code == ErrorCode.NONE
    await_value(raw, CLIENT_METRICS, name, "interval.ms", "1000")
    entries = describe(raw, CLIENT_METRICS, name, synonyms=True)
    assert {key: entry.value for key, entry in entries.items()} == wanted
    assert {entry.config_source for entry in entries.values()} == {7}
    assert [entry.config_type for entry in entries.values()] == [INT, LIST, LIST]
    assert (CLIENT_METRICS, name) in listed(raw, CLIENT_METRICS)[1]

    alter(raw, CLIENT_METRICS, name, *((key, DELETE, None) for key in wanted))
    await_value(raw, CLIENT_METRICS, name, "interval.ms", "300000")
    assert (CLIENT_METRICS, name) not in listed(raw, CLIENT_METRICS)[1]


def test_metrics_of_clients_are_not_wanted_without_a_plugin(raw: RawClient) -> None:
    offered = {
        api.api_key
        for api in raw.call(
            ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        ).api_keys
    }
    assert not offered & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
