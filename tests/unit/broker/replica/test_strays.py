"""The logs that a starting broker no longer needs."""

import uuid
from collections.abc import Mapping

import pytest

from embedkafka.broker.replica.strays import find_strays
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk.payloads import ReplicaAssignment, TopicAssignment
from tests.doubles.replica_cluster import TOPIC_ID, Node, ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
HERE = ReplicaAssignment(replicas=(2, 1))
ELSEWHERE = ReplicaAssignment(replicas=(2, 3))


def topic(
    partitions: Mapping[int, ReplicaAssignment], topic_id: uuid.UUID | None = TOPIC_ID
) -> TopicAssignment:
    return TopicAssignment(topic="orders", topic_id=topic_id, partitions=partitions)


@pytest.mark.parametrize(
    ("known", "is_stray"),
    [
        (topic({0: HERE}), False),
        (topic({0: ELSEWHERE}), True),
        (topic({1: HERE}), True),
        (topic({0: HERE}, topic_id=uuid.UUID(int=77)), True),
        (topic({0: HERE}, topic_id=None), False),
        (None, True),
    ],
    ids=["kept", "moved away", "no such partition", "another topic", "topic without id", "deleted"],
)
def test_a_stray_has_no_replica_here_in_the_store(
    single: Node, known: TopicAssignment | None, is_stray: bool
) -> None:
    strays = find_strays(single.logs.all_logs(), BrokerId(1), lambda name: known)
    assert strays == ([TP] if is_stray else [])


def test_a_log_without_an_id_belongs_to_the_topic_of_its_name(cluster: ReplicaCluster) -> None:
    cluster.elect(1, topic_id=ZERO_UUID)
    logs = cluster[1].logs.all_logs()
    assert find_strays(logs, BrokerId(1), lambda name: topic({0: HERE})) == []


def test_each_topic_is_looked_up_once(single: Node) -> None:
    single.cluster.elect(1, of=OTHER)
    asked: list[str] = []
    assert find_strays(single.logs.all_logs(), BrokerId(1), asked.append) == [TP, OTHER]
    assert asked == ["orders"]
