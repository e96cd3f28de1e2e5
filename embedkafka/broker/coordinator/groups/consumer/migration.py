"""Migrates groups with members from the classic protocol to the consumer protocol, and back.

Members change one by one (KIP-848). The first that speaks the consumer protocol turns a classic
group into a consumer group, whose other members still speak the classic one. When the last
member with the consumer protocol leaves, the group becomes a classic one again.

No other module of this package knows classic groups; an import contract holds that.
"""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.calls import JoinCall, refuse
from embedkafka.broker.coordinator.groups.classic.group import ClassicGroup
from embedkafka.broker.coordinator.groups.classic.groups import ClassicGroups
from embedkafka.broker.coordinator.groups.classic.member import ClassicMember
from embedkafka.broker.coordinator.groups.classic.messages import metadata_record
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    NOTHING,
    Assignment,
    ClassicSide,
    ConsumerMember,
    assignment_of,
)
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup
from embedkafka.broker.coordinator.groups.consumer.planning import Topics, metadata_of
from embedkafka.broker.coordinator.groups.consumer.records import (
    current_record,
    epoch_record,
    find_consumer_key,
    member_record,
    subscription_metadata_record,
    target_epoch_record,
    target_record,
)
from embedkafka.broker.coordinator.groups.consumer.timers import MemberTimers, cancel_timers
from embedkafka.broker.coordinator.groups.decision import Decisions, Sequel
from embedkafka.broker.coordinator.groups.ports import TopicCatalog
from embedkafka.broker.coordinator.groups.records import group_record
from embedkafka.broker.coordinator.groups.sequencer import Sequencer
from embedkafka.broker.coordinator.groups.subscription_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
)
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.wire.protocol.messages.internal import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

PartitionsByName = Iterable[
    ConsumerProtocolAssignment.TopicPartition | ConsumerProtocolSubscription.TopicPartition
]


class Migration:
    """Changes the kind of one shard's groups."""

    def __init__(
        self,
        classic: ClassicGroups,
        timers: MemberTimers,
        config: GroupConfig,
        catalog: TopicCatalog,
        sequencer: Sequencer,
    ) -> None:
        self._classic = classic
        self._timers = timers
        self._config = config
        self._catalog = catalog
        self._sequencer = sequencer

    # To a consumer group

    def has_classic_group(self, group_id: str) -> bool:
        return group_id in self._classic.groups

    def find_group_to_upgrade(self, group_id: str) -> ClassicGroup | None:
        """The classic group with members that a joining consumer turns into a consumer group.

        Raises GROUP_ID_NOT_FOUND with the reason if the group must stay a classic one.
        """
        classic = self._classic.groups.get(group_id)
        if classic is None or classic.is_empty:
            return None
        if not self._config.group_consumer_migration_policy.allows_upgrade:
            raise _cannot_upgrade(classic, "online upgrade is disabled")
        if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
        if len(classic.members) > self._config.group_consumer_max_size:
            raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size")
        return classic

    def upgraded(self, classic: ClassicGroup, records: list[LogRecord]) -> ConsumerGroup:
        """The consumer group as it will be when `records`, to which this adds, are stored."""
        records += upgrade_records(classic, self._catalog.topics())
        group = ConsumerGroup(classic.group_id)
        for record in records:
            key = find_consumer_key(record.key)
            if key is not None:
                group.replay(key, record.value)
        return group

    def on_upgrading(self, classic: ClassicGroup, out: Decisions) -> None:
        """The records of the upgrade are about to be stored."""
        self._classic.interrupt(classic, out)

    def on_upgraded(self, classic: ClassicGroup, group: ConsumerGroup, out: Decisions) -> None:
        self._classic.release(classic, out)
        self._timers.start(group, out)

    # To a classic group

    def downgrade(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        then: Sequel,
        out: Decisions,
        *,
        now_ms: int,
        rebalances: bool,
    ) -> None:
        """Makes a classic group of it. `members` are by the ids that their targets have."""
        classic = downgraded(group, members, self._catalog.topics(), now_ms=now_ms)
        assignments = {m.member_id: m.assignment for m in classic.members.values()}
        adopt = GroupDowngraded(
            migration=self, group=group, classic=classic, rebalances=rebalances, then=then
        )
        records = [*group.tombstones(now_ms=now_ms), metadata_record(classic, assignments)]
        self._sequencer.store(group.group_id, records, adopt, out, now_ms=now_ms)

    def on_downgraded(self, step: "GroupDowngraded", stored: Stored, out: Decisions) -> None:
        cancel_timers(step.group.group_id, step.group.members, out)
        self._classic.adopt(step.classic, out, now_ms=stored.now_ms, rebalances=step.rebalances)

    def join_instead(
        self, group: ConsumerGroup, call: JoinCall, out: Decisions, now_ms: int
    ) -> None:
        """Lets a classic member in by replacing an empty consumer group with a classic one."""
        error = self._classic.find_join_error(call)
        if error is None:
            tombstones = group.tombstones(now_ms=now_ms)
            then = GroupReplaced(classic=self._classic, call=call)
            self._sequencer.store(group.group_id, tombstones, then, out, now_ms=now_ms)
        else:
            refuse(call, error, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpgraded:
    """Continues after the records that turn a classic group into a consumer group."""

    migration: Migration
    groups: Mapping[str, ConsumerGroup]
    classic: ClassicGroup
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            group = self.groups[self.classic.group_id]
            self.migration.on_upgraded(self.classic, group, out)
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDowngraded:
    """Continues after the records that turn a consumer group into a classic group."""

    migration: Migration
    group: ConsumerGroup
    classic: ClassicGroup
    rebalances: bool
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.migration.on_downgraded(self, stored, out)
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReplaced:
    """Continues after the tombstones of an empty consumer group: the member joins."""

    classic: ClassicGroups
    call: JoinCall

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.classic.join(self.call, out, stored.now_ms)
        else:
            refuse(self.call, stored.told_as(), out)


def upgrade_records(group: ClassicGroup, topics: Topics) -> list[LogRecord]:
    """Records that replace the classic group with a consumer group of Stable members.

    Each member keeps the partitions of its last assignment, even during a rebalance.
    """
    try:
        members = [_consumer_member(group, member, topics) for member in group.members.values()]
    except ProtocolError as error:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from error
    group_id, epoch = group.group_id, group.generation_id
    metadata = metadata_of((member.subscribed_topic_names for member in members), topics)
    return [
        group_record(group_id, None),
        *(member_record(group_id, member.member_id, member) for member in members),
        subscription_metadata_record(group_id, metadata),
        epoch_record(group_id, epoch),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group_id, epoch),
        *(current_record(group_id, member.member_id, member) for member in members),
    ]


