"""Heartbeats of consumer groups (KIP-848): joining, assigning, reconciling, leaving, timing out.

A heartbeat may change the member, then the group's epoch, then the target assignment, then what
the member has; all of it in one batch, which is answered when it is stored. Until then whatever
else happens to the group waits its turn, for it would be decided on state that is about to change.

Owner: the `coordinator` loop, through the shard.
Invariants: at most one batch of a group is on its way to the log.
Not here: what records mean (`consumer_group.py`), single steps (`consumer_assignment.py`).
"""

from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from embedkafka.group.append_errors import CONSUMER_GROUP_ERRORS
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer_assignment import (
    NOTHING,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    reconcile,
)
from embedkafka.group.consumer_group import ConsumerGroup
from embedkafka.group.consumer_heartbeat import (
    Heartbeat,
    HeartbeatReply,
    heartbeat_assignment,
    heartbeat_error,
    refuse_invalid,
    refuse_wrong_epoch,
    require_member,
    require_static,
    updated_member,
)
from embedkafka.group.consumer_planning import (
    Plan,
    find_predecessor,
    group_tombstones,
    plan,
    remove_member,
    replace_static_member,
)
from embedkafka.group.consumer_records import current_record, member_record
from embedkafka.group.decision import (
    Decision,
    Decisions,
    LogRecord,
    Stored,
    TimerKey,
    TimerKind,
)
from embedkafka.group.group import Group
from embedkafka.group.ports import TopicCatalog
from embedkafka.group.records import group_record
from embedkafka.group.states import GroupState
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_Rule = Callable[[Decisions, int], None]
"""Decides something about a group, given where to put it and the time."""
_Turn = tuple[_Rule, HeartbeatReply | None]
"""A rule that waits, and who is to be told if its time does not come."""


