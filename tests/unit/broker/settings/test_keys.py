from collections.abc import Mapping

import pytest

from embedkafka.broker.settings.broker import (
    BrokerConfig,
    check_change,
    find_inert_in,
    idle_settings,
    parse_broker_settings,
)
from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.definition import ConfigKey, format_value
from embedkafka.broker.settings.group import GROUP_KEYS
from embedkafka.broker.settings.listener_keys import find_inert
from embedkafka.broker.settings.part_configs import replica_config
from embedkafka.broker.settings.topic import effective_topic_config, parse_topic_settings
from embedkafka.broker.settings.topic_keys import SYNONYMS, TOPIC_KEYS
from embedkafka.broker.settings.view import documentation
from embedkafka.runtime.failures import ConfigError
from tests.presence import present


@pytest.mark.parametrize("keys", [BROKER_KEYS, TOPIC_KEYS], ids=["broker", "topic"])
def test_every_default_parses_to_itself(keys: Mapping[str, ConfigKey]) -> None:
    for key in keys.values():
        if key.default is not None:
            assert key.parse(format_value(key.default)) == key.default, key.name


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "+", "Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "0_5", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "inf", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-Infinity", "Value must be at least 0"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("max.message.bytes", str(2**31), "Not a number of type INT"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("leader.replication.throttled.replicas", "1-2", ".* must be the literal '*'"),
    ],
)
def test_a_bad_topic_value_is_refused_with_kafkas_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value .* for configuration {name}: {reason}"):
        parse_topic_settings({name: text})


@pytest.mark.parametrize("idle_ms", [0, 99, 100])
def test_a_connection_outlives_the_delay_of_a_refused_login(idle_ms: int) -> None:
    with pytest.raises(ConfigError, match=f"less than connections.max.idle.ms={idle_ms} "):
        parse_broker_settings({"connections.max.idle.ms": str(idle_ms)})


@pytest.mark.parametrize("idle_ms", [-1, 101])
def test_idle_connections_may_stay_for_ever_or_longer_than_that_delay(idle_ms: int) -> None:
    parsed = parse_broker_settings({"connections.max.idle.ms": str(idle_ms)})
    assert parsed["connections.max.idle.ms"] == idle_ms


@pytest.mark.parametrize(
    ("text", "number"), [("0.5f", 0.5), (".5D", 0.5), ("1.", 1), ("5e-1", 0.5)]
)
def test_a_number_may_be_written_as_in_java(text: str, number: float) -> None:
    ratio = {"min.cleanable.dirty.ratio": text}
    assert parse_topic_settings(ratio)["min.cleanable.dirty.ratio"] == number


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown topic config name: retention"):
        parse_topic_settings({"retention": "1"})
    with pytest.raises(ConfigError, match=r"'num\.partition'; did you mean num\.partitions"):
        parse_broker_settings({"num.partition": "1"})


def test_a_topics_key_has_no_effect_in_a_broker_but_is_no_mistake_either() -> None:
    assert parse_broker_settings({"delete.retention.ms": "10", "log.segment.bytes": "70"}) == {
        "log.segment.bytes": 70
    }
    assert "a topic setting" in idle_settings({"delete.retention.ms": 1})["delete.retention.ms"]


def test_python_values_are_as_good_as_text() -> None:
    assert parse_topic_settings({"preallocate": True, "cleanup.policy": ["compact", "delete"]}) == {
        "preallocate": True,
        "cleanup.policy": ("compact", "delete"),
    }


