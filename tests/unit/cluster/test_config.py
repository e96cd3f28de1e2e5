"""How a cluster treats the settings it is given."""

from typing import Any

import pytest

from embedkafka.cluster.config import ClusterConfig, advertised_listener, broker_settings
from embedkafka.runtime.failures import ConfigError, ConfigWarning
from embedkafka.runtime.properties import parse_properties

#: The settings of the test broker in Spark's own connector, as Java writes them to a file, plus
#: those that individual suites add.
SPARKS_TEST_BROKER = r"""
#Mon Nov 16 12:00:00 UTC 2026
broker.id=0
listeners=PLAINTEXT\://localhost\:0
log.dir=/tmp/spark-d2b5
zookeeper.connect=localhost\:43211
zookeeper.connection.timeout.ms=60000
log.flush.interval.messages=1
replica.socket.timeout.ms=1500
delete.topic.enable=true
group.initial.rebalance.delay.ms=10
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.cleaner.backoff.ms=100
log.segment.bytes=70
log.retention.bytes=40
log.retention.ms=1
log.retention.check.interval.ms=100
delete.retention.ms=10
log.flush.scheduler.interval.ms=10
"""


@pytest.mark.filterwarnings("ignore::embedkafka.ConfigWarning")
def test_the_settings_of_sparks_own_test_broker_are_accepted() -> None:
    settings = broker_settings(ClusterConfig(config=parse_properties(SPARKS_TEST_BROKER)))
    assert settings["log.segment.bytes"] == 70
    assert settings["log.flush.interval.messages"] == 1
    assert settings["group.initial.rebalance.delay.ms"] == 10


def test_a_setting_that_does_nothing_is_warned_of_once() -> None:
    with pytest.warns(ConfigWarning) as warned:
        config = ClusterConfig(config=parse_properties(SPARKS_TEST_BROKER))
    broker_settings(config)  # no second warning: warnings are errors
    told = sorted(str(warning.message).split()[2] for warning in warned)
    assert told == [
        "delete.retention.ms",
        "listeners",
        "log.dir",
        "replica.socket.timeout.ms",
        "zookeeper.connect",
    ]
    assert {warning.filename for warning in warned} == {__file__}


def test_a_warning_gives_the_reason() -> None:
    with pytest.warns(ConfigWarning, match=r"ssl\.keystore\.location has no effect: security is"):
        ClusterConfig(config={"ssl.keystore.location": "x"})


def test_a_setting_that_must_not_be_ignored_stops_the_cluster() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name is not supported"):
        ClusterConfig(config={"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


@pytest.mark.parametrize(
    ("given", "first"),
    [({}, 1), ({"broker.id": "0"}, 0), ({"broker.id": -1}, 1), ({"node.id": 5}, 5)],
)
def test_ids_count_from_the_one_that_is_given(given: dict[Any, Any], first: int) -> None:
    assert ClusterConfig(config=given).first_id == first


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("PLAINTEXT://kafka.test:29092", "PLAINTEXT://kafka.test:29093"),
        ("SSL://a:1,PLAINTEXT://b:2", "PLAINTEXT://b:3"),
        ("CLIENTS://a:1,INTERNAL://b:2", "PLAINTEXT://a:2"),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9093"),
        ("PLAINTEXT://:0", "PLAINTEXT://:0"),
    ],
)
def test_the_second_broker_advertises_the_next_port(text: str, told: str) -> None:
    config = ClusterConfig(brokers=2, port=9092, config={"advertised.listeners": text})
    assert str(advertised_listener(config, 2)) == told


def test_nobody_forwards_to_a_port_that_is_not_known_beforehand() -> None:
    config = ClusterConfig(config={"advertised.listeners": "PLAINTEXT://kafka.test:9092"})
    assert str(advertised_listener(config, 1)) == "PLAINTEXT://kafka.test:0"


def test_a_listener_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners: 'localhost:9092'"):
        ClusterConfig(config={"advertised.listeners": "localhost:9092"})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        ClusterConfig(config={"num.partition": 1})
