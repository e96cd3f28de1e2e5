"""The group coordinator of one broker: every group API, on the `coordinator` loop.

Any thread may call these methods. Each posts its request to the loop and returns; `reply` is
called once, on the loop, when the answer is known.

Owner: the `coordinator` loop, shared with the transaction coordinator.
Not here: decisions (`shard.py`), their execution (`broker/coordinator/`). Handlers do the work that
needs the metadata cache: they check that topics exist, map topic ids, and fill in authorized
operations.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import TransactionalProducer
from embedkafka.broker.coordinator.groups.calls import (
    Committer,
    GroupCall,
    HeartbeatCall,
    SyncCall,
)
from embedkafka.broker.coordinator.groups.classic.describe import (
    describe,
    describe_error,
    describe_missing,
)
from embedkafka.broker.coordinator.groups.classic.waits import MemberWait, waits_in
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.describe import (
    describe_consumer,
    describe_consumer_error,
)
from embedkafka.broker.coordinator.groups.consumer.heartbeat import (
    ConsumerHeartbeatCall,
    heartbeat_error,
    refuse_invalid,
)
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.coordinator.groups.decision import Decision, TimerChange, TimerKey
from embedkafka.broker.coordinator.groups.kinds import Group
from embedkafka.broker.coordinator.groups.offsets.commits import CommitCall
from embedkafka.broker.coordinator.groups.offsets.messages import (
    commit_response,
    delete_response,
    fetch_error,
    fetch_response_before_v8,
    fetched_group,
    group_asked_before_v8,
    offsets_to_commit,
    partitions_asked,
    partitions_to_delete,
    txn_commit_response,
    txn_offsets_to_commit,
)
from embedkafka.broker.coordinator.groups.offsets.removal import (
    GroupDeleteCall,
    GroupExpireCall,
    OffsetDeleteCall,
)
from embedkafka.broker.coordinator.groups.offsets.totals import OffsetTotals
from embedkafka.broker.coordinator.groups.ports import GroupOverrides, TopicCatalog
from embedkafka.broker.coordinator.groups.sequencer import GroupEvent
from embedkafka.broker.coordinator.groups.shard import GroupShard
from embedkafka.broker.coordinator.groups.timers import GroupTimers
from embedkafka.broker.coordinator.hosting import ShardHost
from embedkafka.broker.coordinator.ports import CoordinatorParts, KnownLeaders
from embedkafka.broker.coordinator.runtime import CoordinatorRuntime
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from embedkafka.wire.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from embedkafka.wire.records.compression import Compression

_OF_MEMBERS: Final = (SyncCall, HeartbeatCall)
"""Calls that a shard which has not loaded refuses at once: it knows no such member yet."""


class GroupService:
    """Answers group requests for the shards this broker leads."""

    def __init__(
        self,
        config: GroupConfig,
        parts: CoordinatorParts,
        *,
        random: Random,
        topics: TopicCatalog,
        leaders: KnownLeaders,
        overrides: GroupOverrides,
        live_members: LiveMembers,
    ) -> None:
        self._config = config
        self._topics = topics
        self._overrides = overrides
        self._random = random
        self._live_members = live_members
        self.offset_totals = OffsetTotals()
        self._timers = GroupTimers(parts, self._on_timer)
        host: ShardHost[GroupShard, TimerChange] = ShardHost(
            GROUP_METADATA_TOPIC,
            parts,
            leaders=leaders,
            new_shard=self._new_shard,
            effects=self._timers,
            is_bound_to_epoch=False,
            compression=Compression(config.offsets_topic_compression_codec),
        )
        self.coordinator = CoordinatorRuntime(
            host, parts, partition_count=config.offsets_topic_num_partitions
        )

    def start(self, *, partition_count: int | None = None) -> None:
        """Starts to look for expired offsets every `offsets_retention_check_interval_ms`.

        `partition_count` is that of the offsets topic, or None if the topic does not exist yet.
        """
        self.coordinator.start(partition_count)
        self.coordinator.every(self._config.offsets_retention_check_interval_ms, _expire)

    def stop(self) -> None:
        """Releases every shard, and sends waiting clients to look for another coordinator."""
        self.coordinator.stop()

    # Membership

    def submit(
        self,
        call: GroupCall,
        decide: Callable[[GroupShard, int], Decision] | None = None,
        *,
        allow_empty_id: bool = False,
    ) -> None:
        """Decides the call on the loop, or refuses it; most requests need a group id."""
        if call.group_id or allow_empty_id:
            self.coordinator.submit(
                call.group_id,
                decide or partial(_decide, call),
                call.reply,
                call.refusal,
                may_wait=not isinstance(call, _OF_MEMBERS),
            )
        else:
            call.reply(call.refusal(ErrorCode.INVALID_GROUP_ID))

    def consumer_group_heartbeat(self, call: ConsumerHeartbeatCall) -> None:
        """Lets a member join, stay in, or leave a consumer group.

        Any broker refuses a request that makes no sense, even if it is not the coordinator.
        """
        try:
            refuse_invalid(call, self._config.group_consumer_assignors)
        except ApiError as error:
            call.reply(heartbeat_error(error.code, error.message))
            return
        self.submit(call)

    # Offsets

    def offset_commit(
        self,
        request: OffsetCommitRequest,
        version: int,
        reply: Callable[[OffsetCommitResponse], None],
    ) -> None:
        """Commits by topic name; the topic ids of v10 are only copied into the answer."""

        def answer(errors: Sequence[ErrorCode]) -> None:
            reply(commit_response(request, errors))

        committer = Committer(
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
            version=version,
        )
        offsets = offsets_to_commit(request)
        call = CommitCall(committer=committer, offsets=offsets, reply=answer)
        self.submit(call, allow_empty_id=True)

    def offset_fetch(
        self,
        request: OffsetFetchRequest,
        version: int,
        reply: Callable[[OffsetFetchResponse], None],
    ) -> None:
        """Reads by topic name; topic ids are only copied, and missing if the client wants all."""

        def answer(fetch: Callable[[OffsetFetchRequest.Group], OffsetFetchResponse.Group]) -> None:
            if version >= 8:
                reply(OffsetFetchResponse(groups=[fetch(group) for group in request.groups]))
            else:
                group = fetch(group_asked_before_v8(request))
                reply(fetch_response_before_v8(request, group, version))

        group_ids = [group.group_id for group in request.groups] or [request.group_id]
        fetch = partial(self._fetch, request.require_stable)
        if not self.coordinator.post(partial(answer, fetch), keys=group_ids):
            answer(partial(fetch_error, error=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _fetch(
        self, require_stable: bool, asked: OffsetFetchRequest.Group
    ) -> OffsetFetchResponse.Group:
        try:
            shard = self.coordinator.require(asked.group_id)
        except ApiError as error:
            return fetch_error(asked, error=error.code)
        stale = shard.commits.find_fetch_error(asked.group_id, asked.member_id, asked.member_epoch)
        if stale is not None:
            return fetch_error(asked, error=stale)
        fetched = shard.commits.fetch(
            asked.group_id, partitions_asked(asked), require_stable=require_stable
        )
        return fetched_group(asked, fetched)

    def txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        reply: Callable[[TxnOffsetCommitResponse], None],
    ) -> None:
        """Keeps offsets until the producer's transaction ends.

        The handler has verified, or from v5 on added, the offsets partition in the transaction.
        """

        def answer(errors: Sequence[ErrorCode]) -> None:
            reply(txn_commit_response(request, errors))

        committer = Committer(
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
            producer=TransactionalProducer(request.producer_id, request.producer_epoch),
            version=version,
        )
        offsets = txn_offsets_to_commit(request)
        self.submit(CommitCall(committer=committer, offsets=offsets, reply=answer))

    def on_transaction_completed(
        self, partition: int, producer_id: int, *, committed: bool
    ) -> None:
        """A marker was written to an offsets partition that this broker leads."""
        complete = partial(self._complete_transaction, partition, producer_id, committed)
        self.coordinator.post(complete)

    def _complete_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        for shard in self.coordinator.active_shards():
            # A shard that is still loading finds the marker in the log.
            if shard.partition == partition:
                shard.complete_transaction(producer_id, committed=committed)

    def offset_delete(
        self, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        def answer(answer: tuple[ErrorCode, Sequence[ErrorCode]]) -> None:
            reply(delete_response(request, *answer))

        call = OffsetDeleteCall(
            group_id=request.group_id, partitions=partitions_to_delete(request), reply=answer
        )
        self.submit(call, lambda shard, now_ms: shard.delete_offsets(call))

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions are gone: deletes their offsets in every group."""
        doomed = tuple(partitions)

        def forget(shard: GroupShard, now_ms: int) -> Decision:
            return shard.forget_partitions(doomed)

        self.coordinator.post(partial(self.coordinator.decide_all, forget))

    # Looking in

    def waiting(self) -> list[tuple[MemberWait, float | None]]:
        """Members of classic groups that wait for an answer, and until when."""
        return self.coordinator.ask(lambda: list(self._waiting())) or []

    def delayed(self) -> dict[str, int]:
        """How many members and groups wait for a time, by Kafka's names of the purgatories."""
        return self.coordinator.ask(self._timers.count) or {}

    def _waiting(self) -> Iterator[tuple[MemberWait, float | None]]:
        for shard in self.coordinator.active_shards():
            for group in shard.classic.groups.values():
                for wait in waits_in(group):
                    yield wait, self._timers.find_deadline_ms(shard.partition, wait.timer)

    # Administration

    def describe_groups(
        self,
        request: DescribeGroupsRequest,
        version: int,
        reply: Callable[[DescribeGroupsResponse], None],
    ) -> None:
        def run() -> None:
            groups = [self._describe(group_id, version) for group_id in request.groups]
            reply(DescribeGroupsResponse(groups=groups))

        if not self.coordinator.post(run, keys=request.groups):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            groups = [describe_error(group_id, error) for group_id in request.groups]
            reply(DescribeGroupsResponse(groups=groups))

    def _describe(self, group_id: str, version: int) -> DescribeGroupsResponse.Group:
        try:
            shard = self.coordinator.require(group_id)
        except ApiError as error:
            return describe_error(group_id, error.code)
        group = shard.classic.groups.get(group_id)
        if group is not None:
            return describe(group_id, group)
        is_other = shard.kinds.find_group(group_id) is not None
        return describe_missing(group_id, version=version, is_other=is_other)

    def list_groups(
        self, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
    ) -> None:
        listing = partial(self._on_list_groups, request, reply)
        if not self.coordinator.post(listing):
            reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[]))

    def _on_list_groups(
        self, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
    ) -> None:
        if not self.coordinator.is_open:
            reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[]))
            return
        is_loading = self.coordinator.is_loading
        groups = [
            listed
            for shard in self.coordinator.active_shards()
            for listed in _listed(
                shard.kinds.all_groups(),
                states=request.states_filter,
                types=request.types_filter,
            )
        ]
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE
        reply(ListGroupsResponse(error_code=error, groups=groups))

    def consumer_group_describe(
        self,
        request: ConsumerGroupDescribeRequest,
        reply: Callable[[ConsumerGroupDescribeResponse], None],
    ) -> None:
        def run() -> None:
            groups = [self._describe_consumer(group_id) for group_id in request.group_ids]
            reply(ConsumerGroupDescribeResponse(groups=groups))

        if not self.coordinator.post(run, keys=request.group_ids):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            groups = [describe_consumer_error(group_id, error) for group_id in request.group_ids]
            reply(ConsumerGroupDescribeResponse(groups=groups))

    def _describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponse.Group:
        if not group_id:
            return describe_consumer_error(group_id, ErrorCode.INVALID_GROUP_ID)
        try:
            shard = self.coordinator.require(group_id)
        except ApiError as error:
            return describe_consumer_error(group_id, error.code)
        group = shard.consumer.groups.get(group_id)
        if group is None:
            is_other = shard.kinds.find_group(group_id) is not None
            what = "is not a consumer group." if is_other else "not found."
            return describe_consumer_error(
                group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}"
            )
        return describe_consumer(
            group, self._topics.topics(), self._config.group_consumer_assignors
        )

    def delete_groups(
        self, request: DeleteGroupsRequest, reply: Callable[[DeleteGroupsResponse], None]
    ) -> None:
        """Deletes empty groups, and answers when all tombstones are stored."""
        group_ids = list(dict.fromkeys(request.groups_names))
        results: dict[str, ErrorCode] = {}

        def note(group_id: str, error: ErrorCode) -> None:
            results[group_id] = error
            if len(results) == len(group_ids):
                reply(
                    DeleteGroupsResponse(
                        results=[
                            DeleteGroupsResponse.Group(group_id=one, error_code=results[one])
                            for one in group_ids
                        ]
                    )
                )

        if not group_ids:
            reply(DeleteGroupsResponse(results=[]))
        for group_id in group_ids:
            self._delete_group(group_id, partial(note, group_id))

    def expire_group(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        """Lets a group's offsets expire now, and answers when all tombstones are stored."""
        self.submit(GroupExpireCall(group_id=group_id, reply=reply))

    def forget(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        """Deletes a group with its members; those that are still there may join again."""
        call = GroupDeleteCall(group_id=group_id, reply=reply, with_members=True)
        self.submit(call, allow_empty_id=True)

    def _delete_group(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        self.submit(GroupDeleteCall(group_id=group_id, reply=reply), allow_empty_id=True)

    # The shell

    def _on_timer(self, partition: int, key: TimerKey) -> None:
        self.coordinator.decide(partition, partial(_decide, key))

    def _new_shard(self, partition: int, epoch: int) -> GroupShard:
        return GroupShard(
            partition,
            self._config,
            self._new_uuid,
            self._topics,
            self._overrides,
            self._live_members,
            self.offset_totals,
        )

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


def _decide(event: GroupEvent, shard: GroupShard, now_ms: int) -> Decision:
    return shard.decide(event, now_ms=now_ms)


def _expire(shard: GroupShard, now_ms: int) -> Decision:
    return shard.expire_offsets(now_ms=now_ms)


def _listed(
    groups: Iterable[Group], *, states: Sequence[str], types: Sequence[str]
) -> list[ListGroupsResponse.Group]:
    """The groups in one of `states` and of one of `types`, in any case; no names let all pass."""
    wanted_states = {name.lower() for name in states}
    wanted_types = {name.lower() for name in types}
    return [
        ListGroupsResponse.Group(
            group_id=group.group_id,
            protocol_type=group.listed_protocol_type,
            group_state=group.state_name,
            group_type=group.group_type.value,
        )
        for group in groups
        if (not wanted_types or group.group_type.value in wanted_types)
        and (not wanted_states or group.state_name.lower() in wanted_states)
    ]
