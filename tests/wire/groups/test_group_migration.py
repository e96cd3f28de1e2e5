"""Groups that migrate between the classic and the consumer protocol with all their members.

The tests go request by request, and with stock clients. Apache Kafka assigns at most once a second,
so facts about assignments may take a moment.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest
from confluent_kafka import Consumer

from embedkafka.wire.protocol.codec import decode_versioned, encode_versioned
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from embedkafka.wire.protocol.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from embedkafka.wire.protocol.messages.internal import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.wire.clients import Cluster, eventually, open_consumer
from tests.wire.consumer_members import Member as NewMember
from tests.wire.consumer_members import describe
from tests.wire.one_partition import Answer
from tests.wire.raw_client import RawClient

pytestmark = pytest.mark.topic(partitions=4)

Unique = Callable[[str], str]
SESSION_MS = 20_000


class OldMember:
    """A cooperative classic consumer: it keeps its partitions while it rejoins."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topic: str,
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
    ) -> None:
        self.raw = cluster.connect()
        self.group = group
        self.topic = topic
        self.id = ""
        self.generation = -1
        self.partitions: list[int] = []
        self._instance = instance
        self._protocols = protocols
        self._protocol_type = protocol_type

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        known = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "member_id": self.id,
            "group_instance_id": self._instance,
            "protocol_type": self._protocol_type,
            "protocols": [
                JoinGroupRequest.Protocol(name=name, metadata=self._subscription())
                for name in self._protocols
            ],
        }
        return JoinGroupRequest(**{**known, **fields})

    def _subscription(self) -> bytes:
        owned = ConsumerProtocolSubscription.TopicPartition(
            topic=self.topic, partitions=self.partitions
        )
        subscription = ConsumerProtocolSubscription(
            topics=[self.topic], owned_partitions=[owned] if self.partitions else []
        )
        return encode_versioned(subscription, 1)

    def join(self, **fields: Any) -> Answer:
        """Joins, with the second attempt that dynamic members need."""
        answer = self.raw.call(self.join_request(**fields), 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            answer = self.raw.call(self.join_request(**fields), 9)
        if answer.error_code == ErrorCode.NONE:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, mine: Sequence[int] | None = None, **fields: Any) -> Answer:
        """Syncs and adopts the assignment. A leader hands in its own."""
        known = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self._instance,
            "protocol_type": self._protocol_type,
            "protocol_name": self._protocols[0],
        }
        assignments = [] if mine is None else [self._assignment(mine)]
        request = SyncGroupRequest(**{**known, **fields}, assignments=assignments)
        answer = self.raw.call(request, 5)
        if answer.error_code == ErrorCode.NONE:
            assigned = decode_versioned(ConsumerProtocolAssignment, answer.assignment)
            self.partitions = [p for part in assigned.assigned_partitions for p in part.partitions]
        return answer

    def _assignment(self, partitions: Sequence[int]) -> SyncGroupRequest.Assignment:
        part = ConsumerProtocolAssignment.TopicPartition(topic=self.topic, partitions=partitions)
        assignment = ConsumerProtocolAssignment(assigned_partitions=[part])
        return SyncGroupRequest.Assignment(
            member_id=self.id, assignment=encode_versioned(assignment, 1)
        )

    def heartbeat(self, **fields: Any) -> ErrorCode:
        known = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self._instance,
        }
        return ErrorCode(self.raw.call(HeartbeatRequest(**{**known, **fields}), 4).error_code)

    def follow(self) -> None:
        """One round of a client: heartbeat, then join and sync if the coordinator demands it."""
        if self.heartbeat() != ErrorCode.NONE:
            joined = self.join()
            assert joined.error_code == ErrorCode.NONE
            self.sync()

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        """Removes members by id and instance; by default, itself."""
        leaving = [
            LeaveGroupRequest.Member(member_id=member, group_instance_id=instance)
            for member, instance in members or ((self.id, self._instance),)
        ]
        request = LeaveGroupRequest(group_id=self.group, member_id="", members=leaving)
        answer = self.raw.call(request, 5)
        assert answer.error_code == ErrorCode.NONE
        return [ErrorCode(member.error_code) for member in answer.members]


@pytest.fixture
def group(unique: Unique) -> str:
    return unique("group")


@pytest.fixture
def old(cluster: Cluster, group: str, topic: str) -> Iterator[OldMember]:
    with OldMember(cluster, group, topic) as member:
        yield member


