"""Whether a partition without metadata waits for its marker, or was deleted."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka.broker.marker_channels import MarkerChannels
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import LEADER_DURING_DELETE, NO_LEADER, TopicPartition
from embedkafka.wire.protocol.messages.brokers import UpdateMetadataRequest
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Bench:
    """A store in which topic `t` has one partition, and a broker without metadata of it."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.zookeeper = MemoryZk(clock, Failures())
        self.session = self.zookeeper.connect()
        self.zk = KafkaZk(self.session, clock)
        self.zk.make_persistent_paths()
        self.zk.create_topic("t", {0: [1]}, topic_id=uuid.UUID(int=7), config={})
        self.metadata = MetadataCache()
        nothing: Any = None  # no test sends a marker
        self.sender = MarkerChannels(self.metadata, nothing, self.zk)

    def hear_of(self, *, leader: int) -> None:
        topic_state = UpdateMetadataRequest.TopicState
        partition = topic_state.PartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=leader,
            leader_epoch=0,
            isr=[1],
            zk_version=0,
            replicas=[1],
            offline_replicas=[],
        )
        topic = topic_state(topic_name="t", topic_id=uuid.UUID(int=7), partition_states=[partition])
        self.metadata.update(
            UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=1,
                broker_epoch=1,
                topic_states=[topic],
                live_brokers=[],
            )
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.zookeeper.close()


def test_a_partition_that_the_broker_has_not_heard_of_waits_for_its_leader(bench: Bench) -> None:
    assert bench.sender.find_leader(T0) == NO_LEADER
    bench.hear_of(leader=3)
    assert bench.sender.find_leader(T0) == 3


def test_a_partition_without_a_leader_waits_for_one(bench: Bench) -> None:
    bench.hear_of(leader=-1)
    assert bench.sender.find_leader(T0) == NO_LEADER


def test_a_partition_that_the_store_does_not_have_was_deleted(bench: Bench) -> None:
    assert bench.sender.find_leader(TopicPartition("u", 0)) is None
    assert bench.sender.find_leader(T1) is None  # its topic was re-created with fewer partitions


def test_a_partition_that_is_being_deleted_is_gone_once_the_controller_says_so(
    bench: Bench,
) -> None:
    bench.hear_of(leader=3)
    bench.zk.request_topic_deletion("t")
    assert bench.sender.find_leader(T0) == 3
    bench.hear_of(leader=LEADER_DURING_DELETE)
    assert bench.sender.find_leader(T0) is None


def test_nothing_counts_as_deleted_while_the_store_is_out_of_reach(bench: Bench) -> None:
    unknown = TopicPartition("u", 0)
    bench.session.pause()
    assert bench.sender.find_leader(unknown) == NO_LEADER
    bench.session.resume()
    assert bench.sender.find_leader(unknown) is None
