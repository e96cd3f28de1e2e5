"""Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tests.wire.clients import Cluster, Out, create_topic, eventually, open_consumer, poll
from tests.wire.clients import produce as deliver
from tests.wire.group_offsets import (
    commit,
    committed,
)
from tests.wire.members import Member
from tests.wire.one_partition import Answer, describe, each_version, the_partition
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import RawTransaction
from tests.wire.topic_changes import await_gone
from tests.wire.topic_changes import delete as delete_topic

pytestmark = pytest.mark.topic(partitions=3)

Unique = Callable[[str], str]


@pytest.fixture
def group(unique: Unique) -> str:
    return unique("group")


@pytest.mark.both_io_modes
def test_every_version_commits(raw: RawClient, topic: str, group: str) -> None:
    topic_id = describe(raw, topic).topic_id

    def check(version: int) -> None:
        by_id = topic_id if version >= 10 else None
        error = commit(raw, group, topic, 100 + version, topic_id=by_id, version=version)
        assert error == ErrorCode.NONE
        assert committed(raw, group) == {(topic, 0): 100 + version}

    each_version(raw, OffsetCommitRequest, check, first=1)


def test_every_version_fetches(raw: RawClient, topic: str, group: str) -> None:
    commit(raw, group, topic, 42)
    topic_id = describe(raw, topic).topic_id

    def check(version: int) -> None:
        wanted = OffsetFetchRequest.Group.Topic(
            name=topic, topic_id=topic_id, partition_indexes=[0, 1]
        )
        request = OffsetFetchRequest(
            group_id=group,
            topics=[wanted],
            groups=[OffsetFetchRequest.Group(group_id=group, topics=[wanted])],
        )
        response = raw.call(request, version)
        answer = response.groups[0] if version >= 8 else response
        assert answer.error_code == ErrorCode.NONE
        (found,) = answer.topics
        offsets = {p.partition_index: p for p in found.partitions}
        assert {p.error_code for p in offsets.values()} == {ErrorCode.NONE}
        assert (offsets[0].committed_offset, offsets[0].metadata) == (42, "note")
        assert (offsets[1].committed_offset, offsets[1].metadata) == (-1, "")
        if version >= 5:
            assert (offsets[0].committed_leader_epoch, offsets[1].committed_leader_epoch) == (0, -1)

    each_version(raw, OffsetFetchRequest, check, first=1)


def test_several_groups_are_fetched_at_once(
    raw: RawClient, topic: str, group: str, unique: Unique
) -> None:
    other = unique("group")
    commit(raw, group, topic, 1)
    commit(raw, other, topic, 2)
    wanted = [OffsetFetchRequest.Group(group_id=name, topics=None) for name in (group, other)]
    answer = raw.call(OffsetFetchRequest(groups=wanted), 8)
    offsets = {g.group_id: g.topics[0].partitions[0].committed_offset for g in answer.groups}
    assert offsets == {group: 1, other: 2}


def test_the_last_commit_counts(raw: RawClient, topic: str, group: str) -> None:
    for offset in (5, 9, 3):
        commit(raw, group, topic, offset)
    commit(raw, group, topic, 7, partition=2)
    assert committed(raw, group) == {(topic, 0): 3, (topic, 2): 7}


def test_commits_of_members_are_checked(
    cluster: Cluster, raw: RawClient, topic: str, group: str
) -> None:
    with Member(cluster, group) as member:
        member.join()
        member.sync({member.id: b"all"})

        def attempt(generation: int, member_id: str) -> ErrorCode:
            return commit(raw, group, topic, 1, generation=generation, member=member_id)

        assert attempt(9, member.id) == ErrorCode.ILLEGAL_GENERATION
        assert attempt(1, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
        assert attempt(-1, "") == ErrorCode.UNKNOWN_MEMBER_ID
        assert committed(raw, group) == {}
        assert attempt(1, member.id) == ErrorCode.NONE
    assert committed(raw, group) == {(topic, 0): 1}


def delete(raw: RawClient, group: str, topic: str, partition: int) -> Answer:
    wanted = OffsetDeleteRequest.Topic.Partition(partition_index=partition)
    topics = [OffsetDeleteRequest.Topic(name=topic, partitions=[wanted])]
    return raw.call(OffsetDeleteRequest(group_id=group, topics=topics))


def test_an_offset_in_an_open_transaction_is_not_stable(
    raw: RawClient, topic: str, group: str, unique: Unique
) -> None:
    _Group = OffsetFetchRequest.Group

    def fetched(*, require_stable: bool, everything: bool = False) -> list[tuple[int, ErrorCode]]:
        wanted = None if everything else [_Group.Topic(name=topic, partition_indexes=[0, 1])]
        request = OffsetFetchRequest(
            groups=[_Group(group_id=group, topics=wanted)], require_stable=require_stable
        )
        (answer,) = raw.call(request, 9).groups
        assert answer.error_code == ErrorCode.NONE
        return [
            (p.committed_offset, ErrorCode(p.error_code))
            for found in answer.topics
            for p in found.partitions
        ]

    commit(raw, group, topic, 5)
    transaction = RawTransaction(raw, unique("txn-id"), topic)
    transaction.add_offsets(group)
    assert transaction.commit_offset(group, 9) == ErrorCode.NONE
    none = (-1, ErrorCode.NONE)
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched(require_stable=True) == [unstable, none]
    assert fetched(require_stable=False) == [(5, ErrorCode.NONE), none]
    assert fetched(require_stable=True, everything=True) == [unstable]
    assert fetched(require_stable=False, everything=True) == [(5, ErrorCode.NONE)]
    transaction.end(commit=True)
    transaction.await_state("CompleteCommit")
    assert fetched(require_stable=True) == [(9, ErrorCode.NONE), none]


def test_offsets_are_forgotten_one_by_one(raw: RawClient, topic: str, group: str) -> None:
    commit(raw, group, topic, 1)
    commit(raw, group, topic, 2, partition=1)
    answer = delete(raw, group, topic, 0)
    assert answer.error_code == ErrorCode.NONE
    assert the_partition(answer.topics, "partitions").error_code == ErrorCode.NONE
    assert committed(raw, group) == {(topic, 1): 2}


def test_offsets_of_a_topic_that_is_read_cannot_be_forgotten(
    cluster: Cluster, raw: RawClient, topic: str, group: str
) -> None:
    deliver(cluster, topic, [Out(value=b"a")])
    consumer = open_consumer(cluster, group_id=group)
    try:
        consumer.subscribe([topic])
        poll(consumer, 1)
        consumer.commit(asynchronous=False)
        answer = delete(raw, group, topic, 0)
    finally:
        consumer.close()
    refused = the_partition(answer.topics, "partitions").error_code
    assert refused == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert committed(raw, group) == {(topic, 0): 1}


def test_a_deleted_topic_takes_its_offsets_along(
    cluster: Cluster, raw: RawClient, group: str, unique: Unique
) -> None:
    name = create_topic(cluster, unique("doomed"))
    commit(raw, group, name, 1)
    delete_topic(raw, name)
    await_gone(raw, name)
    eventually(lambda: committed(raw, group) == {}, "the offsets are gone")
