"""Groups whose coordinator assigns the partitions (KIP-848), heartbeat by heartbeat."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
)
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.consumer_members import (
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Member,
    describe,
    settle,
)
from tests.wire.group_offsets import commit, committed
from tests.wire.one_partition import describe as describe_topic
from tests.wire.one_partition import each_version
from tests.wire.plain_messages import ask
from tests.wire.raw_client import RawClient

pytestmark = pytest.mark.topic(partitions=4)

Unique = Callable[[str], str]


@pytest.fixture
def member(raw: RawClient, unique: Unique, topic: str) -> Member:
    return Member(raw, unique("group"), topic)


@pytest.mark.both_io_modes
def test_the_first_member_gets_all_partitions(raw: RawClient, member: Member, topic: str) -> None:
    answer = member.join()
    assert (answer.error_code, answer.member_id) == (ErrorCode.NONE, member.id)
    assert answer.member_epoch >= 1
    assert answer.heartbeat_interval_ms == 100
    settle([member], [4])
    assert set(member.owned) == {describe_topic(raw, topic).topic_id}


def test_a_member_without_topics_does_not_raise_the_epoch(
    raw: RawClient, topic: str, unique: Unique
) -> None:
    group = unique("group")

    def epoch_after(*topics: str) -> int:
        joined = Member(raw, group, *topics).join()
        assert joined.error_code == ErrorCode.NONE
        return int(describe(raw, group).group_epoch)

    assert [epoch_after(), epoch_after(), epoch_after(topic), epoch_after(topic)] == [1, 1, 2, 3]


def test_an_unchanged_assignment_is_not_repeated(member: Member) -> None:
    member.join()
    settle([member], [4])
    member.beat_with_owned()
    assert member.beat().assignment is None


def test_a_second_member_waits_until_the_first_has_given_up_partitions(
    raw: RawClient, member: Member, topic: str
) -> None:
    member.join()
    settle([member], [4])
    other = Member(raw, member.group, topic)
    assert other.join().error_code == ErrorCode.NONE
    assert other.partitions == []
    settle([member, other], [2, 2])
    assert sorted(member.partitions + other.partitions) == [0, 1, 2, 3]
    assert member.epoch == other.epoch


def test_a_member_that_unsubscribes_while_it_gives_up_partitions_loses_the_others_too(
    raw: RawClient, member: Member, topic: str
) -> None:
    member.join()
    settle([member], [4])
    Member(raw, member.group, topic).join()

    def must_give_up() -> bool:
        member.beat()
        return len(member.partitions) == 2

    eventually(must_give_up, "two partitions for the other member")
    answer = member.beat(subscribed_topic_names=[])
    assert answer.assignment is not None
    assert member.partitions == []


def test_the_one_that_stays_takes_over(raw: RawClient, member: Member, topic: str) -> None:
    other = Member(raw, member.group, topic)
    member.join()
    other.join()
    settle([member, other], [2, 2])
    left = other.leave()
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, LEAVE)
    settle([member], [4])


def test_the_broker_names_a_member_of_version_0(member: Member) -> None:
    member.id = ""
    answer = member.join(version=0)
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id


def test_version_1_needs_an_id_from_the_member(member: Member) -> None:
    member.id = ""
    assert member.join(version=1).error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_member_must_join_first(member: Member) -> None:
    member.join()
    stranger = member.beat(member_id=str(uuid.uuid4()), member_epoch=1)
    assert stranger.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_epoch_from_the_future_is_fenced(member: Member) -> None:
    member.join()
    fenced = member.beat(member_epoch=member.epoch + 10)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_new_subscription_changes_the_assignment(
    cluster: Cluster, member: Member, unique: Unique
) -> None:
    other = create_topic(cluster, unique("other"), partitions=2)
    member.join()
    settle([member], [4])
    assert member.beat(subscribed_topic_names=[other]).error_code == ErrorCode.NONE
    settle([member], [2])


def test_a_topic_that_comes_later_is_assigned(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = unique("later")
    early = Member(raw, unique("group"), name)
    assert early.join().error_code == ErrorCode.NONE
    assert early.partitions == []
    create_topic(cluster, name, partitions=3)
    settle([early], [3])


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_assignors_of_the_broker_are_known(
    raw: RawClient, member: Member, assignor: str
) -> None:
    assert member.join(server_assignor=assignor).error_code == ErrorCode.NONE
    settle([member], [4])
    assert describe(raw, member.group).assignor_name == assignor


def test_a_static_member_comes_back_to_its_partitions(
    raw: RawClient, topic: str, unique: Unique
) -> None:
    group = unique("group")
    before, other = (Member(raw, group, topic, instance=name) for name in ("a", "b"))
    before.join()
    other.join()
    settle([before, other], [2, 2])
    kept = before.partitions
    assert before.beat(member_epoch=LEAVE_FOR_A_WHILE).error_code == ErrorCode.NONE
    after = Member(raw, group, topic, instance="a")
    assert after.join().error_code == ErrorCode.NONE
    settle([after, other], [2, 2])
    assert after.partitions == kept


def test_an_instance_id_in_use_is_not_released(raw: RawClient, topic: str, unique: Unique) -> None:
    group = unique("group")
    Member(raw, group, topic, instance="a").join()
    second = Member(raw, group, topic, instance="a")
    assert second.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_commits_are_checked_by_epoch(raw: RawClient, member: Member, topic: str) -> None:
    member.join()
    settle([member], [4])

    def attempt(epoch: int, member_id: str) -> ErrorCode:
        return commit(raw, member.group, topic, 7, generation=epoch, member=member_id)

    assert attempt(member.epoch + 5, member.id) == ErrorCode.STALE_MEMBER_EPOCH
    assert attempt(member.epoch, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert attempt(member.epoch, member.id) == ErrorCode.NONE
    assert committed(raw, member.group) == {(topic, 0): 7}


def test_every_version_describes_members_and_assignments(
    raw: RawClient, member: Member, topic: str
) -> None:
    member.join()
    settle([member], [4])
    member.beat_with_owned()

    def check(version: int) -> None:
        group = eventually(
            lambda: next(
                (
                    g
                    for g in [describe(raw, member.group, version=version)]
                    if g.group_state == "Stable"
                ),
                None,
            ),
            "the group is stable",
        )
        (seen,) = group.members
        assert (group.error_code, group.assignor_name) == (ErrorCode.NONE, "uniform")
        assert group.group_epoch == group.assignment_epoch == seen.member_epoch == member.epoch
        assert (seen.member_id, seen.client_id, seen.client_host) == (
            member.id,
            "raw",
            "/127.0.0.1",
        )
        assert list(seen.subscribed_topic_names) == [topic]
        for assignment in (seen.assignment, seen.target_assignment):
            (part,) = assignment.topic_partitions
            assert (part.topic_name, sorted(part.partitions)) == (topic, [0, 1, 2, 3])
        assert seen.member_type == (1 if version >= 1 else -1)

    each_version(raw, ConsumerGroupDescribeRequest, check)


def test_the_two_kinds_of_groups_do_not_describe_each_other(
    raw: RawClient, member: Member, unique: Unique
) -> None:
    member.join()
    (classic,) = raw.call(DescribeGroupsRequest(groups=[member.group]), 6).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert classic.error_message == f"Group {member.group} is not a classic group."
    unknown = describe(raw, unique("none"))
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_listed_by_their_type(raw: RawClient, member: Member) -> None:
    member.join()

    def listed(kind: str) -> dict[str, str]:
        answer = raw.call(ListGroupsRequest(types_filter=[kind]), 5)
        return {group.group_id: group.group_type for group in answer.groups}

    assert listed("consumer")[member.group] == "consumer"
    assert member.group not in listed("classic")


def test_a_group_is_deleted_when_it_is_empty(raw: RawClient, member: Member) -> None:
    def delete() -> ErrorCode:
        (answer,) = raw.call(DeleteGroupsRequest(groups_names=[member.group])).results
        return ErrorCode(answer.error_code)

    member.join()
    assert delete() == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert describe(raw, member.group).group_state == "Empty"
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_any_broker_refuses_a_heartbeat_that_makes_no_sense(
    three_brokers: Cluster, fields: dict[str, Any], message: str
) -> None:
    for index in range(three_brokers.broker_count):
        with three_brokers.connect(index) as raw:
            beat = {"group_id": "any-group", "member_id": "m", "member_epoch": JOIN, **fields}
            answer = ask(raw, ApiKey.CONSUMER_GROUP_HEARTBEAT, **beat)
        assert answer["error_message"] == message
