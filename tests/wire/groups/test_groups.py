"""Classic groups, request by request: joining, syncing, heartbeats, leaving and expiry."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
)
from tests.wire.clients import Cluster, eventually
from tests.wire.members import (
    Member,
    describe,
)
from tests.wire.one_partition import each_version
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]


@pytest.fixture
def group(unique: Unique) -> str:
    return unique("group")


@pytest.fixture
def first(cluster: Cluster, group: str) -> Iterator[Member]:
    with Member(cluster, group) as member:
        yield member


@pytest.fixture
def second(cluster: Cluster, group: str) -> Iterator[Member]:
    with Member(cluster, group) as member:
        yield member


def join_together(leader: Member, follower: Member) -> None:
    """Adds a second member to the leader's group and syncs both in one generation."""
    leader.join()
    leader.sync({leader.id: b"all"})
    follower.start_joining()
    eventually(
        lambda: leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances"
    )
    leader.start_joining()
    leader.finish_joining()
    follower.finish_joining()
    leader.sync({leader.id: b"one", follower.id: b"two"})
    follower.sync()


@pytest.mark.both_io_modes
def test_every_version_takes_a_member_through_its_life(
    cluster: Cluster, raw: RawClient, unique: Unique, group: str
) -> None:
    def check(version: int) -> None:
        with Member(cluster, unique("group")) as member:
            joined = member.join(version=version)
            assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
            assert (joined.leader, joined.protocol_name) == (member.id, "range")
            assert [(m.member_id, m.metadata) for m in joined.members] == [(member.id, b"range")]
            synced = member.sync({member.id: b"mine"}, version=min(version, 5))
            assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")
            assert member.heartbeat(version=min(version, 4)) == ErrorCode.NONE
            assert member.leave(version=min(version, 5)).error_code == ErrorCode.NONE
            assert describe(raw, member.group).group_state == "Empty"

    each_version(raw, JoinGroupRequest, check)


def test_a_new_member_must_come_back_with_the_id_it_was_given(first: Member) -> None:
    first.start_join_request(9)
    answer = first.receive_join()
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("raw-")
    assert (answer.generation_id, list(answer.members)) == (-1, [])


def test_a_second_member_makes_the_group_rebalance(first: Member, second: Member) -> None:
    first.join()
    first.sync({first.id: b"all"})
    second.start_joining()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
    first.start_joining()
    led, followed = first.finish_joining(), second.finish_joining()
    assert (led.generation_id, followed.generation_id) == (2, 2)
    assert led.leader == followed.leader == first.id
    assert {member.member_id for member in led.members} == {first.id, second.id}
    assert list(followed.members) == []


def test_members_get_what_the_leader_assigned(first: Member, second: Member) -> None:
    first.join()
    first.sync({first.id: b"all"})
    second.start_joining()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
    first.start_joining()
    first.finish_joining()
    second.finish_joining()
    waiting = second.sync_request()
    sent = second.raw.send(waiting, 5)
    assert first.sync({first.id: b"one", second.id: b"two"}).assignment == b"one"
    assert second.raw.receive(waiting, 5, sent).assignment == b"two"


def test_a_member_without_assignment_gets_empty_bytes(first: Member) -> None:
    first.join()
    assert first.sync({}).assignment == b""


