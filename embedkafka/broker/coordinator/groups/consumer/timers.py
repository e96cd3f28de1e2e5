"""Timers of a consumer group's members, and the settings that they follow."""

from collections.abc import Iterable
from typing import Final

from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import ConsumerMember, MemberState
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup
from embedkafka.broker.coordinator.groups.decision import (
    CancelTimer,
    Decisions,
    SetTimer,
    TimerKey,
    TimerKind,
)
from embedkafka.broker.coordinator.groups.ports import GroupOverrides

CONSUMER_TIMERS: Final = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.CONSUMER_REBALANCE,
    TimerKind.CONSUMER_JOIN,
    TimerKind.CONSUMER_SYNC,
)


class MemberTimers:
    """Starts and cancels the timers of members."""

    def __init__(self, config: GroupConfig, overrides: GroupOverrides) -> None:
        self._config = config
        self._overrides = overrides

    def start(self, group: ConsumerGroup, out: Decisions) -> None:
        """Starts the timers of all members, of a group that was loaded or migrated."""
        for member in group.members.values():
            self.restart_session(group.group_id, member, out)
            watch_revocation(group.group_id, member, out)

    def restart_session(self, group_id: str, member: ConsumerMember, out: Decisions) -> None:
        """The member has shown that it is alive."""
        if member.classic is None:
            default_ms = self._config.group_consumer_session_timeout_ms
            timeout_ms = self._setting(group_id, "consumer.session.timeout.ms", default_ms)
        else:
            timeout_ms = member.classic.session_timeout_ms
        out.do(SetTimer(timer_key(TimerKind.CONSUMER_SESSION, group_id, member), timeout_ms))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often members of the group must send a heartbeat."""
        default_ms = self._config.group_consumer_heartbeat_interval_ms
        return self._setting(group_id, "consumer.heartbeat.interval.ms", default_ms)

    def _setting(self, group_id: str, name: str, default: int) -> int:
        value = self._overrides.find_group_value(group_id, name)
        return default if value is None else value


def timer_key(kind: TimerKind, group_id: str, member: ConsumerMember) -> TimerKey:
    return TimerKey(kind, group_id, member.member_id)


def watch_revocation(group_id: str, member: ConsumerMember, out: Decisions) -> None:
    """Gives a member that must give partitions up its rebalance timeout to do so.

    A member that speaks the classic protocol has that long to join, and to sync.
    """
    key = timer_key(TimerKind.CONSUMER_REBALANCE, group_id, member)
    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
        out.do(SetTimer(key, member.rebalance_timeout_ms))
    else:
        out.do(CancelTimer(key))


def cancel_timers(group_id: str, member_ids: Iterable[str], out: Decisions) -> None:
    for member_id in member_ids:
        for kind in CONSUMER_TIMERS:
            out.do(CancelTimer(TimerKey(kind, group_id, member_id)))
