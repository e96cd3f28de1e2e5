"""Assignments of partitions to members, and one member's next step towards its target.

An assignment maps topic ids to partitions, and has no topics without partitions. Every function
here is pure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol
from embedkafka.runtime.values import dataclass, field, replace

Assignment = Mapping[UUID, frozenset[int]]

NOTHING: Final[Assignment] = {}

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class MemberState(Enum):
    """A member's progress towards its target; the log holds the values."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must first give partitions up
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others must give up


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSide:
    """The extra state of a consumer group's member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]

    @property
    def protocol(self) -> ClassicProtocol:
        """The protocol that its answers name: its first, as consumer groups do not vote."""
        return self.protocols[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    classic: ClassicSide | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def has_left_for_a_while(self) -> bool:
        return self.member_epoch == STATIC_LEAVING_EPOCH


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    unsubscribed: Collection[UUID] = (),
    is_taken: Callable[[UUID, int], bool],
) -> ConsumerMember:
    """The member's next step towards `target`.

    The member first gives partitions up: it stays in its epoch until its `owned` no longer lists
    them (None: it reported nothing). Then it enters the target's epoch with the partitions that
    are free (not `is_taken`), and gets the rest when others have given them up. Partitions of
    `unsubscribed` topics it gives up at once, in whichever state it is.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target_epoch:
                return member
            epoch = member.member_epoch
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, member.pending_revocation):
                return _giving_up(member, unsubscribed)
            epoch = member.member_epoch + 1
        case MemberState.UNRELEASED_PARTITIONS:
            epoch = member.member_epoch
    kept = intersect(member.assigned, target)
    to_revoke = subtract(member.assigned, kept)
    if to_revoke and _owns_any(owned, to_revoke):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    missing = subtract(target, kept)
    unreleased = {
        topic_id: frozenset(p for p in partitions if is_taken(topic_id, p))
        for topic_id, partitions in missing.items()
    }
    free = subtract(missing, unreleased)
    is_waiting = any(unreleased.values())
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=union(kept, free),
        pending_revocation=NOTHING,
    )


def _giving_up(member: ConsumerMember, topic_ids: Collection[UUID]) -> ConsumerMember:
    """The member with these topics among those that it must give up first."""
    given_up = {t: partitions for t, partitions in member.assigned.items() if t in topic_ids}
    if not given_up:
        return member
    return replace(
        member,
        previous_member_epoch=member.member_epoch,
        assigned=subtract(member.assigned, given_up),
        pending_revocation=union(member.pending_revocation, given_up),
    )


def assignment_of(entries: Iterable[tuple[UUID, Iterable[int]]]) -> Assignment:
    """An assignment from pairs of topic id and partitions."""
    return _without_empty({topic_id: frozenset(partitions) for topic_id, partitions in entries})


def intersect(one: Assignment, other: Assignment) -> Assignment:
    return _without_empty({t: p & other.get(t, frozenset()) for t, p in one.items()})


def subtract(one: Assignment, other: Assignment) -> Assignment:
    return _without_empty({t: p - other.get(t, frozenset()) for t, p in one.items()})


def union(one: Assignment, other: Assignment) -> Assignment:
    merged = dict(one)
    for topic_id, partitions in other.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


def is_subset(owned: Assignment | None, assigned: Assignment) -> bool:
    """Whether all `owned` partitions are assigned; False if the member reported none (None)."""
    return owned is not None and not subtract(owned, assigned)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    return owned is None or bool(intersect(owned, partitions))


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if partitions}
