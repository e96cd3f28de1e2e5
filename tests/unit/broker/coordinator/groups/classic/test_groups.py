from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.wire.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.groups.conftest import Coordinator


def test_a_dynamic_member_is_told_its_id_first(coordinator: Coordinator) -> None:
    reply = coordinator.join(client="spark")
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.response.member_id.startswith("spark-")
    assert reply.response.generation_id == -1


def test_before_v4_a_member_joins_at_once(coordinator: Coordinator) -> None:
    reply = coordinator.join(version=3)
    assert reply.error is ErrorCode.NONE
    assert reply.response.generation_id == 1


def test_the_first_member_leads_and_sees_all_members(coordinator: Coordinator) -> None:
    member, reply = coordinator.joined()
    assert reply.response.leader == member
    assert reply.response.protocol_name == "range"
    assert reply.response.protocol_type == "consumer"
    assert [(m.member_id, m.metadata) for m in reply.response.members] == [(member, b"sub")]


def test_the_leader_assigns_and_everyone_gets_a_part(coordinator: Coordinator) -> None:
    first = coordinator.stable()
    second, second_join = coordinator.joined()
    assert second_join.is_waiting
    assert coordinator.heartbeat(first, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    first_join = coordinator.join(member=first)
    assert first_join.response.generation_id == second_join.response.generation_id == 2
    assert first_join.response.leader == second_join.response.leader == first
    assert len(first_join.response.members) == 2
    assert second_join.response.members == []

    second_sync = coordinator.sync(second, 2)
    assert second_sync.is_waiting
    first_sync = coordinator.sync(first, 2, {first: b"one", second: b"two"}, version=5)
    assert first_sync.response.assignment == b"one"
    assert first_sync.response.protocol_name == "range"
    assert second_sync.response.assignment == b"two"
    assert coordinator.heartbeat(second, 2).error is ErrorCode.NONE


def test_a_member_without_assignment_gets_an_empty_one(coordinator: Coordinator) -> None:
    member, _ = coordinator.joined()
    assert coordinator.sync(member, 1, {}).response.assignment == b""


def test_sync_answers_wait_until_the_assignment_is_stored(coordinator: Coordinator) -> None:
    member, _ = coordinator.joined()
    coordinator.log.hold()
    sync = coordinator.sync(member, 1, {member: b"a"})
    assert sync.is_waiting
    coordinator.log.release()
    coordinator.loop.run()
    assert sync.response.assignment == b"a"


def test_a_refused_append_sends_the_members_back_to_join(coordinator: Coordinator) -> None:
    member, _ = coordinator.joined()
    coordinator.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert coordinator.sync(member, 1, {member: b"a"}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.heartbeat(member, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.join(member=member).response.generation_id == 2


def test_a_rebalance_during_the_append_wins(coordinator: Coordinator) -> None:
    member, _ = coordinator.joined()
    coordinator.log.hold()
    sync = coordinator.sync(member, 1, {member: b"a"})
    coordinator.join(version=3)
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.log.release()
    coordinator.loop.run()
    assert coordinator.heartbeat(member, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_sessions_end_without_heartbeats(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    coordinator.advance(9_999)
    assert coordinator.heartbeat(member, 1).error is ErrorCode.NONE
    coordinator.advance(9_999)
    assert coordinator.heartbeat(member, 1).error is ErrorCode.NONE
    coordinator.advance(10_000)
    assert coordinator.heartbeat(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_stays_away_is_forgotten(coordinator: Coordinator) -> None:
    member = coordinator.join().response.member_id
    coordinator.advance(10_000)
    assert coordinator.join(member=member).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_pending_members(coordinator: Coordinator) -> None:
    first = coordinator.stable()
    pending = coordinator.join(session_ms=8_000).response.member_id
    rejoin = coordinator.join(member=first)  # the leader asks for a rebalance
    assert rejoin.is_waiting
    coordinator.advance(8_000)
    assert rejoin.response.generation_id == 2
    assert coordinator.join(member=pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_rejoin_in_time_are_out(coordinator: Coordinator) -> None:
    first = coordinator.stable(rebalance_ms=5_000)
    _, second = coordinator.joined(rebalance_ms=5_000)
    coordinator.advance(4_999)
    assert second.is_waiting
    coordinator.advance(1)
    assert second.response.generation_id == 2
    assert second.response.leader == second.response.member_id
    assert coordinator.heartbeat(first, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_sync_in_time_are_out(coordinator: Coordinator) -> None:
    first = coordinator.stable(rebalance_ms=5_000)
    second, _ = coordinator.joined(rebalance_ms=5_000)
    coordinator.join(member=first, rebalance_ms=5_000)
    assert coordinator.sync(second, 2).is_waiting
    coordinator.advance(5_000)
    assert coordinator.heartbeat(first, 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group(
    coordinator: Coordinator,
) -> None:
    first = coordinator.stable()
    second, _ = coordinator.joined()
    coordinator.join(member=first)
    coordinator.sync(first, 2, {})
    reply = coordinator.leave(second)
    assert [(m.member_id, m.error_code) for m in reply.response.members] == [(second, 0)]
    assert coordinator.heartbeat(first, 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.leave(first, version=2).error is ErrorCode.NONE
    assert coordinator.heartbeat(first, 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_twice_is_unknown(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    coordinator.leave(member)
    assert coordinator.leave(member, version=1).error is ErrorCode.UNKNOWN_MEMBER_ID
    reply = coordinator.leave(member, ("", "nobody"))
    assert reply.error is ErrorCode.NONE
    assert {m.error_code for m in reply.response.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_follower_that_joins_again_unchanged_gets_its_generation(
    coordinator: Coordinator,
) -> None:
    first = coordinator.stable()
    second, _ = coordinator.joined()
    coordinator.join(member=first)
    coordinator.sync(first, 2, {})
    again = coordinator.join(member=second)
    assert again.response.generation_id == 2
    assert coordinator.heartbeat(first, 2).error is ErrorCode.NONE
    changed = coordinator.join(member=second, protocols=(("range", b"other"),))
    assert changed.is_waiting


def test_the_protocol_with_most_votes_wins_among_the_common_ones(coordinator: Coordinator) -> None:
    a, b, c = ("a", b""), ("b", b""), ("c", b"")
    first = coordinator.stable(protocols=(a, b, c))
    second, _ = coordinator.joined(protocols=(b, a))
    third, reply = coordinator.joined(protocols=(b, a))
    coordinator.join(member=first, protocols=(c, a, b))
    assert reply.response.protocol_name == "b"
    assert {second, third} <= set(coordinator.shard().classic.groups["g"].members)


def test_a_member_with_no_protocol_in_common_is_refused(coordinator: Coordinator) -> None:
    coordinator.stable()
    other = coordinator.join(protocols=(("sticky", b""),))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.join("new", protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_session_timeouts_outside_the_bounds_are_refused(coordinator: Coordinator) -> None:
    assert coordinator.join(session_ms=5_999).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert coordinator.join(session_ms=1_800_001).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_requests_of_strangers_are_refused(coordinator: Coordinator) -> None:
    assert coordinator.join(member="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.sync("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    member = coordinator.stable()
    assert coordinator.sync("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.sync(member, 7).error is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat(member, 7).error is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.join("").error is ErrorCode.INVALID_GROUP_ID


def test_sync_checks_the_protocol_from_v5(coordinator: Coordinator) -> None:
    member, _ = coordinator.joined(protocols=(("sticky", b""),))
    assert coordinator.sync(member, 1, version=5).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_more_members(new_coordinator: type[Coordinator]) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_max_size=1)
    coordinator = new_coordinator(config).lead()
    member = coordinator.stable()
    assert coordinator.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.join(member=member).response.generation_id == 2


def test_the_first_rebalance_waits_for_company(new_coordinator: type[Coordinator]) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    coordinator = new_coordinator(config).lead()
    _, first = coordinator.joined()
    coordinator.advance(2_000)
    _, second = coordinator.joined()
    coordinator.advance(1_000)
    assert first.is_waiting
    coordinator.advance(3_000)
    assert first.response.generation_id == second.response.generation_id == 1


def test_only_a_new_group_waits_longer_when_company_comes(
    new_coordinator: type[Coordinator],
) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    coordinator = new_coordinator(config).lead()
    member, _ = coordinator.joined()
    coordinator.advance(3_000)
    coordinator.leave(member)
    _, first = coordinator.joined()
    coordinator.advance(2_000)
    _, second = coordinator.joined()
    coordinator.advance(1_000)
    assert first.response.generation_id == second.response.generation_id == 3


def test_the_wait_for_company_ends_with_the_rebalance_timeout(
    new_coordinator: type[Coordinator],
) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    coordinator = new_coordinator(config).lead()
    joins = [coordinator.joined(rebalance_ms=5_000)[1]]
    for _ in range(4):
        coordinator.advance(1_000)
        joins.append(coordinator.joined(rebalance_ms=5_000)[1])
    coordinator.advance(1_000)
    assert {join.response.generation_id for join in joins} == {1}


def test_a_member_waiting_in_its_first_join_is_given_up_after_five_minutes(
    coordinator: Coordinator,
) -> None:
    first = coordinator.stable(rebalance_ms=600_000, session_ms=600_000)
    _, second = coordinator.joined()
    coordinator.advance(299_999)
    assert second.is_waiting
    coordinator.advance(1)
    assert second.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(first, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_sent_twice_ends_the_first_wait(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    second, first_try = coordinator.joined()
    again = coordinator.join(member=second)
    assert first_try.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.join(member=member)
    assert again.response.generation_id == 2


def test_a_sync_sent_twice_ends_the_first_wait(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    second, _ = coordinator.joined()
    coordinator.join(member=member)
    first_try, again = coordinator.sync(second, 2), coordinator.sync(second, 2)
    assert first_try.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.sync(member, 2, {second: b"x"})
    assert again.response.assignment == b"x"


def test_a_pending_member_that_finds_no_room_holds_nobody_up(
    new_coordinator: type[Coordinator],
) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_max_size=2)
    coordinator = new_coordinator(config).lead()
    first = coordinator.stable()
    pending = [coordinator.join().response.member_id for _ in range(2)]
    rejoin = coordinator.join(member=first)
    coordinator.join(member=pending[0])
    assert coordinator.join(member=pending[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rejoin.response.generation_id == 2