class ConsumerGroups:
    """Decides consumer group events for one shard."""

    def __init__(
        self,
        groups: MutableMapping[str, ConsumerGroup],
        classic_groups: MutableMapping[str, Group],
        config: GroupConfig,
        catalog: TopicCatalog,
        new_uuid: Callable[[], UUID],
        replay: Callable[[LogRecord], None],
    ) -> None:
        self._groups = groups
        self._classic_groups = classic_groups
        self._config = config
        self._catalog = catalog
        self._new_uuid = new_uuid
        self._replay = replay
        self._waiting: dict[str, deque[_Turn]] = {}

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
                refuse_invalid(heartbeat)
                rule(heartbeat, out, now_ms)
            except ApiError as error:
                out.answer(reply, heartbeat_error(error.code, error.message))

        return self._take_turn(request.group_id, run, reply, now_ms)

    def find(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    def all(self) -> list[ConsumerGroup]:
        return list(self._groups.values())

    def is_idle(self, group: ConsumerGroup) -> bool:
        """Whether the group has no members, and none on their way."""
        return not group.members and not self.is_busy(group.group_id)

    def is_busy(self, group_id: str) -> bool:
        """Whether something about the group is on its way to the log."""
        return group_id in self._waiting

    def bury(self, group: ConsumerGroup, *, now_ms: int) -> list[LogRecord]:
        """Takes an idle group out, and returns what says so in the log."""
        del self._groups[group.group_id]
        return group_tombstones(group, now_ms=now_ms)

    # Joining and staying

    def _stay(self, heartbeat: Heartbeat, out: Decisions, now_ms: int) -> None:
        records: list[LogRecord] = []
        group = self._require_or_new(heartbeat, records)
        request = heartbeat.request
        member = self._require_or_new_member(group, heartbeat, records)
        updated = updated_member(member, heartbeat)
        if updated != member:
            records.append(member_record(group.group_id, updated.member_id, updated))
        goal = plan(group, member, updated, self._catalog.topics(), records, now_ms=now_ms)
        stepped = updated
        if not updated.is_reconciled_to(goal.epoch):
            stepped = self._reconcile(group, updated, goal, heartbeat, records)
            self._watch_revocation(group.group_id, updated, stepped, out)
        out.set_timer(
            _session(group.group_id, stepped.member_id),
            self._config.consumer_session_timeout_ms,
        )
        has_news = heartbeat.is_full or stepped.assigned != member.assigned
        response = ConsumerGroupHeartbeatResponse(
            member_id=stepped.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=self._config.consumer_heartbeat_interval_ms,
            assignment=heartbeat_assignment(stepped.assigned) if has_news else None,
        )
        self._store(request.group_id, records, heartbeat.reply, response, out)

    def _require_or_new(self, heartbeat: Heartbeat, records: list[LogRecord]) -> ConsumerGroup:
        """The group; the first member makes it, in the place of a classic one that is empty."""
        group_id = heartbeat.request.group_id
        group = self._groups.get(group_id)
        if group is not None:
            self._refuse_when_full(group, heartbeat.request.member_id)
            return group
        classic = self._classic_groups.get(group_id)
        if not heartbeat.is_joining or (
            classic is not None and classic.state is not GroupState.EMPTY
        ):
            is_classic = classic is not None
            what = "is not a consumer group." if is_classic else "not found."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}")
        if classic is not None:
            records.append(group_record(group_id, None))
        return ConsumerGroup(group_id)

    def _refuse_when_full(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._config.consumer_group_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _require_or_new_member(
        self, group: ConsumerGroup, heartbeat: Heartbeat, records: list[LogRecord]
    ) -> ConsumerMember:
        request = heartbeat.request
        member_id = request.member_id or str(self._new_uuid())
        static = None
        if request.instance_id is not None:
            static = group.find_static_member(request.instance_id)
        if heartbeat.is_joining:
            if static is not None and (
                static.member_id != member_id or static.has_left_for_a_while()
            ):
                return replace_static_member(group, static, member_id, records)
            return group.members.get(member_id, ConsumerMember(member_id=member_id))
        if request.instance_id is not None:
            member = require_static(group, request.instance_id, member_id)
        else:
            member = require_member(group, member_id)
        refuse_wrong_epoch(member, request.member_epoch, heartbeat.owned)
        return member

    # The member's own assignment

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        goal: Plan,
        heartbeat: Heartbeat,
        records: list[LogRecord],
    ) -> ConsumerMember:
        predecessor = find_predecessor(group, member)
        own_ids = {member.member_id, predecessor.member_id if predecessor else None, None}
        holders = group.holders()

        def is_taken(topic_id: UUID, partition: int) -> bool:
            return holders.get((topic_id, partition)) not in own_ids

        stepped = reconcile(
            member,
            target=goal.target,
            target_epoch=goal.epoch,
            owned=heartbeat.owned,
            is_taken=is_taken,
        )
        if stepped != member:
            records.append(current_record(group.group_id, stepped.member_id, stepped))
        return stepped

    def _watch_revocation(
        self, group_id: str, before: ConsumerMember, after: ConsumerMember, out: Decisions
    ) -> None:
        """A member that must give partitions up has its rebalance timeout for it."""
        if after == before:
            return
        key = _rebalance(group_id, after.member_id)
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            out.set_timer(key, after.rebalance_timeout_ms)
        else:
            out.cancel_timer(key)

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
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            gone = replace(member, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NOTHING)
            records = [current_record(group.group_id, member.member_id, gone)]
        else:
            records = self._remove(group, member, out, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        self._store(group.group_id, records, heartbeat.reply, response, out)

    def _remove(
        self, group: ConsumerGroup, member: ConsumerMember, out: Decisions, now_ms: int
    ) -> list[LogRecord]:
        out.cancel_timer(_session(group.group_id, member.member_id))
        out.cancel_timer(_rebalance(group.group_id, member.member_id))
        return remove_member(group, member, self._catalog.topics(), now_ms=now_ms)

    def on_session_timeout(self, group_id: str, member_id: str, *, now_ms: int) -> Decision:
        """The member has not been heard of."""
        return self._fence_if(group_id, member_id, lambda member: True, now_ms)

    def on_rebalance_timeout(self, group_id: str, member_id: str, *, now_ms: int) -> Decision:
        """The member has not given up what it was asked to."""

        def is_late(member: ConsumerMember) -> bool:
            return member.state is MemberState.UNREVOKED_PARTITIONS

        return self._fence_if(group_id, member_id, is_late, now_ms)

    def _fence_if(
        self,
        group_id: str,
        member_id: str,
        condition: Callable[[ConsumerMember], bool],
        now_ms: int,
    ) -> Decision:
        def run(out: Decisions, now_ms: int) -> None:
            group = self._groups.get(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is not None and member is not None and condition(member):
                records = self._remove(group, member, out, now_ms)
                self._store(group_id, records, None, None, out)

        return self._take_turn(group_id, run, None, now_ms)

    def on_loaded(self) -> Decision:
        """Sessions begin when the shard is loaded."""
        out = Decisions()
        for group in self._groups.values():
            for member in group.members.values():
                out.set_timer(
                    _session(group.group_id, member.member_id),
                    self._config.consumer_session_timeout_ms,
                )
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    key = _rebalance(group.group_id, member.member_id)
                    out.set_timer(key, member.rebalance_timeout_ms)
        return out.done()

    def on_unloaded(self) -> Decision:
        """Another broker leads now: whoever waits for a turn must look for it."""
        out = Decisions()
        waiting, self._waiting = self._waiting, {}
        for turns in waiting.values():
            for _, reply in turns:
                if reply is not None:
                    out.answer(reply, heartbeat_error(ErrorCode.NOT_COORDINATOR))
        return out.done()

    # Turns

    def _take_turn(
        self, group_id: str, rule: _Rule, reply: HeartbeatReply | None, now_ms: int
    ) -> Decision:
        """Runs the rule, now or after what the group has on its way to the log."""
        out = Decisions()
        if group_id in self._waiting:
            self._waiting[group_id].append((rule, reply))
        else:
            rule(out, now_ms)
        return out.done()

    def _store(
        self,
        group_id: str,
        records: Sequence[LogRecord],
        reply: HeartbeatReply | None,
        response: ConsumerGroupHeartbeatResponse | None,
        out: Decisions,
    ) -> None:
        """Appends, replays, answers, and then lets the next rule have its turn."""
        if not records:
            if reply is not None and response is not None:
                out.answer(reply, response)
            return
        self._waiting[group_id] = deque()
        out.write(records, partial(self._on_stored, group_id, records, reply, response))

    def _on_stored(
        self,
        group_id: str,
        records: Sequence[LogRecord],
        reply: HeartbeatReply | None,
        response: ConsumerGroupHeartbeatResponse | None,
        stored: Stored,
    ) -> Decision:
        out = Decisions()
        if stored.error is ErrorCode.NONE:
            for record in records:
                self._replay(record)
        else:
            response = heartbeat_error(CONSUMER_GROUP_ERRORS.get(stored.error, stored.error))
        if reply is not None and response is not None:
            out.answer(reply, response)
        waiting = self._waiting.pop(group_id, None)
        while waiting:
            rule, _ = waiting.popleft()
            rule(out, stored.now_ms)
            if group_id in self._waiting:
                self._waiting[group_id].extend(waiting)
                break
        return out.done()


def _session(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.CONSUMER_SESSION, group_id, member_id)


def _rebalance(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.CONSUMER_REBALANCE, group_id, member_id)