@pytest.fixture
def new(raw: RawClient, group: str, topic: str) -> NewMember:
    return NewMember(raw, group, topic)


def listed(raw: RawClient, group: str) -> tuple[str, str]:
    """The group's type and state."""
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    (found,) = [g for g in raw.call(request, 5).groups if g.group_id == group]
    return found.group_type, found.group_state


def settle(new: NewMember, old: OldMember) -> None:
    """Runs both until each has two of the four partitions and no rebalance is pending."""

    def shared() -> bool:
        assert new.beat_with_owned().error_code == ErrorCode.NONE
        old.follow()
        is_even = len(new.partitions) == len(old.partitions) == 2
        return is_even and old.heartbeat() == ErrorCode.NONE

    eventually(shared, "two partitions each")
    assert sorted([*new.partitions, *old.partitions]) == [0, 1, 2, 3]


@pytest.mark.both_io_modes
def test_a_group_goes_over_to_the_consumer_protocol_and_back(
    raw: RawClient, old: OldMember, new: NewMember
) -> None:
    assert old.join().leader == old.id
    assert old.sync([0, 1, 2, 3]).error_code == ErrorCode.NONE
    assert new.join().error_code == ErrorCode.NONE
    assert listed(raw, new.group)[0] == "consumer"
    settle(new, old)
    assert listed(raw, new.group) == ("consumer", "Stable")
    assert new.leave().error_code == ErrorCode.NONE
    assert listed(raw, new.group) == ("classic", "PreparingRebalance")
    assert old.heartbeat() != ErrorCode.NONE
    again = old.join()
    assert (again.error_code, again.leader) == (ErrorCode.NONE, old.id)
    assert [member.member_id for member in again.members] == [old.id]


def test_the_description_tells_members_of_both_protocols_apart(
    raw: RawClient, old: OldMember, new: NewMember
) -> None:
    new.join()
    old.join()
    old.sync()
    settle(new, old)
    described = describe(raw, new.group)
    types = {member.member_id: member.member_type for member in described.members}
    assert types == {new.id: 1, old.id: 0}
    assert {member.subscribed_topic_regex for member in described.members} == {""}
    (classic,) = raw.call(DescribeGroupsRequest(groups=[new.group]), 5).groups
    assert classic.group_state == "Dead"


