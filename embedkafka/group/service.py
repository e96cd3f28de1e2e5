"""The group coordinator of one broker: every group API, on the `coordinator` loop.

Methods may be called from any thread. Each posts its request to the loop and returns; `reply` is
called on the loop, once, when the answer is known.

Owner: the `coordinator` loop, shared with the transaction coordinator.
Not here: decisions (`shard.py`), their carrying out (`hosting.py`), and what needs the metadata
cache: whether topics exist, topic ids for names, authorized operations. Handlers do that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import TypeVar
from uuid import UUID

from embedkafka.group.admin import (
    describe,
    describe_consumer,
    describe_consumer_error,
    describe_error,
    list_classic,
    list_consumer,
)
from embedkafka.group.commits import Committer
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer_heartbeat import heartbeat_error
from embedkafka.group.decision import Decision, TransactionalProducer
from embedkafka.group.hosting import HostedShard, ShardHost
from embedkafka.group.membership_messages import JoinAttempt, join_error, sync_error
from embedkafka.group.offset_messages import (
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
from embedkafka.group.ports import (
    CoordinatorLoop,
    CoordinatorTimer,
    GroupOverrides,
    OffsetsLeaders,
    PartitionReader,
    PartitionWriter,
    TopicCatalog,
)
from embedkafka.group.shard import Shard
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from embedkafka.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from embedkafka.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.ids import TopicPartition

R = TypeVar("R")


class GroupService:
    """Answers group requests for the shards this broker leads."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        loop: CoordinatorLoop,
        clock: Clock,
        timer: CoordinatorTimer,
        writer: PartitionWriter,
        reader: PartitionReader,
        random: Random,
        topics: TopicCatalog | None = None,
        leaders: OffsetsLeaders | None = None,
        overrides: GroupOverrides | None = None,
    ) -> None:
        """Without `topics` consumer groups (KIP-848) are refused with UNSUPPORTED_VERSION."""
        self._config = config
        self._partition_count = config.offsets_topic_num_partitions
        self._topics = topics
        self._overrides = overrides
        self._loop = loop
        self._clock = clock
        self._timer = timer
        self._random = random
        self._is_open = True
        self._host = ShardHost(
            new_shard=self._new_shard,
            loop=loop,
            clock=clock,
            timer=timer,
            writer=writer,
            reader=reader,
            leaders=leaders,
        )

    def start(self, *, partition_count: int | None = None) -> None:
        """Begins to look for expired offsets, every `offsets_retention_check_interval_ms`.

        `partition_count` is that of the offsets topic, if it exists; else it will be as configured.
        """
        self._partition_count = partition_count or self._config.offsets_topic_num_partitions
        self._schedule_expiry()

    def stop(self) -> None:
        """Lets every shard go; requests that wait are told to look for another coordinator."""
        self._loop.post(self._close)

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic whose leader coordinates the group."""
        return coordinator_partition(group_id, self._partition_count)

    # Leadership

    def on_leading(self, partition: int, epoch: int) -> None:
        """This broker leads the offsets partition from `epoch` on: its groups are loaded."""
        self._loop.post(partial(self._host.lead, partition, epoch))

    def on_resigned(self, partition: int, epoch: int | None = None) -> None:
        """This broker leads the partition no longer (since `epoch`, or whatever epoch it had)."""
        self._loop.post(partial(self._host.resign, partition, epoch))

    def on_metadata_changed(self) -> None:
        """This broker has heard from the controller, maybe of leaders of offsets partitions."""
        self._loop.post(self._host.on_leaders_changed)

    # Membership

    def join_group(
        self,
        request: JoinGroupRequest,
        client_id: str,
        client_host: str,
        version: int,
        reply: Callable[[JoinGroupResponse], None],
    ) -> None:
        answer = reply if version >= 7 else partial(_answer_join_before_v7, reply)
        attempt = JoinAttempt(
            request=request,
            client_id=client_id,
            client_host=client_host,
            version=version,
            reply=answer,
        )

        def decide(shard: Shard) -> Decision:
            return shard.join(attempt, now_ms=self._clock.now_ms())

        def refuse(error: ErrorCode) -> JoinGroupResponse:
            return join_error(error, request.member_id)

        self._submit(request.group_id, decide, answer, refuse)

    def sync_group(
        self,
        request: SyncGroupRequest,
        version: int,
        reply: Callable[[SyncGroupResponse], None],
    ) -> None:
        def decide(shard: Shard) -> Decision:
            now_ms = self._clock.now_ms()
            return shard.sync(request, version=version, reply=reply, now_ms=now_ms)

        def refuse(error: ErrorCode) -> SyncGroupResponse:
            # The rebalance was lost with the former coordinator: the member must join again, and
            # need not look for the coordinator. Older clients do not expect the loading error.
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)

        self._submit(request.group_id, decide, reply, refuse, may_wait=False)

    def heartbeat(
        self, request: HeartbeatRequest, reply: Callable[[HeartbeatResponse], None]
    ) -> None:
        def decide(shard: Shard) -> Decision:
            return shard.heartbeat(request, reply=reply, now_ms=self._clock.now_ms())

        def refuse(error: ErrorCode) -> HeartbeatResponse:
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)

        self._submit(request.group_id, decide, reply, refuse, may_wait=False)

    def leave_group(
        self,
        request: LeaveGroupRequest,
        version: int,
        reply: Callable[[LeaveGroupResponse], None],
    ) -> None:
        def decide(shard: Shard) -> Decision:
            now_ms = self._clock.now_ms()
            return shard.leave(request, version=version, reply=reply, now_ms=now_ms)

        def refuse(error: ErrorCode) -> LeaveGroupResponse:
            return LeaveGroupResponse(error_code=error)

        self._submit(request.group_id, decide, reply, refuse)

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        version: int,
        reply: Callable[[ConsumerGroupHeartbeatResponse], None],
    ) -> None:
        """Joins, keeps in, or leaves a consumer group."""
        if self._topics is None:
            reply(heartbeat_error(ErrorCode.UNSUPPORTED_VERSION))
            return

        def decide(shard: Shard) -> Decision:
            return shard.consumers.heartbeat(
                request,
                client_id=client_id,
                client_host=client_host,
                version=version,
                reply=reply,
                now_ms=self._clock.now_ms(),
            )

        self._submit(request.group_id, decide, reply, heartbeat_error, allow_empty_id=True)

    # Offsets

    def offset_commit(
        self,
        request: OffsetCommitRequest,
        version: int,
        reply: Callable[[OffsetCommitResponse], None],
    ) -> None:
        """Commits by topic name; ids, which v10 has instead, are only carried to the answer."""

        def answer(errors: Sequence[ErrorCode]) -> None:
            reply(commit_response(request, errors))

        def decide(shard: Shard) -> Decision:
            now_ms = self._clock.now_ms()
            committer = Committer(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation_id=request.generation_id_or_member_epoch,
                version=version,
            )
            offsets = offsets_to_commit(request, now_ms)
            return shard.commits.commit(committer, offsets, reply=answer, now_ms=now_ms)

        def refuse(error: ErrorCode) -> Sequence[ErrorCode]:
            return [error] * sum(len(topic.partitions) for topic in request.topics)

        self._submit(request.group_id, decide, answer, refuse, allow_empty_id=True)

    def offset_fetch(
        self,
        request: OffsetFetchRequest,
        version: int,
        reply: Callable[[OffsetFetchResponse], None],
    ) -> None:
        """Reads by topic name; ids are only carried along, and absent when all are asked for."""

        def answer(fetch: Callable[[OffsetFetchRequest.Group], OffsetFetchResponse.Group]) -> None:
            if version >= 8:
                reply(OffsetFetchResponse(groups=[fetch(group) for group in request.groups]))
            else:
                group = fetch(group_asked_before_v8(request))
                reply(fetch_response_before_v8(request, group, version))

        group_ids = [group.group_id for group in request.groups] or [request.group_id]
        fetch = partial(self._fetch, request.require_stable)
        if not self._post_when_settled(group_ids, partial(answer, fetch)):
            answer(partial(fetch_error, error=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _fetch(
        self, require_stable: bool, asked: OffsetFetchRequest.Group
    ) -> OffsetFetchResponse.Group:
        try:
            shard = self._require(asked.group_id, allow_empty_id=True).shard
        except ApiError as error:
            return fetch_error(asked, error=error.code)
        stale = shard.commits.fetch_error(asked.group_id, asked.member_id, asked.member_epoch)
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

        def decide(shard: Shard) -> Decision:
            now_ms = self._clock.now_ms()
            committer = Committer(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation_id=request.generation_id,
                producer=TransactionalProducer(request.producer_id, request.producer_epoch),
                version=version,
            )
            offsets = txn_offsets_to_commit(request, now_ms)
            return shard.commits.commit(committer, offsets, reply=answer, now_ms=now_ms)

        def refuse(error: ErrorCode) -> Sequence[ErrorCode]:
            # Producers older than v2 fall over the loading error (KAFKA-7296).
            if version < 2 and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return [error] * sum(len(topic.partitions) for topic in request.topics)

        self._submit(request.group_id, decide, answer, refuse)

    def on_transaction_completed(
        self, partition: int, producer_id: int, *, committed: bool
    ) -> None:
        """A marker was written to an offsets partition that this broker leads."""
        self._loop.post(partial(self._complete_transaction, partition, producer_id, committed))

    def _complete_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        for hosted in self._host.active():
            # A shard that is still loading finds the marker in the log.
            if hosted.shard.partition == partition:
                hosted.shard.complete_transaction(producer_id, committed=committed)

    def offset_delete(
        self, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        def answer(answer: tuple[ErrorCode, Sequence[ErrorCode]]) -> None:
            reply(delete_response(request, *answer))

        def decide(shard: Shard) -> Decision:
            partitions = partitions_to_delete(request)
            return shard.removal.delete(request.group_id, partitions, reply=answer)

        def refuse(error: ErrorCode) -> tuple[ErrorCode, Sequence[ErrorCode]]:
            return error, ()

        self._submit(request.group_id, decide, answer, refuse)

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions exist no longer: offsets for them are deleted in every group."""
        self._loop.post(partial(self._forget, tuple(partitions)))

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for hosted in self._host.active():
            self._host.carry_out(hosted, hosted.shard.removal.forget(partitions))

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

        if not self._post_when_settled(request.groups, run):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            groups = [describe_error(group_id, error) for group_id in request.groups]
            reply(DescribeGroupsResponse(groups=groups))

    def _describe(self, group_id: str, version: int) -> DescribeGroupsResponse.Group:
        try:
            shard = self._require(group_id, allow_empty_id=True).shard
        except ApiError as error:
            return describe_error(group_id, error.code)
        return describe(group_id, shard.groups.get(group_id), version=version)

    def list_groups(
        self, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
    ) -> None:
        if not self._loop.post(partial(self._on_list_groups, request, reply)):
            reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[]))

    def _on_list_groups(
        self, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
    ) -> None:
        if not self._is_open:
            reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[]))
            return
        is_loading = self._host.is_loading
        groups = [
            listed
            for hosted in self._host.active()
            for listed in chain(
                list_classic(
                    hosted.shard.groups.values(),
                    states=request.states_filter,
                    types=request.types_filter,
                ),
                list_consumer(
                    hosted.shard.consumer_groups.values(),
                    states=request.states_filter,
                    types=request.types_filter,
                ),
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

        if not self._post_when_settled(request.group_ids, run):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            groups = [describe_consumer_error(group_id, error) for group_id in request.group_ids]
            reply(ConsumerGroupDescribeResponse(groups=groups))

    def _describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponse.Group:
        try:
            shard = self._require(group_id).shard
        except ApiError as error:
            return describe_consumer_error(group_id, error.code)
        group = shard.consumer_groups.get(group_id)
        if group is None or self._topics is None:
            what = "is not a consumer group." if group_id in shard.groups else "not found."
            return describe_consumer_error(
                group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}"
            )
        return describe_consumer(group, self._topics.topics())

    def delete_groups(
        self, request: DeleteGroupsRequest, reply: Callable[[DeleteGroupsResponse], None]
    ) -> None:
        """Deletes empty groups; the answer comes when all tombstones are stored."""
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

    def _delete_group(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        def decide(shard: Shard) -> Decision:
            now_ms = self._clock.now_ms()
            return shard.removal.delete_group(group_id, reply=reply, now_ms=now_ms)

        self._submit(group_id, decide, reply, lambda error: error, allow_empty_id=True)

    # The shell

    def _submit(
        self,
        group_id: str,
        decide: Callable[[Shard], Decision],
        reply: Callable[[R], None],
        refuse: Callable[[ErrorCode], R],
        *,
        allow_empty_id: bool = False,
        may_wait: bool = True,
    ) -> None:
        """Runs `decide` on the loop with the group's shard, or answers why there is none.

        Whoever comes too early waits for the shard, unless what was decided there before is
        lost anyway and the member need not wait to hear of it.
        """

        def run() -> None:
            try:
                hosted = self._require(group_id, allow_empty_id=allow_empty_id)
            except ApiError as error:
                reply(refuse(error.code))
                return
            self._host.carry_out(hosted, decide(hosted.shard))

        if not self._post_when_settled([group_id] if may_wait else [], run):
            reply(refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _post_when_settled(self, group_ids: Iterable[str], action: Callable[[], None]) -> bool:
        """Runs `action` on the loop as soon as the groups' shards can answer, or cannot."""

        def run() -> None:
            if self._is_open:
                self._host.when_settled(map(self.partition_for, group_ids), action)
            else:
                action()

        return self._loop.post(run)

    def _require(self, group_id: str, *, allow_empty_id: bool = False) -> HostedShard:
        if not self._is_open:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group_id and not allow_empty_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self._host.require(self.partition_for(group_id))

    def _new_shard(self, partition: int) -> Shard:
        topics = self._topics or _NoTopics()
        return Shard(partition, self._config, self._new_uuid, topics, self._overrides)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def _schedule_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timer.add(interval_ms, partial(self._loop.post, self._expire))

    def _expire(self) -> None:
        if not self._is_open:
            return
        for hosted in self._host.active():
            decision = hosted.shard.removal.expire(now_ms=self._clock.now_ms())
            self._host.carry_out(hosted, decision)
        self._schedule_expiry()

    def _close(self) -> None:
        self._is_open = False
        self._host.resign_all()


class _NoTopics:
    """The catalog of a broker without consumer groups."""

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        return {}


def _answer_join_before_v7(
    reply: Callable[[JoinGroupResponse], None], response: JoinGroupResponse
) -> None:
    """Before v7 the protocol's name could not be null."""
    if response.protocol_name is None:
        response = replace(response, protocol_name="")
    reply(response)
