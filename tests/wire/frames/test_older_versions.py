"""Request versions that Kafka 4 dropped (KIP-896), other than those of Produce and Fetch.

The oracle is Kafka 3.9; only the first versions of the offset requests need its ZooKeeper mode.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import DescribeConfigsRequest
from embedkafka.wire.protocol.messages.core import ListOffsetsRequest, OffsetForLeaderEpochRequest
from embedkafka.wire.protocol.messages.groups import OffsetCommitRequest, OffsetFetchRequest
from embedkafka.wire.protocol.messages.topics import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
)
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import EARLIEST, LATEST, Answer, batch, produce, the_partition
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
TOPIC_RESOURCE = 2


@pytest.fixture(autouse=True)
def _speaks_old_versions(cluster: Cluster, raw: RawClient) -> None:
    if cluster.is_apache and 0 not in raw.supported_versions(ApiKey.FETCH):
        pytest.skip("this broker has dropped the old versions (KIP-896)")


def segment_offsets(
    raw: RawClient, topic: str, timestamp: int, count: int, *, partition: int = 0
) -> tuple[int, list[int]]:
    wanted = ListOffsetsRequest.Topic.Partition(
        partition_index=partition, timestamp=timestamp, max_num_offsets=count
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=[wanted])]
    )
    answer = the_partition(raw.call(request, 0).topics, "partitions")
    return answer.error_code, list(answer.old_style_offsets)


def test_the_oldest_question_about_offsets_lists_segments(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    topic = create_topic(cluster, unique("segments"), config={"segment.bytes": "1048576"})
    assert segment_offsets(raw, topic, LATEST, 5) == (0, [0])
    now_ms = int(time.time() * 1000)
    for _ in range(3):
        produce(raw, topic, batch(bytes(700_000), b"", timestamp=now_ms))
    assert segment_offsets(raw, topic, LATEST, 10) == (0, [6, 4, 2, 0])
    assert segment_offsets(raw, topic, LATEST, 2) == (0, [6, 4])
    assert segment_offsets(raw, topic, LATEST, 0) == (0, [])
    assert segment_offsets(raw, topic, EARLIEST, 10) == (0, [0])
    assert segment_offsets(raw, topic, now_ms + 60_000, 10) == (0, [6, 4, 2, 0])
    assert segment_offsets(raw, topic, now_ms - 60_000, 10) == (0, [])


def test_the_oldest_question_about_offsets_can_fail(raw: RawClient, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert segment_offsets(raw, "never-made", LATEST, 1) == (unknown, [])
    assert segment_offsets(raw, topic, LATEST, 1, partition=9) == (unknown, [])
    assert segment_offsets(raw, topic, -3, 1) == (ErrorCode.UNSUPPORTED_VERSION, [])


def commit(
    raw: RawClient, version: int, group: str, topic: str, offset: int, **fields: Any
) -> list[int]:
    partition = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=offset, committed_metadata="note", **fields
    )
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequest.Topic(name=topic, partitions=[partition])]
    )
    answer = raw.call(request, version)
    return [partition.error_code for found in answer.topics for partition in found.partitions]


def committed(raw: RawClient, version: int, group: str, topic: str) -> Answer:
    wanted = OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group, topics=[wanted])
    return the_partition(raw.call(request, version).topics, "partitions")


def test_a_commit_may_name_its_time(raw: RawClient, topic: str, unique: Unique) -> None:
    group = unique("group")
    assert commit(raw, 1, group, topic, 3, commit_timestamp=1_000) == [ErrorCode.NONE]
    answer = committed(raw, 1, group, topic)
    assert (answer.error_code, answer.committed_offset, answer.metadata) == (0, 3, "note")


def test_the_first_groups_kept_their_offsets_in_zookeeper(
    cluster: Cluster, raw: RawClient, topic: str, unique: Unique
) -> None:
    group = unique("group")
    if cluster.is_apache:
        assert commit(raw, 0, group, topic, 3) == [ErrorCode.UNSUPPORTED_VERSION]
        pytest.skip("this Apache Kafka has no ZooKeeper")
    unknown = committed(raw, 0, group, topic)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (unknown.committed_offset, unknown.metadata) == (-1, "")
    for offset in (3, 4):
        assert commit(raw, 0, group, topic, offset) == [ErrorCode.NONE]
        answer = committed(raw, 0, group, topic)
        assert (answer.error_code, answer.committed_offset, answer.metadata) == (0, offset, "")
    assert committed(raw, 1, group, topic).committed_offset == -1, "version 1 has a separate store"


def test_the_first_groups_cannot_commit_what_is_not_there(raw: RawClient, unique: Unique) -> None:
    group = unique("group")
    for version in (0, 1):
        errors = commit(raw, version, group, "never-made", 3)
        assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", [0, 1])
def test_followers_of_old_ask_for_the_end_of_an_epoch(
    raw: RawClient, topic: str, version: int
) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    asked = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[asked])]
    )
    answer = the_partition(raw.call(request, version).topics, "partitions")
    epoch = 0 if version else -1
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 2)


@pytest.mark.parametrize("version", [0, 1])
def test_topics_come_and_go_by_the_oldest_requests(
    raw: RawClient, unique: Unique, version: int
) -> None:
    name = unique("older")
    wanted = CreateTopicsRequest.Topic(
        name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
    (made,) = raw.call(request, version).topics
    assert (made.name, made.error_code) == (name, ErrorCode.NONE)
    (again,) = raw.call(request, version).topics
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert again.error_message == (f"Topic '{name}' already exists." if version else None)
    gone = raw.call(DeleteTopicsRequest(topic_names=[name, "never-made"], timeout_ms=30_000), 0)
    errors = {topic.name: topic.error_code for topic in gone.responses}
    assert errors == {name: 0, "never-made": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_first_view_of_settings_never_says_what_is_default(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    topic = create_topic(cluster, unique("older"), config={"retention.ms": "1000"})
    asked = DescribeConfigsRequest.Resource(
        resource_type=TOPIC_RESOURCE,
        resource_name=topic,
        configuration_keys=["retention.ms", "cleanup.policy"],
    )
    (answer,) = raw.call(DescribeConfigsRequest(resources=[asked]), 0).results
    values = {config.name: (config.value, config.is_default) for config in answer.configs}
    assert values == {"retention.ms": ("1000", False), "cleanup.policy": ("delete", False)}


def test_the_first_view_of_log_dirs(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a"))
    asked = DescribeLogDirsRequest.Topic(topic=topic, partitions=[0])
    (log_dir,) = raw.call(DescribeLogDirsRequest(topics=[asked]), 0).results
    partition = the_partition(log_dir.topics, "partitions")
    assert partition.partition_size > 0
    assert (log_dir.error_code, partition.is_future_key, partition.offset_lag) == (0, False, 0)
