"""The records that a heartbeat or a departure leads to.

Nothing here changes the group. Functions that have records to store add them to `records`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    JOINING_EPOCH,
    NOTHING,
    Assignment,
    ConsumerMember,
)
from embedkafka.broker.coordinator.groups.consumer.assignors import ASSIGNORS, Assignor, MemberSpec
from embedkafka.broker.coordinator.groups.consumer.group import (
    ConsumerGroup,
    TopicMetadata,
    resolve,
)
from embedkafka.broker.coordinator.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    subscription_metadata_record,
    target_epoch_record,
    target_record,
)
from embedkafka.runtime.values import dataclass, replace

Topics = Mapping[str, TopicMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The epoch and the assignment that a member should reach."""

    epoch: int
    target: Assignment
    unsubscribed: frozenset[UUID] = frozenset()
    """Topics of its partitions to which the member has just stopped subscribing."""


def plan(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    topics: Topics,
    records: list[LogRecord],
    *,
    assignors: Sequence[str],
    now_ms: int,
    may_see: Callable[[str], bool] | None = None,
) -> Plan:
    """Raises the group's epoch if members or topics changed, and then makes a new assignment.

    `before` and `after` are the member before its heartbeat and as the heartbeat describes it. The
    members choose one of `assignors`. The client may describe the topics that `may_see` says, or
    all.
    """
    members = {m.member_id: m for m in group.members.values() if not _replaces(after, m)}
    members[after.member_id] = after
    found = _visible(group, members.values(), after, topics, may_see)
    resolved = _record_resolved(group, found, records, now_ms)
    subscriptions = {m.member_id: group.topics_of(m, resolved) for m in members.values()}
    metadata = metadata_of(subscriptions.values(), topics)
    epoch = group.group_epoch
    has_changed = epoch == 0 or _has_changed(before, after)
    if metadata != group.subscription_metadata:
        records.append(subscription_metadata_record(group.group_id, metadata))
        has_changed = True
    if has_changed:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch))
    if epoch <= group.target_epoch:
        return Plan(epoch=group.target_epoch, target=_current_target(group, after))
    assign = ASSIGNORS[preferred_assignor(members.values(), assignors)]
    targets = _assign(assign, group, members, subscriptions, metadata)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, epoch))
    subscribed = {topics[name][0] for name in subscriptions[after.member_id] if name in topics}
    unsubscribed = after.assigned.keys() - subscribed if _has_changed(before, after) else ()
    return Plan(epoch=epoch, target=targets[after.member_id], unsubscribed=frozenset(unsubscribed))


def remove_members(
    group: ConsumerGroup, member_ids: Collection[str], topics: Topics, *, now_ms: int
) -> list[LogRecord]:
    """Removes members; another member's next heartbeat assigns their partitions."""
    records = [record for m in member_ids for record in _removal_records(group.group_id, m)]
    others = [m for m in group.members.values() if m.member_id not in member_ids]
    found = {
        regex: group.resolved[regex].intersection(topics) if regex in group.resolved else names
        for regex, names in _resolved(others, topics).items()
    }
    resolved = _record_resolved(group, found, records, now_ms)
    metadata = metadata_of((group.topics_of(m, resolved) for m in others), topics)
    if metadata != group.subscription_metadata:
        records.append(subscription_metadata_record(group.group_id, metadata))
    records.append(epoch_record(group.group_id, group.group_epoch + 1))
    return records


def replace_static_member(
    group: ConsumerGroup, old: ConsumerMember, new_id: str, records: list[LogRecord]
) -> ConsumerMember:
    """Gives the place of a static member to its successor with a new id."""
    member = replace(
        old, member_id=new_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH
    )
    group_id = group.group_id
    records += _removal_records(group_id, old.member_id)
    records.append(member_record(group_id, new_id, member))
    records.append(target_record(group_id, new_id, group.targets.get(old.member_id, NOTHING)))
    records.append(current_record(group_id, new_id, member))
    return member


def find_predecessor(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember | None:
    """The static member's entry in the group, under its former id or this one."""
    return None if member.instance_id is None else group.find_static_member(member.instance_id)


def preferred_assignor(members: Iterable[ConsumerMember], assignors: Sequence[str]) -> str:
    """The one of `assignors` that most members ask for, else the first."""
    votes = Counter(member.server_assignor for member in members)
    return max(assignors, key=lambda name: votes[name])


def _has_changed(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether the member subscribes differently; a new one has subscribed to nothing before."""
    return (
        before.subscribed_topic_names != after.subscribed_topic_names
        or before.subscribed_topic_regex != after.subscribed_topic_regex
    )


def metadata_of(subscriptions: Iterable[frozenset[str]], topics: Topics) -> Topics:
    """The subscribed topics that exist."""
    names = frozenset[str]().union(*subscriptions)
    return {name: topics[name] for name in sorted(names) if name in topics}


def _resolved(members: Iterable[ConsumerMember], topics: Topics) -> dict[str, frozenset[str]]:
    """The topics that the members' regular expressions match."""
    expressions = {member.subscribed_topic_regex for member in members}
    return {regex: resolve(regex, topics) for regex in expressions if regex}


def _visible(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    after: ConsumerMember,
    topics: Topics,
    may_see: Callable[[str], bool] | None,
) -> dict[str, frozenset[str]]:
    """The topics that expressions match, without those that no client using one may describe.

    A client's rights count for the expression of its member only. A topic that another client has
    found stays, or members with different rights would take turns.
    """
    found = _resolved(members, topics)
    users = Counter(member.subscribed_topic_regex for member in members)
    for regex, names in found.items():
        is_own = regex == after.subscribed_topic_regex
        if is_own and may_see is not None:
            kept = group.resolved.get(regex, frozenset()) if users[regex] > 1 else ()
            found[regex] = names.intersection([*kept, *filter(may_see, names)])
        elif not is_own:
            found[regex] = names.intersection(group.resolved.get(regex, names))
    return found


def _record_resolved(
    group: ConsumerGroup,
    resolved: Mapping[str, frozenset[str]],
    records: list[LogRecord],
    now_ms: int,
) -> Mapping[str, frozenset[str]]:
    """Stores what expressions match, and drops those that no member uses."""
    for regex, names in resolved.items():
        if group.resolved.get(regex) != names:
            records.append(regex_record(group.group_id, regex, names, now_ms=now_ms))
    for regex in group.resolved:
        if regex not in resolved:
            records.append(regex_record(group.group_id, regex, None, now_ms=now_ms))
    return resolved


def _assign(
    assign: Assignor,
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    subscriptions: Mapping[str, frozenset[str]],
    metadata: Topics,
) -> dict[str, Assignment]:
    specs = {
        member.member_id: MemberSpec(
            instance_id=member.instance_id,
            topics=frozenset(
                metadata[topic][0] for topic in subscriptions[member.member_id] if topic in metadata
            ),
            current=_current_target(group, member),
        )
        for member in members.values()
    }
    return assign(specs, dict(metadata.values()))


def _current_target(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    """The target of the member, or of the static member's former id."""
    target = group.targets.get(member.member_id)
    if target is not None:
        return target
    predecessor = find_predecessor(group, member)
    return NOTHING if predecessor is None else group.targets.get(predecessor.member_id, NOTHING)


def _replaces(updated: ConsumerMember, other: ConsumerMember) -> bool:
    return updated.instance_id is not None and updated.instance_id == other.instance_id


def _removal_records(group_id: str, member_id: str) -> list[LogRecord]:
    return [
        current_record(group_id, member_id, None),
        target_record(group_id, member_id, None),
        member_record(group_id, member_id, None),
    ]