def test_compaction_lags_must_agree() -> None:
    with pytest.raises(ConfigError, match="conflict"):
        parse_topic_settings({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_synonyms_name_existing_keys() -> None:
    for name, synonyms in SYNONYMS.items():
        assert name in TOPIC_KEYS
        assert all(synonym.name in BROKER_KEYS for synonym in synonyms)


def test_a_topic_takes_its_own_value_then_the_brokers_then_the_default() -> None:
    broker = BrokerConfig(parse_broker_settings({"log.retention.minutes": "2"}))
    assert effective_topic_config({}, broker)["retention.ms"] == 120_000
    assert effective_topic_config({"retention.ms": 5}, broker)["retention.ms"] == 5
    assert effective_topic_config({}, BrokerConfig({}))["retention.ms"] == 604_800_000
    assert effective_topic_config({}, BrokerConfig({}))["flush.ms"] == 2**63 - 1


def test_a_production_properties_file_is_accepted_for_what_it_can_mean_here() -> None:
    file = {"ssl.keystore.location": "x", "super.users": "User:a", "num.partitions": "3"}
    assert parse_broker_settings(file) == {
        "ssl.keystore.location": "x",
        "super.users": "User:a",
        "num.partitions": 3,
    }
    assert list(idle_settings(file)) == []


def test_a_security_setting_is_checked_although_it_has_no_effect() -> None:
    for name, value, reason in (
        ("ssl.client.auth", "maybe", "String must be one of: required, requested, none"),
        ("sasl.enabled.mechanisms", "PLAIN,PLAIN", "values must not be duplicated"),
        ("ssl.cipher.suites", "A,,B", "values must not be empty"),
        ("sasl.login.refresh.buffer.seconds", "40000", "Not a number of type SHORT"),
    ):
        with pytest.raises(ConfigError, match=f"{name}.* {reason}"):
            parse_broker_settings({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("principal.builder.class", "com.example.Principals"),
        ("ssl.engine.factory.class", "com.example.Engine"),
        ("zookeeper.set.acl", True),
        ("config.providers", "file"),
    ],
)
def test_a_setting_that_must_not_be_ignored_is_refused_with_the_reason(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not supported: ."):
        parse_broker_settings({name: value})


def test_a_setting_without_effect_is_named_unless_it_asks_for_what_holds() -> None:
    idle = idle_settings(
        {
            "num.replica.fetchers": "4",
            "background.threads": "10",
            "listener.name.internal.ssl.provider": "x",
        }
    )
    assert set(idle) == {
        "num.replica.fetchers",
        "listener.name.internal.ssl.provider",
    }
    assert "one fetcher per leader" in idle["num.replica.fetchers"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("offsets.commit.required.acks", "1", "waits for all in-sync replicas"),
        ("group.coordinator.rebalance.protocols", "consumer", "Disabling the 'classic' protocol"),
        (
            "group.coordinator.rebalance.protocols",
            "classic,other",
            "one of: classic, consumer, share",
        ),
        ("group.consumer.assignors", "com.example.Assignor", "not the Java class com.example"),
        ("max.connections.per.ip.overrides", "here", "host:count"),
        ("authorizer.class.name", "com.example.Mine", "cannot run in Python; use kafka.security"),
        ("queued.max.request.bytes", "100", "larger or equal to socket.request.max.bytes"),
        ("log.cleaner.dedupe.buffer.size", "100", "at least 1MB per cleaner thread"),
    ],
)
def test_a_broker_value_that_cannot_be_is_refused(name: str, value: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_broker_settings({name: value})


@pytest.mark.parametrize(
    ("name", "before", "after", "reason"),
    [
        ("num.io.threads", 4, 9, "not be greater than double the current value 4"),
        ("num.io.threads", 4, 1, "be at least half the current value 4"),
        ("num.io.threads", 0, 2, "network threads handle requests themselves"),
        ("num.io.threads", 2, 0, "network threads handle requests themselves"),
        ("num.network.threads", 1, 3, "not be greater than double"),
    ],
)
def test_threads_change_by_half_or_double_at_a_time(
    name: str, before: int, after: int, reason: str
) -> None:
    current = BrokerConfig({name: before})
    check_change(current, {name: before * 2})
    with pytest.raises(ConfigError, match=reason):
        check_change(current, {name: after})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (123456789.5, "1.234567895E8"),
        (0.0001, "1.0E-4"),
        (100.0, "100.0"),
    ],
)
def test_a_double_is_printed_as_java_does(value: float, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize("keys", [BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS])
def test_every_key_is_documented(keys: Mapping[str, ConfigKey]) -> None:
    for name in keys:
        what = documentation(name) or ""
        assert what.endswith("."), name
        assert not what.startswith(("Has no effect", ".")), name


def test_a_broker_key_is_documented_like_the_topic_key_it_supplies() -> None:
    assert documentation("log.retention.hours") == TOPIC_KEYS["retention.ms"].doc


def test_a_key_without_effect_says_so() -> None:
    what, _, why = present(documentation("num.replica.fetchers")).partition(". ")
    assert what == "Threads that fetch from each leader"
    assert why.startswith("Has no effect: leaders notify")


@pytest.mark.parametrize(
    ("release", "on_fetch"),
    [
        ("0.11.0.2", False),
        ("2.6", False),
        ("2.6.3", False),
        ("2.7-IV0", False),
        ("2.7-IV1", True),
        ("2.7", True),
        ("2.7.1", True),
        ("3.9-IV0", True),
    ],
)
def test_releases_from_2_7_on_truncate_on_fetch(release: str, on_fetch: bool) -> None:
    settings = parse_broker_settings({"inter.broker.protocol.version": release})
    assert replica_config(BrokerConfig(settings)).truncates_on_fetch is on_fetch


@pytest.mark.parametrize("release", ["", "2", "latest", "2.6-IV", "2.6-SNAPSHOT", "٢.٦"])
def test_what_is_no_release_is_refused(release: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid version, such as"):
        parse_broker_settings({"inter.broker.protocol.version": release})


def test_kerberos_matters_only_where_a_listener_speaks_sasl() -> None:
    name = "sasl.kerberos.min.time.before.relogin"
    secured = {"listeners": "SASL_SSL://:0", "security.inter.broker.protocol": "SASL_SSL"}
    assert find_inert_in(BrokerConfig({}), name) is None
    assert find_inert_in(BrokerConfig(secured), name) == find_inert(name)
    assert find_inert_in(BrokerConfig({}), "num.replica.fetchers") is not None
