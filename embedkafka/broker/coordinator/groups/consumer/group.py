"""A consumer group (KIP-848): the state that its records describe.

Owner: the `coordinator` loop, through the shard.
Invariants: only `replay` changes the group, so a loaded group equals the one that wrote the log. At
most one member holds a partition.

The records determine the group's state:

- Empty: no members. Any client may commit offsets; the group may be deleted.
- Assigning: the group's epoch is ahead of its target assignment, which the next heartbeat makes.
- Reconciling: some members have not reached the target assignment.
- Stable: every member has its target assignment.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.calls import Committer
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    LEAVING_EPOCH,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
)
from embedkafka.broker.coordinator.groups.consumer.records import (
    ConsumerKey,
    current_record,
    epoch_record,
    member_record,
    read_classic,
    read_topics,
    regex_record,
    subscription_metadata_record,
    target_epoch_record,
    target_record,
)
from embedkafka.broker.coordinator.groups.kinds import GroupType, OffsetRetention
from embedkafka.broker.coordinator.groups.subscription_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicProtocol,
)
from embedkafka.broker.coordinator.re2 import compile_re2
from embedkafka.runtime.values import replace
from embedkafka.wire.protocol.codec import decode_versioned
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.internal import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

_FIRST_COMMIT_WITH_MEMBER_EPOCH: Final = 9

TopicMetadata = tuple[UUID, int]
"""Id and partition count of a topic."""


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """The replayed state of one consumer group."""

    __slots__ = (
        "group_epoch",
        "group_id",
        "members",
        "resolved",
        "subscription_metadata",
        "target_epoch",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.subscription_metadata: Mapping[str, TopicMetadata] = {}
        # Topics that match the members' regular expressions.
        self.resolved: dict[str, frozenset[str]] = {}

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.target_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def find_static_member(self, instance_id: str) -> ConsumerMember | None:
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def holders(self) -> dict[tuple[UUID, int], str]:
        """The member that has each partition, or has yet to give it up."""
        return {
            (topic_id, partition): member.member_id
            for member in self.members.values()
            for assignment in (member.assigned, member.pending_revocation)
            for topic_id, partitions in assignment.items()
            for partition in partitions
        }

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(
            name for member in self.members.values() for name in self.topics_of(member)
        )

    def topics_of(
        self, member: ConsumerMember, resolved: Mapping[str, frozenset[str]] | None = None
    ) -> frozenset[str]:
        """Topics that the member subscribes to, by name or by regular expression."""
        regex = member.subscribed_topic_regex
        if not regex:
            return member.subscribed_topic_names
        expressions = self.resolved if resolved is None else resolved
        return member.subscribed_topic_names | expressions.get(regex, frozenset())

    def supports(self, protocol_type: str, protocols: Sequence[ClassicProtocol]) -> bool:
        """Whether a member with these protocols could join the present classic members."""
        classic = [m.classic for m in self.members.values() if m.classic is not None]
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            all(offered.name in {p.name for p in side.protocols} for side in classic)
            for offered in protocols
        )

    # As `kinds.Group`

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def expects_members(self) -> bool:
        return False

    def find_commit_error(self, committer: Committer) -> ErrorCode | None:
        is_anonymous = committer.generation_id < 0 and not committer.member_id
        if committer.generation_id < 0 and self.is_empty:
            return None
        is_transactional = committer.is_transactional
        if is_transactional and is_anonymous and committer.group_instance_id is None:
            return None
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_old = committer.version < _FIRST_COMMIT_WITH_MEMBER_EPOCH
        if is_old and not is_transactional and member.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
        if member.member_epoch == committer.generation_id:
            return None
        # Producers know no member epochs.
        return ErrorCode.ILLEGAL_GENERATION if is_transactional else _stale_error(member)

    def find_fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        if member_id is None and member_epoch < 0:
            return None
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member.member_epoch == member_epoch else _stale_error(member)

    def find_offset_delete_error(self) -> ErrorCode | None:
        return None

    def subscribed_among(self, topics: Iterable[str]) -> frozenset[str]:
        return self.subscribed_topics().intersection(topics)

    def find_offset_retention(self) -> OffsetRetention | None:
        return OffsetRetention(subscribed=self.subscribed_topics())

    def tombstones(self, *, now_ms: int) -> list[LogRecord]:
        """Records that delete the group and its members. The epoch's comes last."""
        group_id = self.group_id
        return [
            *(current_record(group_id, member_id, None) for member_id in self.members),
            *(target_record(group_id, member_id, None) for member_id in self.targets),
            target_epoch_record(group_id, None),
            *(member_record(group_id, member_id, None) for member_id in self.members),
            *(regex_record(group_id, regex, None, now_ms=now_ms) for regex in self.resolved),
            subscription_metadata_record(group_id, None),
            epoch_record(group_id, None),
        ]

    # Replay

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        """Applies one record, but not the epoch's tombstone: `groups.py` deletes the group."""
        match key:
            case ConsumerGroupMetadataKey():
                if value is not None:
                    self.group_epoch = decode_versioned(ConsumerGroupMetadataValue, value).epoch
            case ConsumerGroupPartitionMetadataKey():
                self.subscription_metadata = _read_subscription_metadata(value)
            case ConsumerGroupMemberMetadataKey():
                self._replay_member(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = (
                    -1
                    if value is None
                    else decode_versioned(
                        ConsumerGroupTargetAssignmentMetadataValue, value
                    ).assignment_epoch
                )
            case ConsumerGroupTargetAssignmentMemberKey():
                self._replay_target(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                self._replay_regex(key.regular_expression, value)

    def _replay_member(self, member_id: str, value: bytes | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            return
        read = decode_versioned(ConsumerGroupMemberMetadataValue, value)
        member = self.members.get(member_id, ConsumerMember(member_id=member_id))
        self.members[member_id] = replace(
            member,
            instance_id=read.instance_id,
            rack_id=read.rack_id,
            client_id=read.client_id,
            client_host=read.client_host,
            subscribed_topic_names=frozenset(read.subscribed_topic_names),
            subscribed_topic_regex=read.subscribed_topic_regex or "",
            rebalance_timeout_ms=read.rebalance_timeout_ms,
            server_assignor=read.server_assignor,
            classic=read_classic(read.classic_member_metadata),
        )

    def _replay_target(self, member_id: str, value: bytes | None) -> None:
        if value is None:
            self.targets.pop(member_id, None)
            return
        read = decode_versioned(ConsumerGroupTargetAssignmentMemberValue, value)
        self.targets[member_id] = read_topics(read.topic_partitions)

    def _replay_current(self, member_id: str, value: bytes | None) -> None:
        if value is None:
            # The member's own tombstone follows. Until then it is a member without partitions.
            if member_id in self.members:
                self.members[member_id] = replace(
                    self.members[member_id],
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    assigned=NOTHING,
                    pending_revocation=NOTHING,
                )
            return
        read = decode_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
        member = self.members.get(member_id, ConsumerMember(member_id=member_id))
        self.members[member_id] = replace(
            member,
            member_epoch=read.member_epoch,
            previous_member_epoch=read.previous_member_epoch,
            state=MemberState(read.state),
            assigned=read_topics(read.assigned_partitions),
            pending_revocation=read_topics(read.partitions_pending_revocation),
        )

    def _replay_regex(self, regex: str, value: bytes | None) -> None:
        if value is None:
            self.resolved.pop(regex, None)
        else:
            read = decode_versioned(ConsumerGroupRegularExpressionValue, value)
            self.resolved[regex] = frozenset(read.topics)


def _stale_error(member: ConsumerMember) -> ErrorCode:
    """A member that speaks the classic protocol knows its epoch as a generation."""
    is_classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def resolve(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Topics whose whole name matches. Raises `InvalidExpression`."""
    pattern = compile_re2(regex)
    return frozenset(name for name in topics if pattern.fullmatch(name))


def _read_subscription_metadata(value: bytes | None) -> Mapping[str, TopicMetadata]:
    if value is None:
        return {}
    read = decode_versioned(ConsumerGroupPartitionMetadataValue, value)
    return {topic.topic_name: (topic.topic_id, topic.num_partitions) for topic in read.topics}
