"""The steps that heartbeats and classic requests take in a consumer group, and its timers.

Owner: the `coordinator` loop, through the shard.
Not here: which request leads to which step (`groups.py`, `classic_members.py`).
"""

from collections.abc import Mapping, MutableMapping, Sequence
from uuid import UUID

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.groups import ClassicGroups
from embedkafka.group.classic.messages import metadata_record
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.assignment import (
    Assignment,
    ConsumerMember,
    MemberState,
    reconcile,
)
from embedkafka.group.consumer.group import ConsumerGroup, TopicMetadata
from embedkafka.group.consumer.migration import downgraded, may_downgrade
from embedkafka.group.consumer.planning import (
    Plan,
    find_predecessor,
    group_tombstones,
    plan,
    remove_members,
)
from embedkafka.group.consumer.records import current_record, member_record
from embedkafka.group.decision import CancelTimer, Decisions, SetTimer, TimerKey, TimerKind
from embedkafka.group.ports import GroupOverrides, TopicCatalog
from embedkafka.group.sequencer import Sequel, Sequencer
from embedkafka.protocol.errors import ApiError, ErrorCode

_MEMBER_TIMERS = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.CONSUMER_REBALANCE,
    TimerKind.CONSUMER_JOIN,
    TimerKind.CONSUMER_SYNC,
)


class ConsumerSteps:
    """Moves members of one shard's consumer groups on, or out."""

    def __init__(
        self,
        classic_groups: MutableMapping[str, ClassicGroup],
        membership: ClassicGroups,
        config: GroupConfig,
        catalog: TopicCatalog,
        overrides: GroupOverrides,
        sequencer: Sequencer,
    ) -> None:
        self._classic_groups = classic_groups
        self._membership = membership
        self._config = config
        self._catalog = catalog
        self._overrides = overrides
        self.sequencer = sequencer

    def topics(self) -> Mapping[str, TopicMetadata]:
        return self._catalog.topics()

    def refuse_when_full(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._config.consumer_group_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    # On

    def advance(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        *,
        owned: Assignment | None,
        records: list[LogRecord],
        out: Decisions,
        now_ms: int,
    ) -> ConsumerMember:
        """Assigns anew if the member or the topics have changed, and takes the member's next step.

        `before` and `after` are the member as it was and as its request describes it.
        """
        if after != before:
            records.append(member_record(group.group_id, after.member_id, after))
        goal = plan(
            group,
            before,
            after,
            self.topics(),
            records,
            assignors=self._config.consumer_assignors,
            now_ms=now_ms,
        )
        if after.is_reconciled_to(goal.epoch):
            return after
        stepped = _reconciled(group, after, goal, owned)
        if stepped != after:
            records.append(current_record(group.group_id, stepped.member_id, stepped))
            _watch_revocation(group.group_id, stepped, out)
        return stepped

    # Out

    def fence(
        self,
        group: ConsumerGroup,
        leaving: Sequence[str],
        then: Sequel,
        out: Decisions,
        *,
        now_ms: int,
    ) -> None:
        """Takes members out; if all others speak the classic protocol, the group does from now."""
        if may_downgrade(group, leaving, self._config):
            staying = {m: member for m, member in group.members.items() if m not in leaving}
            self.downgrade(group, staying, then, out, now_ms=now_ms, rebalances=True)
            return

        def cancel_timers(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                for member_id in leaving:
                    _cancel_timers(group.group_id, member_id, out)
            then(stored, out)

        records = remove_members(group, leaving, self.topics(), now_ms=now_ms)
        self.sequencer.store(group.group_id, records, cancel_timers, out, now_ms=now_ms)

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
        """Makes a classic group of it, with `members` under the ids of their targets."""
        classic = downgraded(group, members, self.topics(), now_ms=now_ms)
        assignments = {m.member_id: m.assignment for m in classic.members.values()}

        def adopt(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                for member_id in group.members:
                    _cancel_timers(group.group_id, member_id, out)
                # What was replayed knows one protocol of each member; this one knows all.
                self._classic_groups[group.group_id] = classic
                self._membership.adopt(classic, out, now_ms=stored.now_ms, rebalances=rebalances)
            then(stored, out)

        records = [*group_tombstones(group, now_ms=now_ms), metadata_record(classic, assignments)]
        self.sequencer.store(group.group_id, records, adopt, out, now_ms=now_ms)

    # Timers

    def restart_session(self, group_id: str, member: ConsumerMember, out: Decisions) -> None:
        """The member has shown that it lives."""
        if member.classic is None:
            default_ms = self._config.consumer_session_timeout_ms
            timeout_ms = self._setting(group_id, "consumer.session.timeout.ms", default_ms)
        else:
            timeout_ms = member.classic.session_timeout_ms
        out.do(SetTimer(timer_key(TimerKind.CONSUMER_SESSION, group_id, member), timeout_ms))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often members of the group are to be heard of."""
        default_ms = self._config.consumer_heartbeat_interval_ms
        return self._setting(group_id, "consumer.heartbeat.interval.ms", default_ms)

    def _setting(self, group_id: str, name: str, default: int) -> int:
        value = self._overrides.find_group_value(group_id, name)
        return default if value is None else value

    def start_timers(self, group: ConsumerGroup, out: Decisions) -> None:
        """Sessions begin, and what members were asked to give up is waited for."""
        for member in group.members.values():
            self.restart_session(group.group_id, member, out)
            _watch_revocation(group.group_id, member, out)


def timer_key(kind: TimerKind, group_id: str, member: ConsumerMember) -> TimerKey:
    return TimerKey(kind, group_id, member.member_id)


def _reconciled(
    group: ConsumerGroup, member: ConsumerMember, goal: Plan, owned: Assignment | None
) -> ConsumerMember:
    predecessor = find_predecessor(group, member)
    own_ids = {member.member_id, predecessor.member_id if predecessor else None, None}
    holders = group.holders()

    def is_taken(topic_id: UUID, partition: int) -> bool:
        return holders.get((topic_id, partition)) not in own_ids

    return reconcile(
        member, target=goal.target, target_epoch=goal.epoch, owned=owned, is_taken=is_taken
    )


def _watch_revocation(group_id: str, member: ConsumerMember, out: Decisions) -> None:
    """A member that must give partitions up has its rebalance timeout for it.

    One that speaks the classic protocol has that long to join, and to sync.
    """
    key = timer_key(TimerKind.CONSUMER_REBALANCE, group_id, member)
    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
        out.do(SetTimer(key, member.rebalance_timeout_ms))
    else:
        out.do(CancelTimer(key))


def _cancel_timers(group_id: str, member_id: str, out: Decisions) -> None:
    for kind in _MEMBER_TIMERS:
        out.do(CancelTimer(TimerKey(kind, group_id, member_id)))
