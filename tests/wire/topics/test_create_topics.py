"""CreateTopics: by count, by assignment, with configs, as validation only, and not at all.

How requests are refused is in `recorded/raw_calls/topics.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest
from tests.wire.clients import Cluster, await_topic, create_topic
from tests.wire.one_partition import Answer, describe, each_version
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]


def new_topic(
    name: str,
    *,
    partitions: int = 1,
    replication: int = 1,
    assignments: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str | None] | None = None,
) -> CreateTopicsRequest.Topic:
    if assignments is not None:
        partitions = replication = -1
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[
            CreateTopicsRequest.Topic.Assignment(partition_index=p, broker_ids=brokers)
            for p, brokers in (assignments or {}).items()
        ],
        configs=[
            CreateTopicsRequest.Topic.Config(name=key, value=value)
            for key, value in (config or {}).items()
        ],
    )


def create(
    raw: RawClient,
    *topics: CreateTopicsRequest.Topic,
    validate_only: bool = False,
    version: int | None = None,
) -> Any:
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=validate_only)
    return raw.call(request, version).topics


def create_one(raw: RawClient, name: str, **fields: Any) -> Answer:
    (answer,) = create(raw, new_topic(name, **fields))
    return answer


@pytest.fixture
def raw3(three_brokers: Cluster) -> Iterator[RawClient]:
    with three_brokers.connect() as client:
        yield client


@pytest.mark.both_io_modes
def test_every_version_creates(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    def check(version: int) -> None:
        name = unique("orders")
        (answer,) = create(raw, new_topic(name, partitions=2), version=version)
        assert (answer.name, answer.error_code) == (name, ErrorCode.NONE)
        if version >= 1:
            assert answer.error_message is None
        if version >= 5:
            assert (answer.num_partitions, answer.replication_factor) == (2, 1)
        await_topic(cluster, name, 2)
        if version >= 7:
            assert answer.topic_id == describe(raw, name).topic_id

    each_version(raw, CreateTopicsRequest, check)


def test_the_answer_lists_the_configs_and_where_they_come_from(
    raw: RawClient, unique: Unique
) -> None:
    answer = create_one(raw, unique("orders"), config={"retention.ms": "1234"})
    configs = {config.name: config for config in answer.configs}
    topic_config, default_config = 1, 5
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (
        "1234",
        topic_config,
    )
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == (
        "delete",
        default_config,
    )
    assert not any(config.is_sensitive or config.read_only for config in answer.configs)


def test_minus_one_takes_the_brokers_defaults(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = unique("defaults")
    answer = create_one(raw, name, partitions=-1, replication=-1)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 1, 1)
    await_topic(cluster, name, 1)


def test_replicas_and_leaders_are_spread_over_the_brokers(
    three_brokers: Cluster, raw3: RawClient, unique: Unique
) -> None:
    name = create_topic(three_brokers, unique("spread"), partitions=6, replication=3)
    partitions = describe(raw3, name).partitions
    assert all(sorted(p.replica_nodes) == [1, 2, 3] for p in partitions)
    assert all(sorted(p.isr_nodes) == [1, 2, 3] for p in partitions)
    assert all(p.leader_id == p.replica_nodes[0] for p in partitions)
    assert sorted(p.leader_id for p in partitions) == [1, 1, 2, 2, 3, 3]


def test_an_assignment_is_kept_to_the_letter(
    three_brokers: Cluster, raw3: RawClient, unique: Unique
) -> None:
    name = unique("assigned")
    wanted = {0: [3, 1], 1: [2, 3], 2: [1, 2]}
    answer = create_one(raw3, name, assignments=wanted)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 2)
    await_topic(three_brokers, name, 3)
    partitions = describe(raw3, name).partitions
    assert {p.partition_index: list(p.replica_nodes) for p in partitions} == wanted
    assert {p.partition_index: p.leader_id for p in partitions} == {0: 3, 1: 2, 2: 1}


def test_every_partition_has_equally_many_replicas(raw3: RawClient, unique: Unique) -> None:
    answer = create_one(raw3, unique("assigned"), assignments={0: [1], 1: [1, 2]})
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert answer.error_message == (
        "The manual partition assignment includes a partition with 2 replica(s), but this is not "
        "consistent with previous partitions, which have 1 replica(s)."
    )


@pytest.mark.parametrize("name", ["x" * 249, "A-Z_a.z-0", "__hello"])
def test_unusual_but_valid_names_are_fine(raw: RawClient, name: str) -> None:
    assert create_one(raw, name).error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}


def test_names_that_differ_in_dot_and_underscore_only_collide(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    stem = unique("collide")
    create_topic(cluster, f"{stem}.a_b")
    answer = create_one(raw, f"{stem}_a.b")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_existing_topic_is_refused(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("orders"))
    answer = create_one(raw, name, partitions=5)
    assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert answer.error_message == f"Topic '{name}' already exists."
    assert len(describe(raw, name).partitions) == 1


def test_a_topic_with_a_bad_config_is_not_created(raw: RawClient, unique: Unique) -> None:
    name = unique("config")
    answer = create_one(raw, name, config={"retention.ms": "soon"})
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms" in answer.error_message
    assert describe(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_trial_creates_nothing_and_tells_what_would_be(raw: RawClient, unique: Unique) -> None:
    name = unique("trial")
    (answer,) = create(raw, new_topic(name, partitions=3), validate_only=True)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert describe(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_topic_of_a_request_stands_for_itself(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    good, bad = unique("good"), unique("bad")
    answers = create(raw, new_topic(good), new_topic(bad, partitions=0))
    assert {answer.name: answer.error_code for answer in answers} == {
        good: ErrorCode.NONE,
        bad: ErrorCode.INVALID_PARTITIONS,
    }
    await_topic(cluster, good, 1)


def test_a_topic_named_twice_is_created_neither_time(raw: RawClient, unique: Unique) -> None:
    name = unique("twice")
    answers = create(raw, new_topic(name), new_topic(name))
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_REQUEST}
    assert describe(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_named_twice_is_answered_last(raw: RawClient, unique: Unique) -> None:
    twice, once = unique("twice"), unique("once")
    asked = [new_topic(name) for name in (twice, once, twice, "not a name")]
    answers = create(raw, *asked, validate_only=True)
    assert [answer.name for answer in answers] == [once, "not a name", twice]


@pytest.mark.parametrize("counts", [[10_000], [1, 10_000]], ids=str)
def test_a_request_for_too_many_partitions_creates_no_topic(
    raw: RawClient, unique: Unique, counts: list[int]
) -> None:
    names = [unique("large") for _ in counts]
    asked = [new_topic(name, partitions=count) for name, count in zip(names, counts, strict=True)]
    assert {answer.error_code for answer in create(raw, *asked)} == {ErrorCode.POLICY_VIOLATION}
    for name in names:
        assert describe(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_any_broker_takes_the_request(three_brokers: Cluster, unique: Unique) -> None:
    for index in range(3):
        name = unique("anywhere")
        with three_brokers.connect(index) as raw:
            assert create_one(raw, name, partitions=3, replication=3).error_code == ErrorCode.NONE
        await_topic(three_brokers, name, 3)


def test_a_topic_may_have_many_partitions(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("many"), partitions=200)
    assert len(describe(raw, name).partitions) == 200
