"""DeleteTopics, CreatePartitions and DeleteRecords: changes to existing topics."""

from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    CreatePartitionsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.clients import Cluster, await_topic, create_topic, eventually
from tests.wire.one_partition import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    TOO_LONG_MS,
    batch,
    describe,
    each_version,
    fetch,
    fetch_request,
    list_offset,
    produce,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient
from tests.wire.topic_changes import (
    await_gone,
    delete,
    delete_by_id,
    delete_records,
    grow,
    leader_index,
)

Unique = Callable[[str], str]


@pytest.mark.both_io_modes
def test_every_version_deletes_by_name(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    def check(version: int) -> None:
        name = create_topic(cluster, unique("doomed"))
        topic_id = describe(raw, name).topic_id
        answer = delete(raw, name, version=version)
        assert (answer.name, answer.error_code) == (name, ErrorCode.NONE)
        assert answer.topic_id == (topic_id if version >= 6 else ZERO_UUID)
        await_gone(raw, name)

    each_version(raw, DeleteTopicsRequest, check)


def test_a_topic_is_deleted_by_its_id(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("doomed"))
    topic_id = describe(raw, name).topic_id
    answer = delete_by_id(raw, topic_id)
    assert (answer.name, answer.topic_id, answer.error_code) == (name, topic_id, ErrorCode.NONE)
    await_gone(raw, name)


def test_a_deleted_topic_refuses_producers_and_consumers(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("doomed"))
    produce(raw, name, batch(b"a"))
    delete(raw, name)
    await_gone(raw, name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    eventually(lambda: produce(raw, name, batch(b"b")).error_code == unknown, "produce is refused")
    assert fetch(raw, name, 0).error_code == unknown
    assert list_offset(raw, name, LATEST).error_code == unknown


def test_a_topic_created_anew_is_empty(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("phoenix"))
    produce(raw, name, batch(b"old"))
    delete(raw, name)
    await_gone(raw, name)
    create_topic(cluster, name)
    assert list_offset(raw, name, LATEST).offset == 0
    produce(raw, name, batch(b"new"))
    assert values_of(fetch(raw, name, 0)) == [b"new"]


def test_a_waiting_fetch_ends_when_its_topic_is_deleted(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("doomed"))
    request = fetch_request(name, 0, max_wait_ms=TOO_LONG_MS)
    waiting = raw.send(request, FETCH_BY_NAME)
    with cluster.connect() as other:
        delete(other, name)
    answer = the_partition(raw.receive(request, FETCH_BY_NAME, waiting).responses, "partitions")
    assert answer.error_code in {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }


def test_every_version_adds_partitions(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("growing"))

    def check(version: int) -> None:
        answer = grow(raw, name, version + 2, version=version)
        assert (answer.name, answer.error_code) == (name, ErrorCode.NONE)
        await_topic(cluster, name, version + 2)

    each_version(raw, CreatePartitionsRequest, check)


def test_old_records_stay_where_they_are_when_a_topic_grows(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("growing"))
    produce(raw, name, batch(b"old"))
    grow(raw, name, 2)
    await_topic(cluster, name, 2)
    produce(raw, name, batch(b"new"), partition=1)
    assert values_of(fetch(raw, name, 0)) == [b"old"]
    assert values_of(fetch(raw, name, 0, partition=1)) == [b"new"]


def test_new_partitions_may_be_assigned(three_brokers: Cluster, unique: Unique) -> None:
    name = create_topic(three_brokers, unique("growing"), replication=2)
    with three_brokers.connect() as raw:
        assert grow(raw, name, 3, assignments=[[3, 1], [2, 3]]).error_code == ErrorCode.NONE
        await_topic(three_brokers, name, 3)
        placed = {p.partition_index: list(p.replica_nodes) for p in describe(raw, name).partitions}
    assert (placed[1], placed[2]) == ([3, 1], [2, 3])


def test_a_trial_adds_nothing(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("growing"))
    assert grow(raw, name, 5, validate_only=True).error_code == ErrorCode.NONE
    assert grow(raw, name, 1, validate_only=True).error_code == ErrorCode.INVALID_PARTITIONS
    assert len(describe(raw, name).partitions) == 1


def produce_ten(raw: RawClient, name: str) -> str:
    for i in range(10):
        produce(raw, name, batch(str(i).encode()))
    return name


@pytest.fixture
def ten(cluster: Cluster, raw: RawClient, unique: Unique) -> str:
    """A topic with the records 0 to 9, each in a separate batch."""
    return produce_ten(raw, create_topic(cluster, unique("ten")))


def test_every_version_deletes_records_before_an_offset(raw: RawClient, ten: str) -> None:
    def check(version: int) -> None:
        answer = delete_records(raw, ten, version + 2, version=version)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, version + 2)
        assert list_offset(raw, ten, EARLIEST).offset == version + 2

    each_version(raw, DeleteRecordsRequest, check)


def test_deleted_records_are_out_of_range_and_the_rest_stays(raw: RawClient, ten: str) -> None:
    delete_records(raw, ten, 7)
    assert fetch(raw, ten, 6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    kept = fetch(raw, ten, 7)
    assert kept.log_start_offset == 7
    assert values_of(kept) == [b"7", b"8", b"9"]


def test_minus_one_deletes_up_to_the_high_watermark(raw: RawClient, ten: str) -> None:
    answer = delete_records(raw, ten, -1)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 10)
    assert produce(raw, ten, batch(b"next")).base_offset == 10


def test_deleting_what_is_deleted_changes_nothing(raw: RawClient, ten: str) -> None:
    delete_records(raw, ten, 5)
    answer = delete_records(raw, ten, 3)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 5)


def test_records_of_a_compacted_topic_cannot_be_deleted(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("compacted"), config={"cleanup.policy": "compact"})
    assert delete_records(raw, name, -1).error_code == ErrorCode.POLICY_VIOLATION


def test_every_replica_forgets_deleted_records(three_brokers: Cluster, unique: Unique) -> None:
    name = create_topic(three_brokers, unique("ten"), replication=3)
    leader = leader_index(three_brokers, name)
    with three_brokers.connect(leader) as raw:
        produce_ten(raw, name)
        answer = delete_records(raw, name, 4)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 4)
    with three_brokers.connect((leader + 1) % 3) as follower:
        refused = delete_records(follower, name, 5)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
