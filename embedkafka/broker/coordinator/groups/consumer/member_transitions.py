"""Steps that heartbeats and classic requests share: advance a member, remove members.

Owner: the `coordinator` loop, through the shard.
Not here: which request leads to which step (`groups.py`, `classic_members.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    Assignment,
    ConsumerMember,
    reconcile,
)
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup, TopicMetadata
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.coordinator.groups.consumer.migration import Migration, may_downgrade
from embedkafka.broker.coordinator.groups.consumer.planning import (
    Plan,
    find_predecessor,
    plan,
    remove_members,
)
from embedkafka.broker.coordinator.groups.consumer.records import current_record, member_record
from embedkafka.broker.coordinator.groups.consumer.timers import cancel_timers, watch_revocation
from embedkafka.broker.coordinator.groups.decision import Decisions, Sequel
from embedkafka.broker.coordinator.groups.ports import TopicCatalog
from embedkafka.broker.coordinator.groups.sequencer import Sequencer
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode


class MemberTransitions:
    """Advances and removes members of one shard's consumer groups."""

    def __init__(
        self,
        migration: Migration,
        config: GroupConfig,
        catalog: TopicCatalog,
        sequencer: Sequencer,
        live_members: LiveMembers,
    ) -> None:
        self.live_members = live_members
        self._migration = migration
        self._config = config
        self._catalog = catalog
        self._sequencer = sequencer

    def topics(self) -> Mapping[str, TopicMetadata]:
        return self._catalog.topics()

    def refuse_when_full(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._config.group_consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

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
        may_see: Callable[[str], bool] | None = None,
    ) -> ConsumerMember:
        """Makes a new assignment if the member or the topics changed, and advances the member.

        `before` and `after` are the member before its request and as the request describes it. Its
        client may describe the topics that `may_see` says, or all.
        """
        if after != before:
            records.append(member_record(group.group_id, after.member_id, after))
        goal = plan(
            group,
            before,
            after,
            self.topics(),
            records,
            assignors=self._config.group_consumer_assignors,
            now_ms=now_ms,
            may_see=may_see,
        )
        if after.is_reconciled_to(goal.epoch):
            return after
        stepped = _reconciled(group, after, goal, owned)
        if stepped != after:
            records.append(current_record(group.group_id, stepped.member_id, stepped))
            watch_revocation(group.group_id, stepped, out)
        return stepped

    def fence(
        self,
        group: ConsumerGroup,
        leaving: Sequence[str],
        then: Sequel,
        out: Decisions,
        *,
        now_ms: int,
    ) -> None:
        """Removes members; if only classic members stay, the group becomes a classic one."""
        self.live_members.discard(leaving)
        if may_downgrade(group, leaving, self._config):
            staying = {m: member for m, member in group.members.items() if m not in leaving}
            self._migration.downgrade(group, staying, then, out, now_ms=now_ms, rebalances=True)
            return
        records = remove_members(group, leaving, self.topics(), now_ms=now_ms)
        fenced = MembersFenced(group_id=group.group_id, member_ids=tuple(leaving), then=then)
        self._sequencer.store(group.group_id, records, fenced, out, now_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersFenced:
    """Continues after the records that remove members."""

    group_id: str
    member_ids: tuple[str, ...]
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            cancel_timers(self.group_id, self.member_ids, out)
        self.then(stored, out)


def _reconciled(
    group: ConsumerGroup, member: ConsumerMember, goal: Plan, owned: Assignment | None
) -> ConsumerMember:
    predecessor = find_predecessor(group, member)
    own_ids = {member.member_id, predecessor.member_id if predecessor else None, None}
    holders = group.holders()

    def is_taken(topic_id: UUID, partition: int) -> bool:
        return holders.get((topic_id, partition)) not in own_ids

    return reconcile(
        member,
        target=goal.target,
        target_epoch=goal.epoch,
        unsubscribed=goal.unsubscribed,
        owned=owned,
        is_taken=is_taken,
    )
