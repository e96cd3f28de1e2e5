"""Every refusal of a topic request: the code and the words, as Kafka has them.

Refusals of creation are asked for with `validate_only`, so that a test leaves nothing behind.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.wire_types import OPERATIONS_OMITTED, ZERO_UUID
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.plain_messages import Plain, ask, request
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
Assignment = Sequence[tuple[int, Sequence[int]]]

NO_SUCH_ID = UUID(int=12345)
TOPIC_OPERATIONS = 3576
BAD_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"


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


def new_topic(
    name: str, partitions: int = 1, replication: int = 1, assignment: Assignment = (), **config: str
) -> Plain:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication,
        "assignments": [{"partition_index": p, "broker_ids": brokers} for p, brokers in assignment],
        "configs": [{"name": n.replace("_", "."), "value": value} for n, value in config.items()],
    }


def refused(results: Plain) -> tuple[str, str | None]:
    (result,) = results
    return result["error_code"], result["error_message"]


def try_to_create(raw: RawClient, topic: Plain) -> Plain:
    return ask(raw, ApiKey.CREATE_TOPICS, topics=[topic], timeout_ms=30_000, validate_only=True)[
        "topics"
    ]


@pytest.mark.parametrize(
    ("counts", "code", "message"),
    [
        pytest.param(
            (0, 0),
            "INVALID_REPLICATION_FACTOR",
            "Replication factor must be larger than 0, or -1 to use the default value.",
            id="no partitions, no replicas",
        ),
        pytest.param(
            (0, 1),
            "INVALID_PARTITIONS",
            "Number of partitions was set to an invalid non-positive value.",
            id="no partitions",
        ),
    ],
)
def test_counts_below_one_are_refused(
    raw3: RawClient, unique: Unique, counts: tuple[int, int], code: str, message: str
) -> None:
    assert refused(try_to_create(raw3, new_topic(unique("topic"), *counts))) == (code, message)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            [(0, [1]), (0, [2])],
            "Found multiple manual partition assignments for partition 0",
        ),
        ([(0, [1]), (2, [1])], "partitions should be a consecutive 0-based integer sequence"),
        (
            [(0, [1, 1])],
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            [(0, [1, 9])],
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        (
            [(0, [1]), (1, [1, 2])],
            "The manual partition assignment includes a partition with 2 replica(s), but this is "
            "not consistent with previous partitions, which have 1 replica(s).",
        ),
    ],
)
def test_a_bad_assignment_is_explained(
    raw3: RawClient, unique: Unique, assignment: Assignment, message: str
) -> None:
    topic = new_topic(unique("topic"), -1, -1, assignment)
    assert refused(try_to_create(raw3, topic)) == (BAD_ASSIGNMENT, message)


@pytest.mark.parametrize(
    ("counts", "name"), [((1, -1), "numPartitions"), ((-1, 1), "replication factor")]
)
def test_an_assignment_excludes_counts(
    raw3: RawClient, unique: Unique, counts: tuple[int, int], name: str
) -> None:
    topic = new_topic(unique("topic"), *counts, [(0, [1])])
    message = f"A manual partition assignment was specified, but {name} was not set to -1."
    assert refused(try_to_create(raw3, topic)) == ("INVALID_REQUEST", message)


def test_a_trial_shows_an_id(raw3: RawClient, unique: Unique) -> None:
    (result,) = try_to_create(raw3, new_topic(unique("topic")))
    assert (result["error_code"], result["topic_id"]) == ("NONE", "id")


def test_the_name_of_krafts_metadata_is_taken(raw3: RawClient) -> None:
    message = "Creation of internal topic __cluster_metadata is prohibited."
    results = try_to_create(raw3, new_topic("__cluster_metadata"))
    assert refused(results) == ("INVALID_REQUEST", message)


def test_a_missing_topic_cannot_grow_and_no_reason_is_given(raw3: RawClient) -> None:
    topic = {"name": "missing", "count": 3, "assignments": None}
    results = ask(
        raw3, ApiKey.CREATE_PARTITIONS, topics=[topic], timeout_ms=30_000, validate_only=True
    )["results"]
    assert refused(results) == ("UNKNOWN_TOPIC_OR_PARTITION", None)


@pytest.mark.parametrize(
    ("topic", "what"),
    [
        ({"name": "missing", "topic_id": ZERO_UUID}, "name"),
        ({"name": None, "topic_id": NO_SUCH_ID}, "id"),
    ],
)
def test_a_topic_to_delete_twice_is_answered_once(raw3: RawClient, topic: Plain, what: str) -> None:
    delete = partial(ask, raw3, ApiKey.DELETE_TOPICS, timeout_ms=30_000)
    results = delete(topics=[topic, topic])["responses"]
    assert refused(results) == ("INVALID_REQUEST", f"Duplicate topic {what}.")


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (
            {"name": "missing", "topic_id": ZERO_UUID},
            "UNKNOWN_TOPIC_OR_PARTITION",
            "This server does not host this topic-partition.",
        ),
        (
            {"name": None, "topic_id": NO_SUCH_ID},
            "UNKNOWN_TOPIC_ID",
            "This server does not host this topic ID.",
        ),
        (
            {"name": "missing", "topic_id": NO_SUCH_ID},
            "INVALID_REQUEST",
            "You may not specify both topic name and topic id.",
        ),
    ],
)
def test_a_topic_to_delete_must_exist(
    raw3: RawClient, topic: Plain, code: str, message: str
) -> None:
    answer = ask(raw3, ApiKey.DELETE_TOPICS, topics=[topic], timeout_ms=30_000)
    assert refused(answer["responses"]) == (code, message)


def test_offsets_of_a_partition_named_twice_are_refused_once(
    raw3: RawClient, three_replicas: str
) -> None:
    topics = [
        {"name": three_replicas, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
        for timestamp in (-1, -2)
    ]
    (topic,) = ask(raw3, ApiKey.LIST_OFFSETS, replica_id=-1, topics=topics)["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["error_code"]) == (three_replicas, "INVALID_REQUEST")


def test_records_of_a_partition_named_twice_are_deleted_once(raw: RawClient, topic: str) -> None:
    partitions = [{"partition_index": 0, "offset": 0}] * 2
    (answer,) = ask(
        raw,
        ApiKey.DELETE_RECORDS,
        topics=[{"name": topic, "partitions": partitions}],
        timeout_ms=30_000,
    )["topics"]
    assert answer["partitions"] == [
        {"partition_index": 0, "low_watermark": 0, "error_code": "NONE"}
    ]


@pytest.mark.parametrize(
    ("partition", "named", "replicas", "may_resize", "code", "message"),
    [
        (
            0,
            "missing",
            None,
            True,
            "UNKNOWN_TOPIC_OR_PARTITION",
            "Unable to find a topic named {}.",
        ),
        (9, None, None, True, "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition {}:9."),
        (9, None, [1], True, "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition {}:9."),
        (0, None, None, True, "NO_REASSIGNMENT_IN_PROGRESS", None),
        (
            0,
            None,
            [1],
            False,
            "INVALID_REPLICATION_FACTOR",
            "The replication factor is changed from 3 to 1",
        ),
        (
            0,
            None,
            [],
            True,
            BAD_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (0, None, [3, 2, 1], False, "NONE", None),
    ],
)
def test_a_reassignment_is_answered(
    raw3: RawClient,
    three_replicas: str,
    partition: int,
    named: str | None,
    replicas: list[int] | None,
    may_resize: bool,
    code: str,
    message: str | None,
) -> None:
    name = named or three_replicas
    moved = {"partition_index": partition, "replicas": replicas}
    answer = ask(
        raw3,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        allow_replication_factor_change=may_resize,
        topics=[{"name": name, "partitions": [moved]}],
    )
    (topic,) = answer["responses"]
    assert answer["allow_replication_factor_change"] is may_resize
    assert refused(topic["partitions"]) == (code, message and message.format(name))


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


@pytest.mark.parametrize("election_type", [2, 9, -1])
def test_an_unknown_election_is_refused(
    raw3: RawClient, three_replicas: str, election_type: int
) -> None:
    elect = partial(ask, raw3, ApiKey.ELECT_LEADERS, election_type=election_type)
    answer = elect(topic_partitions=[{"topic": three_replicas, "partitions": [0]}])
    (topic,) = answer["replica_election_results"]
    assert answer["error_code"] == "INVALID_REQUEST"
    message = f"Unknown election type {election_type}"
    assert refused(topic["partition_result"]) == ("INVALID_REQUEST", message)
    assert elect(topic_partitions=None)["replica_election_results"] == []


def test_an_election_is_explained_where_none_is_held(raw3: RawClient, three_replicas: str) -> None:
    topics = [
        {"topic": three_replicas, "partitions": [0, 9]},
        {"topic": three_replicas + "x", "partitions": [0]},
    ]
    answer = ask(raw3, ApiKey.ELECT_LEADERS, topic_partitions=topics)
    results = [r for topic in answer["replica_election_results"] for r in topic["partition_result"]]
    assert [refused([result]) for result in results] == [
        ("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."),
        ("UNKNOWN_TOPIC_OR_PARTITION", f"No such partition as {three_replicas}-9"),
        ("UNKNOWN_TOPIC_OR_PARTITION", f"No such topic as {three_replicas}x"),
    ]


def test_an_election_of_all_names_every_topic(raw3: RawClient, three_replicas: str) -> None:
    def elected() -> Plain:
        answer = ask(raw3, ApiKey.ELECT_LEADERS, topic_partitions=None)
        return {
            topic["topic"]: topic["partition_result"]
            for topic in answer["replica_election_results"]
        }

    assert eventually(lambda: elected().get(three_replicas) == [], "no election was needed")


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            "MISMATCHED_ENDPOINT_TYPE",
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        ),
        (9, "UNSUPPORTED_ENDPOINT_TYPE", "Unsupported endpoint type 9"),
    ],
)
def test_a_cluster_has_no_other_endpoints(
    raw: RawClient, endpoint_type: int, code: str, message: str
) -> None:
    assert ask(
        raw,
        ApiKey.DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=True,
        endpoint_type=endpoint_type,
    ) == {
        "error_code": code,
        "error_message": message,
        "endpoint_type": 1,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": [],
        "cluster_authorized_operations": OPERATIONS_OMITTED,
    }


@pytest.mark.parametrize(
    "cursor",
    [{"topic_name": "{}", "partition_index": -1}, {"topic_name": "aaa", "partition_index": 0}],
    ids=["negative partition", "topic that is not asked for"],
)
def test_a_bad_cursor_is_refused_for_each_topic(raw: RawClient, topic: str, cursor: Plain) -> None:
    answer = ask(
        raw,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": topic}],
        cursor={**cursor, "topic_name": cursor["topic_name"].format(topic)},
    )
    (described,) = answer["topics"]
    assert (described["name"], described["error_code"]) == (topic, "INVALID_REQUEST")
    assert (described["topic_authorized_operations"], answer["next_cursor"]) == (
        OPERATIONS_OMITTED,
        None,
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", "UNKNOWN_TOPIC_OR_PARTITION"), ("a b", "INVALID_TOPIC_EXCEPTION")],
)
def test_what_a_client_may_do_with_a_missing_topic_is_shown(
    raw3: RawClient, name: str, code: str
) -> None:
    asked: dict[ApiKey, Plain] = {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: {},
        ApiKey.METADATA: {"include_topic_authorized_operations": True},
    }
    for api, fields in asked.items():
        (topic,) = ask(raw3, api, topics=[{"name": name}], **fields)["topics"]
        assert topic["error_code"] == code
        assert topic["topic_authorized_operations"] == TOPIC_OPERATIONS


def test_a_topic_named_twice_is_described_once(raw: RawClient, topic: str) -> None:
    assert len(ask(raw, ApiKey.METADATA, topics=[{"name": topic}] * 2)["topics"]) == 1


def test_an_id_counts_more_than_a_name(raw: RawClient, topic: str) -> None:
    named = [{"name": topic, "topic_id": NO_SUCH_ID}]
    (answer,) = ask(raw, ApiKey.METADATA, topics=named)["topics"]
    assert (answer["error_code"], answer["name"]) == ("UNKNOWN_TOPIC_ID", None)


def test_producers_of_an_illegal_topic_are_not_described(raw: RawClient) -> None:
    topics = [{"name": "a b", "partition_indexes": [0]}]
    (topic,) = ask(raw, ApiKey.DESCRIBE_PRODUCERS, topics=topics)["topics"]
    code, message = refused(topic["partitions"])
    assert code == "INVALID_TOPIC_EXCEPTION"
    assert "'a b' contains" in str(message)
