"""An election that a client asks for: the answer comes when the leaders can be found."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedkafka import EmbeddedKafka, OwnedBroker, TopicSpec
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.wire.protocol.messages.topics import ElectLeadersRequest
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.presence import present
from tests.wire.clients import eventually


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """A cluster whose topic has lost its preferred leader for a moment."""
    with EmbeddedKafka(brokers=3, topics={"orders": TopicSpec(replication=3)}) as kafka:
        preferred = kafka.existing_topic("orders").leader()
        kafka.broker(preferred).restart()
        kafka.existing_topic("orders").await_isr(size=3)
        assert kafka.existing_topic("orders").leader() != preferred
        yield kafka


def connect(handle: OwnedBroker) -> BrokerClient:
    return BrokerClient(*parse_address(handle.address), SystemClock(), "test")


def elect(client: BrokerClient, timeout_ms: int = 60_000) -> int:
    orders = ElectLeadersRequest.Topic(topic="orders", partitions=[0])
    request = ElectLeadersRequest(topic_partitions=[orders], timeout_ms=timeout_ms)
    [topic] = client.call(request, 2).replica_election_results
    [result] = topic.partition_result
    return result.error_code


def leads_preferred(client: BrokerClient) -> bool:
    """Whether the broker's metadata shows the first replica as the leader."""
    topic = MetadataRequest.Topic(name="orders", topic_id=ZERO_UUID)
    [found] = client.call(MetadataRequest(topics=[topic]), 12).topics
    return found.partitions[0].leader_id == found.partitions[0].replica_nodes[0]


@pytest.mark.parametrize("is_asked_controller", [True, False], ids=["controller", "forwarded"])
def test_who_asks_for_an_election_finds_its_leader_next(
    kafka: EmbeddedKafka, is_asked_controller: bool
) -> None:
    asked = next(
        each
        for each in kafka.brokers
        if (each.id == kafka.brokers.controller) is is_asked_controller
    )
    client = connect(asked)
    with (
        ThreadPoolExecutor(1) as other,
        kafka.faults.disconnect(
            "UPDATE_METADATA", broker=asked.id, topic="orders", times=None
        ) as uninformed,
    ):
        answer = other.submit(elect, client)
        uninformed.await_hits(2)
        waiting = eventually(kafka.waiting, "the request waits")
        assert [one.operation for one in waiting] == ["ElectLeader"]
        assert not answer.done()
        uninformed.remove()
        assert answer.result(30) == ErrorCode.NONE
    assert leads_preferred(client)
    client.close()


def test_an_election_that_its_broker_does_not_hear_of_times_out(kafka: EmbeddedKafka) -> None:
    asked = kafka.broker(present(kafka.brokers.controller))
    client = connect(asked)
    with kafka.faults.disconnect("UPDATE_METADATA", broker=asked.id, topic="orders", times=None):
        assert elect(client, timeout_ms=50) == ErrorCode.REQUEST_TIMED_OUT
    assert elect(client) == ErrorCode.ELECTION_NOT_NEEDED
    client.close()
