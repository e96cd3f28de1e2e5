"""How a cluster treats the settings it is given."""

import re
from pathlib import Path
from typing import Any

import pytest

from embedkafka.cluster.config import (
    TEST_DEFAULTS,
    ClusterConfig,
    TopicSpec,
    broker_settings,
    placement_of,
)
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


@pytest.mark.parametrize(("protocols", "said"), [("share", "share is"), ("share,streams", "are")])
def test_kinds_of_groups_that_are_not_there_are_left_out_with_a_warning(
    protocols: str, said: str
) -> None:
    given = {"group.coordinator.rebalance.protocols": f"classic, {protocols}"}
    with pytest.warns(ConfigWarning, match=rf"protocols: .*{said} left out, only classic, c"):
        broker_settings(ClusterConfig(config=given))


def test_a_file_for_a_controller_of_kraft_warns_that_brokers_serve_clients() -> None:
    config = {"listeners": ["CONTROLLER://:9093"], "controller.listener.names": ["CONTROLLER"]}
    with pytest.warns(ConfigWarning) as warned:
        ClusterConfig(config=config)
    assert any("names only those of KRaft's controllers" in str(one.message) for one in warned)


def test_all_problems_are_in_one_error() -> None:
    config = {
        "num.partition": 3,
        "log.retention.ms": "long",
        "listeners": "here",
        "queued.max.request.bytes": 5,
        "create.topic.policy.class.name": "a.Policy",
        "broker.rack": None,
    }
    with pytest.raises(ConfigError) as refused:
        ClusterConfig(
            brokers=0,
            port=-1,
            host="",
            advertise="0.0.0.0",
            log_dirs=0,
            zookeeper="",
            data_dir=Path("a\0b"),
            racks="a",
            config=config,
            topics={"a b": 1, "c": 0},
        )
    problems = refused.value.problems
    assert [re.sub(r"\W.*", "", problem) for problem in problems] == [
        *("brokers", "log_dirs", "port", "host", "advertise", "zookeeper", "data_dir", "racks"),
        *("broker", "unknown", "Invalid", "broker", "listeners", "queued", "", "topics"),
    ]
    assert str(refused.value) == "\n- ".join(["16 problems with the configuration:", *problems])


def test_a_topic_s_problems_are_in_one_error() -> None:
    config = {"retention.ms": "long", "cleanup": "compact", "segment.bytes": None}
    with pytest.raises(ConfigError) as refused:
        TopicSpec(partitions=0, replication=0, config=config)
    assert len(refused.value.problems) == 5


def test_a_setting_that_cannot_be_read_contradicts_no_other() -> None:
    config = {"queued.max.request.bytes": 5, "socket.request.max.bytes": "x"}
    with pytest.raises(ConfigError) as refused:
        ClusterConfig(config=config)
    assert refused.value.problems == (str(refused.value),)


@pytest.mark.parametrize("host", ["::1", "kafka", "kafka.example.org", "10.0.0.1"])
def test_a_host_may_be_advertised(host: str) -> None:
    assert placement_of(ClusterConfig(advertise=host)).advertise == host


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "kafka:9092", "[::1]", "a b", "a/b", "a,b"])
def test_what_is_not_a_host_is_not_advertised(host: str) -> None:
    with pytest.raises(ConfigError, match="advertise must be"):
        ClusterConfig(advertise=host)


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


def test_ports_that_would_meet_are_named_beside_other_problems() -> None:
    config = {
        "listeners": "PLAINTEXT://:9092,SSL://:9093",
        "num.partitions": "many",
    }
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*many.*9092 and 9093 would meet"):
        ClusterConfig(brokers=2, config=config)


def test_a_listener_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners: 'localhost:9092'"):
        ClusterConfig(config={"advertised.listeners": "localhost:9092"})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        ClusterConfig(config={"num.partition": 1})


@pytest.mark.parametrize("zookeeper", [None, "localhost:2181"])
def test_all_tuned_defaults_can_be_those_of_kafka_at_once(zookeeper: str | None) -> None:
    tuned = broker_settings(ClusterConfig(zookeeper=zookeeper))
    plain = broker_settings(ClusterConfig(zookeeper=zookeeper, defaults="kafka"))
    assert TEST_DEFAULTS.keys() <= tuned.keys()
    assert TEST_DEFAULTS.keys().isdisjoint(plain)


def test_a_setting_wins_over_the_defaults_of_kafka() -> None:
    given = {"group.min.session.timeout.ms": 7}
    settings = broker_settings(ClusterConfig(defaults="kafka", config=given))
    assert settings["group.min.session.timeout.ms"] == 7
