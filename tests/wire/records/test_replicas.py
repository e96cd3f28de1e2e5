"""The answers of followers, and the guarantees of a replicated topic on the wire."""

from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.clients import Cluster, Out, consume, create_topic, eventually, values
from tests.wire.clients import produce as deliver
from tests.wire.one_partition import (
    LATEST,
    batch,
    describe,
    fetch,
    list_offset,
    produce,
    produce_request,
    the_partition,
    values_of,
)
from tests.wire.plain_messages import ask
from tests.wire.topic_changes import leader_index

Unique = Callable[[str], str]


@pytest.fixture
def topic(three_brokers: Cluster, unique: Unique) -> str:
    return create_topic(three_brokers, unique("replicated"), replication=3)


@pytest.mark.both_io_modes
@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_replicated_topic_is_written_and_read(
    three_brokers: Cluster, unique: Unique, acks: str
) -> None:
    name = create_topic(three_brokers, unique("replicated"), partitions=3, replication=3)
    sent = [Out(value=str(i).encode(), partition=i % 3) for i in range(300)]
    deliver(three_brokers, name, sent, acks=acks)
    for partition in range(3):
        read = values(consume(three_brokers, name, 100, partition=partition))
        assert read == [str(i).encode() for i in range(partition, 300, 3)]


def test_every_replica_stays_in_sync_under_load(three_brokers: Cluster, topic: str) -> None:
    sent = [Out(value=b"x" * 1000) for _ in range(2000)]
    deliver(three_brokers, topic, sent, acks="all")
    with three_brokers.connect() as raw:
        (partition,) = describe(raw, topic).partitions
    assert sorted(partition.isr_nodes) == [1, 2, 3]


def test_a_follower_refuses_producers_and_names_the_leader(
    three_brokers: Cluster, topic: str
) -> None:
    leader = leader_index(three_brokers, topic)
    with three_brokers.connect((leader + 1) % 3) as follower:
        old = produce(follower, topic, batch(b"a"), version=9)
        response = follower.call(produce_request(topic, batch(b"a")), 11)
    new = the_partition(response.responses, "partition_responses")
    assert old.error_code == new.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (new.current_leader.leader_id, new.current_leader.leader_epoch) == (leader + 1, 0)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == [leader + 1]


def test_a_follower_refuses_questions_about_offsets(three_brokers: Cluster, topic: str) -> None:
    with three_brokers.connect((leader_index(three_brokers, topic) + 1) % 3) as follower:
        answer = list_offset(follower, topic, LATEST)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_serves_consumers_of_version_11_and_later(
    three_brokers: Cluster, topic: str
) -> None:
    leader = leader_index(three_brokers, topic)
    with three_brokers.connect(leader) as raw:
        produce(raw, topic, batch(b"a"))
    with three_brokers.connect((leader + 1) % 3) as follower:
        old = fetch(follower, topic, 0, version=10)
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # A follower learns the high watermark with its next fetch.
        eventually(lambda: values_of(fetch(follower, topic, 0)) == [b"a"], "the follower serves")


def test_a_broker_without_a_replica_knows_who_has_one(
    three_brokers: Cluster, unique: Unique
) -> None:
    name = create_topic(three_brokers, unique("single"), replication=1)
    leader = leader_index(three_brokers, name)
    with three_brokers.connect((leader + 1) % 3) as stranger:
        assert describe(stranger, name).partitions[0].leader_id == leader + 1
        refused = produce(stranger, name, batch(b"a"))
        fetched = fetch(stranger, name, 0)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_min_insync_replicas_is_no_more_than_the_replicas_there_are(
    three_brokers: Cluster, unique: Unique
) -> None:
    name = create_topic(three_brokers, unique("strict"), config={"min.insync.replicas": "2"})
    with three_brokers.connect(leader_index(three_brokers, name)) as raw:
        assert produce(raw, name, batch(b"a"), acks=-1).error_code == ErrorCode.NONE


def test_any_broker_elects_leaders_and_moves_partitions(three_brokers: Cluster, topic: str) -> None:
    for index in range(three_brokers.broker_count):
        with three_brokers.connect(index) as raw:
            elected = ask(
                raw,
                ApiKey.ELECT_LEADERS,
                election_type=0,
                topic_partitions=[{"topic": topic, "partitions": [0]}],
                timeout_ms=10_000,
            )
            assert elected["error_code"] == "NONE"
            (result,) = elected["replica_election_results"][0]["partition_result"]
            assert result["error_code"] == "ELECTION_NOT_NEEDED"

            cancelled = {"name": topic, "partitions": [{"partition_index": 0, "replicas": None}]}
            moved = ask(
                raw, ApiKey.ALTER_PARTITION_REASSIGNMENTS, timeout_ms=10_000, topics=[cancelled]
            )
            assert moved["error_code"] == "NONE"
            (result,) = moved["responses"][0]["partitions"]
            assert result["error_code"] == "NO_REASSIGNMENT_IN_PROGRESS"

            listed = ask(raw, ApiKey.LIST_PARTITION_REASSIGNMENTS, timeout_ms=10_000, topics=None)
            assert listed["error_code"] == "NONE"
