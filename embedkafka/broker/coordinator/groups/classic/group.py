"""A classic group: its members, its generation and the rules that only look at the group.

Owner: the `coordinator` loop, through the shard that holds the group.
Invariants: a group with members has a leader, which is one of them; all members share at least
one protocol; `static_members` maps to present members.
Not here: answers, timers and records (`groups.py`); committed offsets (`offsets/store.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.calls import UNKNOWN_MEMBER_ID, Committer, JoinReply
from embedkafka.broker.coordinator.groups.classic.member import ClassicMember
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState, can_move, move
from embedkafka.broker.coordinator.groups.kinds import GroupType, OffsetRetention
from embedkafka.broker.coordinator.groups.records import group_record
from embedkafka.broker.coordinator.groups.subscription_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicProtocol,
    subscribed_topics,
)
from embedkafka.wire.protocol.errors import ErrorCode


class ClassicGroup:
    """Mutable state of one classic group."""

    __slots__ = (
        "current_state_timestamp_ms",
        "generation_id",
        "group_id",
        "initial_delay_left_ms",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync_members",
        "protocol_name",
        "protocol_type",
        "state",
        "static_members",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        *,
        now_ms: int | None,
        state: ClassicGroupState = ClassicGroupState.EMPTY,
    ) -> None:
        self.group_id = group_id
        self.state = state
        # When the group entered the state; None if its record did not say.
        self.current_state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        # Ids that MEMBER_ID_REQUIRED gave out, and whose clients have not joined yet.
        self.pending_members: set[str] = set()
        # Members of this generation that have not sent SyncGroup yet.
        self.pending_sync_members: set[str] = set()
        # How much longer the first rebalance may wait for more members.
        self.initial_delay_left_ms: int | None = None
        self.new_member_added = False
        # Topics of all members; None when unknown (not consumers, or an unreadable subscription).
        self.subscribed_topics: frozenset[str] | None = None

    def move_to(self, state: ClassicGroupState, *, now_ms: int) -> None:
        self.state = move(self.state, state)
        self.current_state_timestamp_ms = now_ms

    def die(self) -> None:
        """The group is gone from this coordinator; what is still in flight must not change it."""
        self.state = move(self.state, ClassicGroupState.DEAD)

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        return can_move(self.state, ClassicGroupState.PREPARING_REBALANCE)

    # Members

    def add(
        self,
        member: ClassicMember,
        protocol_type: str | None,
        awaiting_join: JoinReply | None = None,
    ) -> None:
        """Adds `member`; the first one gives the group its protocol type and leads it."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)
        member.awaiting_join = awaiting_join

    def remove(self, member_id: str) -> ClassicMember | None:
        """Removes the member; if it led, the oldest other member leads."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.pending_sync_members.discard(member_id)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Gives the static member a new id; the caller has answered its waiting requests."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        self.pending_sync_members.discard(old_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_members_joined(self) -> bool:
        return not self.pending_members and all(
            member.awaiting_join is not None for member in self.members.values()
        )

    @property
    def awaiting_join_count(self) -> int:
        return sum(member.awaiting_join is not None for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader has joined; False if no member has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # Protocols

    def supports(self, protocol_type: str, protocols: Sequence[ClassicProtocol]) -> bool:
        """Whether a member with these protocols could join the present members."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        common = self.common_protocols()
        return self.protocol_type == protocol_type and any(
            protocol.name in common for protocol in protocols
        )

    def common_protocols(self) -> frozenset[str]:
        """Names that every member offers."""
        counts = Counter(
            name
            for member in self.members.values()
            for name in {protocol.name for protocol in member.protocols}
        )
        return frozenset(name for name, count in counts.items() if count == len(self.members))

    def select_protocol(self) -> str:
        """Each member votes for its favourite common protocol, and most votes win.

        A tie goes to the protocol that got a vote first.
        """
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # Generations

    def next_generation(self, *, now_ms: int) -> None:
        """Starts the next generation with the present members; without any, the group is empty."""
        self.generation_id += 1
        self.pending_sync_members.clear()
        self.initial_delay_left_ms = None
        if self.members:
            self.protocol_name = self.select_protocol()
            self.refresh_subscribed_topics()
            self.move_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms=now_ms)
        else:
            self.protocol_name = None
            self.refresh_subscribed_topics()
            self.move_to(ClassicGroupState.EMPTY, now_ms=now_ms)

    def refresh_subscribed_topics(self) -> None:
        """Reads the members' subscriptions, which protect offsets from expiry and deletion."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is None:
            self.subscribed_topics = None
        else:
            name = self.protocol_name
            self.subscribed_topics = subscribed_topics(
                member.metadata_for(name) for member in self.members.values()
            )

    # As `kinds.Group`

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def expects_members(self) -> bool:
        return bool(self.pending_members)

    @property
    def _is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def find_member_error(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Whether the two ids name a present member; a replaced static member is fenced."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def find_commit_error(self, committer: Committer) -> ErrorCode | None:
        if committer.generation_id < 0 and self.is_empty:
            return None
        names_member = (
            committer.generation_id >= 0
            or committer.member_id != UNKNOWN_MEMBER_ID
            or committer.group_instance_id is not None
        )
        if not names_member:
            # Before v3, transactional commits could not name the member.
            return None if committer.is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.find_member_error(committer.member_id, committer.group_instance_id)
        if error is None and committer.generation_id != self.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is None and not committer.is_transactional:
            # The member knows the new generation, but not yet its assignment: the partitions
            # that it commits may belong to another member.
            is_completing = self.state is ClassicGroupState.COMPLETING_REBALANCE
            error = ErrorCode.REBALANCE_IN_PROGRESS if is_completing else None
        return error

    def find_fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        return None

    def find_offset_delete_error(self) -> ErrorCode | None:
        is_opaque = not self.is_empty and not self._is_of_consumers
        return ErrorCode.NON_EMPTY_GROUP if is_opaque else None

    def subscribed_among(self, topics: Iterable[str]) -> frozenset[str]:
        """Returns all of them if a subscription cannot be read."""
        if self.is_empty:
            return frozenset()
        if self.subscribed_topics is None:
            return frozenset(topics)
        return self.subscribed_topics.intersection(topics)

    def find_offset_retention(self) -> OffsetRetention | None:
        """In an empty group offsets age from its last member's departure, else from the commit."""
        if self.protocol_type is None:
            return OffsetRetention(subscribed=frozenset())
        if self.is_empty:
            since_ms = self.current_state_timestamp_ms
            return OffsetRetention(subscribed=frozenset(), since_ms=since_ms)
        is_settled = self.state is ClassicGroupState.STABLE and self._is_of_consumers
        if not is_settled or self.subscribed_topics is None:
            return None
        return OffsetRetention(subscribed=self.subscribed_topics)

    def tombstones(self, *, now_ms: int) -> list[LogRecord]:
        """A group that never had a generation has no record to delete."""
        return [group_record(self.group_id, None)] if self.generation_id > 0 else []