def may_downgrade(
    group: ConsumerGroup, leaving: Collection[str], config: GroupConfig, *, joining: int = 0
) -> bool:
    """Whether only classic members stay once `leaving` have left.

    `joining` counts the classic members that replace them.
    """
    staying = [m for m in group.members.values() if m.member_id not in leaving]
    return (
        config.group_consumer_migration_policy.allows_downgrade
        and 0 < len(staying) + joining <= config.group_max_size
        and all(member.classic is not None for member in staying)
        and any(group.members[member_id].classic is None for member_id in leaving)
    )


def downgraded(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: Topics, *, now_ms: int
) -> ClassicGroup:
    """A stable classic group of `members`; each gets the target of its key.

    The key is the member's id, or the former id of a static member that was replaced.
    """
    classic = ClassicGroup(group.group_id, now_ms=now_ms, state=ClassicGroupState.STABLE)
    classic.generation_id = group.group_epoch
    for target_id, member in members.items():
        assert member.classic is not None, f"{member.member_id} does not speak the classic protocol"
        target = named(group.targets.get(target_id, NOTHING), topics)
        converted = ClassicMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic.session_timeout_ms,
            protocols=member.classic.protocols,
            assignment=write_assignment(target, member.classic.protocol.metadata),
        )
        classic.add(converted, CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    classic.refresh_subscribed_topics()
    return classic


def named(assignment: Assignment, topics: Topics) -> dict[str, frozenset[int]]:
    """The assignment by topic name, without deleted topics."""
    names = {topic_id: name for name, (topic_id, _) in topics.items()}
    return {names[t]: partitions for t, partitions in assignment.items() if t in names}


def identified(partitions: PartitionsByName, topics: Topics) -> Assignment:
    """The assignment by topic id, without topics that do not exist."""
    by_id: dict[UUID, Iterable[int]] = {
        topics[part.topic][0]: part.partitions for part in partitions if part.topic in topics
    }
    return assignment_of(by_id.items())


def _consumer_member(group: ClassicGroup, member: ClassicMember, topics: Topics) -> ConsumerMember:
    # A group has no protocol before its first generation. All protocols of a member subscribe to
    # the same topics.
    protocol_name = group.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata_for(protocol_name))
    assignment = read_assignment(member.assignment)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        assigned=identified(assignment.assigned_partitions, topics),
        classic=ClassicSide(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )


def _cannot_upgrade(group: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )
