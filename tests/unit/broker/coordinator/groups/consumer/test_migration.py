"""Groups that migrate between the protocols while they have members (KIP-848)."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.groups.calls import SyncCall
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.broker.coordinator.groups.config import GroupConfig, MigrationPolicy
from embedkafka.wire.protocol.codec import decode_versioned, encode_versioned
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from embedkafka.wire.protocol.messages.groups import SyncGroupRequest
from embedkafka.wire.protocol.messages.internal import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.presence import present
from tests.unit.broker.coordinator.bench import Reply
from tests.unit.broker.coordinator.groups.conftest import Coordinator

GROUP = "g"


class NewMember:
    """Speaks the consumer protocol: sends heartbeats and follows the answers at once."""

    def __init__(self, coordinator: Coordinator, name: str, instance: str | None = None) -> None:
        self.coordinator = coordinator
        self.id = name
        self.instance = instance
        self.epoch = 0
        self.owned: dict[uuid.UUID, set[int]] = {}

    def send(self, epoch: int | None = None) -> Reply:
        epoch = self.epoch if epoch is None else epoch
        is_joining = epoch == 0
        topic = ConsumerGroupHeartbeatRequest.TopicPartitions
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.id,
            member_epoch=epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=30_000 if is_joining else -1,
            subscribed_topic_names=["t"] if is_joining else None,
            topic_partitions=[
                topic(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in self.owned.items()
            ]
            if epoch >= 0
            else None,
        )
        return self.coordinator.consumer_heartbeat(request, "new")

    def beat(self) -> ErrorCode:
        reply = self.send()
        if reply.error is ErrorCode.NONE:
            self.epoch = reply.response.member_epoch
            if reply.response.assignment is not None:
                self.owned = {
                    topic.topic_id: set(topic.partitions)
                    for topic in reply.response.assignment.topic_partitions
                }
        else:
            self.epoch, self.owned = 0, {}
        return reply.error

    def leave(self) -> Any:
        self.owned = {}
        error = self.send(epoch=-1).error
        self.epoch = 0
        return error

    @property
    def partitions(self) -> set[int]:
        return set[int]().union(*self.owned.values())


class OldMember:
    """A cooperative consumer of the classic protocol: it keeps its partitions while joining."""

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
    ) -> None:
        self.coordinator = coordinator
        self.name = name
        self.instance = instance
        self.protocols = protocols
        self.id = ""
        self.generation = -1
        self.partitions: set[int] = set()
        self.waiting: Reply | None = None

    def subscription(self) -> bytes:
        owned = ConsumerProtocolSubscription.TopicPartition(
            topic="t", partitions=sorted(self.partitions)
        )
        return encode_versioned(
            ConsumerProtocolSubscription(
                topics=["t"], owned_partitions=[owned] if self.partitions else []
            ),
            1,
        )

    def join(self, **fields: Any) -> Reply:
        """Joins, with a dynamic member's second attempt; returns the reply, answered or not."""
        protocols = [(name, self.subscription()) for name in self.protocols]
        fields = {"instance": self.instance, "client": self.name, "protocols": protocols, **fields}
        reply = self.coordinator.join(GROUP, self.id, **fields)
        if not reply.is_waiting and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = reply.response.member_id
            reply = self.coordinator.join(GROUP, self.id, **fields)
        self.waiting = reply
        return reply

    def sync(self) -> Any:
        """Adopts the generation of the answered join, and its assignment."""
        joined = present(self.waiting).response
        self.id, self.generation = joined.member_id, joined.generation_id
        assignments = share(joined.members) if joined.leader == self.id else {}
        reply = self.coordinator.sync(
            self.id, self.generation, assignments, group=GROUP, instance=self.instance
        )
        if not reply.is_waiting and reply.error is ErrorCode.NONE:
            read = decode_versioned(ConsumerProtocolAssignment, reply.response.assignment)
            self.partitions = {p for part in read.assigned_partitions for p in part.partitions}
        return reply

    def settle(self) -> Any:
        """Joins and syncs when no other member is waited for."""
        assert self.join().error is ErrorCode.NONE
        assert self.sync().error is ErrorCode.NONE
        return self

    def heartbeat(self) -> Any:
        reply = self.coordinator.heartbeat(
            self.id, self.generation, group=GROUP, instance=self.instance
        )
        return reply.error

    def follow(self) -> None:
        """A client's next round: a heartbeat, and a join if the answer demands it."""
        if self.heartbeat() is not ErrorCode.NONE:
            self.join()
            if (
                not present(self.waiting).is_waiting
                and present(self.waiting).error is ErrorCode.NONE
            ):
                self.sync()

    def leave(self) -> Any:
        self.partitions = set()
        return self.coordinator.leave((self.id, self.instance), group=GROUP)


