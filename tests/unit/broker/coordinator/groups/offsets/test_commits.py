from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from embedkafka.wire.protocol.messages.transactions import TxnOffsetCommitRequest
from tests.unit.broker.coordinator.groups.conftest import Coordinator

T0, T1 = ("t", 0), ("t", 1)
DAY_MS = 24 * 60 * 60 * 1000
SUBSCRIPTION_T = b"\0\0\0\0\0\1\0\1t\0\0\0\0"


def txn_commit(
    coordinator: Coordinator,
    offsets: Any,
    *,
    producer: int = 7,
    member: str = "",
    generation: int = -1,
    group: str = "g",
) -> Any:
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=producer,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        topics=[
            TxnOffsetCommitRequest.Topic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequest.Topic.Partition(
                        partition_index=partition, committed_offset=offset, committed_metadata=None
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )
    return coordinator.send(coordinator.service.txn_offset_commit, request, 3)


def complete(coordinator: Coordinator, *, producer: int = 7, committed: bool) -> None:
    coordinator.service.on_transaction_completed(0, producer, committed=committed)
    coordinator.loop.run()


def offset_delete(coordinator: Coordinator, *partitions: Any, group: str = "g") -> Any:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.Topic(
                name=topic,
                partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=partition)],
            )
            for topic, partition in partitions
        ],
    )
    return coordinator.send(coordinator.service.offset_delete, request)


def delete_groups(coordinator: Coordinator, *groups: Any) -> dict[Any, Any]:
    request = DeleteGroupsRequest(groups_names=groups)
    reply = coordinator.send(coordinator.service.delete_groups, request)
    return {result.group_id: ErrorCode(result.error_code) for result in reply.response.results}


