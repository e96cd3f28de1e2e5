"""The members of a classic group whose requests wait, and what each waits for.

Owner: the `coordinator` loop, through the group; this only reads.
Not here: what ends the wait (`groups.py`).
"""

from collections.abc import Callable, Iterator
from typing import Any

from embedkafka.broker.coordinator.groups.classic.group import ClassicGroup
from embedkafka.broker.coordinator.groups.decision import TimerKey, TimerKind
from embedkafka.runtime.values import NamedTuple


class MemberWait(NamedTuple):
    """One JoinGroup or SyncGroup request that has no answer yet."""

    member_id: str
    what: str
    reply: Callable[[Any], None]  # Any: each API answers with its own type
    timer: TimerKey
    """What ends the wait in any case."""


def waits_in(group: ClassicGroup) -> Iterator[MemberWait]:
    """The waiting members, in the order in which they came to the group."""
    for member in group.members.values():
        if member.awaiting_join is not None:
            timer = TimerKey(TimerKind.JOIN, group.group_id)
            yield MemberWait(member.member_id, _for_join(group), member.awaiting_join, timer)
        elif member.awaiting_sync is not None:
            timer = TimerKey(TimerKind.SYNC, group.group_id)
            yield MemberWait(member.member_id, _for_sync(group), member.awaiting_sync, timer)


def _for_join(group: ClassicGroup) -> str:
    if group.initial_delay_left_ms is not None:
        return "more members of the new group"
    absent = [one.member_id for one in group.members.values() if one.awaiting_join is None]
    return f"{', '.join([*absent, *sorted(group.pending_members)])} to join"


def _for_sync(group: ClassicGroup) -> str:
    leader = None if group.leader_id is None else group.members.get(group.leader_id)
    if leader is not None and leader.awaiting_sync is None:
        return f"the assignment by {leader.member_id}, the leader"
    return "the assignment to be stored"
