"""A shard loaded from another shard's log has the same durable state."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import DeleteGroupsRequest
from embedkafka.wire.protocol.messages.transactions import TxnOffsetCommitRequest
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from tests.unit.broker.coordinator.groups.conftest import Coordinator

OFFSETS = TopicPartition("__consumer_offsets", 0)
GROUPS = ("g", "h")

operations = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(GROUPS), st.sampled_from([None, "i1", "i2"])),
    st.tuples(st.just("rejoin"), st.integers(0, 5)),
    st.tuples(st.just("sync"), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("txn"), st.sampled_from(GROUPS), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("end"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(GROUPS)),
    st.tuples(st.just("advance"), st.sampled_from([1_000, 11_000, 8 * 24 * 3600 * 1000])),
)


class Actors:
    """Members that keep their ids and generations, on one coordinator."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.members = []

    def join(self, group: str, instance: str | None) -> None:
        reply = self.coordinator.join(group, instance=instance)
        if not reply.is_waiting and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            member = reply.response.member_id
            reply = self.coordinator.join(group, member)
        self.members.append([group, instance, reply])

    def rejoin(self, index: int) -> None:
        if index < len(self.members):
            group, instance, reply = self.members[index]
            if not reply.is_waiting and reply.error is ErrorCode.NONE:
                member = reply.response.member_id
                self.members[index][2] = self.coordinator.join(group, member, instance=instance)

    def sync(self, index: int) -> None:
        if index < len(self.members):
            group, instance, reply = self.members[index]
            if not reply.is_waiting and reply.error is ErrorCode.NONE:
                response = reply.response
                given = {m.member_id: m.member_id.encode() for m in response.members}
                self.coordinator.sync(
                    response.member_id,
                    response.generation_id,
                    given,
                    group=group,
                    instance=instance,
                )

    def leave(self, index: int) -> None:
        if index < len(self.members):
            group, instance, reply = self.members[index]
            if not reply.is_waiting:
                self.coordinator.leave((reply.response.member_id, instance), group=group)

    def commit(self, group: str, partition: int, offset: int) -> None:
        self.coordinator.commit({("t", partition): offset}, group=group)

    def txn(self, group: str, partition: int, producer: Any) -> None:
        topic = TxnOffsetCommitRequest.Topic(
            name="t",
            partitions=[
                TxnOffsetCommitRequest.Topic.Partition(
                    partition_index=partition, committed_offset=7, committed_metadata=""
                )
            ],
        )
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer,
            producer_epoch=0,
            topics=[topic],
        )
        self.coordinator.send(self.coordinator.service.txn_offset_commit, request, 3)

    def end(self, producer: Any, committed: bool) -> None:
        marker = EndTransactionMarker(
            control_type=ControlType.COMMIT if committed else ControlType.ABORT,
            coordinator_epoch=0,
        )
        batch = build_end_transaction_marker(
            marker, timestamp=0, producer_id=producer, producer_epoch=0
        )
        self.coordinator.log.append(OFFSETS, batch, lambda error, offset: None)
        self.coordinator.service.on_transaction_completed(0, producer, committed=committed)
        self.coordinator.loop.run()

    def delete(self, group: str) -> None:
        request = DeleteGroupsRequest(groups_names=[group])
        self.coordinator.send(self.coordinator.service.delete_groups, request)

    def advance(self, ms: int) -> None:
        self.coordinator.advance(ms)


def members_of(group: Any) -> dict[Any, Any]:
    return {
        member.member_id: (
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata_for(group.protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    }


def durable(group: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any, dict[Any, Any]]:
    return (
        group.state,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.static_members,
        group.subscribed_topics,
        members_of(group),
    )


@settings(max_examples=60)
@given(st.lists(operations, max_size=25))
def test_loading_equals_living(new_coordinator: type[Coordinator], script: Any) -> None:
    live = new_coordinator()
    live.lead()
    live.service.start()
    actors = Actors(live)
    for name, *arguments in script:
        getattr(actors, name)(*arguments)

    loaded = new_coordinator(log=live.log, clock=live.clock).lead()
    assert loaded.shard().offsets._committed == live.shard().offsets._committed
    assert loaded.shard().offsets._pending == live.shard().offsets._pending
    for group_id, group in live.shard().classic.groups.items():
        if group.state is ClassicGroupState.STABLE or (
            group.state is ClassicGroupState.EMPTY and group.generation_id > 0
        ):
            assert durable(loaded.shard().classic.groups[group_id]) == durable(group)
    assert loaded.shard().classic.groups.keys() <= live.shard().classic.groups.keys()