def test_anyone_may_keep_offsets_in_a_group_without_members(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    assert commit_errors(coordinator.commit({T0: 5, T1: 6})) == [ErrorCode.NONE] * 2
    assert coordinator.committed() == {T0: 5, T1: 6}
    assert coordinator.committed(T0, ("t", 9)) == {T0: 5, ("t", 9): -1}


def test_the_empty_group_id_is_a_group_for_offsets(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    assert commit_errors(coordinator.commit({T0: 5}, group="")) == [ErrorCode.NONE]
    assert coordinator.committed(T0, group="") == {T0: 5}


def test_members_commit_with_their_generation(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    member = coordinator.stable()
    good = coordinator.commit({T0: 5}, member=member, generation=1)
    assert commit_errors(good) == [ErrorCode.NONE]
    old = coordinator.commit({T0: 6}, member=member, generation=0)
    assert commit_errors(old) == [ErrorCode.ILLEGAL_GENERATION]
    stranger = coordinator.commit({T0: 6}, member="x", generation=1)
    assert commit_errors(stranger) == [ErrorCode.UNKNOWN_MEMBER_ID]
    nobody = coordinator.commit({T0: 6})
    assert commit_errors(nobody) == [ErrorCode.UNKNOWN_MEMBER_ID]
    gone = coordinator.commit({T0: 6}, member="x", generation=1, group="no such group")
    assert commit_errors(gone) == [ErrorCode.ILLEGAL_GENERATION]
    gone = coordinator.commit({T0: 6}, member="x", generation=1, group="no such group", version=9)
    assert commit_errors(gone) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert coordinator.committed(T0) == {T0: 5}


def test_a_commit_counts_as_heartbeat(coordinator: Coordinator) -> None:
    member = coordinator.stable()
    coordinator.advance(9_999)
    coordinator.commit({T0: 5}, member=member, generation=1)
    coordinator.advance(9_999)
    assert coordinator.heartbeat(member, 1).error is ErrorCode.NONE


def test_commits_are_allowed_while_members_join_but_not_before_they_sync(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    member = coordinator.stable()
    other, _ = coordinator.joined()
    during_join = coordinator.commit({T0: 5}, member=member, generation=1)
    assert commit_errors(during_join) == [ErrorCode.NONE]
    coordinator.join(member=member)
    before_sync = coordinator.commit({T0: 6}, member=other, generation=2)
    assert commit_errors(before_sync) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_offsets_count_when_they_are_stored(coordinator: Coordinator) -> None:
    coordinator.log.hold()
    reply = coordinator.commit({T0: 5})
    assert reply.is_waiting
    assert coordinator.committed(T0) == {T0: -1}
    coordinator.log.release()
    coordinator.loop.run()
    assert not reply.is_waiting
    assert coordinator.committed(T0) == {T0: 5}


@pytest.mark.parametrize(
    ("append_error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_refused_append_commits_nothing(
    coordinator: Coordinator,
    commit_errors: Callable[[Any], list[ErrorCode]],
    append_error: Any,
    answer: Any,
) -> None:
    coordinator.log.errors.append(append_error)
    assert commit_errors(coordinator.commit({T0: 5})) == [answer]
    assert coordinator.committed(T0) == {T0: -1}


def test_long_metadata_is_refused(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    too_long = coordinator.commit({T0: 5}, metadata="x" * 4097)
    assert commit_errors(too_long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit_errors(coordinator.commit({T0: 5}, metadata="x" * 4096)) == [ErrorCode.NONE]


def test_fetch_before_v8_answers_one_group(coordinator: Coordinator) -> None:
    coordinator.commit({T0: 5}, metadata="note")
    topic = OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0, 1])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    response = coordinator.send(coordinator.service.offset_fetch, request, 7).response
    (answer,) = response.topics
    assert [(p.committed_offset, p.committed_leader_epoch) for p in answer.partitions] == [
        (5, 3),
        (-1, -1),
    ]
    assert [p.metadata for p in answer.partitions] == ["note", ""]


def test_fetch_says_when_there_is_no_coordinator(coordinator: Coordinator) -> None:
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    topic = OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    new = coordinator.send(coordinator.service.offset_fetch, request, 2).response
    assert (new.error_code, list(new.topics)) == (ErrorCode.NOT_COORDINATOR, [])
    old = coordinator.send(coordinator.service.offset_fetch, request, 1).response
    assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


# Transactions


def test_transactional_offsets_wait_for_their_marker(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    coordinator.commit({T0: 1})
    assert commit_errors(txn_commit(coordinator, {T0: 5})) == [ErrorCode.NONE]
    assert coordinator.committed(T0) == {T0: 1}
    assert coordinator.committed(T0, require_stable=True) == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert coordinator.committed(require_stable=True) == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    complete(coordinator, committed=True)
    assert coordinator.committed(T0, require_stable=True) == {T0: 5}


def test_aborted_offsets_are_forgotten(coordinator: Coordinator) -> None:
    txn_commit(coordinator, {T0: 5})
    complete(coordinator, committed=False)
    assert coordinator.committed(T0, require_stable=True) == {T0: -1}


def test_offsets_are_unstable_before_they_are_stored(coordinator: Coordinator) -> None:
    coordinator.log.hold()
    txn_commit(coordinator, {T0: 5})
    assert coordinator.committed(T0, require_stable=True) == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_a_later_plain_commit_outlives_the_transaction(coordinator: Coordinator) -> None:
    txn_commit(coordinator, {T0: 5})
    coordinator.commit({T0: 9})
    complete(coordinator, committed=True)
    assert coordinator.committed(T0) == {T0: 9}


def test_transactional_commits_check_members_that_are_named(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    member = coordinator.stable()
    assert commit_errors(txn_commit(coordinator, {T0: 5})) == [ErrorCode.NONE]
    named = txn_commit(coordinator, {T0: 5}, member=member, generation=1)
    assert commit_errors(named) == [ErrorCode.NONE]
    zombie = txn_commit(coordinator, {T0: 5}, member=member, generation=0)
    assert commit_errors(zombie) == [ErrorCode.ILLEGAL_GENERATION]
    stranger = txn_commit(coordinator, {T0: 5}, member="x", generation=1)
    assert commit_errors(stranger) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_transactional_commits_check_the_members_of_a_consumer_group_that_are_named(
    coordinator: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    coordinator.catalog.counts["t"] = 2
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    joined = coordinator.consumer_heartbeat(request)
    assert joined.response.member_epoch == 1
    assert commit_errors(txn_commit(coordinator, {T0: 5})) == [ErrorCode.NONE]
    named = txn_commit(coordinator, {T0: 5}, member="m1", generation=1)
    assert commit_errors(named) == [ErrorCode.NONE]
    zombie = txn_commit(coordinator, {T0: 5}, member="m1", generation=0)
    assert commit_errors(zombie) == [ErrorCode.ILLEGAL_GENERATION]
    stranger = txn_commit(coordinator, {T0: 5}, member="x", generation=1)
    assert commit_errors(stranger) == [ErrorCode.UNKNOWN_MEMBER_ID]


# Deleting


def test_offsets_of_an_empty_group_can_be_deleted(coordinator: Coordinator) -> None:
    coordinator.commit({T0: 5, T1: 6})
    reply = offset_delete(coordinator, T0, ("other", 3))
    assert reply.error is ErrorCode.NONE
    assert coordinator.committed() == {T1: 6}


def test_offsets_of_subscribed_topics_cannot_be_deleted(coordinator: Coordinator) -> None:
    coordinator.commit({T0: 5, ("u", 0): 6})
    coordinator.stable(protocols=(("range", SUBSCRIPTION_T),))
    reply = offset_delete(coordinator, T0, ("u", 0))
    codes = [p.error_code for topic in reply.response.topics for p in topic.partitions]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert coordinator.committed() == {T0: 5}


def test_offsets_of_other_groups_with_members_cannot_be_deleted(coordinator: Coordinator) -> None:
    coordinator.stable(protocol_type="connect")
    assert offset_delete(coordinator, T0).error is ErrorCode.NON_EMPTY_GROUP
    missing = offset_delete(coordinator, T0, group="no")
    assert missing.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_empty_groups_are_deleted(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    coordinator.commit({T0: 5}, group="idle")
    member = coordinator.stable("busy")
    assert delete_groups(coordinator, "idle", "busy", "no") == {
        "idle": ErrorCode.NONE,
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "no": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    coordinator.leave(member, group="busy")
    assert delete_groups(coordinator, "busy") == {"busy": ErrorCode.NONE}
    assert delete_groups(coordinator, "busy") == {"busy": ErrorCode.GROUP_ID_NOT_FOUND}
    loaded = new_coordinator(log=coordinator.log).lead()
    assert loaded.shard().classic.groups == {}
    assert loaded.committed(group="idle") == {}


def test_deleting_a_group_forgets_open_transactions(coordinator: Coordinator) -> None:
    coordinator.commit({T0: 1})
    txn_commit(coordinator, {T1: 5})
    assert delete_groups(coordinator, "g") == {"g": ErrorCode.NONE}
    complete(coordinator, committed=True)
    assert coordinator.committed() == {}


def test_a_group_whose_deletion_the_log_refuses_is_still_there(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    member = coordinator.stable()
    coordinator.commit({T0: 5}, member=member, generation=1)
    coordinator.leave(member)
    coordinator.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert delete_groups(coordinator, "g") == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert coordinator.committed() == {T0: 5}
    (group,) = coordinator.shard().classic.groups.values()
    loaded = new_coordinator(log=coordinator.log).lead().shard().classic.groups["g"]
    assert (loaded.state, loaded.generation_id) == (group.state, group.generation_id)
    coordinator.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    coordinator.service.start()
    coordinator.advance(8 * 24 * 60 * 60 * 1000)
    assert coordinator.shard().classic.groups == {}
    assert coordinator.committed() == {}


def test_who_joins_during_a_deletion_joins_what_comes_after(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    member = coordinator.stable()
    coordinator.leave(member)
    coordinator.log.hold()
    deletion = coordinator.send(
        coordinator.service.delete_groups, DeleteGroupsRequest(groups_names=["g"])
    )
    join, commit = coordinator.join(), coordinator.commit({T0: 5})
    assert [reply.is_waiting for reply in (deletion, join, commit)] == [True] * 3
    coordinator.log.release()
    coordinator.loop.run()
    assert deletion.response.results[0].error_code == ErrorCode.NONE
    assert join.error is ErrorCode.MEMBER_ID_REQUIRED
    assert coordinator.shard().classic.groups["g"].generation_id == 0
    assert coordinator.committed() == {T0: 5}
    assert new_coordinator(log=coordinator.log).lead().committed() == {T0: 5}


def test_a_commit_on_its_way_is_deleted_with_its_group(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    coordinator.log.hold()
    commit = coordinator.commit({T0: 5})
    deletion = coordinator.send(
        coordinator.service.delete_groups, DeleteGroupsRequest(groups_names=["g"])
    )
    coordinator.log.release()
    coordinator.loop.run()
    assert not commit.is_waiting
    assert deletion.response.results[0].error_code == ErrorCode.NONE
    assert coordinator.committed() == new_coordinator(log=coordinator.log).lead().committed() == {}


def test_deleted_partitions_lose_their_offsets_in_every_group(coordinator: Coordinator) -> None:
    coordinator.commit({T0: 1, T1: 2}, group="a")
    coordinator.commit({T0: 1}, group="b")
    coordinator.service.on_partitions_deleted([TopicPartition(*T0)])
    coordinator.loop.run()
    assert coordinator.committed(group="a") == {T1: 2}
    assert coordinator.committed(group="b") == {}


# Expiry


@pytest.fixture
def expiring(new_coordinator: type[Coordinator]) -> Coordinator:
    coordinator = new_coordinator(GroupConfig(offsets_topic_num_partitions=1)).lead()
    coordinator.service.start()
    return coordinator


def test_offsets_without_members_expire_after_their_commit(expiring: Coordinator) -> None:
    expiring.commit({T0: 1})
    expiring.advance(3 * DAY_MS)
    expiring.commit({T1: 1})
    expiring.advance(4 * DAY_MS)
    assert expiring.committed() == {T1: 1}
    totals = expiring.service.offset_totals
    assert (totals.committed, totals.expired, totals.expired_groups) == (2, 1, 0)
    expiring.advance(3 * DAY_MS)
    assert expiring.committed() == {}
    assert expiring.shard().classic.groups == {}
    assert (totals.committed, totals.expired, totals.expired_groups) == (2, 2, 1)
    assert totals.deleted == 0


def test_an_append_that_fails_counts_no_offset(coordinator: Coordinator) -> None:
    totals = coordinator.service.offset_totals
    coordinator.commit({T0: 1})
    assert totals.committed == 1
    offset_delete(coordinator, T0)
    assert (totals.deleted, totals.expired) == (1, 0)
    coordinator.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    coordinator.commit({T0: 2})
    assert totals.committed == 1


def test_offsets_of_a_group_expire_after_its_last_member_left(expiring: Coordinator) -> None:
    member = expiring.stable(session_ms=1_800_000)
    expiring.commit({T0: 1}, member=member, generation=1)
    for _ in range(8 * 48):
        expiring.advance(DAY_MS // 48 - 1)
        assert expiring.heartbeat(member, 1).error is ErrorCode.NONE
    expiring.leave(member)
    expiring.advance(6 * DAY_MS)
    assert expiring.committed() == {T0: 1}
    expiring.advance(DAY_MS + 600_000)
    assert expiring.committed() == {}
    assert expiring.shard().classic.groups == {}
    assert expiring.log.records()[-1][1] is None


def test_offsets_of_topics_no_longer_subscribed_expire(expiring: Coordinator) -> None:
    expiring.commit({T0: 1, ("u", 0): 1})
    member = expiring.stable(session_ms=1_800_000, protocols=(("range", SUBSCRIPTION_T),))
    for _ in range(8 * 48):
        expiring.advance(DAY_MS // 48 - 1)
        assert expiring.heartbeat(member, 1).error is ErrorCode.NONE
    assert expiring.committed() == {T0: 1}


def test_a_group_without_offsets_stays_while_it_has_or_expects_members(
    expiring: Coordinator,
) -> None:
    member = expiring.stable("active", session_ms=1_800_000)
    expected = expiring.join("expecting", session_ms=1_800_000).response.member_id
    expiring.advance(600_000)
    assert expiring.heartbeat(member, 1, group="active").error is ErrorCode.NONE
    assert expiring.join("expecting", expected).error is ErrorCode.NONE


def test_a_commit_may_name_its_own_retention(expiring: Coordinator) -> None:
    expiring.commit({T0: 1}, version=4, retention_ms=1_000)
    expiring.commit({T1: 1}, version=4)
    expiring.advance(600_000)
    assert expiring.committed() == {T1: 1}


def test_offsets_of_open_transactions_do_not_expire(expiring: Coordinator) -> None:
    expiring.commit({T0: 1})
    txn_commit(expiring, {T0: 5})
    expiring.advance(8 * DAY_MS)
    assert expiring.committed() == {T0: 1}


def forget(coordinator: Coordinator, group: str = "g") -> ErrorCode:
    reply = coordinator.send(coordinator.service.forget, group)
    error: ErrorCode = reply.response
    return error


def test_a_forgotten_group_goes_with_its_members_and_offsets(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    member = coordinator.stable()
    coordinator.commit({T0: 5}, member=member, generation=1)
    newcomer, join = coordinator.joined()
    assert join.is_waiting
    assert forget(coordinator) is ErrorCode.NONE
    assert join.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.join(member=newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    loaded = new_coordinator(log=coordinator.log).lead()
    for each in (coordinator, loaded):
        assert list(each.shard().kinds.all_groups()) == []
        assert each.committed() == {}
    assert forget(coordinator) is ErrorCode.GROUP_ID_NOT_FOUND
