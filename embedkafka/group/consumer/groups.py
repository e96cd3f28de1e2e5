"""Heartbeats of consumer groups (KIP-848): joining, assigning, reconciling, leaving, timing out.

A heartbeat may change the member, then the group's epoch, then the target assignment, then what
the member has; all of it in one batch, which is answered when it is stored. Until then whatever
else happens to the group waits its turn (`sequencer.py`).

Owner: the `coordinator` loop, through the shard.
Not here: what records mean (`group.py`), single steps (`steps.py`), members
that speak the classic protocol (`classic_members.py`).
"""

from collections.abc import Callable, MutableMapping
from typing import Final
from uuid import UUID

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.groups import ClassicGroups
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.assignment import (
    NOTHING,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.consumer.heartbeat import (
    Heartbeat,
    HeartbeatReply,
    heartbeat_assignment,
    heartbeat_error,
    refuse_invalid,
    refuse_unreleased,
    refuse_wrong_epoch,
    require_member,
    require_static,
    updated_member,
)
from embedkafka.group.consumer.migration import refuse_upgrade, upgrade_records
from embedkafka.group.consumer.planning import replace_static_member
from embedkafka.group.consumer.records import current_record, find_consumer_key
from embedkafka.group.consumer.steps import ConsumerSteps
from embedkafka.group.decision import Decision, Decisions, SetTimer, TimerKey
from embedkafka.group.records import group_record
from embedkafka.group.sequencer import Sequel
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from embedkafka.runtime.values import replace

# A member that has timed out and whose removal was refused is removed later.
_RETRY_MS: Final = 500


class ConsumerGroups:
    """Decides consumer group events for one shard."""

    def __init__(
        self,
        groups: MutableMapping[str, ConsumerGroup],
        classic_groups: MutableMapping[str, ClassicGroup],
        membership: ClassicGroups,
        steps: ConsumerSteps,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._groups = groups
        self._classic_groups = classic_groups
        self._membership = membership
        self._steps = steps
        self._config = config
        self._new_uuid = new_uuid

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
        version: int,
        reply: HeartbeatReply,
        now_ms: int,
    ) -> Decision:
        """One heartbeat: it joins, keeps in, or leaves."""
        heartbeat = Heartbeat(
            request=request,
            client_id=client_id,
            client_host=client_host,
            version=version,
            reply=reply,
        )
        rule = self._leave if heartbeat.is_leaving else self._stay

        def run(out: Decisions, now_ms: int) -> None:
            try:
                refuse_invalid(heartbeat, self._config.consumer_assignors)
                rule(heartbeat, out, now_ms)
            except ApiError as error:
                out.answer(reply, heartbeat_error(error.code, error.message))

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, heartbeat_error(error))

        return self._steps.sequencer.take(request.group_id, run, now_ms=now_ms, refuse=refuse)

    # Joining and staying

    def _stay(self, heartbeat: Heartbeat, out: Decisions, now_ms: int) -> None:
        records: list[LogRecord] = []
        upgraded = self._find_group_to_upgrade(heartbeat)
        group = (
            self._require_or_new(heartbeat, records)
            if upgraded is None
            else self._upgrade(upgraded, heartbeat.request.member_id, records, out)
        )
        member = self._require_or_new_member(group, heartbeat, records)
        updated = updated_member(member, heartbeat)
        stepped = self._steps.advance(
            group,
            member,
            updated,
            owned=heartbeat.owned,
            records=records,
            out=out,
            now_ms=now_ms,
        )
        self._steps.restart_session(group.group_id, stepped, out)
        has_news = heartbeat.is_full or stepped.assigned != member.assigned
        response = ConsumerGroupHeartbeatResponse(
            member_id=stepped.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=self._steps.heartbeat_interval_ms(group.group_id),
            assignment=heartbeat_assignment(stepped.assigned) if has_news else None,
        )
        then = _answer(heartbeat.reply, response)
        if upgraded is not None:
            then = self._take_over_timers(upgraded, then)
        self._steps.sequencer.store(group.group_id, records, then, out, now_ms=now_ms)

    def _require_or_new(self, heartbeat: Heartbeat, records: list[LogRecord]) -> ConsumerGroup:
        """The group; the first member makes it, in the place of a classic one that is empty."""
        group_id = heartbeat.request.group_id
        group = self._groups.get(group_id)
        if group is not None:
            self._steps.refuse_when_full(group, heartbeat.request.member_id)
            return group
        is_classic = group_id in self._classic_groups
        if not heartbeat.is_joining:
            what = "is not a consumer group." if is_classic else "not found."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}")
        if is_classic:
            records.append(group_record(group_id, None))
        return ConsumerGroup(group_id)

    def _require_or_new_member(
        self, group: ConsumerGroup, heartbeat: Heartbeat, records: list[LogRecord]
    ) -> ConsumerMember:
        request = heartbeat.request
        member_id = request.member_id or str(self._new_uuid())
        static = None
        if request.instance_id is not None:
            static = group.find_static_member(request.instance_id)
        if heartbeat.is_joining:
            if static is None:
                return group.members.get(member_id, ConsumerMember(member_id=member_id))
            if static.classic is None:
                refuse_unreleased(static, member_id)
            return replace_static_member(group, static, member_id, records)
        if request.instance_id is not None:
            member = require_static(group, request.instance_id, member_id)
        else:
            member = require_member(group, member_id)
        refuse_wrong_epoch(member, request.member_epoch, heartbeat.owned)
        return member

    # Upgrading

    def _find_group_to_upgrade(self, heartbeat: Heartbeat) -> ClassicGroup | None:
        """The classic group with members that the joining one turns into a consumer group."""
        classic = self._classic_groups.get(heartbeat.request.group_id)
        if classic is None or classic.state is ClassicGroupState.EMPTY or not heartbeat.is_joining:
            return None
        refuse_upgrade(classic, self._config)
        return classic

    def _upgrade(
        self, classic: ClassicGroup, member_id: str, records: list[LogRecord], out: Decisions
    ) -> ConsumerGroup:
        """The group as it will be when the records are stored."""
        records += upgrade_records(classic, self._steps.topics())
        group = ConsumerGroup(classic.group_id)
        for record in records:
            key = find_consumer_key(record.key)
            if key is not None:
                group.replay(key, record.value)
        self._steps.refuse_when_full(group, member_id)
        self._membership.interrupt(classic, out)
        return group

    def _take_over_timers(self, classic: ClassicGroup, then: Sequel) -> Sequel:
        def take_over(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                self._membership.release(classic, out)
                self._steps.start_timers(self._groups[classic.group_id], out)
            then(stored, out)

        return take_over

    # Leaving

    def _leave(self, heartbeat: Heartbeat, out: Decisions, now_ms: int) -> None:
        request = heartbeat.request
        group = self._groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if request.instance_id is None:
            member = require_member(group, request.member_id)
        else:
            member = require_static(group, request.instance_id, request.member_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        then = _answer(heartbeat.reply, response)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            gone = replace(member, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NOTHING)
            record = current_record(group.group_id, member.member_id, gone)
            self._steps.sequencer.store(group.group_id, [record], then, out, now_ms=now_ms)
        else:
            self._steps.fence(group, [member.member_id], then, out, now_ms=now_ms)

    def on_timeout(self, key: TimerKey, *, now_ms: int) -> Decision:
        """The member has been silent, or has not joined or synced in time."""
        return self._fence_if(key, lambda member: True, now_ms)

    def on_rebalance_timeout(self, key: TimerKey, *, now_ms: int) -> Decision:
        """The member has not given up what it was asked to."""

        def is_late(member: ConsumerMember) -> bool:
            return member.state is MemberState.UNREVOKED_PARTITIONS

        return self._fence_if(key, is_late, now_ms)

    def _fence_if(
        self, key: TimerKey, condition: Callable[[ConsumerMember], bool], now_ms: int
    ) -> Decision:
        def run(out: Decisions, now_ms: int) -> None:
            group = self._groups.get(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if group is not None and member is not None and condition(member):
                self._steps.fence(group, [key.member_id], retry, out, now_ms=now_ms)

        def retry(stored: Stored, out: Decisions) -> None:
            if stored.error is not ErrorCode.NONE:
                out.do(SetTimer(key, _RETRY_MS))

        return self._steps.sequencer.take(key.group_id, run, now_ms=now_ms)

    def on_loaded(self) -> Decision:
        """Sessions begin when the shard is loaded."""
        out = Decisions()
        for group in self._groups.values():
            self._steps.start_timers(group, out)
        return out.done()


def _answer(reply: HeartbeatReply, response: ConsumerGroupHeartbeatResponse) -> Sequel:
    def then(stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            out.answer(reply, response)
        else:
            code = stored.told_as()
            out.answer(reply, heartbeat_error(code))

    return then
