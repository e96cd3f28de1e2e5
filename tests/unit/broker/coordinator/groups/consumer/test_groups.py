"""Consumer groups (KIP-848), driven by a small client that follows the protocol."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import ConsumerMember, MemberState
from embedkafka.broker.coordinator.groups.consumer.records import current_record, member_record
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)
from tests.unit.broker.coordinator.groups.conftest import Coordinator

GROUP = "g"


class Consumer:
    """Sends heartbeats like the Java consumer: owned partitions if changed, everything on join."""

    def __init__(
        self, coordinator: Coordinator, name: str, topics: Sequence[str] = ("t",), **settings: Any
    ) -> None:
        self.coordinator = coordinator
        self.member_id = name
        self.epoch = 0
        self.owned = {}
        self.topics = topics
        self.settings = settings

    def send(self, **changes: Any) -> Any:
        joining = self.epoch == 0
        values: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.settings.get("instance"),
            "rebalance_timeout_ms": self.settings.get("rebalance_ms", 30_000) if joining else -1,
            "subscribed_topic_names": self.topics if joining else None,
            "subscribed_topic_regex": self.settings.get("regex") if joining else None,
            "server_assignor": self.settings.get("assignor") if joining else None,
            "topic_partitions": self.reported(),
        } | changes
        coordinator = self.coordinator
        request = ConsumerGroupHeartbeatRequest(**values)
        return coordinator.consumer_heartbeat(request, may_see=self.settings.get("may_see"))

    def reported(self) -> list[Any]:
        return [
            ConsumerGroupHeartbeatRequest.TopicPartitions(
                topic_id=topic_id, partitions=sorted(partitions)
            )
            for topic_id, partitions in self.owned.items()
        ]

    def beat(self, **changes: Any) -> Any:
        """Sends a heartbeat and follows the answer: takes and revokes partitions at once."""
        reply = self.send(**changes)
        assert reply.error is ErrorCode.NONE, reply.response
        self.follow(reply.response)
        return self

    def follow(self, response: Any) -> None:
        self.member_id = response.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                topic.topic_id: set(topic.partitions)
                for topic in response.assignment.topic_partitions
            }

    def has(self, topic: str = "t") -> Any:
        return self.owned.get(self.coordinator.catalog.id_of(topic), set())

    def leave(self, epoch: int = -1) -> Any:
        return self.send(member_epoch=epoch, topic_partitions=None)


@pytest.fixture
def topics(coordinator: Coordinator) -> Coordinator:
    coordinator.catalog.counts["t"] = 4
    return coordinator


def settle(*consumers: Any, rounds: int = 6) -> None:
    for _ in range(rounds):
        for consumer in consumers:
            consumer.beat()


def group_of(coordinator: Coordinator) -> Any:
    return coordinator.shard().consumer.groups[GROUP]


def test_a_lone_member_gets_everything_with_its_first_heartbeat(topics: Coordinator) -> None:
    consumer = Consumer(topics, "m1").beat()
    assert consumer.epoch == 1
    assert consumer.has() == {0, 1, 2, 3}
    assert group_of(topics).state.value == "Stable"


def test_an_unchanged_member_is_told_nothing_new(topics: Coordinator) -> None:
    consumer = Consumer(topics, "m1").beat()
    reply = consumer.send(topic_partitions=None)
    assert reply.response.assignment is None
    assert reply.response.heartbeat_interval_ms == 5_000


def test_partitions_move_only_after_they_were_given_up(topics: Coordinator) -> None:
    first = Consumer(topics, "m1").beat()
    second = Consumer(topics, "m2").beat()
    assert second.has() == set()
    assert group_of(topics).state.value == "Reconciling"
    before = first.epoch
    first.beat()  # its answer revokes two partitions
    assert (first.epoch, len(first.has())) == (before, 2)
    second.beat()
    assert second.has() == set()
    first.beat()  # it confirms the revocation
    second.beat()
    assert first.has() | second.has() == {0, 1, 2, 3}
    assert len(second.has()) == 2
    assert first.epoch == second.epoch == 2
    assert group_of(topics).state.value == "Stable"


def test_a_member_that_leaves_gives_its_partitions_to_the_others(topics: Coordinator) -> None:
    first, second = Consumer(topics, "m1"), Consumer(topics, "m2")
    settle(first, second)
    reply = second.leave()
    assert reply.response.member_epoch == -1
    assert group_of(topics).state.value == "Assigning"
    first.beat()
    assert first.has() == {0, 1, 2, 3}


def test_a_silent_member_is_removed(topics: Coordinator) -> None:
    first, second = Consumer(topics, "m1"), Consumer(topics, "m2")
    settle(first, second)
    topics.advance(30_000)
    first.beat()
    topics.advance(15_000)
    assert set(group_of(topics).members) == {"m1"}
    assert second.send().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_partitions_is_removed(topics: Coordinator) -> None:
    first = Consumer(topics, "m1", rebalance_ms=10_000).beat()
    stubborn = first.reported()
    second = Consumer(topics, "m2").beat()
    first.send(topic_partitions=stubborn)
    topics.advance(9_999)
    assert first.send(topic_partitions=stubborn).error is ErrorCode.NONE
    topics.advance(1)
    assert set(group_of(topics).members) == {"m2"}
    second.beat()
    assert second.has() == {0, 1, 2, 3}


def test_a_member_without_topics_does_not_raise_the_epoch(topics: Coordinator) -> None:
    Consumer(topics, "m1").send(subscribed_topic_names=[])
    assert group_of(topics).group_epoch == 1
    joined = Consumer(topics, "m2").send(subscribed_topic_names=[])
    assert (group_of(topics).group_epoch, joined.response.member_epoch) == (1, 1)
    Consumer(topics, "m3").beat()
    assert group_of(topics).group_epoch == 2


def test_a_lost_answer_can_be_asked_for_again(topics: Coordinator) -> None:
    consumer = Consumer(topics, "m1")
    consumer.send()  # the answer is lost
    consumer.beat()
    assert (consumer.epoch, consumer.has()) == (1, {0, 1, 2, 3})
    other = Consumer(topics, "m2").beat()
    settle(consumer, other)
    late = consumer.send(member_epoch=consumer.epoch - 1)
    assert late.response.member_epoch == consumer.epoch


def test_members_with_wrong_epochs_are_fenced(topics: Coordinator) -> None:
    consumer = Consumer(topics, "m1").beat()
    assert consumer.send(member_epoch=9).error is ErrorCode.FENCED_MEMBER_EPOCH
    other = Consumer(topics, "m2").beat()
    settle(consumer, other)
    other.leave()
    settle(consumer)
    fenced = consumer.send(member_epoch=1)
    assert fenced.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "must abandon all its partitions" in fenced.response.error_message
    consumer.epoch, consumer.owned = 0, {}
    consumer.beat()
    assert consumer.has() == {0, 1, 2, 3}


def test_new_partitions_and_topics_are_assigned(topics: Coordinator) -> None:
    consumer = Consumer(topics, "m1", topics=["t", "later"]).beat()
    topics.catalog.counts["t"] = 6
    consumer.beat()
    assert consumer.has() == {0, 1, 2, 3, 4, 5}
    topics.catalog.counts["later"] = 1
    consumer.beat()
    assert consumer.has("later") == {0}
    del topics.catalog.counts["t"]
    settle(consumer)
    assert consumer.has() == set()


def test_a_changed_subscription_is_followed(topics: Coordinator) -> None:
    topics.catalog.counts["u"] = 2
    consumer = Consumer(topics, "m1").beat()
    consumer.beat(subscribed_topic_names=["u"])
    settle(consumer)
    assert (consumer.has(), consumer.has("u")) == (set(), {0, 1})


def test_partitions_of_a_dropped_topic_go_with_those_that_the_member_gives_up_already(
    topics: Coordinator,
) -> None:
    topics.catalog.counts["u"] = 2
    consumer = Consumer(topics, "m1", topics=("t", "u")).beat()
    Consumer(topics, "m2").beat()
    consumer.beat(topic_partitions=None)
    assert (len(consumer.has()), consumer.has("u")) == (1, {0, 1})
    consumer.beat(topic_partitions=None, subscribed_topic_names=["t"])
    assert (len(consumer.has()), consumer.has("u")) == (1, set())
    member = group_of(topics).members["m1"]
    id_of = topics.catalog.id_of
    assert set(member.pending_revocation) == {id_of("t"), id_of("u")}


def test_regular_expressions_are_resolved_again_and_again(topics: Coordinator) -> None:
    topics.catalog.counts["orders-eu"] = 1
    consumer = Consumer(topics, "m1", topics=(), regex="orders-.*").beat()
    assert (consumer.has("orders-eu"), consumer.has()) == ({0}, set())
    topics.catalog.counts["orders-us"] = 2
    consumer.beat()
    assert consumer.has("orders-us") == {0, 1}
    consumer.beat(subscribed_topic_regex="", subscribed_topic_names=["t"])
    settle(consumer)
    assert (consumer.has("orders-eu"), consumer.has()) == (set(), {0, 1, 2, 3})
    assert group_of(topics).resolved == {}


def test_an_expression_finds_what_its_clients_may_see(topics: Coordinator) -> None:
    topics.catalog.counts.update({"orders-eu": 1, "orders-us": 2})
    visible = {"orders-eu"}
    shared = {"topics": (), "regex": "orders-.*"}
    consumer = Consumer(topics, "m1", may_see=visible.__contains__, **shared).beat()
    assert (consumer.has("orders-eu"), consumer.has("orders-us")) == ({0}, set())
    visible.add("orders-us")
    consumer.beat()
    assert consumer.has("orders-us") == {0, 1}
    visible.remove("orders-us")
    settle(consumer)
    assert (consumer.has("orders-eu"), consumer.has("orders-us")) == ({0}, set())


def test_clients_with_different_rights_do_not_take_turns(topics: Coordinator) -> None:
    topics.catalog.counts.update({"orders-eu": 1, "orders-us": 2})
    shared = {"topics": (), "regex": "orders-.*"}
    first = Consumer(topics, "m1", may_see={"orders-eu"}.__contains__, **shared).beat()
    second = Consumer(topics, "m2", may_see={"orders-us"}.__contains__, **shared)
    settle(second, first)
    assert group_of(topics).resolved == {"orders-.*": {"orders-eu", "orders-us"}}
    epoch = group_of(topics).group_epoch
    Consumer(topics, "m3", may_see=lambda name: False).beat()  # has no say in the others' topics
    settle(second, first)
    assert group_of(topics).resolved == {"orders-.*": {"orders-eu", "orders-us"}}
    assert group_of(topics).group_epoch == epoch + 1
    second.leave()
    first.beat()
    assert group_of(topics).resolved == {"orders-.*": {"orders-eu"}}


def test_the_assignor_that_most_members_name_decides(topics: Coordinator) -> None:
    first = Consumer(topics, "m1", assignor="range").beat()
    second = Consumer(topics, "m2", assignor="range")
    settle(second, first)
    assert (first.has(), second.has()) == ({0, 1}, {2, 3})


def test_the_first_assignor_of_the_broker_decides_when_no_member_names_one(
    new_coordinator: Callable[..., Coordinator],
) -> None:
    def assign(*assignors: Any) -> list[Any]:
        config = GroupConfig(offsets_topic_num_partitions=1, group_consumer_assignors=assignors)
        coordinator = new_coordinator(config).lead()
        coordinator.catalog.counts |= {"a": 1, "b": 1}
        members = [Consumer(coordinator, name, topics=("a", "b")) for name in ("m1", "m2")]
        settle(*members)
        return [len(member.has("a")) + len(member.has("b")) for member in members]

    assert assign("range", "uniform") == [2, 0]  # one member gets partition 0 of each topic
    assert assign("uniform", "range") == [1, 1]


def test_an_assignor_that_the_broker_does_not_offer_is_refused(
    new_coordinator: type[Coordinator],
) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_consumer_assignors=("uniform",))
    coordinator = new_coordinator(config).lead()
    refused = Consumer(coordinator, "m1", assignor="range").send()
    assert refused.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "Supported assignors: uniform." in refused.response.error_message


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_impossible_heartbeats_are_refused(
    topics: Coordinator, changes: dict[Any, Any], error: Any
) -> None:
    assert Consumer(topics, "m1").send(**changes).error is error


def test_a_full_group_takes_no_more_members(new_coordinator: type[Coordinator]) -> None:
    config = GroupConfig(offsets_topic_num_partitions=1, group_consumer_max_size=1)
    coordinator = new_coordinator(config).lead()
    first = Consumer(coordinator, "m1").beat()
    assert Consumer(coordinator, "m2").send().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.beat()


# Static members


def test_a_static_member_that_comes_back_keeps_its_partitions(topics: Coordinator) -> None:
    first = Consumer(topics, "m1", instance="i1")
    second = Consumer(topics, "m2", instance="i2")
    settle(first, second)
    kept = first.has()
    epoch = group_of(topics).group_epoch
    assert first.leave(epoch=-2).response.member_epoch == -2
    back = Consumer(topics, "m1-again", instance="i1").beat()
    assert back.has() == kept
    assert group_of(topics).group_epoch == epoch
    assert first.send(member_epoch=first.epoch).error is ErrorCode.FENCED_INSTANCE_ID
    second.beat()
    assert second.has() | back.has() == {0, 1, 2, 3}


def test_a_static_member_that_is_still_there_cannot_be_replaced(topics: Coordinator) -> None:
    Consumer(topics, "m1", instance="i1").beat()
    twin = Consumer(topics, "m2", instance="i1").send()
    assert twin.error is ErrorCode.UNRELEASED_INSTANCE_ID
    again = Consumer(topics, "m1", instance="i1").send()
    assert again.error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_removed(topics: Coordinator) -> None:
    first = Consumer(topics, "m1", instance="i1").beat()
    first.leave(epoch=-2)
    topics.advance(45_000)
    assert group_of(topics).members == {}


def test_a_group_may_have_a_session_and_an_interval_of_its_own(topics: Coordinator) -> None:
    topics.overrides[GROUP, "consumer.session.timeout.ms"] = 7_000
    topics.overrides[GROUP, "consumer.heartbeat.interval.ms"] = 300
    assert Consumer(topics, "m1").send().response.heartbeat_interval_ms == 300
    topics.advance(6_999)
    assert set(group_of(topics).members) == {"m1"}
    topics.advance(1)
    assert group_of(topics).members == {}


# The log


def test_whatever_happens_meanwhile_waits_for_the_log(
    topics: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    topics.log.hold()
    first = Consumer(topics, "m1").send()
    second = Consumer(topics, "m2").send()
    assert first.is_waiting
    assert second.is_waiting
    classic = topics.join(GROUP)
    commit = topics.commit({("t", 0): 1}, member="m1", generation=1, version=9)
    assert classic.is_waiting
    assert commit.is_waiting
    topics.log.release()
    topics.loop.run()
    assert classic.error is ErrorCode.MEMBER_ID_REQUIRED
    assert commit_errors(commit) == [ErrorCode.NONE]
    assert (first.response.member_epoch, second.response.member_epoch) == (1, 2)


def test_what_is_not_stored_has_not_happened(topics: Coordinator) -> None:
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    consumer = Consumer(topics, "m1")
    assert consumer.send().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in topics.shard().consumer.groups
    assert consumer.beat().has() == {0, 1, 2, 3}


def test_whoever_waits_is_sent_away_when_the_broker_resigns(topics: Coordinator) -> None:
    topics.log.hold()
    first, second = Consumer(topics, "m1").send(), Consumer(topics, "m2").send()
    topics.service.coordinator.on_resigned(0)
    topics.loop.run()
    assert second.error is ErrorCode.NOT_COORDINATOR
    topics.log.release()
    topics.loop.run()
    assert first.error is ErrorCode.NOT_COORDINATOR


def test_a_group_goes_on_after_a_failover(
    topics: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    first, second = Consumer(topics, "m1"), Consumer(topics, "m2")
    settle(first, second)
    other = new_coordinator(log=topics.log, clock=topics.clock, catalog=topics.catalog).lead()
    first.coordinator = second.coordinator = other
    first.beat()
    other.advance(44_999)
    first.beat()
    other.advance(1)
    assert set(group_of(other).members) == {"m1"}


def test_records_are_written_as_kafka_writes_them(topics: Coordinator) -> None:
    topic_id = topics.catalog.id_of("t")
    member = ConsumerMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5,
        subscribed_topic_names=frozenset({"t"}),
        member_epoch=2,
        previous_member_epoch=1,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={topic_id: frozenset({1, 0})},
    )
    key = struct.pack(">h", 1) + b"g" + struct.pack(">h", 1) + b"m"
    record = member_record("g", "m", member)
    assert record.key == b"\0\5" + key
    told = b"\0\0" + b"\2c" + b"\3/h" + b"\2\2t" + b"\1" + struct.pack(">i", 5) + b"\0"
    not_classic = b"\1" + b"\0\1\0"
    assert record.value == b"\0\0" + told + not_classic
    record = current_record("g", "m", member)
    assert record.key == b"\0\x08" + key
    assert record.value == (
        b"\0\0"
        + struct.pack(">iib", 2, 1, 1)
        + b"\2"
        + topic_id.bytes
        + b"\3"
        + struct.pack(">ii", 0, 1)
        + b"\0"
        + b"\1"
        + b"\0"
    )
    assert current_record("g", "m", None).value is None


# With offsets, admin requests and classic groups


def test_members_commit_and_fetch_with_their_epoch(
    topics: Coordinator, commit_errors: Callable[[Any], list[ErrorCode]]
) -> None:
    consumer = Consumer(topics, "m1").beat()

    def commit(**who: Any) -> Any:
        (error,) = commit_errors(topics.commit({("t", 0): 5}, **({"version": 9} | who)))
        return error

    assert commit(member="m1", generation=1) is ErrorCode.NONE
    assert commit(member="m1", generation=0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(member="m1", generation=1, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(member="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit() is ErrorCode.UNKNOWN_MEMBER_ID

    def fetch(member_id: Any, epoch: int) -> Any:
        group = OffsetFetchRequest.Group(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None
        )
        request = OffsetFetchRequest(groups=[group])
        return topics.send(topics.service.offset_fetch, request, 9).response.groups[0].error_code

    assert fetch("m1", 1) == ErrorCode.NONE
    assert fetch("m1", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("m1", -1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(None, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(None, -1) == ErrorCode.NONE
    consumer.leave()
    assert commit() is ErrorCode.NONE


def test_a_consumer_group_is_described(topics: Coordinator) -> None:
    Consumer(topics, "m1").beat()
    Consumer(topics, "m2").beat()

    def describe(group_id: Any) -> Any:
        request = ConsumerGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=False
        )
        return topics.send(topics.service.consumer_group_describe, request).response.groups[0]

    group = describe(GROUP)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert group.assignor_name == "uniform"
    first = next(m for m in group.members if m.member_id == "m1")
    (topic,) = first.assignment.topic_partitions
    assert (topic.topic_name, list(topic.partitions)) == ("t", [0, 1, 2, 3])
    assert len(first.target_assignment.topic_partitions[0].partitions) == 2
    assert describe("no").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    classic = topics.send(
        topics.service.describe_groups, DescribeGroupsRequest(groups=[GROUP]), 6
    ).response.groups[0]
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_consumer_groups_are_listed_and_deleted(
    topics: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    consumer = Consumer(topics, "m1").beat()
    topics.commit({("t", 0): 5}, member="m1", generation=1, version=9)
    listing = topics.send(
        topics.service.list_groups, ListGroupsRequest(types_filter=["consumer"])
    ).response
    assert [(g.group_id, g.group_type, g.group_state) for g in listing.groups] == [
        (GROUP, "consumer", "Stable")
    ]

    def delete() -> Any:
        request = DeleteGroupsRequest(groups_names=[GROUP])
        return topics.send(topics.service.delete_groups, request).response.results[0].error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    consumer.leave()
    assert delete() == ErrorCode.NONE
    assert consumer.send(member_epoch=1).error is ErrorCode.GROUP_ID_NOT_FOUND
    loaded = new_coordinator(log=topics.log).lead()
    assert (loaded.shard().consumer.groups, loaded.committed()) == ({}, {})


def test_a_consumer_group_is_forgotten_with_its_members(
    topics: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    consumer = Consumer(topics, "m1").beat()
    topics.commit({("t", 0): 5}, member="m1", generation=1, version=9)
    assert topics.send(topics.service.forget, GROUP).response == ErrorCode.NONE
    assert consumer.send().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumer.send(member_epoch=-1).error is ErrorCode.UNKNOWN_MEMBER_ID
    for each in (topics, new_coordinator(log=topics.log).lead()):
        assert (each.shard().consumer.groups, each.committed()) == ({}, {})
    topics.advance(60_000)  # no session is left that could end
    assert topics.shard().kinds.all_groups() == []


def test_an_empty_consumer_group_expires_with_its_offsets(topics: Coordinator) -> None:
    topics.service.start()
    consumer = Consumer(topics, "m1").beat()
    topics.commit({("t", 0): 5}, member="m1", generation=1, version=9)
    consumer.leave()
    topics.advance(8 * 24 * 60 * 60 * 1000)
    assert topics.shard().consumer.groups == {}
    assert topics.committed() == {}


def test_an_empty_group_changes_its_kind(
    topics: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    topics.commit({("t", 0): 5})
    consumer = Consumer(topics, "m1").beat()
    assert topics.shard().classic.groups == {}
    assert topics.committed() == {("t", 0): 5}
    consumer.leave()
    topics.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert topics.join(GROUP).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(topics.shard().consumer.groups) == {GROUP}
    member = topics.stable(GROUP)
    assert topics.shard().consumer.groups == {}
    loaded = new_coordinator(log=topics.log).lead()
    assert set(loaded.shard().classic.groups[GROUP].members) == {member}
    assert loaded.shard().consumer.groups == {}


actions = st.one_of(
    st.tuples(st.just("beat"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 3)),
    st.tuples(st.just("grow"), st.sampled_from(["t", "u"])),
    st.tuples(st.just("subscribe"), st.integers(0, 3), st.sampled_from([["t"], ["u"], ["t", "u"]])),
    st.tuples(st.just("advance"), st.sampled_from([5_000, 40_000])),
)


@settings(max_examples=40)
@given(st.lists(actions, max_size=30))
def test_no_partition_has_two_owners_and_loading_equals_living(
    new_coordinator: type[Coordinator], script: Any
) -> None:
    coordinator = new_coordinator()
    coordinator.lead()
    coordinator.catalog.counts |= {"t": 3, "u": 2}
    consumers = [Consumer(coordinator, f"m{i}") for i in range(4)]

    def beat(consumer: Consumer, **changes: Any) -> None:
        reply = consumer.send(**changes)
        if reply.error is ErrorCode.NONE:
            consumer.follow(reply.response)
        else:
            consumer.epoch, consumer.owned = 0, {}
            consumer.follow(consumer.send().response)

    for name, *arguments in script:
        if name == "beat":
            beat(consumers[arguments[0]])
        elif name == "subscribe":
            index, topics = arguments
            consumers[index].topics = topics
            beat(consumers[index], subscribed_topic_names=topics)
        elif name == "leave":
            consumers[arguments[0]].leave()
            consumers[arguments[0]].epoch, consumers[arguments[0]].owned = 0, {}
        elif name == "grow":
            coordinator.catalog.counts[arguments[0]] += 1
        else:
            coordinator.advance(arguments[0])
        group = coordinator.shard().consumer.groups.get(GROUP)
        held = [
            (topic_id, partition)
            for member in (group.members.values() if group else ())
            for topic_id, partitions in member.assigned.items()
            for partition in partitions
        ]
        assert len(held) == len(set(held))

    for _ in range(6):
        for consumer in consumers:
            beat(consumer)
    group = group_of(coordinator)
    assert group.state.value == "Stable"
    subscribed = group.subscribed_topics()
    assert sum(len(c.has(t)) for c in consumers for t in ("t", "u")) == sum(
        coordinator.catalog.counts[name] for name in subscribed
    )
    loaded = new_coordinator(log=coordinator.log, catalog=coordinator.catalog)
    twin = group_of(loaded.lead())
    for attribute in type(group).__slots__:
        assert getattr(twin, attribute) == getattr(group, attribute)
