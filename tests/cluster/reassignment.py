"""Moves replicas between brokers as an administrator does."""

from collections.abc import Sequence

from embedkafka import EmbeddedKafka
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.messages.topics import AlterPartitionReassignmentsRequest
from tests.presence import present


def reassign(kafka: EmbeddedKafka, topic: str, replicas: Sequence[int]) -> None:
    host, port = kafka.broker(kafka.brokers.await_controller()).address.split(":")
    client = BrokerClient(host, int(port), SystemClock(), "test")
    partition = AlterPartitionReassignmentsRequest.Topic.Partition(
        partition_index=0, replicas=replicas
    )
    wanted = AlterPartitionReassignmentsRequest.Topic(name=topic, partitions=[partition])
    answer = client.call(AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[wanted]), 0)
    client.close()
    assert answer.error_code == 0
    assert [p.error_code for t in answer.responses for p in t.partitions] == [0]


def replicas_of(kafka: EmbeddedKafka, topic: str) -> set[int]:
    return set(present(kafka._require_brokers().zk.find_topic(topic)).partitions[0].replicas)