def test_an_old_member_is_no_leader_and_keeps_its_epoch_while_it_gives_up_partitions(
    old: OldMember, new: NewMember
) -> None:
    old.join()
    old.sync([0, 1, 2, 3])
    new.join()
    eventually(lambda: old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
    assert old.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    before = old.generation
    joined = old.join()
    assert (joined.generation_id, joined.leader, list(joined.members)) == (before, "", [])
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert old.sync().error_code == ErrorCode.NONE
    assert len(old.partitions) == 2
    assert old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join().generation_id > before


def test_a_join_that_waits_is_ended_by_the_upgrade(
    cluster: Cluster, old: OldMember, new: NewMember, group: str, topic: str
) -> None:
    old.join()
    old.sync([0, 1, 2, 3])
    with OldMember(cluster, group, topic) as second:
        second.id = second.raw.call(second.join_request(), 9).member_id
        waiting = second.join_request()
        sent = second.raw.send(waiting, 9)
        eventually(lambda: old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "a rebalance")
        assert new.join().error_code == ErrorCode.NONE
        ended = second.raw.receive(waiting, 9, sent)
        assert ended.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert second.join().error_code == ErrorCode.NONE
        assert second.sync().error_code == ErrorCode.NONE


def test_only_groups_of_consumers_are_upgraded(
    cluster: Cluster, new: NewMember, group: str, topic: str
) -> None:
    with OldMember(cluster, group, topic, protocol_type="connect") as worker:
        worker.join()
        worker.raw.call(
            SyncGroupRequest(
                group_id=group,
                generation_id=worker.generation,
                member_id=worker.id,
                protocol_type="connect",
                protocol_name="range",
                assignments=[],
            ),
            5,
        )
        refused = new.join()
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "does not use the consumer embedded protocol" in refused.error_message
        assert worker.heartbeat() == ErrorCode.NONE


def test_a_consumer_group_takes_old_members_with_a_common_protocol_only(
    cluster: Cluster, old: OldMember, new: NewMember, group: str, topic: str
) -> None:
    new.join()
    assert old.join().error_code == ErrorCode.NONE
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    with OldMember(cluster, group, topic, protocols=["sticky"]) as sticky:
        assert sticky.join().error_code == refused
    with OldMember(cluster, group, topic, protocol_type="connect") as worker:
        assert worker.join().error_code == refused
    with OldMember(cluster, group, topic, protocols=["sticky", "range"]) as both:
        assert both.join().protocol_name == "sticky"


def test_requests_of_old_members_are_checked(old: OldMember, new: NewMember) -> None:
    new.join()
    old.join()
    assert old.sync(generation_id=99).error_code == ErrorCode.ILLEGAL_GENERATION
    assert old.sync(member_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.sync(member_id=new.id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    wrongs: list[dict[str, Any]] = [{"protocol_type": "other"}, {"protocol_name": "other"}]
    for wrong in wrongs:
        answer = old.sync(**wrong)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert old.sync().error_code == ErrorCode.NONE
    assert old.heartbeat(generation_id=99) == ErrorCode.ILLEGAL_GENERATION
    assert old.heartbeat(member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.heartbeat(member_id=new.id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.heartbeat(group_instance_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_are_checked_by_the_protocol_of_the_member(
    raw: RawClient, old: OldMember, new: NewMember, topic: str
) -> None:
    def commit(member: str, epoch: int, version: int) -> ErrorCode:
        part = OffsetCommitRequest.Topic.Partition(
            partition_index=0, committed_offset=5, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=new.group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequest.Topic(name=topic, partitions=[part])],
        )
        return ErrorCode(raw.call(request, version).topics[0].partitions[0].error_code)

    def fetch(member: str | None, epoch: int) -> ErrorCode:
        asked = OffsetFetchRequest.Group(
            group_id=new.group, member_id=member, member_epoch=epoch, topics=None
        )
        request = OffsetFetchRequest(groups=[asked], require_stable=False)
        return ErrorCode(raw.call(request, 9).groups[0].error_code)

    new.join()
    old.join()
    old.sync()
    assert commit(old.id, old.generation, 8) == ErrorCode.NONE
    assert commit(old.id, old.generation + 1, 8) == ErrorCode.ILLEGAL_GENERATION
    assert commit(new.id, new.epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(new.id, new.epoch, 9) == ErrorCode.NONE
    assert commit(new.id, new.epoch + 1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(new.id, new.epoch - 1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("nobody", new.epoch, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(None, -1) == ErrorCode.NONE
    assert fetch(new.id, new.epoch) == ErrorCode.NONE
    assert fetch(new.id, new.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(new.id, -1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(old.id, old.generation) == ErrorCode.NONE
    assert fetch(old.id, old.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert fetch("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch("", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_either_kind_are_removed_by_a_leave_request(
    cluster: Cluster, raw: RawClient, old: OldMember, new: NewMember, group: str, topic: str
) -> None:
    new.join()
    old.join()
    static = NewMember(raw, group, topic, instance="static")
    static.join()
    with OldMember(cluster, group, topic, instance="old-static") as old_static:
        old_static.join()
        assert old.leave(("nobody", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert old.leave(("nobody", "old-static")) == [ErrorCode.FENCED_INSTANCE_ID]
        assert old.leave(("", "old-static"), ("", "nobody")) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
    assert old.leave((new.id, None)) == [ErrorCode.NONE]
    assert listed(raw, group)[0] == "consumer"
    assert old.leave(("", "static")) == [ErrorCode.NONE]
    assert listed(raw, group)[0] == "classic"
    assert static.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert old.leave() == [ErrorCode.NONE]
    assert listed(raw, group) == ("classic", "Empty")


def test_a_static_member_changes_protocols_in_its_place(
    cluster: Cluster, raw: RawClient, group: str, topic: str
) -> None:
    with (
        OldMember(cluster, group, topic, instance="static") as before,
        OldMember(cluster, group, topic, instance="static") as after,
    ):
        before.join()
        before.sync([0, 1, 2, 3])
        between = NewMember(raw, group, topic, instance="static")
        taken = between.join()
        assert (taken.error_code, taken.member_epoch) == (ErrorCode.NONE, before.generation)
        assert between.partitions == [0, 1, 2, 3]
        assert before.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert listed(raw, group) == ("consumer", "Stable")
        joined = after.join()
        assert (joined.generation_id, joined.leader) == (before.generation, "")
        assert after.sync().error_code == ErrorCode.NONE
        assert after.partitions == [0, 1, 2, 3]
        assert listed(raw, group) == ("classic", "Stable")
        assert after.heartbeat() == ErrorCode.NONE


def test_a_static_member_that_has_not_left_is_not_replaced_not_even_by_itself(
    raw: RawClient, group: str, topic: str
) -> None:
    member = NewMember(raw, group, topic, instance="static")
    member.join()
    assert member.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    other = NewMember(raw, group, topic, instance="static")
    assert other.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert member.beat(member_epoch=-2).error_code == ErrorCode.NONE
    assert other.join().error_code == ErrorCode.NONE
    assert member.beat(member_epoch=1).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_member_may_join_again_at_any_time(raw: RawClient, new: NewMember, topic: str) -> None:
    """A dynamic member's epoch 0 is never stale: the member has lost its state and starts over."""
    new.join()
    other = NewMember(raw, new.group, topic)
    other.join()

    def shared() -> bool:
        for member in (new, other):
            assert member.beat_with_owned().error_code == ErrorCode.NONE
        return len(new.partitions) == len(other.partitions) == 2

    eventually(shared, "two partitions each")
    epoch, partitions = new.epoch, new.partitions
    again = new.join()
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, epoch)
    assert new.partitions == partitions
    later = new.beat(member_epoch=epoch + 1)
    assert later.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    earlier = ConsumerGroupHeartbeatRequest(
        group_id=new.group, member_id=new.id, member_epoch=epoch - 1
    )
    assert raw.call(earlier, 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_stock_consumers_of_both_protocols_share_a_topic(
    cluster: Cluster, topic: str, group: str
) -> None:
    """A rolling upgrade: old, then old and new, then new. Every step shares all partitions."""

    def member(protocol: str) -> Consumer:
        settings: dict[str, Any] = {"group_protocol": protocol}
        if protocol == "classic":
            settings |= {"partition_assignment_strategy": "cooperative-sticky"}
            settings |= {"heartbeat_interval_ms": 100}
        consumer = open_consumer(cluster, group_id=group, **settings)
        consumer.subscribe([topic])
        return consumer

    def await_shares(*members: Consumer) -> None:
        def shared() -> bool:
            for one in members:
                one.poll(0.05)
            shares = [{p.partition for p in one.assignment()} for one in members]
            return all(shares) and sorted(p for share in shares for p in share) == [0, 1, 2, 3]

        eventually(shared, f"{len(members)} members share the topic")

    old, new = member("classic"), None
    try:
        await_shares(old)
        new = member("consumer")
        await_shares(old, new)
        old.close()
        await_shares(new)
        old = member("classic")
        await_shares(old, new)
        new.close()
        await_shares(old)
    finally:
        for one in (old, new):
            if one is not None:
                one.close()


def polled(consumer: Consumer) -> Consumer:
    consumer.poll(0.02)
    return consumer


def test_an_old_consumer_is_described_as_soon_as_it_has_partitions(
    cluster: Cluster, raw: RawClient, topic: str, group: str
) -> None:
    new = open_consumer(cluster, group_id=group, group_protocol="consumer")
    old = open_consumer(
        cluster,
        group_id=group,
        group_protocol="classic",
        partition_assignment_strategy="cooperative-sticky",
        heartbeat_interval_ms=100,
    )
    try:
        new.subscribe([topic])
        eventually(lambda: polled(new).assignment(), "the new consumer has partitions")
        old.subscribe([topic])
        eventually(lambda: polled(new) and polled(old).assignment(), "the old one has some, too")
        described = describe(raw, group)
        assert sorted(member.member_type for member in described.members) == [0, 1]
    finally:
        old.close()
        new.close()


def test_two_groups_of_one_name_never_meet(raw: RawClient, new: NewMember, old: OldMember) -> None:
    """An empty group has no type: the next member to join decides."""
    assert new.join().error_code == ErrorCode.NONE
    assert new.leave().error_code == ErrorCode.NONE
    assert old.join().leader == old.id
    assert old.sync([0]).error_code == ErrorCode.NONE
    assert listed(raw, new.group) == ("classic", "Stable")
    assert old.leave() == [ErrorCode.NONE]
    new.id = str(uuid.uuid4())
    assert new.join().error_code == ErrorCode.NONE
    assert listed(raw, new.group)[0] == "consumer"
