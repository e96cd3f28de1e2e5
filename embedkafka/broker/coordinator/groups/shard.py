"""One partition of the offsets topic: its groups and offsets, and the decision on each event.

The shard has no thread, no clock and no log. Loading replays records, batch by batch. Live events
return decisions, whose records are replayed when they are stored.

Owner: the `coordinator` loop.
Invariants: a group is in a shard only if its id hashes to the shard's partition. A shard loaded
from another's log equals it, except for waiting requests and timers.
Not here: the rules (`classic/`, `consumer/`, `offsets/`), which shards this broker has, and
requests about several groups (`service.py`).
"""

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.calls import HeartbeatCall, JoinCall, LeaveCall, SyncCall
from embedkafka.broker.coordinator.groups.classic.groups import ClassicGroups
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.classic_members import ClassicMembers
from embedkafka.broker.coordinator.groups.consumer.groups import ConsumerGroups
from embedkafka.broker.coordinator.groups.consumer.heartbeat import ConsumerHeartbeatCall
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.coordinator.groups.consumer.member_transitions import MemberTransitions
from embedkafka.broker.coordinator.groups.consumer.migration import Migration
from embedkafka.broker.coordinator.groups.consumer.timers import MemberTimers
from embedkafka.broker.coordinator.groups.decision import Decision, Decisions, TimerKey
from embedkafka.broker.coordinator.groups.kinds import GroupKinds
from embedkafka.broker.coordinator.groups.offsets.commits import CommitCall, Commits
from embedkafka.broker.coordinator.groups.offsets.removal import (
    GroupDeleteCall,
    GroupExpireCall,
    OffsetDeleteCall,
    OffsetRemoval,
)
from embedkafka.broker.coordinator.groups.offsets.store import Offsets
from embedkafka.broker.coordinator.groups.offsets.totals import OffsetTotals
from embedkafka.broker.coordinator.groups.ports import GroupOverrides, TopicCatalog
from embedkafka.broker.coordinator.groups.records import read_key
from embedkafka.broker.coordinator.groups.sequencer import GroupEvent, Sequencer
from embedkafka.runtime.ids import NO_PRODUCER_ID, TopicPartition
from embedkafka.wire.protocol.codec import decode_versioned, leading_version
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.messages.internal import OffsetCommitKey, OffsetCommitValue
from embedkafka.wire.records.batch import Batch, RecordBatch
from embedkafka.wire.records.control import ControlType, find_control_type

_LOG = logging.getLogger(__name__)


class GroupShard:
    """State and rules of one offsets partition."""

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
        catalog: TopicCatalog,
        overrides: GroupOverrides,
        live_members: LiveMembers,
        totals: OffsetTotals | None = None,
    ) -> None:
        """The shards of a broker add to the same `totals`."""
        totals = totals or OffsetTotals()
        self.partition = partition
        self.offsets = Offsets()
        sequencer = self._sequencer = Sequencer(self._run, self._replay_live)
        timers = MemberTimers(config, overrides)
        self.classic = ClassicGroups(config, new_uuid)
        migration = Migration(self.classic, timers, config, catalog, sequencer)
        steps = MemberTransitions(migration, config, catalog, sequencer, live_members)
        classic_members = ClassicMembers(steps, migration, timers, sequencer, config, new_uuid)
        self.consumer = ConsumerGroups(
            migration, steps, timers, classic_members, sequencer, config, new_uuid
        )
        self.kinds = GroupKinds(self.classic, self.consumer)
        self.commits = Commits(self.kinds, self.offsets, config, totals)
        self._removal = OffsetRemoval(self.kinds, self.offsets, sequencer, config, totals)

    # Live events

    def decide(self, event: GroupEvent, *, now_ms: int) -> Decision:
        """Decides a request or a due timer, now or when its group is free."""
        return self._sequencer.decide(event, now_ms=now_ms)

    def _run(self, event: GroupEvent, out: Decisions, now_ms: int) -> None:
        match event:
            case JoinCall():
                self.kinds.of_group(event.group_id).join(event, out, now_ms)
            case SyncCall():
                self.kinds.of_group(event.group_id).sync(event, out)
            case HeartbeatCall():
                self.kinds.of_group(event.group_id).heartbeat(event, out)
            case LeaveCall():
                self.kinds.of_group(event.group_id).leave(event, out, now_ms)
            case ConsumerHeartbeatCall():
                self.consumer.consumer_heartbeat(event, out, now_ms)
            case CommitCall():
                self.commits.commit(event, out, now_ms)
            case GroupDeleteCall():
                self._removal.delete_group(event, out, now_ms)
            case GroupExpireCall():
                self._removal.expire_now(event, out, now_ms)
            case TimerKey():
                self.kinds.of_timer(event.kind).on_timer(event, out, now_ms)
            case _:
                raise AssertionError(f"no rule for {event}")

    def delete_offsets(self, call: OffsetDeleteCall) -> Decision:
        out = Decisions()
        self._removal.delete(call, out)
        return out.done()

    def forget_partitions(self, partitions: Sequence[TopicPartition]) -> Decision:
        """The partitions were deleted: deletes their offsets in every group."""
        out = Decisions()
        self._removal.forget(partitions, out)
        return out.done()

    def expire_offsets(self, *, now_ms: int) -> Decision:
        out = Decisions()
        self._removal.expire(out, now_ms)
        return out.done()

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of a transaction has reached this partition, live or when loading."""
        self.offsets.complete_transaction(producer_id, committed=committed)

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
            if record.key is None:
                raise ProtocolError(f"the record at offset {record.offset} has no key")
            self._replay_record(record.key, record.value, record.offset, producer_id)

    def on_loaded(self, *, now_ms: int) -> Decision:
        """The log has been replayed to its end: the shard starts to answer."""
        for group_id in self.offsets.group_ids():
            # A group that only keeps offsets has no group record.
            if self.kinds.find_group(group_id) is None:
                self.classic.add_simple_group(group_id, now_ms=now_ms)
        out = Decisions()
        for kind in self.kinds:
            kind.on_loaded(out, now_ms)
        return out.done()

    def on_unloaded(self) -> Decision:
        """This broker no longer leads the partition."""
        out = Decisions()
        for kind in self.kinds:
            kind.on_unloaded(out)
        self._sequencer.on_unloaded(out)
        return out.done()

    def _replay_marker(self, batch: RecordBatch) -> None:
        for record in batch.records():
            kind = find_control_type(record)
            if kind is not None:
                committed = kind is ControlType.COMMIT
                self.complete_transaction(batch.producer_id, committed=committed)

    def _replay_live(self, record: LogRecord) -> None:
        """Applies a record of a batch that was stored just now, as if it were loaded."""
        self._replay_record(record.key, record.value, -1, NO_PRODUCER_ID)

    def _replay_record(
        self, key: bytes, value: bytes | None, record_offset: int, producer_id: int
    ) -> None:
        read = read_key(key)
        if isinstance(read, OffsetCommitKey):
            self.offsets.replay(
                read,
                None if value is None else decode_versioned(OffsetCommitValue, value),
                record_offset=record_offset,
                producer_id=producer_id,
            )
        elif not any(kind.replay(key, value) for kind in self.kinds):
            # As in Kafka, a record that a newer broker has left is skipped.
            _LOG.warning(
                "offsets partition %d: the record at offset %d is of unknown type %d",
                self.partition,
                record_offset,
                leading_version(key),
            )
