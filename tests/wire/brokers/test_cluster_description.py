"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs and FindCoordinator."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)
from embedkafka.wire.protocol.messages.groups import FindCoordinatorRequest
from embedkafka.wire.protocol.messages.topics import DescribeLogDirsRequest
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.one_partition import batch, each_version, produce
from tests.wire.one_partition import describe as describe_topic
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
GROUP, TRANSACTION = 0, 1


def test_every_version_describes_the_cluster(three_brokers: Cluster) -> None:
    with three_brokers.connect() as raw:

        def check(version: int) -> None:
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            answer = raw.call(request, version)
            addresses = {f"{broker.host}:{broker.port}" for broker in answer.brokers}
            assert answer.error_code == ErrorCode.NONE
            assert addresses == set(three_brokers.bootstrap_servers.split(","))
            assert {broker.broker_id for broker in answer.brokers} == {1, 2, 3}
            assert answer.controller_id in {1, 2, 3}
            assert answer.cluster_id
            assert answer.cluster_authorized_operations == -(2**31)

        each_version(raw, DescribeClusterRequest, check)


def test_all_brokers_agree_on_the_cluster_id(three_brokers: Cluster) -> None:
    seen = set()
    for index in range(3):
        with three_brokers.connect(index) as raw:
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            seen.add(raw.call(request).cluster_id)
    assert len(seen) == 1


def page(
    raw: RawClient,
    names: Sequence[str],
    *,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> Any:
    start = cursor and DescribeTopicPartitionsRequest.Cursor(
        topic_name=cursor[0], partition_index=cursor[1]
    )
    return raw.call(
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in names],
            response_partition_limit=limit,
            cursor=start,
        )
    )


def test_partitions_are_described_with_replicas_and_eligible_leaders(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("pages"), partitions=2)
    answer = page(raw, [name])
    (topic,) = answer.topics
    assert (topic.name, topic.error_code, topic.is_internal) == (name, ErrorCode.NONE, False)
    assert topic.topic_id == describe_topic(raw, name).topic_id
    assert answer.next_cursor is None
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.error_code) == (index, ErrorCode.NONE)
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert list(partition.replica_nodes) == [1]
        assert list(partition.isr_nodes) == [1]
        assert list(partition.offline_replicas) == []
        # The Java client crashes on a null here, though the format allows it.
        assert list(partition.eligible_leader_replicas) == []
        assert list(partition.last_known_elr) == []


def test_a_cursor_leads_through_all_pages_once(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    names = sorted(create_topic(cluster, unique("pages"), partitions=5) for _ in range(3))
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(20):
        answer = page(raw, names, limit=4, cursor=cursor)
        found = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(found) <= 4
        seen += found
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert seen == [(name, partition) for name in names for partition in range(5)]


def test_topics_come_sorted_and_unknown_ones_with_an_error(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    known, unknown = create_topic(cluster, unique("b-known")), unique("a-unknown")
    answer = page(raw, [known, unknown])
    assert [(t.name, t.error_code) for t in answer.topics] == [
        (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (known, ErrorCode.NONE),
    ]


def test_no_names_describe_all_topics(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("pages"))
    assert name in {topic.name for topic in page(raw, []).topics}


def log_dirs(
    raw: RawClient, name: str, partitions: Sequence[int], *, version: int | None = None
) -> Any:
    wanted = DescribeLogDirsRequest.Topic(topic=name, partitions=partitions)
    return raw.call(DescribeLogDirsRequest(topics=[wanted]), version).results


def test_every_version_tells_the_size_of_partitions(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("sizes"), partitions=2)
    produced = batch(b"x" * 1000)
    produce(raw, name, produced)

    def check(version: int) -> None:
        (directory,) = log_dirs(raw, name, [0, 1], version=version)
        (topic,) = directory.topics
        assert (directory.error_code, topic.name) == (ErrorCode.NONE, name)
        assert {p.partition_index: p.partition_size for p in topic.partitions} == {
            0: len(produced),
            1: 0,
        }
        assert not any(p.is_future_key or p.offset_lag for p in topic.partitions)
        if version >= 4:
            assert 0 < directory.usable_bytes <= directory.total_bytes

    each_version(raw, DescribeLogDirsRequest, check)


def test_null_asks_for_all_partitions_on_the_disk(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("sizes"))
    (directory,) = raw.call(DescribeLogDirsRequest(topics=None)).results
    assert name in {topic.name for topic in directory.topics}


def find(raw: RawClient, kind: int, *keys: str, version: int) -> Any:
    request = FindCoordinatorRequest(
        key=keys[0] if keys else "", key_type=kind, coordinator_keys=keys
    )
    return raw.call(request, version)


def await_coordinator(raw: RawClient, kind: int, key: str) -> None:
    """The first FindCoordinator request makes the broker create the internal topic."""
    eventually(
        lambda: find(raw, kind, key, version=3).error_code == ErrorCode.NONE,
        f"coordinator of {key}",
    )


@pytest.mark.both_io_modes
def test_every_version_finds_the_coordinator_of_a_group(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    group = unique("group")
    await_coordinator(raw, GROUP, group)

    def check(version: int) -> None:
        answer = find(raw, GROUP, group, version=version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
        assert f"{found.host}:{found.port}" == cluster.bootstrap_servers

    each_version(raw, FindCoordinatorRequest, check)


def test_coordinators_of_transactions_are_found_too(raw: RawClient, unique: Unique) -> None:
    key = unique("txn")
    await_coordinator(raw, TRANSACTION, key)
    assert find(raw, TRANSACTION, key, version=3).node_id == 1


def test_many_coordinators_are_found_at_once(three_brokers: Cluster, unique: Unique) -> None:
    keys = [unique("group") for _ in range(10)]
    with three_brokers.connect() as raw:
        for key in keys:
            await_coordinator(raw, GROUP, key)
        answer = find(raw, GROUP, *keys, version=4)
    assert [found.key for found in answer.coordinators] == keys
    assert {found.error_code for found in answer.coordinators} == {ErrorCode.NONE}
    assert {found.node_id for found in answer.coordinators} <= {1, 2, 3}


def test_all_brokers_name_the_same_coordinator(three_brokers: Cluster, unique: Unique) -> None:
    key = unique("group")
    named = set()
    for index in range(3):
        with three_brokers.connect(index) as raw:
            await_coordinator(raw, GROUP, key)
            named.add(find(raw, GROUP, key, version=3).node_id)
    assert len(named) == 1


def test_the_topics_of_coordinators_are_internal_and_compacted(
    raw: RawClient, unique: Unique
) -> None:
    await_coordinator(raw, GROUP, unique("group"))
    await_coordinator(raw, TRANSACTION, unique("txn"))
    for name in ("__consumer_offsets", "__transaction_state"):
        topic = describe_topic(raw, name)
        assert (topic.is_internal, len(topic.partitions)) == (True, 3)
