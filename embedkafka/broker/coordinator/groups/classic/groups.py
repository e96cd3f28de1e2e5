"""Membership of classic groups: join, sync, heartbeat, leave, and their timeouts.

Rules change soft state (waiting requests, generations) at once. An assignment takes effect when
its record is stored.

Owner: the `coordinator` loop, through the shard.
Invariants: a waiting request is answered exactly once, even if its member is removed; each member
that is neither new nor waiting has a running session timer.
Not here: offsets (`offsets/`), the admin's view (`describe.py`).
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import Stored
from embedkafka.broker.coordinator.groups.calls import (
    UNKNOWN_MEMBER_ID,
    Committer,
    HeartbeatCall,
    JoinCall,
    LeaveCall,
    SyncCall,
    join_error,
    refuse,
    sync_error,
)
from embedkafka.broker.coordinator.groups.classic.group import ClassicGroup
from embedkafka.broker.coordinator.groups.classic.member import ClassicMember
from embedkafka.broker.coordinator.groups.classic.messages import (
    assignment_response,
    find_heartbeat_error,
    find_sync_error,
    generation_response,
    metadata_record,
    new_member,
    read_group,
)
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.decision import (
    CancelTimer,
    Decisions,
    SetTimer,
    TimerKey,
    TimerKind,
)
from embedkafka.broker.coordinator.groups.records import read_key
from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.codec import decode_versioned
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.groups import HeartbeatResponse, LeaveGroupRequest
from embedkafka.wire.protocol.messages.internal import GroupMetadataKey, GroupMetadataValue

_LOG = logging.getLogger(__name__)

# A member cannot send heartbeats during its first join, and its connection is muted, so a closed
# one goes unnoticed. Kafka gives it five minutes.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000

# A timeout leaves it open whether the group was stored: members join again and find out.
_STORE_ERRORS: Final = {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}


_TIMERS: Final = (TimerKind.SESSION, TimerKind.JOIN, TimerKind.SYNC)


class ClassicGroups:
    """`kinds.GroupKind`: decides classic group events for one shard."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], UUID]) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._config = config
        self._new_uuid = new_uuid

    # Join

    def join(self, call: JoinCall, out: Decisions, now_ms: int) -> None:
        """Lets a consumer in, or back in; the answer may wait for the others to join."""
        request = call.request
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        error = self.find_join_error(call)
        if error is not None:
            refuse(call, error, out)
            return
        group = self.groups.get(request.group_id)
        if group is None:
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, now_ms=now_ms)
        if not self._has_room_for(group, request.member_id):
            self._drop(group, request.member_id, out)
            out.answer(call.reply, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, call.protocols):
            refuse(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, out)
        elif is_unknown:
            self._join_new(group, call, out, now_ms)
        elif request.member_id in group.pending_members and request.group_instance_id is not None:
            # A broker makes ids for dynamic members only; Kafka does not expect another one here.
            out.answer(call.reply, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
        elif request.member_id in group.pending_members:
            self._add_and_rebalance(group, call, request.member_id, out, now_ms)
        else:
            self._join_known(group, call, out, now_ms)
        self._try_complete_join(group, out, now_ms)

    def find_join_error(self, call: JoinCall) -> ErrorCode | None:
        """The error of a join that no group would accept."""
        request = call.request
        error = call.find_session_error(self._config)
        is_known = request.member_id != UNKNOWN_MEMBER_ID
        if error is None and is_known and request.group_id not in self.groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return error

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group is below its limit; during a rebalance, joined members count."""
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.EMPTY:
            return True
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < self._config.group_max_size
        return member is not None or len(group.members) < self._config.group_max_size

    def _join_new(self, group: ClassicGroup, call: JoinCall, out: Decisions, now_ms: int) -> None:
        instance_id = call.request.group_instance_id
        prefix = call.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._new_uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, call, member_id, out, now_ms)
        elif call.requires_known_member_id:
            group.pending_members.add(member_id)
            out.do(SetTimer(_session(group, member_id), call.request.session_timeout_ms))
            out.answer(call.reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add_and_rebalance(group, call, member_id, out, now_ms)

    def _join_known(self, group: ClassicGroup, call: JoinCall, out: Decisions, now_ms: int) -> None:
        request = call.request
        error = group.find_member_error(request.member_id, request.group_instance_id)
        if error is None and group.state is ClassicGroupState.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None:
            refuse(call, error, out)
            return
        member = group.members[request.member_id]
        is_same = member.matches(call.protocols)
        is_leader = member.member_id == group.leader_id
        # A leader that joins a stable group asks for a rebalance: its subscription need not show
        # the reason, such as a new partition. During a rebalance its join is only a retry.
        is_retry = group.state is ClassicGroupState.COMPLETING_REBALANCE or (
            group.state is ClassicGroupState.STABLE and not is_leader
        )
        if is_retry and is_same:
            out.answer(call.reply, generation_response(group, member))
        else:
            # A waiting member that joins again has lost its first connection.
            _answer_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
            self._update(member, call)
            self._rebalance_if_possible(group, out, now_ms)

    def _update(self, member: ClassicMember, call: JoinCall) -> None:
        member.protocols = call.protocols
        member.rebalance_timeout_ms = call.rebalance_timeout_ms
        member.session_timeout_ms = call.request.session_timeout_ms
        member.awaiting_join = call.reply

    def _add_and_rebalance(
        self, group: ClassicGroup, call: JoinCall, member_id: str, out: Decisions, now_ms: int
    ) -> None:
        member = new_member(call, member_id)
        member.is_new = True
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, call.request.protocol_type, call.reply)
        out.do(SetTimer(_session(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS))
        self._rebalance_if_possible(group, out, now_ms)

    # Static members

    def _replace_static(
        self, group: ClassicGroup, call: JoinCall, new_id: str, out: Decisions, now_ms: int
    ) -> None:
        """A static member is back under a new id: it keeps its place, and the old id is fenced."""
        instance_id = call.request.group_instance_id
        assert instance_id is not None
        old_id = group.static_members[instance_id]
        member = group.members[old_id]
        before = ReplacedMember(
            instance_id=instance_id,
            member_id=old_id,
            protocols=member.protocols,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            leader_id=group.leader_id,
        )
        _answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID, out)
        group.replace_static_member(instance_id, old_id, new_id)
        out.do(CancelTimer(_session(group, old_id)))
        out.do(SetTimer(_session(group, new_id), call.request.session_timeout_ms))
        self._update(member, call)
        if (
            group.state is ClassicGroupState.STABLE
            and group.select_protocol() == group.protocol_name
        ):
            group.refresh_subscribed_topics()
            assignment = {m.member_id: m.assignment for m in group.members.values()}
            then = StaticMemberStored(
                rules=self, group=group, member=member, call=call, before=before
            )
            out.write([metadata_record(group, assignment)], then)
        elif group.state is not ClassicGroupState.PREPARING_REBALANCE:
            # In CompletingRebalance too: the leader may already have assigned to the old id.
            self._rebalance_if_possible(group, out, now_ms)

    def on_static_member_stored(
        self, step: "StaticMemberStored", stored: Stored, out: Decisions
    ) -> None:
        group, member, call = step.group, step.member, step.call
        error = stored.told_as(_STORE_ERRORS)
        if error is not ErrorCode.NONE:
            if group.members.get(member.member_id) is member and member.awaiting_join is not None:
                self._restore_static(group, member, step.before, error, out)
            return
        if member.awaiting_join is not call.reply or group.state is not ClassicGroupState.STABLE:
            return  # The member was fenced or a rebalance started, and that answers the join.
        if call.can_skip_assignment:
            is_leader = member.member_id == group.leader_id
            response = replace(generation_response(group, member), skip_assignment=is_leader)
        else:
            # An older leader must not assign in a stable group. Naming its former id as the leader
            # makes it ask for the assignment as a follower does.
            response = replace(
                generation_response(group, member), leader=step.before.leader_id or "", members=[]
            )
        member.awaiting_join = None
        out.answer(call.reply, response)

    def _restore_static(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        before: "ReplacedMember",
        error: ErrorCode,
        out: Decisions,
    ) -> None:
        """The new id was not stored: goes back to the old one, the only one in the log."""
        reply, member.awaiting_join = member.awaiting_join, None
        out.do(CancelTimer(_session(group, member.member_id)))
        group.replace_static_member(before.instance_id, member.member_id, before.member_id)
        member.protocols = before.protocols
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        group.refresh_subscribed_topics()
        _restart_session(group, member, out)
        if reply is not None:
            out.answer(reply, join_error(error))

    # The rebalance

    def _rebalance_if_possible(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        if group.can_rebalance:
            self._rebalance(group, out, now_ms)

    def _rebalance(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        """Makes all members join again; a new group waits for more members first."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            _answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, out)
        out.do(CancelTimer(_sync_timer(group)))
        if group.state is ClassicGroupState.EMPTY:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.new_member_added = False
            group.move_to(ClassicGroupState.PREPARING_REBALANCE, now_ms=now_ms)
            if delay_ms == 0:
                self._complete_join(group, out, now_ms)
            else:
                out.do(SetTimer(_join_timer(group), delay_ms))
        else:
            group.move_to(ClassicGroupState.PREPARING_REBALANCE, now_ms=now_ms)
            out.do(SetTimer(_join_timer(group), group.rebalance_timeout_ms))
            self._try_complete_join(group, out, now_ms)

    def _try_complete_join(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        is_waiting = group.state is ClassicGroupState.PREPARING_REBALANCE
        if is_waiting and group.initial_delay_left_ms is None and group.all_members_joined:
            self._complete_join(group, out, now_ms)

    def _on_join_timeout(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        """The rebalance has waited long enough, or its initial delay is over."""
        if group.state is not ClassicGroupState.PREPARING_REBALANCE:
            return
        left_ms = group.initial_delay_left_ms
        if left_ms and group.new_member_added:
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            group.new_member_added = False
            group.initial_delay_left_ms = left_ms - delay_ms
            out.do(SetTimer(_join_timer(group), delay_ms))
        else:
            self._complete_join(group, out, now_ms)

    def _complete_join(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        """Starts the generation with the members that have joined, and answers them."""
        group.initial_delay_left_ms = None
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                group.remove(member.member_id)
                out.do(CancelTimer(_session(group, member.member_id)))
        if group.members and not group.elect_joined_leader():
            # Only absent static members are left: waits on until their sessions end.
            out.do(SetTimer(_join_timer(group), group.rebalance_timeout_ms))
            return
        out.do(CancelTimer(_join_timer(group)))
        group.next_generation(now_ms=now_ms)
        if group.state is ClassicGroupState.EMPTY:
            out.write([metadata_record(group, {})], EmptyGroupStored(group_id=group.group_id))
            return
        for member in group.members.values():
            if member.awaiting_join is not None:
                out.answer(member.awaiting_join, generation_response(group, member))
                member.awaiting_join = None
            _restart_session(group, member, out)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        out.do(SetTimer(_sync_timer(group), group.rebalance_timeout_ms))

    # Sync

    def sync(self, call: SyncCall, out: Decisions) -> None:
        """Stores the leader's assignment, and then gives each member its part."""
        group = self.groups.get(call.group_id)
        error = find_sync_error(group, call)
        if group is None or error is not None:
            refuse(call, error or ErrorCode.UNKNOWN_MEMBER_ID, out)
            return
        member = group.members[call.request.member_id]
        group.pending_sync_members.discard(member.member_id)
        if not group.pending_sync_members:
            out.do(CancelTimer(_sync_timer(group)))
        if group.state is ClassicGroupState.STABLE:
            out.answer(call.reply, assignment_response(group, member))
            _restart_session(group, member, out)
            return
        _answer_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
        member.awaiting_sync = call.reply
        if member.member_id == group.leader_id:
            given = {a.member_id: bytes(a.assignment) for a in call.request.assignments}
            assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
            then = AssignmentStored(
                rules=self,
                group=group,
                generation_id=group.generation_id,
                assignment=assignment,
            )
            out.write([metadata_record(group, assignment)], then)

    def on_assignment_stored(
        self, step: "AssignmentStored", stored: Stored, out: Decisions
    ) -> None:
        group = step.group
        is_current = group.generation_id == step.generation_id
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE or not is_current:
            return  # Another rebalance has started, and has answered the waiting members.
        error = stored.told_as(_STORE_ERRORS)
        if error is not ErrorCode.NONE:
            for member in group.members.values():
                member.assignment = b""
            _answer_syncs(group, error, out)
            self._rebalance_if_possible(group, out, stored.now_ms)
            return
        for member in group.members.values():
            member.assignment = step.assignment.get(member.member_id, b"")
        _answer_syncs(group, ErrorCode.NONE, out)
        group.move_to(ClassicGroupState.STABLE, now_ms=stored.now_ms)

    def _on_sync_timeout(self, group: ClassicGroup, out: Decisions, now_ms: int) -> None:
        """Removes members that joined and never synced; the others join again."""
        is_open = group.is_in(ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
        if is_open and group.pending_sync_members:
            for member_id in list(group.pending_sync_members):
                self._drop(group, member_id, out)
            self._rebalance(group, out, now_ms)

    # Heartbeat, leave, session timeout

    def heartbeat(self, call: HeartbeatCall, out: Decisions) -> None:
        group = self.groups.get(call.group_id)
        error = find_heartbeat_error(group, call)
        if group is not None and error is None:
            _restart_session(group, group.members[call.request.member_id], out)
            if group.state is ClassicGroupState.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        out.answer(call.reply, HeartbeatResponse(error_code=error or ErrorCode.NONE))

    def on_commit(self, committer: Committer, out: Decisions) -> None:
        """A member that commits is alive, as if it had sent a heartbeat."""
        group = self.groups[committer.group_id]
        if group.state is not ClassicGroupState.EMPTY and not committer.is_transactional:
            _restart_session(group, group.members[committer.member_id], out)

    def leave(self, call: LeaveCall, out: Decisions, now_ms: int) -> None:
        """Removes members that leave, or static ones that an admin names (no member id)."""
        group = self.groups.get(call.group_id)
        errors = [self._leave_one(group, member, out, now_ms) for member in call.members]
        out.answer(call.reply, call.response(errors))

    def _leave_one(
        self,
        group: ClassicGroup | None,
        leaving: LeaveGroupRequest.Member,
        out: Decisions,
        now_ms: int,
    ) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID and instance_id is not None:
            member_id = group.static_members.get(instance_id, UNKNOWN_MEMBER_ID)
        if member_id in group.pending_members:
            self._remove_pending(group, member_id, out, now_ms)
            return ErrorCode.NONE
        error = group.find_member_error(member_id, instance_id)
        if error is None:
            self._remove(group, member_id, out, now_ms)
        return error or ErrorCode.NONE

    def _on_session_timeout(
        self, group: ClassicGroup, member_id: str, out: Decisions, now_ms: int
    ) -> None:
        """A member, or a client with a fresh member id, was silent for too long."""
        member = group.members.get(member_id)
        if member_id in group.pending_members:
            self._remove_pending(group, member_id, out, now_ms)
        elif member is not None and not member.is_excused:
            _LOG.info("member %s of group %s has timed out", member_id, group.group_id)
            self._remove(group, member_id, out, now_ms)

    def _remove_pending(
        self, group: ClassicGroup, member_id: str, out: Decisions, now_ms: int
    ) -> None:
        group.pending_members.discard(member_id)
        out.do(CancelTimer(_session(group, member_id)))
        self._try_complete_join(group, out, now_ms)

    def _remove(self, group: ClassicGroup, member_id: str, out: Decisions, now_ms: int) -> None:
        self._drop(group, member_id, out)
        if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self._rebalance_if_possible(group, out, now_ms)
        else:
            self._try_complete_join(group, out, now_ms)

    def _drop(self, group: ClassicGroup, member_id: str, out: Decisions) -> None:
        """Removes the member; UNKNOWN_MEMBER_ID ends its waiting request, which it may retry."""
        group.pending_members.discard(member_id)
        member = group.remove(member_id)
        if member is not None:
            _answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
        out.do(CancelTimer(_session(group, member_id)))

    # Timers

    @property
    def timers(self) -> Collection[TimerKind]:
        return _TIMERS

    def on_timer(self, key: TimerKey, out: Decisions, now_ms: int) -> None:
        group = self.groups.get(key.group_id)
        if group is None:
            return
        match key.kind:
            case TimerKind.JOIN:
                self._on_join_timeout(group, out, now_ms)
            case TimerKind.SYNC:
                self._on_sync_timeout(group, out, now_ms)
            case _:
                self._on_session_timeout(group, key.member_id, out, now_ms)

    # Groups without members

    def add_simple_group(self, group_id: str, *, now_ms: int) -> ClassicGroup:
        """Adds a group that only keeps offsets. It has no record and no members."""
        group = self.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)
        return group

    def dismiss(self, group_id: str, out: Decisions) -> None:
        """Members that are still there join again, and learn that their ids are unknown."""
        group = self.groups[group_id]
        self.interrupt(group, out)
        self.release(group, out)

    def on_deleted(self, group_id: str) -> None:
        """Drops a group that has no record, and so no tombstone."""
        self._forget(group_id)

    # Migration

    def interrupt(self, group: ClassicGroup, out: Decisions) -> None:
        """Makes waiting members join again: the group is about to be another one, or none."""
        for member in group.members.values():
            _answer_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS, out)

    def release(self, group: ClassicGroup, out: Decisions) -> None:
        """The group is a consumer group now, with other timers, or is about to go."""
        out.do(CancelTimer(_join_timer(group)))
        out.do(CancelTimer(_sync_timer(group)))
        for member_id in (*group.members, *group.pending_members):
            out.do(CancelTimer(_session(group, member_id)))

    def adopt(self, group: ClassicGroup, out: Decisions, *, now_ms: int, rebalances: bool) -> None:
        """Takes over a group that was a consumer group until now.

        The replayed group knows one protocol of each member; this one knows all.
        """
        self.groups[group.group_id] = group
        for member in group.members.values():
            _restart_session(group, member, out)
        if rebalances:
            self._rebalance(group, out, now_ms)

    # The log

    def replay(self, key: bytes, value: bytes | None) -> bool:
        group_key = read_key(key)
        if not isinstance(group_key, GroupMetadataKey):
            return False
        if value is None:
            self._forget(group_key.group)
        else:
            read = decode_versioned(GroupMetadataValue, value)
            self.groups[group_key.group] = read_group(group_key.group, read)
        return True

    def on_loaded(self, out: Decisions, now_ms: int) -> None:
        """Starts all sessions. Groups that are too large rebalance."""
        for group in self.groups.values():
            for member in group.members.values():
                _restart_session(group, member, out)
            if len(group.members) > self._config.group_max_size:
                self._rebalance_if_possible(group, out, now_ms)

    def on_unloaded(self, out: Decisions) -> None:
        for group in self.groups.values():
            for member in group.members.values():
                _answer_waiting(member, ErrorCode.NOT_COORDINATOR, out)
            group.die()

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.die()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedMember:
    """A static member as it was before its id was replaced."""

    instance_id: str
    member_id: str
    protocols: tuple[ClassicProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    leader_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMemberStored:
    """Continues after the record with a static member's new id."""

    rules: ClassicGroups
    group: ClassicGroup
    member: ClassicMember
    call: JoinCall
    before: ReplacedMember

    def __call__(self, stored: Stored, out: Decisions) -> None:
        self.rules.on_static_member_stored(self, stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStored:
    """Continues after the record with the leader's assignment."""

    rules: ClassicGroups
    group: ClassicGroup
    generation_id: int
    assignment: Mapping[str, bytes]

    def __call__(self, stored: Stored, out: Decisions) -> None:
        self.rules.on_assignment_stored(self, stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyGroupStored:
    """Continues after the record of a group that its last member has left."""

    group_id: str

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is not ErrorCode.NONE:
            # The next coordinator loads the last generation, and its members time out. A cluster
            # that is closing has no next coordinator.
            _LOG.info("empty group %s was not stored: %s", self.group_id, stored.error.name)


def _answer_waiting(member: ClassicMember, error: ErrorCode, out: Decisions) -> None:
    """Ends the member's waiting join or sync."""
    if member.awaiting_join is not None:
        is_unknown = error is ErrorCode.UNKNOWN_MEMBER_ID
        member_id = UNKNOWN_MEMBER_ID if is_unknown else member.member_id
        out.answer(member.awaiting_join, join_error(error, member_id))
        member.awaiting_join = None
    if member.awaiting_sync is not None:
        out.answer(member.awaiting_sync, sync_error(error))
        member.awaiting_sync = None


def _answer_syncs(group: ClassicGroup, error: ErrorCode, out: Decisions) -> None:
    """Answers all waiting syncs and restarts the sessions of their members."""
    for member in group.members.values():
        if member.awaiting_sync is None:
            continue
        is_good = error is ErrorCode.NONE
        response = assignment_response(group, member) if is_good else sync_error(error)
        out.answer(member.awaiting_sync, response)
        member.awaiting_sync = None
        _restart_session(group, member, out)


def _restart_session(group: ClassicGroup, member: ClassicMember, out: Decisions) -> None:
    """The member is alive, or has that long to show it."""
    out.do(SetTimer(_session(group, member.member_id), member.session_timeout_ms))


def _session(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.SESSION, group.group_id, member_id)


def _join_timer(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.JOIN, group.group_id)


def _sync_timer(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.SYNC, group.group_id)
