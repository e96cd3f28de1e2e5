"""Membership of classic groups: pending members, static members, and one member too many."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest
from tests.wire.clients import Cluster, eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.group_offsets import commit
from tests.wire.members import Member, describe
from tests.wire.one_partition import each_version
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]

FIRST_WITH_INSTANCES = 5  # JoinGroup


@pytest.fixture
def group(unique: Unique) -> str:
    return unique("group")


@pytest.fixture
def static(cluster: Cluster, group: str) -> Iterator[Member]:
    """The only, static member of a stable group."""
    with Member(cluster, group, instance="i") as member:
        member.join()
        member.sync({member.id: b"mine"})
        yield member


def expect(member: Member) -> None:
    """Lets the coordinator give the member an id and wait for it to rejoin."""
    member.start_join_request(9)
    answer = member.receive_join()
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member.id = answer.member_id


def join_again(member: Member, *, version: int = 9) -> ErrorCode:
    member.start_join_request(version)
    return ErrorCode(member.receive_join().error_code)


def leave(raw: RawClient, group: str, *members: tuple[str, str | None]) -> Sequence[ErrorCode]:
    leaving = [
        LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance)
        for member_id, instance in members
    ]
    answer = raw.call(LeaveGroupRequest(group_id=group, members=leaving), 5)
    assert answer.error_code == ErrorCode.NONE
    return [ErrorCode(member.error_code) for member in answer.members]


def test_who_is_expected_and_does_not_come_is_forgotten(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    with (
        Member(cluster, unique("group"), session_timeout_ms=100) as late,
        Member(cluster, unique("group"), session_timeout_ms=200) as silent,
    ):
        expect(late)
        silent.join(version=3)  # in one request: a second might come after the session
        # This session began later and is longer. Once it has ended, the first one has too.
        eventually(
            lambda: describe(raw, silent.group).group_state == "Empty", "the session has ended"
        )
        assert join_again(late) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_expected_has_no_say_yet(
    cluster: Cluster, raw: RawClient, group: str, topic: str
) -> None:
    with Member(cluster, group) as member:
        expect(member)
        # Apache Kafka may call a group that is so new Dead.
        eventually(lambda: describe(raw, group).group_state == "Empty", "the group is shown")
        assert describe(raw, group).members == []
        assert member.heartbeat(generation_id=0) == ErrorCode.UNKNOWN_MEMBER_ID
        assert member.sync({}, generation_id=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        refused = commit(raw, group, topic, 1, member=member.id, generation=0)
        assert refused == ErrorCode.UNKNOWN_MEMBER_ID
        assert leave(raw, group, (member.id, None)) == [ErrorCode.NONE]
        assert join_again(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_else(cluster: Cluster, group: str) -> None:
    with ExitStack() as stack:
        size = int(str(SHARED_CONFIG["group.max.size"]))
        members = [stack.enter_context(Member(cluster, group)) for _ in range(size)]
        leader = members[0]
        leader.join()
        leader.sync({leader.id: b"all"})
        for number, member in enumerate(members[1:], start=1):
            member.start_joining()
            eventually(lambda: leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
            rebalancing = members[:number]
            for other in rebalancing:
                other.start_joining()
            for other in (*rebalancing, member):
                assert other.finish_joining().error_code == ErrorCode.NONE
            leader.sync({other.id: b"some" for other in members[: number + 1]})
        one_too_many = stack.enter_context(Member(cluster, group))
        assert join_again(one_too_many) == ErrorCode.GROUP_MAX_SIZE_REACHED
        leave(leader.raw, group, (members[-1].id, None))
        expect(one_too_many)


def test_a_static_member_that_was_replaced_is_fenced_whatever_it_asks(
    cluster: Cluster, raw: RawClient, static: Member, topic: str
) -> None:
    with Member(cluster, static.group, instance="i") as successor:
        joined = successor.join()
        assert (joined.leader, joined.skip_assignment) == (successor.id, True)
        assert static.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert static.sync().error_code == ErrorCode.FENCED_INSTANCE_ID
        assert join_again(static) == ErrorCode.FENCED_INSTANCE_ID
        assert leave(raw, static.group, (static.id, "i")) == [ErrorCode.FENCED_INSTANCE_ID]

        def commit_as(member: str, instance: str | None) -> ErrorCode:
            return commit(
                raw, static.group, topic, 1, member=member, instance=instance, generation=1
            )

        assert commit_as(static.id, "i") == ErrorCode.FENCED_INSTANCE_ID
        assert commit_as(successor.id, "other") == ErrorCode.UNKNOWN_MEMBER_ID
        assert commit_as(successor.id, "i") == ErrorCode.NONE
        assert commit_as(successor.id, None) == ErrorCode.NONE


def test_an_instance_must_be_known_where_it_is_named(static: Member) -> None:
    assert static.heartbeat(group_instance_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert static.sync(group_instance_id="other").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert static.heartbeat(group_instance_id=None) == ErrorCode.NONE


def test_every_version_with_instances_keeps_them_apart(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    def check(version: int) -> None:
        if version < FIRST_WITH_INSTANCES:
            return
        group = unique("group")
        with (
            Member(cluster, group, instance="i") as member,
            Member(cluster, group, instance="i") as impostor,
            Member(cluster, group, instance="other") as stranger,
        ):
            member.join(version=version)
            assert member.id.startswith("i-")
            known = member.id
            again = member.join(version=version)
            assert (again.generation_id, member.id) == (1, known)
            impostor.id = stranger.id = "nobody"
            assert join_again(impostor, version=version) == ErrorCode.FENCED_INSTANCE_ID
            assert join_again(stranger, version=version) == ErrorCode.UNKNOWN_MEMBER_ID

    each_version(raw, JoinGroupRequest, check)


def test_leaving_is_answered_member_by_member(raw: RawClient, static: Member) -> None:
    group = static.group
    assert leave(raw, group, ("nobody", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    answers = leave(raw, group, ("", "other"), (static.id, "i"))
    assert answers == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert leave(raw, group, (static.id, None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
