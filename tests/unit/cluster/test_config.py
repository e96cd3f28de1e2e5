"""How a cluster treats the settings it is given."""

from typing import Any

import pytest

from embedkafka.cluster.config import ClusterConfig, broker_settings
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


MAP_A_AND_B = "A:PLAINTEXT,B:PLAINTEXT"


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
        "log.dir",
        "replica.socket.timeout.ms",
        "zookeeper.connect",
    ]
    assert {warning.filename for warning in warned} == {__file__}


def test_a_warning_gives_the_reason() -> None:
    with pytest.warns(ConfigWarning, match=r"ssl\.provider has no effect: OpenSSL decides"):
        ClusterConfig(config={"ssl.provider": "x"})


def test_a_setting_that_must_not_be_ignored_stops_the_cluster() -> None:
    with pytest.raises(ConfigError, match=r"create\.topic\.policy\.class\.name is not supported"):
        ClusterConfig(config={"create.topic.policy.class.name": "a.Policy"})


@pytest.mark.parametrize(
    ("given", "first"),
    [({}, 1), ({"broker.id": "0"}, 0), ({"broker.id": -1}, 1), ({"node.id": 5}, 5)],
)
def test_ids_count_from_the_one_that_is_given(given: dict[Any, Any], first: int) -> None:
    assert ClusterConfig(config=given).first_id == first


def test_ports_that_brokers_would_share_as_they_count_up_are_refused() -> None:
    two = {"listeners": "A://:9092,B://:9093", "listener.security.protocol.map": MAP_A_AND_B}
    ClusterConfig(config={**two, "inter.broker.listener.name": "A"})
    with pytest.raises(ConfigError, match=r"2 brokers on ports 9092 and 9093 would meet"):
        ClusterConfig(brokers=2, config={**two, "inter.broker.listener.name": "A"})


def test_a_listener_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners: 'localhost:9092'"):
        ClusterConfig(config={"advertised.listeners": "localhost:9092"})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        ClusterConfig(config={"num.partition": 1})