def share(members: Any) -> dict[Any, Any]:
    """Deals out all four partitions to the members in turn."""
    ids = [member.member_id for member in members]
    return {
        member_id: encode_versioned(
            ConsumerProtocolAssignment(
                assigned_partitions=[
                    ConsumerProtocolAssignment.TopicPartition(
                        topic="t", partitions=[p for p in range(4) if p % len(ids) == index]
                    )
                ]
            ),
            1,
        )
        for index, member_id in enumerate(ids)
    }


@pytest.fixture
def topics(coordinator: Coordinator) -> Coordinator:
    coordinator.catalog.counts["t"] = 4
    return coordinator


def with_policy(new_coordinator: type[Coordinator], policy: Any, **settings: Any) -> Any:
    config = GroupConfig(
        offsets_topic_num_partitions=1, group_consumer_migration_policy=policy, **settings
    )
    coordinator = new_coordinator(config).lead()
    coordinator.catalog.counts["t"] = 4
    return coordinator


def rounds(*members: Any, count: int = 6) -> None:
    for _ in range(count):
        for member in members:
            member.beat() if isinstance(member, NewMember) else member.follow()


def consumer_group(coordinator: Coordinator) -> Any:
    return coordinator.shard().consumer.groups[GROUP]


def loaded(coordinator: Coordinator, new_coordinator: type[Coordinator]) -> Any:
    return new_coordinator(log=coordinator.log, catalog=coordinator.catalog).lead()


# Upgrade


