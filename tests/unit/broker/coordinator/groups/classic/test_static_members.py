from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.groups.conftest import Coordinator

ONE, TWO = (("range", b"one"),), (("range", b"two"),)


def pair(coordinator: Coordinator) -> tuple[Any, Any]:
    """Two static members, stable in generation 2; returns their ids."""
    first = coordinator.join(instance="i1", protocols=ONE).response.member_id
    coordinator.sync(first, 1, {first: b""}, instance="i1")
    second_join = coordinator.join(instance="i2", protocols=TWO)
    coordinator.join(member=first, instance="i1", protocols=ONE)
    second = second_join.response.member_id
    waiting = coordinator.sync(second, 2, instance="i2")
    coordinator.sync(first, 2, {first: b"1", second: b"2"}, instance="i1")
    assert waiting.response.assignment == b"2"
    return first, second


def test_a_static_member_needs_no_second_join(coordinator: Coordinator) -> None:
    reply = coordinator.join(instance="i1")
    assert reply.error is ErrorCode.NONE
    assert reply.response.member_id.startswith("i1-")


def test_a_restarted_follower_keeps_its_assignment_without_a_rebalance(
    coordinator: Coordinator,
) -> None:
    first, second = pair(coordinator)
    again = coordinator.join(instance="i2", protocols=TWO)
    assert again.error is ErrorCode.NONE
    assert again.response.generation_id == 2
    assert again.response.member_id != second
    assert not again.response.skip_assignment
    sync = coordinator.sync(again.response.member_id, 2, instance="i2")
    assert sync.response.assignment == b"2"
    assert coordinator.heartbeat(first, 2, instance="i1").error is ErrorCode.NONE


def test_a_restarted_leader_is_told_to_skip_the_assignment(coordinator: Coordinator) -> None:
    pair(coordinator)
    again = coordinator.join(instance="i1", protocols=ONE)
    assert again.response.skip_assignment
    assert again.response.leader == again.response.member_id
    assert len(again.response.members) == 2


def test_before_v9_a_restarted_leader_believes_it_follows(coordinator: Coordinator) -> None:
    first, _ = pair(coordinator)
    again = coordinator.join(instance="i1", protocols=ONE, version=8)
    assert again.response.leader == first
    assert again.response.members == []
    assert not again.response.skip_assignment


def test_a_restarted_member_with_other_protocols_starts_a_rebalance(
    coordinator: Coordinator,
) -> None:
    first, _ = pair(coordinator)
    both = (("sticky", b""), ("range", b"one"))
    coordinator.join(member=first, instance="i1", protocols=both)
    again = coordinator.join(instance="i2", protocols=both)
    assert again.response.generation_id == 3
    assert again.response.protocol_name == "sticky"


def test_the_replaced_member_is_fenced(coordinator: Coordinator) -> None:
    _, second = pair(coordinator)
    coordinator.join(instance="i2", protocols=TWO)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(second, 2, instance="i2").error is fenced
    assert coordinator.sync(second, 2, instance="i2").error is fenced
    assert coordinator.join(member=second, instance="i2").error is fenced
    left = coordinator.leave((second, "i2"))
    assert left.response.members[0].error_code == fenced


def test_a_waiting_twin_is_fenced_at_once(coordinator: Coordinator) -> None:
    pair(coordinator)
    third = coordinator.join(instance="i3")
    assert third.is_waiting
    again = coordinator.join(instance="i3")
    assert third.error is ErrorCode.FENCED_INSTANCE_ID
    assert again.is_waiting


def test_the_new_id_survives_a_failover(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    pair(coordinator)
    again = coordinator.join(instance="i2", protocols=TWO).response.member_id
    next_one = new_coordinator(log=coordinator.log, clock=coordinator.clock).lead()
    assert next_one.heartbeat(again, 2, instance="i2").error is ErrorCode.NONE


def test_an_id_that_was_not_stored_is_taken_back(coordinator: Coordinator) -> None:
    _, second = pair(coordinator)
    coordinator.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    again = coordinator.join(instance="i2", protocols=TWO)
    assert again.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.heartbeat(second, 2, instance="i2").error is ErrorCode.NONE


def test_static_members_stay_until_their_session_ends(coordinator: Coordinator) -> None:
    first, second = pair(coordinator)
    third = coordinator.join(instance="i3", rebalance_ms=1_000)
    assert coordinator.heartbeat(first, 2, instance="i1").error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.join(member=first, instance="i1", protocols=ONE, rebalance_ms=1_000)
    assert third.is_waiting
    coordinator.advance(10_000)
    assert third.response.generation_id == 3
    assert coordinator.heartbeat(second, 2, instance="i2").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_admin_removes_static_members_by_instance_id(coordinator: Coordinator) -> None:
    first, second = pair(coordinator)
    reply = coordinator.leave(("", "i2"), ("", "nobody"))
    assert [m.error_code for m in reply.response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert coordinator.heartbeat(second, 2, instance="i2").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(first, 2, instance="i1").error is ErrorCode.REBALANCE_IN_PROGRESS