def test_heartbeats_are_checked(first: Member, unique: Unique) -> None:
    first.join()
    first.sync({first.id: b"all"})
    assert first.heartbeat() == ErrorCode.NONE
    assert first.heartbeat(generation_id=9) == ErrorCode.ILLEGAL_GENERATION
    assert first.heartbeat(member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat(group_id=unique("none")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat(group_id="") == ErrorCode.INVALID_GROUP_ID


def test_syncs_are_checked(first: Member) -> None:
    first.join()
    assert first.sync(generation_id=9).error_code == ErrorCode.ILLEGAL_GENERATION
    assert first.sync(member_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    wrong = first.sync(protocol_name="other")
    assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_during_a_rebalance_must_join_again(first: Member, second: Member) -> None:
    first.join()
    first.sync({first.id: b"all"})
    second.start_joining()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
    assert first.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    first.start_joining()
    first.finish_joining()
    second.finish_joining()


def test_a_member_that_joins_again_unchanged_keeps_the_generation(
    first: Member, second: Member
) -> None:
    join_together(first, second)
    again = second.join()
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
    assert second.sync().assignment == b"two"


def test_the_others_rebalance_when_a_member_leaves(first: Member, second: Member) -> None:
    join_together(first, second)
    assert second.leave().members[0].error_code == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.join().generation_id == 3


def test_a_stranger_cannot_leave(first: Member) -> None:
    first.join()
    first.id = "nobody"
    answer = first.leave()
    assert answer.error_code == ErrorCode.NONE
    assert answer.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_left_out(cluster: Cluster, raw: RawClient, group: str) -> None:
    with Member(cluster, group, session_timeout_ms=150) as member:
        member.join(version=3)  # in one request: a second might come after the session
        eventually(lambda: describe(raw, group).group_state == "Empty", "the session ended")
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_join_again_is_left_out(cluster: Cluster, group: str) -> None:
    with (
        Member(cluster, group, rebalance_timeout_ms=300) as slow,
        Member(cluster, group, rebalance_timeout_ms=300) as quick,
    ):
        slow.join()
        while slow.sync({slow.id: b"all"}).error_code:  # too late, on a busy machine
            slow.id = ""
            slow.join()
        began = time.monotonic()
        joined = quick.join()
        assert time.monotonic() - began >= 0.25
        assert (joined.generation_id, joined.leader) == (slow.generation + 1, quick.id)
        assert slow.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_time_to_sync_is_left_out(cluster: Cluster, group: str) -> None:
    with Member(cluster, group, rebalance_timeout_ms=0) as hasty:
        hasty.join()
        eventually(
            lambda: hasty.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "the member is forgotten"
        )


def test_the_protocol_is_one_that_all_members_know(cluster: Cluster, group: str) -> None:
    with (
        Member(cluster, group, protocols=["a", "b", "c"]) as one,
        Member(cluster, group, protocols=["c", "b"]) as two,
    ):
        one.join()
        one.sync({one.id: b"all"}, protocol_name="a")
        two.start_joining()
        eventually(lambda: one.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
        one.start_joining()
        chosen = {one.finish_joining().protocol_name, two.finish_joining().protocol_name}
        assert len(chosen) == 1
        assert chosen <= {"b", "c"}


def test_a_member_without_a_common_protocol_is_refused(
    cluster: Cluster, first: Member, group: str
) -> None:
    first.join()
    first.sync({first.id: b"all"})
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unlike: list[dict[str, Any]] = [
        {"protocols": ["other"]},
        {"protocol_type": "other"},
        {"protocols": []},
    ]
    for fields in unlike:
        with Member(cluster, group, **fields) as stranger:
            stranger.start_join_request(9)
            assert stranger.receive_join().error_code == refused


def test_an_unknown_member_id_cannot_join(first: Member) -> None:
    first.id = "nobody"
    first.start_join_request(9)
    assert first.receive_join().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_without_a_rebalance(cluster: Cluster, group: str) -> None:
    with Member(cluster, group, instance="i1") as before:
        joined = before.join()
        assert joined.error_code == ErrorCode.NONE
        before.sync({before.id: b"mine"})
        with Member(cluster, group, instance="i1") as after:
            again = after.join()
            assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 1)
            assert again.member_id != before.id
            assert after.sync().assignment == b"mine"
            assert before.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_stays_when_its_connection_ends(
    cluster: Cluster, raw: RawClient, group: str
) -> None:
    with Member(cluster, group, instance="i1") as member:
        member.join()
        member.sync({member.id: b"mine"})
    described = describe(raw, group)
    assert described.group_state == "Stable"
    assert [m.group_instance_id for m in described.members] == ["i1"]


def test_a_static_member_is_removed_by_its_instance_id(
    cluster: Cluster, raw: RawClient, group: str
) -> None:
    with Member(cluster, group, instance="i1") as member:
        member.join()
        member.sync({member.id: b"mine"})
        member.id = ""
        assert member.leave().members[0].error_code == ErrorCode.NONE
    assert describe(raw, group).group_state == "Empty"


def test_every_version_describes_a_group(raw: RawClient, first: Member) -> None:
    first.join()
    first.sync({first.id: b"mine"})

    def check(version: int) -> None:
        answer = describe(raw, first.group, version=version)
        (member,) = answer.members
        assert (answer.error_code, answer.group_state) == (ErrorCode.NONE, "Stable")
        assert (answer.protocol_type, answer.protocol_data) == ("test", "range")
        assert (member.member_id, member.client_id) == (first.id, "raw")
        assert member.client_host == "/127.0.0.1"
        assert (member.member_metadata, member.member_assignment) == (b"range", b"mine")

    each_version(raw, DescribeGroupsRequest, check)


def test_every_version_lists_groups(raw: RawClient, first: Member) -> None:
    first.join()
    first.sync({first.id: b"mine"})

    def check(version: int) -> None:
        answer = raw.call(ListGroupsRequest(), version)
        listed = {group.group_id: group for group in answer.groups}[first.group]
        assert (answer.error_code, listed.protocol_type) == (ErrorCode.NONE, "test")
        assert listed.group_state == ("Stable" if version >= 4 else "")
        assert listed.group_type == ("classic" if version >= 5 else "")

    each_version(raw, ListGroupsRequest, check)


def test_groups_are_listed_by_state_and_type(raw: RawClient, first: Member) -> None:
    first.join()
    first.sync({first.id: b"mine"})

    def is_listed(*, states: Sequence[str] = (), types: Sequence[str] = ()) -> bool:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        return first.group in {group.group_id for group in raw.call(request, 5).groups}

    assert is_listed(states=["Stable"])
    assert is_listed(states=["stable", "Empty"])
    assert not is_listed(states=["Empty"])
    assert is_listed(types=["classic"])
    assert not is_listed(types=["consumer"])


def test_only_a_group_without_members_is_deleted(raw: RawClient, first: Member) -> None:
    def delete() -> ErrorCode:
        (answer,) = raw.call(DeleteGroupsRequest(groups_names=[first.group])).results
        return ErrorCode(answer.error_code)

    first.join()
    first.sync({first.id: b"mine"})
    assert delete() == ErrorCode.NON_EMPTY_GROUP
    first.leave()
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(raw, first.group).group_state == "Dead"


def test_a_broker_that_does_not_coordinate_a_group_says_so(
    three_brokers: Cluster, unique: Unique
) -> None:
    name = unique("group")
    with three_brokers.connect() as raw:
        request = FindCoordinatorRequest(key=name)
        eventually(lambda: raw.call(request, 2).error_code == ErrorCode.NONE, "a coordinator")
        coordinator = raw.call(request, 2).node_id
    with three_brokers.connect(coordinator % 3) as another:
        beat = HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
        assert another.call(beat).error_code == ErrorCode.NOT_COORDINATOR