def test_a_new_member_turns_a_classic_group_into_a_consumer_group(
    topics: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    old = OldMember(topics, "old").settle()
    assert old.partitions == {0, 1, 2, 3}
    new = NewMember(topics, "new")
    assert new.beat() is ErrorCode.NONE
    assert topics.shard().classic.groups == {}
    assert (new.epoch, new.partitions) == (2, set())
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    rounds(old, new)
    assert (len(old.partitions), len(new.partitions)) == (2, 2)
    assert old.partitions | new.partitions == {0, 1, 2, 3}
    assert consumer_group(topics).state.value == "Stable"
    twin = loaded(topics, new_coordinator).shard()
    assert twin.classic.groups == {}
    for attribute in type(consumer_group(topics)).__slots__:
        ours, theirs = consumer_group(topics), twin.consumer.groups[GROUP]
        assert getattr(ours, attribute) == getattr(theirs, attribute)


def test_an_old_member_keeps_its_epoch_until_it_has_given_up_what_it_must(
    topics: Coordinator,
) -> None:
    old, new = OldMember(topics, "old").settle(), NewMember(topics, "new")
    new.beat()
    assert old.join().response.generation_id == 1
    old.sync()
    assert len(old.partitions) == 2
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join().response.generation_id == 2
    old.sync()
    assert old.heartbeat() is ErrorCode.NONE


def test_an_old_member_joins_again_when_what_it_waits_for_is_free(topics: Coordinator) -> None:
    new = NewMember(topics, "new")
    new.beat()
    old = OldMember(topics, "old").settle()
    assert old.partitions == set()
    assert old.heartbeat() is ErrorCode.NONE
    new.beat()
    new.beat()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    old.settle()
    assert len(old.partitions) == 2


def test_whoever_waits_in_the_classic_group_joins_the_new_one(topics: Coordinator) -> None:
    first = OldMember(topics, "first").settle()
    second = OldMember(topics, "second")
    assert second.join().is_waiting
    new = NewMember(topics, "new")
    assert new.beat() is ErrorCode.NONE
    assert present(second.waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    second.settle()
    rounds(first, second, new)
    assert sorted([*first.partitions, *second.partitions, *new.partitions]) == [0, 1, 2, 3]


def test_timers_of_the_classic_group_end_with_it(topics: Coordinator) -> None:
    old = OldMember(topics, "old").settle()
    topics.advance(9_000)
    NewMember(topics, "new").beat()
    topics.advance(9_000)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    topics.advance(9_000)
    assert old.id in consumer_group(topics).members
    topics.advance(1_000)
    assert old.id not in consumer_group(topics).members


def test_a_group_whose_upgrade_is_refused_by_the_log_stays_as_it_was(topics: Coordinator) -> None:
    old = OldMember(topics, "old").settle()
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    new = NewMember(topics, "new")
    assert new.send().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert topics.shard().consumer.groups == {}
    assert old.heartbeat() is ErrorCode.NONE
    topics.advance(10_000)
    assert topics.shard().classic.groups[GROUP].state is ClassicGroupState.EMPTY


def test_requests_during_the_upgrade_wait_for_it(topics: Coordinator) -> None:
    old = OldMember(topics, "old").settle()
    topics.log.hold()
    NewMember(topics, "new").send()
    beat = topics.heartbeat(old.id, old.generation)
    sync, leave = topics.sync(old.id, old.generation), topics.leave("stranger")
    topics.advance(10_000)
    assert [reply.is_waiting for reply in (beat, sync, leave)] == [True] * 3
    topics.log.release()
    topics.loop.run()
    assert beat.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leave.response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.id in consumer_group(topics).members


def test_requests_that_wait_for_an_upgrade_are_sent_away_when_the_broker_resigns(
    topics: Coordinator,
) -> None:
    old = OldMember(topics, "old").settle()
    topics.log.hold()
    NewMember(topics, "new").send()
    replies = [
        topics.heartbeat(old.id, old.generation),
        topics.sync(old.id, old.generation),
        topics.leave(old.id),
        topics.join(GROUP, old.id),
    ]
    topics.service.coordinator.on_resigned(0)
    topics.loop.run()
    assert {reply.error for reply in replies} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_policy_may_forbid_upgrades(new_coordinator: type[Coordinator], policy: Any) -> None:
    coordinator = with_policy(new_coordinator, policy)
    OldMember(coordinator, "old").settle()
    refused = NewMember(coordinator, "new").send()
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in refused.response.error_message


def test_a_group_that_would_be_too_large_is_not_upgraded(
    new_coordinator: type[Coordinator],
) -> None:
    policy = MigrationPolicy.BIDIRECTIONAL
    coordinator = with_policy(new_coordinator, policy, group_consumer_max_size=1)
    old = OldMember(coordinator, "old").settle()
    assert NewMember(coordinator, "new").send().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert old.heartbeat() is ErrorCode.NONE


def test_only_groups_of_consumers_are_upgraded(topics: Coordinator) -> None:
    member = topics.join(GROUP, protocol_type="connect").response.member_id
    topics.join(GROUP, member, protocol_type="connect")
    assert NewMember(topics, "new").send().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_subscriptions_nobody_can_read_is_not_upgraded(topics: Coordinator) -> None:
    topics.stable(GROUP, protocols=[("range", b"?")])
    refused = NewMember(topics, "new").send()
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in refused.response.error_message


def test_a_group_before_its_first_generation_is_upgraded(
    new_coordinator: Callable[..., Coordinator],
) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    coordinator = new_coordinator(config).lead()
    coordinator.catalog.counts["t"] = 4
    old, new = OldMember(coordinator, "old"), NewMember(coordinator, "new")
    assert old.join().is_waiting
    assert new.beat() is ErrorCode.NONE
    assert present(old.waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    old.settle()
    rounds(old, new)
    assert (len(old.partitions), len(new.partitions)) == (2, 2)


# Old members of a consumer group


@pytest.fixture
def mixed(topics: Coordinator) -> tuple[NewMember, Any]:
    """A settled consumer group with one member of each kind."""
    new = NewMember(topics, "new")
    new.beat()
    old = OldMember(topics, "old").settle()
    rounds(new, old)
    return new, old


def test_an_old_member_must_share_a_protocol_with_the_others_of_its_kind(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert OldMember(topics, "x", protocols=("sticky",)).join().error is error
    assert OldMember(topics, "x").join(protocol_type="connect").error is error
    assert OldMember(topics, "x", protocols=("sticky", "range")).join().error is ErrorCode.NONE


def test_an_old_member_with_a_subscription_nobody_can_read_is_refused(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    refused = OldMember(topics, "x").join(protocols=[("range", b"?")])
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_old_member_with_an_impossible_session_is_refused(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    refused = OldMember(topics, "x").join(session_ms=1)
    assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_requests_of_old_members_are_checked(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    generation = old.generation
    assert topics.heartbeat(old.id, generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert topics.heartbeat("stranger", generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert topics.heartbeat(new.id, generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert topics.sync(old.id, generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert topics.sync(new.id, generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = topics.sync(old.id, generation, version=5, group=GROUP)
    assert wrong.error is ErrorCode.NONE
    for protocol_type, protocol_name in (("consumer", None), (None, "range")):
        unnamed = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=old.id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[],
        )
        refused = topics.call(SyncCall, request=unnamed, version=5)
        assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = OldMember(topics, "other", protocols=("sticky", "range"))
    other.join()
    joined = present(other.waiting).response
    mismatch = topics.sync(joined.member_id, joined.generation_id, version=5)
    assert mismatch.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_commits_of_old_members_are_checked_by_generation(
    topics: Coordinator,
    mixed: tuple[NewMember, Any],
    commit_errors: Callable[[Any], list[ErrorCode]],
) -> None:
    _, old = mixed
    for version in (8, 9):
        good = topics.commit(
            {("t", 0): 1}, member=old.id, generation=old.generation, version=version
        )
        assert commit_errors(good) == [ErrorCode.NONE]
        stale = topics.commit({("t", 0): 1}, member=old.id, generation=7, version=version)
        assert commit_errors(stale) == [ErrorCode.ILLEGAL_GENERATION]


def test_a_silent_old_member_is_out_after_its_own_session(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    topics.advance(9_999)
    assert old.id in consumer_group(topics).members
    topics.advance(1)
    assert set(consumer_group(topics).members) == {new.id}


def test_an_old_member_that_does_not_join_again_is_out_after_its_rebalance_timeout(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    NewMember(topics, "third").beat()
    for _ in range(7):
        assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        topics.advance(8_000)
        new.beat()
    topics.advance(4_000)
    assert old.id not in consumer_group(topics).members


def test_an_old_member_that_does_not_sync_is_out_after_its_rebalance_timeout(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, _ = mixed
    lazy = OldMember(topics, "lazy")
    joined = lazy.join(session_ms=600_000).response
    for _ in range(2):
        topics.advance(30_000)
        new.beat()
    assert joined.member_id not in consumer_group(topics).members


def test_a_member_whose_removal_the_log_refused_is_removed_later(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    topics.advance(10_000)
    assert old.id in consumer_group(topics).members
    topics.advance(500)
    assert set(consumer_group(topics).members) == {new.id}


def test_old_members_leave(topics: Coordinator, mixed: tuple[NewMember, Any]) -> None:
    new, old = mixed
    answers = topics.leave(old.id, "stranger").response.members
    assert [a.error_code for a in answers] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    rounds(new)
    assert new.partitions == {0, 1, 2, 3}
    assert topics.leave("stranger", version=2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_admin_removes_static_members_of_either_kind(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    static = OldMember(topics, "s", instance="s1").settle()
    fresh = NewMember(topics, "n", instance="n1")
    fresh.beat()
    answers = topics.leave(("", "s1"), ("", "n1"), ("", "none"), ("x", "s1")).response.members
    assert [a.error_code for a in answers] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert not {static.id, fresh.id} & set(consumer_group(topics).members)


def test_a_departure_that_the_log_refuses_is_no_departure(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    _, old = mixed
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert topics.leave(old.id).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert old.heartbeat() is ErrorCode.NONE


def test_a_join_that_the_log_refuses_is_no_join(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    late = OldMember(topics, "late")
    assert late.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert late.id not in consumer_group(topics).members


# Downgrade


def test_when_the_last_new_member_leaves_the_group_is_classic_again(
    topics: Coordinator, mixed: tuple[NewMember, Any], new_coordinator: type[Coordinator]
) -> None:
    new, old = mixed
    epoch = consumer_group(topics).group_epoch
    assert new.leave() is ErrorCode.NONE
    assert topics.shard().consumer.groups == {}
    group = topics.shard().classic.groups[GROUP]
    assert (group.state, group.generation_id) == (ClassicGroupState.PREPARING_REBALANCE, epoch)
    twin = loaded(topics, new_coordinator).shard()
    assert twin.consumer.groups == {}
    assert set(twin.classic.groups[GROUP].members) == {old.id}
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join().response.leader == old.id
    old.sync()
    assert old.partitions == {0, 1, 2, 3}
    assert old.heartbeat() is ErrorCode.NONE
    topics.advance(10_000)
    assert group.state is ClassicGroupState.EMPTY


def test_a_new_member_that_times_out_takes_the_consumer_group_with_it(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    _, old = mixed
    for _ in range(9):
        topics.advance(5_000)
        old.follow()
    assert topics.shard().consumer.groups == {}
    assert set(topics.shard().classic.groups[GROUP].members) == {old.id}


def test_a_new_member_that_an_admin_removes_takes_the_consumer_group_with_it(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, _ = mixed
    assert topics.leave(new.id).response.members[0].error_code == ErrorCode.NONE
    assert topics.shard().consumer.groups == {}


def test_a_group_stays_a_consumer_group_while_one_new_member_is_left(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    other = NewMember(topics, "other")
    other.beat()
    assert new.leave() is ErrorCode.NONE
    rounds(other, old)
    assert set(consumer_group(topics).members) == {other.id, old.id}


def test_an_empty_consumer_group_stays_one(topics: Coordinator) -> None:
    new = NewMember(topics, "new")
    new.beat()
    new.leave()
    assert consumer_group(topics).members == {}


def test_a_downgrade_that_the_log_refuses_has_not_happened(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    new, old = mixed
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert new.send(epoch=-1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(consumer_group(topics).members) == {new.id, old.id}
    assert topics.shard().classic.groups == {}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_a_policy_may_forbid_downgrades(new_coordinator: type[Coordinator], policy: Any) -> None:
    coordinator = with_policy(new_coordinator, policy)
    new = NewMember(coordinator, "new")
    new.beat()
    old = OldMember(coordinator, "old").settle()
    new.leave()
    rounds(old)
    assert set(consumer_group(coordinator).members) == {old.id}
    assert old.partitions == {0, 1, 2, 3}


# Static members


def test_a_static_member_moves_to_the_new_protocol_without_a_rebalance(topics: Coordinator) -> None:
    old = OldMember(topics, "old", instance="i").settle()
    new = NewMember(topics, "new", instance="i")
    assert new.beat() is ErrorCode.NONE
    assert (new.epoch, new.partitions) == (1, {0, 1, 2, 3})
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_moves_back_without_a_rebalance(topics: Coordinator) -> None:
    new = NewMember(topics, "new", instance="i")
    new.beat()
    old = OldMember(topics, "old", instance="i")
    joined = old.join()
    assert (joined.response.generation_id, joined.response.leader) == (1, "")
    assert topics.shard().consumer.groups == {}
    assert topics.shard().classic.groups[GROUP].state is ClassicGroupState.STABLE
    old.sync()
    assert old.partitions == {0, 1, 2, 3}
    assert old.heartbeat() is ErrorCode.NONE
    assert new.send().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_that_is_back_under_a_new_id_fences_the_old_one(
    topics: Coordinator, mixed: tuple[NewMember, Any]
) -> None:
    first = OldMember(topics, "one", instance="i").settle()
    second = OldMember(topics, "two", instance="i").settle()
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert first.join().error is ErrorCode.FENCED_INSTANCE_ID
    assert second.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    unknown = OldMember(topics, "x", instance="other")
    unknown.id = "x"
    assert unknown.join().error is ErrorCode.UNKNOWN_MEMBER_ID


# Random histories

actions = st.one_of(
    st.tuples(st.just("new"), st.integers(0, 1)),
    st.tuples(st.just("old"), st.integers(0, 1)),
    st.tuples(st.just("new leaves"), st.integers(0, 1)),
    st.tuples(st.just("old leaves"), st.integers(0, 1)),
    st.tuples(st.just("advance"), st.sampled_from([3_000, 9_000, 46_000])),
)


@settings(max_examples=60)
@given(st.lists(actions, max_size=25))
def test_members_of_both_kinds_come_and_go_and_loading_equals_living(
    new_coordinator: type[Coordinator], script: Any
) -> None:
    coordinator = new_coordinator()
    coordinator.lead()
    coordinator.catalog.counts["t"] = 4
    new = [NewMember(coordinator, f"new{i}") for i in range(2)]
    old = [OldMember(coordinator, f"old{i}") for i in range(2)]
    for name, argument in script:
        if name == "new":
            new[argument].beat()
        elif name == "old":
            follow(old[argument])
        elif name == "new leaves":
            new[argument].leave()
        elif name == "old leaves":
            old[argument].leave()
            old[argument].id = ""
        else:
            coordinator.advance(argument)
        shard = coordinator.shard()
        assert not set(shard.classic.groups) & set(shard.consumer.groups), (
            "the group has both kinds"
        )
        twin = loaded(coordinator, new_coordinator).shard()
        assert set(twin.consumer.groups) == set(shard.consumer.groups)
        for group in shard.consumer.groups.values():
            same = twin.consumer.groups[group.group_id]
            for attribute in type(group).__slots__:
                assert getattr(same, attribute) == getattr(group, attribute)


def follow(member: Any) -> None:
    """One round of a client that may have lost its membership: it joins and syncs if it must."""
    if member.waiting is not None and member.waiting.is_waiting:
        return
    if member.heartbeat() is ErrorCode.NONE:
        return
    reply = member.join()
    if not reply.is_waiting and reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
        member.id, member.partitions = "", set()
        reply = member.join()
    if not reply.is_waiting and reply.error is ErrorCode.NONE:
        member.sync()
