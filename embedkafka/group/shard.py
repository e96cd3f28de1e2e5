"""One partition of the offsets topic: its groups and offsets, and what each event does to them.

The shard decides; it has no thread, no clock and no log. Loading replays records, batch by batch;
live events return decisions whose records are replayed when they are stored.

Owner: the `coordinator` loop.
Invariants: a group is in a shard only if its id hashes to the shard's partition; a shard loaded
from the log of another equals it, but for waiting requests and timers.
Not here: which shards this broker has, and requests about several groups (`service.py`).
"""

from collections.abc import Callable
from uuid import UUID

from embedkafka.group.commits import Commits
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer_group import ConsumerGroup
from embedkafka.group.consumer_groups import ConsumerGroups
from embedkafka.group.consumer_records import (
    ConsumerGroupMetadataKey,
    ConsumerKey,
    find_consumer_key,
)
from embedkafka.group.decision import Decision, Decisions, LogRecord, TimerKey, TimerKind
from embedkafka.group.group import Group
from embedkafka.group.member import JoinReply, Member, Protocol
from embedkafka.group.membership import Membership
from embedkafka.group.membership_messages import join_error
from embedkafka.group.offset_removal import OffsetRemoval
from embedkafka.group.offsets import NO_PRODUCER_ID, Offsets
from embedkafka.group.ports import TopicCatalog
from embedkafka.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
    read_value,
)
from embedkafka.group.states import GroupState
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.groups import JoinGroupRequest
from embedkafka.records.batch import Batch, RecordBatch
from embedkafka.records.control import ControlType, find_control_type


class Shard:
    """State and rules of one offsets partition."""

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
        catalog: TopicCatalog,
    ) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.offsets = Offsets()
        self.membership = Membership(self.groups, config, new_uuid)
        self.consumers = ConsumerGroups(
            self.consumer_groups, self.groups, config, catalog, new_uuid, self._replay_live
        )
        self.commits = Commits(self.groups, self.offsets, self.membership, self.consumers, config)
        self.removal = OffsetRemoval(self.groups, self.offsets, self.consumers, config)

    def join(
        self,
        request: JoinGroupRequest,
        *,
        client_id: str,
        client_host: str,
        version: int,
        reply: JoinReply,
        now_ms: int,
    ) -> Decision:
        """Joins a classic group; a consumer group makes room for one only when it is empty."""
        out = Decisions()
        consumer = self.consumer_groups.get(request.group_id)
        if self.consumers.is_busy(request.group_id) or (consumer and consumer.members):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            out.answer(reply, join_error(error, request.member_id))
            return out.done()
        if consumer is not None:
            tombstones = self.consumers.bury(consumer, now_ms=now_ms)
            out.write(tombstones, lambda stored: Decision())
        joined = self.membership.join(
            request,
            client_id=client_id,
            client_host=client_host,
            version=version,
            reply=reply,
            now_ms=now_ms,
        )
        return Decision(
            answers=joined.answers,
            timers=joined.timers,
            writes=(*out.writes, *joined.writes),
        )

    def on_timer(self, key: TimerKey, *, now_ms: int) -> Decision:
        """A timer that a decision has set, and none has replaced or cancelled, is due."""
        match key.kind:
            case TimerKind.SESSION:
                return self.membership.on_session_timeout(
                    key.group_id, key.member_id, now_ms=now_ms
                )
            case TimerKind.JOIN:
                return self.membership.on_join_timeout(key.group_id, now_ms=now_ms)
            case TimerKind.SYNC:
                return self.membership.on_sync_timeout(key.group_id, now_ms=now_ms)
            case TimerKind.CONSUMER_SESSION:
                return self.consumers.on_session_timeout(key.group_id, key.member_id, now_ms=now_ms)
            case TimerKind.CONSUMER_REBALANCE:
                return self.consumers.on_rebalance_timeout(
                    key.group_id, key.member_id, now_ms=now_ms
                )

    # Loading

    def replay_batch(self, batch: Batch) -> None:
        """Applies one batch of the log."""
        producer_id = NO_PRODUCER_ID
        if isinstance(batch, RecordBatch):
            if batch.is_control:
                self._replay_marker(batch)
                return
            if batch.is_transactional:
                producer_id = batch.producer_id
        for record in batch.records():
            if record.key is not None:
                self._replay_record(record.key, record.value, record.offset, producer_id)

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of a transaction has reached this partition, live or when loading."""
        self.offsets.complete_transaction(producer_id, committed=committed)

    def on_loaded(self, *, now_ms: int) -> Decision:
        """The log has been replayed to its end: the shard begins to answer."""
        for group_id in self.offsets.group_ids():
            # Who only keeps offsets has no record of its own.
            if group_id not in self.groups and group_id not in self.consumer_groups:
                self.groups[group_id] = Group(group_id, now_ms=now_ms)
        classic = self.membership.on_loaded(now_ms=now_ms)
        consumer = self.consumers.on_loaded()
        return Decision(
            answers=classic.answers,
            timers=(*classic.timers, *consumer.timers),
            writes=classic.writes,
        )

    def on_unloaded(self, *, now_ms: int) -> Decision:
        """This broker leads the partition no longer."""
        classic = self.membership.on_unloaded(now_ms=now_ms)
        consumer = self.consumers.on_unloaded()
        return Decision(answers=(*classic.answers, *consumer.answers))

    def _replay_marker(self, batch: RecordBatch) -> None:
        for record in batch.records():
            kind = find_control_type(record)
            if kind is not None:
                committed = kind is ControlType.COMMIT
                self.complete_transaction(batch.producer_id, committed=committed)

    def _replay_live(self, record: LogRecord) -> None:
        """A record of a consumer group has been stored: from here on it is as if loaded."""
        self._replay_record(record.key, record.value, -1, NO_PRODUCER_ID)

    def _replay_record(
        self, key: bytes, value: bytes | None, record_offset: int, producer_id: int
    ) -> None:
        match read_key(key):
            case OffsetCommitKey() as offset_key:
                self.offsets.replay(
                    offset_key,
                    None if value is None else read_value(OffsetCommitValue, value),
                    record_offset=record_offset,
                    producer_id=producer_id,
                )
            case GroupMetadataKey() as group_key:
                self._replay_group(
                    group_key.group,
                    None if value is None else read_value(GroupMetadataValue, value),
                )
            case None:
                consumer_key = find_consumer_key(key)
                if consumer_key is not None:
                    self._replay_consumer_group(consumer_key, value)

    def _replay_consumer_group(self, key: ConsumerKey, value: bytes | None) -> None:
        """Tombstones of groups that are gone are nothing; that of the epoch is the last one."""
        group = self.consumer_groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.consumer_groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self.consumer_groups[key.group_id]
        else:
            group.replay(key, value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = _loaded_group(group_id, value)


def _loaded_group(group_id: str, value: GroupMetadataValue) -> Group:
    timestamp_ms = value.current_state_timestamp
    group = Group(
        group_id,
        now_ms=None if timestamp_ms == -1 else timestamp_ms,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
    )
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        group.add(_loaded_member(member, value.protocol or ""), value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.refresh_subscribed_topics()
    return group


def _loaded_member(value: GroupMetadataValue.Member, protocol_name: str) -> Member:
    has_own_timeout = value.rebalance_timeout != -1
    return Member(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout if has_own_timeout else value.session_timeout,
        session_timeout_ms=value.session_timeout,
        protocols=[Protocol(protocol_name, value.subscription)],
        assignment=value.assignment,
    )
