"""Decisions are values: a test can compare one as a whole, with the steps after its append."""

from typing import Any
from uuid import UUID

import pytest

from embedkafka.broker.coordinator.decision import Answer, Decision, Stored, Write
from embedkafka.broker.coordinator.groups.calls import (
    Committer,
    JoinCall,
    SyncCall,
    join_error,
    sync_error,
)
from embedkafka.broker.coordinator.groups.classic.groups import AssignmentStored
from embedkafka.broker.coordinator.groups.classic.messages import metadata_record
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.coordinator.groups.decision import (
    CancelTimer,
    Decisions,
    SetTimer,
    TimerKey,
    TimerKind,
)
from embedkafka.broker.coordinator.groups.offsets.commits import CommitCall, OffsetToCommit
from embedkafka.broker.coordinator.groups.offsets.removal import GroupDeleteCall
from embedkafka.broker.coordinator.groups.shard import GroupShard
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest

MEMBER_ID = f"c-{UUID(int=7)}"


@pytest.fixture
def shard() -> GroupShard:
    unused: Any = None
    return GroupShard(0, GroupConfig(), lambda: UUID(int=7), unused, unused, LiveMembers())


def join_call(member_id: str, reply: Any) -> JoinCall:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"sub")],
    )
    return JoinCall(request=request, client_id="c", client_host="/h", version=9, reply=reply)


def commit_call(reply: Any) -> CommitCall:
    committer = Committer(group_id="g", member_id="", group_instance_id=None, generation_id=-1)
    offset = OffsetToCommit(
        topic_partition=TopicPartition("t", 0), offset=5, leader_epoch=0, metadata=""
    )
    return CommitCall(committer=committer, offsets=[offset], reply=reply)


def reply(response: Any) -> None:
    """Never called: decisions only refer to it."""


def test_a_first_join_hands_out_a_member_id(shard: GroupShard) -> None:
    decision = shard.decide(join_call("", reply), now_ms=0)
    session = TimerKey(TimerKind.SESSION, "g", MEMBER_ID)
    assert decision == Decision(
        answers=(Answer(reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, MEMBER_ID)),),
        effects=(SetTimer(session, 10_000),),
    )


def test_the_leaders_assignment_is_stored_and_what_follows_is_known(shard: GroupShard) -> None:
    shard.decide(join_call("", reply), now_ms=0)
    shard.decide(join_call(MEMBER_ID, reply), now_ms=0)
    assignments = [SyncGroupRequest.Assignment(member_id=MEMBER_ID, assignment=b"a")]
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=MEMBER_ID, assignments=assignments
    )
    group = shard.classic.groups["g"]
    assignment = {MEMBER_ID: b"a"}
    then = AssignmentStored(
        rules=shard.classic, group=group, generation_id=1, assignment=assignment
    )
    decision = shard.decide(SyncCall(request=request, version=3, reply=reply), now_ms=1)
    assert decision == Decision(
        writes=(Write([metadata_record(group, assignment)], then),),
        effects=(CancelTimer(TimerKey(TimerKind.SYNC, "g")),),
    )


def test_an_event_waits_while_a_batch_of_its_group_is_in_flight(shard: GroupShard) -> None:
    (commit,) = shard.decide(commit_call(reply), now_ms=0).writes
    commit.on_stored(Stored(ErrorCode.NONE, 0, 0), Decisions())
    (deletion,) = shard.decide(GroupDeleteCall(group_id="g", reply=reply), now_ms=0).writes
    assert shard.decide(commit_call(reply), now_ms=0) == Decision()
    out = Decisions()
    deletion.on_stored(Stored(ErrorCode.NONE, 1, 0), out)
    followed = out.done()
    assert followed.answers == (Answer(reply, ErrorCode.NONE),)
    assert [write.records[0].key for write in followed.writes] == [commit.records[0].key]


def test_waiting_clients_are_sent_away_with_the_refusal_of_their_api(shard: GroupShard) -> None:
    (commit,) = shard.decide(commit_call(reply), now_ms=0).writes
    commit.on_stored(Stored(ErrorCode.NONE, 0, 0), Decisions())
    shard.decide(GroupDeleteCall(group_id="g", reply=reply), now_ms=0)
    shard.decide(join_call("m", reply), now_ms=0)
    shard.decide(commit_call(reply), now_ms=0)
    assert shard.on_unloaded() == Decision(
        answers=(
            Answer(reply, join_error(ErrorCode.NOT_COORDINATOR, "m")),
            Answer(reply, [ErrorCode.NOT_COORDINATOR]),
        )
    )


def test_a_group_that_is_deleted_with_its_members_ends_their_waiting_and_their_timers(
    shard: GroupShard,
) -> None:
    shard.decide(join_call("", reply), now_ms=0)
    shard.decide(join_call(MEMBER_ID, reply), now_ms=0)
    shard.classic.groups["g"].pending_members.add("given")
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=MEMBER_ID, assignments=[])
    shard.classic.groups["g"].leader_id = "given"  # so the sync waits
    shard.decide(SyncCall(request=sync, version=3, reply=reply), now_ms=0)
    call = GroupDeleteCall(group_id="g", reply=reply, with_members=True)
    decision = shard.decide(call, now_ms=0)
    assert decision.answers == (Answer(reply, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)),)
    assert set(decision.effects) == {
        CancelTimer(TimerKey(TimerKind.JOIN, "g")),
        CancelTimer(TimerKey(TimerKind.SYNC, "g")),
        CancelTimer(TimerKey(TimerKind.SESSION, "g", MEMBER_ID)),
        CancelTimer(TimerKey(TimerKind.SESSION, "g", "given")),
    }
