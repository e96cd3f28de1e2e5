"""Heartbeats of consumer groups (KIP-848): joining, assigning, reconciling, leaving, timing out.

A heartbeat may change the member, then the group's epoch, then the target assignment, then what
the member has; all of it in one batch, which is answered when it is stored. Until then whatever
else happens to the group waits its turn, for it would be decided on state that is about to change.

Owner: the `coordinator` loop, through the shard.
Invariants: at most one batch of a group is on its way to the log.
Not here: what records mean (`consumer_group.py`), single steps (`consumer_assignment.py`).
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from embedkafka.group.append_errors import CONSUMER_GROUP_ERRORS
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer_assignment import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOTHING,
    STATIC_LEAVING_EPOCH,
    Assignment,
    ConsumerMember,
    MemberState,
    assignment_of,
    is_subset,
    reconcile,
)
from embedkafka.group.consumer_assignors import ASSIGNORS, MemberSpec
from embedkafka.group.consumer_group import ConsumerGroup, TopicMetadata, resolve
from embedkafka.group.consumer_records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    subscription_metadata_record,
    target_epoch_record,
    target_record,
)
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

HeartbeatReply = Callable[[ConsumerGroupHeartbeatResponse], None]
_Rule = Callable[[Decisions, int], None]
"""Decides something about a group, given where to put it and the time."""
_Turn = tuple[_Rule, HeartbeatReply | None]
"""A rule that waits, and who is to be told if its time does not come."""

_FIRST_WITH_OWN_MEMBER_IDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heartbeat:
    """A heartbeat with what its connection and version say about it."""

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    version: int
    reply: HeartbeatReply

    @property
    def owned(self) -> Assignment | None:
        topics = self.request.topic_partitions
        if topics is None:
            return None
        return assignment_of((topic.topic_id, topic.partitions) for topic in topics)

    @property
    def is_joining(self) -> bool:
        return self.request.member_epoch == JOINING_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the member tells everything: it joins, or is not sure of what we know."""
        request = self.request
        has_subscription = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return self.is_joining or (
            request.rebalance_timeout_ms != -1
            and has_subscription
            and request.topic_partitions is not None
        )


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
        heartbeat = _Heartbeat(
            request=request,
            client_id=client_id,
            client_host=client_host,
            version=version,
            reply=reply,
        )
        is_leaving = request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
        rule = self._leave if is_leaving else self._stay

        def run(out: Decisions, now_ms: int) -> None:
            try:
                _refuse_invalid(heartbeat)
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

    def _stay(self, heartbeat: _Heartbeat, out: Decisions, now_ms: int) -> None:
        records: list[LogRecord] = []
        group = self._require_or_new(heartbeat, records)
        request = heartbeat.request
        member = self._require_or_new_member(group, heartbeat, records)
        updated = _updated(member, heartbeat)
        if updated != member:
            records.append(member_record(group.group_id, updated.member_id, updated))
        members = {m.member_id: m for m in group.members.values() if not _replaces(updated, m)}
        members[updated.member_id] = updated
        plan = self._plan(group, members, member, updated, records, now_ms)
        stepped = updated
        if not updated.is_reconciled_to(plan.epoch):
            stepped = self._reconcile(group, updated, plan, heartbeat, records)
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
            assignment=_assignment(stepped.assigned) if has_news else None,
        )
        self._store(request.group_id, records, heartbeat.reply, response, out)

    def _require_or_new(self, heartbeat: _Heartbeat, records: list[LogRecord]) -> ConsumerGroup:
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
        self, group: ConsumerGroup, heartbeat: _Heartbeat, records: list[LogRecord]
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
                return _replaced_static(group, static, member_id, records)
            return group.members.get(member_id, ConsumerMember(member_id=member_id))
        if request.instance_id is not None:
            member = _require_static(group, request.instance_id, member_id)
        else:
            member = _require_member(group, member_id)
        _refuse_wrong_epoch(member, request.member_epoch, heartbeat.owned)
        return member

    # The group's epoch and its target assignment

    def _plan(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        before: ConsumerMember,
        after: ConsumerMember,
        records: list[LogRecord],
        now_ms: int,
    ) -> "_Plan":
        """Moves the group's epoch on when subscriptions or topics changed, and assigns anew."""
        topics = self._catalog.topics()
        resolved = self._resolve(group, members.values(), topics, records, now_ms)
        subscriptions = {m.member_id: group.topics_of(m, resolved) for m in members.values()}
        metadata = {
            name: topics[name]
            for name in sorted(frozenset().union(*subscriptions.values()))
            if name in topics
        }
        epoch = group.group_epoch
        is_new = after.member_id not in group.members and _predecessor(group, after) is None
        has_changed = (
            is_new
            or before.subscribed_topic_names != after.subscribed_topic_names
            or (before.subscribed_topic_regex or None) != (after.subscribed_topic_regex or None)
        )
        if metadata != group.subscription_metadata:
            records.append(subscription_metadata_record(group.group_id, metadata))
            has_changed = True
        if has_changed:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch))
        if epoch <= group.target_epoch:
            target = group.targets.get(after.member_id)
            if target is None:
                target = _target_of_predecessor(group, after)
            return _Plan(epoch=group.target_epoch, target=target)
        targets = self._assign(group, members, subscriptions, metadata)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                records.append(target_record(group.group_id, member_id, target))
        records.append(target_epoch_record(group.group_id, epoch))
        return _Plan(epoch=epoch, target=targets[after.member_id])

    def _resolve(
        self,
        group: ConsumerGroup,
        members: Iterable[ConsumerMember],
        topics: Mapping[str, TopicMetadata],
        records: list[LogRecord],
        now_ms: int,
    ) -> Mapping[str, frozenset[str]]:
        """What the members' regular expressions stand for now; those out of use are dropped."""
        resolved = {
            regex: resolve(regex, topics)
            for regex in {m.subscribed_topic_regex for m in members}
            if regex
        }
        for regex, names in resolved.items():
            if group.resolved.get(regex) != names:
                records.append(regex_record(group.group_id, regex, names, now_ms=now_ms))
        for regex in group.resolved:
            if regex not in resolved:
                records.append(regex_record(group.group_id, regex, None, now_ms=now_ms))
        return resolved

    def _assign(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        subscriptions: Mapping[str, frozenset[str]],
        metadata: Mapping[str, TopicMetadata],
    ) -> dict[str, Assignment]:
        """The assignor that most members ask for decides; the first configured one by default."""
        votes = Counter(m.server_assignor for m in members.values() if m.server_assignor)
        name = votes.most_common(1)[0][0] if votes else next(iter(ASSIGNORS))
        specs = {
            member.member_id: MemberSpec(
                instance_id=member.instance_id,
                topics=frozenset(
                    metadata[topic][0]
                    for topic in subscriptions[member.member_id]
                    if topic in metadata
                ),
                current=group.targets.get(member.member_id)
                or _target_of_predecessor(group, member),
            )
            for member in members.values()
        }
        return ASSIGNORS[name](specs, dict(metadata.values()))

    # The member's own assignment

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        plan: "_Plan",
        heartbeat: _Heartbeat,
        records: list[LogRecord],
    ) -> ConsumerMember:
        predecessor = _predecessor(group, member)
        own_ids = {member.member_id, predecessor.member_id if predecessor else None, None}
        holders = group.holders()

        def is_taken(topic_id: UUID, partition: int) -> bool:
            return holders.get((topic_id, partition)) not in own_ids

        stepped = reconcile(
            member,
            target=plan.target,
            target_epoch=plan.epoch,
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

    def _leave(self, heartbeat: _Heartbeat, out: Decisions, now_ms: int) -> None:
        request = heartbeat.request
        group = self._groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if request.instance_id is None:
            member = _require_member(group, request.member_id)
        else:
            member = _require_static(group, request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            gone = replace(member, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NOTHING)
            records = [current_record(group.group_id, member.member_id, gone)]
        else:
            records = self._removal(group, member, out, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        self._store(group.group_id, records, heartbeat.reply, response, out)

    def _removal(
        self, group: ConsumerGroup, member: ConsumerMember, out: Decisions, now_ms: int
    ) -> list[LogRecord]:
        """Removes the member; the next heartbeat of another one assigns its partitions."""
        records = _removal_records(group.group_id, member.member_id)
        others = [m for m in group.members.values() if m.member_id != member.member_id]
        topics = self._catalog.topics()
        resolved = self._resolve(group, others, topics, records, now_ms)
        names = frozenset[str]().union(*(group.topics_of(m, resolved) for m in others))
        metadata = {name: topics[name] for name in sorted(names) if name in topics}
        if metadata != group.subscription_metadata:
            records.append(subscription_metadata_record(group.group_id, metadata))
        records.append(epoch_record(group.group_id, group.group_epoch + 1))
        out.cancel_timer(_session(group.group_id, member.member_id))
        out.cancel_timer(_rebalance(group.group_id, member.member_id))
        return records

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
                self._store(group_id, self._removal(group, member, out, now_ms), None, None, out)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where a member is to go."""

    epoch: int
    target: Assignment


def group_tombstones(group: ConsumerGroup, *, now_ms: int) -> list[LogRecord]:
    """Deletes a group, members and all."""
    group_id = group.group_id
    return [
        *(current_record(group_id, member_id, None) for member_id in group.members),
        *(target_record(group_id, member_id, None) for member_id in group.targets),
        target_epoch_record(group_id, None),
        *(member_record(group_id, member_id, None) for member_id in group.members),
        *(regex_record(group_id, regex, None, now_ms=now_ms) for regex in group.resolved),
        subscription_metadata_record(group_id, None),
        epoch_record(group_id, None),
    ]


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error,
        error_message=message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def _refuse_invalid(heartbeat: _Heartbeat) -> None:
    """What no client would send; INVALID_REQUEST unless it has a code of its own."""
    request = heartbeat.request
    epoch = request.member_epoch
    may_lack_id = heartbeat.version < _FIRST_WITH_OWN_MEMBER_IDS and epoch == JOINING_EPOCH
    complaints = [
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (not request.member_id and not may_lack_id, "MemberId can't be empty."),
        (epoch < STATIC_LEAVING_EPOCH, "MemberEpoch is invalid."),
        (
            epoch == STATIC_LEAVING_EPOCH and request.instance_id is None,
            "InstanceId can't be null.",
        ),
    ]
    if heartbeat.is_joining:
        has_subscription = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        complaints += [
            (
                request.rebalance_timeout_ms == -1,
                "RebalanceTimeoutMs must be provided in first request.",
            ),
            (
                request.topic_partitions is None or len(request.topic_partitions) > 0,
                "TopicPartitions must be empty when (re-)joining.",
            ),
            (
                not has_subscription,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining.",
            ),
        ]
    for is_wrong, message in complaints:
        if is_wrong:
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    _refuse_unknown_assignor(request.server_assignor)
    _refuse_bad_regex(request.subscribed_topic_regex)


def _refuse_unknown_assignor(name: str | None) -> None:
    if name is not None and name not in ASSIGNORS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(ASSIGNORS)}.",
        )


def _refuse_bad_regex(regex: str | None) -> None:
    if not regex:
        return
    try:
        re.compile(regex)
    except re.error as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def _updated(member: ConsumerMember, heartbeat: _Heartbeat) -> ConsumerMember:
    """The member as its heartbeat describes it; null means unchanged."""
    request = heartbeat.request
    changes: dict[str, object] = {
        "client_id": heartbeat.client_id,
        "client_host": heartbeat.client_host,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        changes["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["subscribed_topic_regex"] = request.subscribed_topic_regex
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    return replace(member, **changes)  # type: ignore[arg-type]  # names and types as above


def _require_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def _require_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    member = group.find_static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def _refuse_wrong_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """The last epoch will do as well: the answer with the new one may have been lost."""
    if epoch == member.member_epoch:
        return
    is_retry = epoch == member.previous_member_epoch and is_subset(owned, member.assigned)
    if epoch > member.member_epoch or not is_retry:
        comparison = "greater" if epoch > member.member_epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {comparison} member epoch ({epoch}) than the one"
            f" known by the group coordinator ({member.member_epoch}). The member must abandon"
            " all its partitions and rejoin.",
        )


def _replaced_static(
    group: ConsumerGroup, old: ConsumerMember, new_id: str, records: list[LogRecord]
) -> ConsumerMember:
    """A static member is back under a new id; the old one must have left for a while."""
    if not old.has_left_for_a_while():
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {new_id} with instance id {old.instance_id} cannot join the group"
            f" because the instance id is owned by member {old.member_id}.",
        )
    member = replace(
        old, member_id=new_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH
    )
    group_id = group.group_id
    records += _removal_records(group_id, old.member_id)
    records.append(member_record(group_id, new_id, member))
    records.append(target_record(group_id, new_id, group.targets.get(old.member_id, NOTHING)))
    records.append(current_record(group_id, new_id, member))
    return member


def _replaces(updated: ConsumerMember, other: ConsumerMember) -> bool:
    return updated.instance_id is not None and updated.instance_id == other.instance_id


def _predecessor(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember | None:
    """The static member's entry in the group, under its former id or this one."""
    return None if member.instance_id is None else group.find_static_member(member.instance_id)


def _target_of_predecessor(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    """What the static member's former id was to have."""
    predecessor = _predecessor(group, member)
    return NOTHING if predecessor is None else group.targets.get(predecessor.member_id, NOTHING)


def _removal_records(group_id: str, member_id: str) -> list[LogRecord]:
    return [
        current_record(group_id, member_id, None),
        target_record(group_id, member_id, None),
        member_record(group_id, member_id, None),
    ]


def _assignment(assigned: Assignment) -> ConsumerGroupHeartbeatResponse.Assignment:
    topic_type = ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            topic_type(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
        ]
    )


def _session(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.CONSUMER_SESSION, group_id, member_id)


def _rebalance(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.CONSUMER_REBALANCE, group_id, member_id)
