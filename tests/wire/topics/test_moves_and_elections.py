"""Moves and elections of replicated topics."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.plain_messages import Plain, ask, request
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]


@pytest.fixture
def raw3(three_brokers: Cluster) -> Iterator[RawClient]:
    """A connection to the controller of three brokers."""
    with three_brokers.connect() as client:
        controller = client.call(request(ApiKey.METADATA, topics=[]), 4).controller_id
    with three_brokers.connect(controller - 1) as client:
        yield client


@pytest.fixture
def three_replicas(three_brokers: Cluster, unique: Unique) -> str:
    return create_topic(three_brokers, unique("topic"), replication=3)


@pytest.mark.parametrize(
    ("replicas", "outcome"),
    [
        ([1], ("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 3 to 1")),
        ([3, 2, 1], ("NONE", None)),
    ],
)
def test_a_move_may_keep_the_number_of_replicas(
    raw3: RawClient, three_replicas: str, replicas: list[int], outcome: tuple[str, str | None]
) -> None:
    moved = {"partition_index": 0, "replicas": replicas}
    answer = ask(
        raw3,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        allow_replication_factor_change=False,
        topics=[{"name": three_replicas, "partitions": [moved]}],
    )
    assert answer["allow_replication_factor_change"] is False
    ((found,),) = (topic["partitions"] for topic in answer["responses"])
    assert (found["error_code"], found["error_message"]) == outcome


def test_a_move_to_where_the_replicas_are_changes_nothing(
    raw3: RawClient, three_replicas: str
) -> None:
    def partition() -> Any:
        topics = ask(raw3, ApiKey.METADATA, topics=[{"name": three_replicas}])["topics"]
        return topics[0]["partitions"][0]

    before = partition()
    moved = {"partition_index": 0, "replicas": before["replica_nodes"]}
    topics = [{"name": three_replicas, "partitions": [moved]}]
    ask(raw3, ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=topics)
    assert partition() == before


def test_an_election_of_all_names_every_topic(raw3: RawClient, three_replicas: str) -> None:
    def elected() -> Plain:
        answer = ask(raw3, ApiKey.ELECT_LEADERS, topic_partitions=None)
        return {
            topic["topic"]: topic["partition_result"]
            for topic in answer["replica_election_results"]
        }

    assert eventually(lambda: elected().get(three_replicas) == [], "no election was needed")
