import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.server.broker_config import (
    BROKER_KEYS,
    BrokerConfig,
    idle_settings,
    parse_broker_settings,
)
from embedkafka.server.config_def import format_value
from embedkafka.server.config_docs import TOPIC_DOCS, documentation
from embedkafka.server.topic_config import (
    SYNONYMS,
    TOPIC_KEYS,
    effective_topic_config,
    parse_topic_settings,
)


@pytest.mark.parametrize("keys", [BROKER_KEYS, TOPIC_KEYS], ids=["broker", "topic"])
def test_every_default_parses_to_itself(keys):
    for key in keys.values():
        if key.default is not None:
            assert key.parse(format_value(key.default)) == key.default, key.name


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("max.message.bytes", str(2**31), "Not a number of type INT"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1"),
        ("compression.gzip.level", "0", "Value must be at least 1"),
        ("leader.replication.throttled.replicas", "1-2", "must be the literal '*'"),
    ],
)
def test_a_bad_topic_value_is_refused_with_kafkas_reason(name, text, reason):
    with pytest.raises(ConfigError, match=f"Invalid value .* for configuration {name}: {reason}"):
        parse_topic_settings({name: text})


def test_an_unknown_key_is_refused():
    with pytest.raises(ConfigError, match="Unknown topic config name: retention"):
        parse_topic_settings({"retention": "1"})
    with pytest.raises(ConfigError, match=r"'num\.partition'; did you mean num\.partitions"):
        parse_broker_settings({"num.partition": "1"})


def test_a_topics_key_has_no_effect_in_a_broker_but_is_no_mistake_either():
    assert parse_broker_settings({"delete.retention.ms": "10", "log.segment.bytes": "70"}) == {
        "log.segment.bytes": 70
    }
    assert "one of topics" in idle_settings(["delete.retention.ms"])["delete.retention.ms"]


def test_python_values_are_as_good_as_text():
    assert parse_topic_settings({"preallocate": True, "cleanup.policy": ["compact", "delete"]}) == {
        "preallocate": True,
        "cleanup.policy": ("compact", "delete"),
    }


def test_compaction_lags_must_agree():
    with pytest.raises(ConfigError, match="conflict"):
        parse_topic_settings({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_synonyms_name_existing_keys():
    for name, synonyms in SYNONYMS.items():
        assert name in TOPIC_KEYS
        assert all(synonym.name in BROKER_KEYS for synonym in synonyms)


def test_a_topic_takes_its_own_value_then_the_brokers_then_the_default():
    broker = BrokerConfig(parse_broker_settings({"log.retention.minutes": "2"}))
    assert effective_topic_config({}, broker)["retention.ms"] == 120_000
    assert effective_topic_config({"retention.ms": 5}, broker)["retention.ms"] == 5
    assert effective_topic_config({}, BrokerConfig({}))["retention.ms"] == 604_800_000
    assert effective_topic_config({}, BrokerConfig({}))["flush.ms"] == 2**63 - 1


def test_a_production_properties_file_is_accepted_for_what_it_can_mean_here():
    assert parse_broker_settings({"ssl.keystore.location": "x", "num.partitions": "3"}) == {
        "num.partitions": 3
    }
    assert list(idle_settings(["ssl.keystore.location", "num.partitions"])) == [
        "ssl.keystore.location"
    ]


def test_every_topic_key_is_explained():
    assert set(TOPIC_DOCS) == set(TOPIC_KEYS)
    assert documentation("log.retention.hours") == TOPIC_DOCS["retention.ms"]
    assert documentation("num.partitions")
