"""What a cluster does with the settings it is given."""

import pytest

from embedkafka.cluster.config import ClusterConfig
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.properties import parse_properties

#: What the test broker of Spark's own connector is started with, as Java writes it to a file,
#: together with what single suites add.
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


def test_the_settings_of_sparks_own_test_broker_are_accepted():
    settings = ClusterConfig(config=parse_properties(SPARKS_TEST_BROKER)).broker_settings()
    assert settings["log.segment.bytes"] == 70
    assert settings["log.flush.interval.messages"] == 1
    assert settings["group.initial.rebalance.delay.ms"] == 10


def test_a_setting_that_does_nothing_is_told_once(caplog):
    config = ClusterConfig(config=parse_properties(SPARKS_TEST_BROKER))
    for _ in range(3):
        config.broker_settings()
    told = sorted(record.args[0] for record in caplog.records)
    assert told == ["broker.id", "delete.retention.ms", "listeners", "log.dir", "zookeeper.connect"]


def test_an_unknown_setting_is_refused():
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        ClusterConfig(config={"num.partition": 1})
