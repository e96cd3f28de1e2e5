"""The interface between a shard and the kinds of groups in it.

Each kind has a package: `classic/`, `consumer/`. Share groups (KIP-932) and streams groups
(KIP-1071) would be siblings. A kind implements two protocols: `Group`, one group as offsets and
administration see it (Kafka's interface of the same name), and `GroupKind`, the rules for all
groups of the kind in one shard.

Requests that only one kind answers, such as ConsumerGroupHeartbeat, are methods of that kind
alone; `shard.py` calls them by name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.calls import (
    Committer,
    HeartbeatCall,
    JoinCall,
    LeaveCall,
    SyncCall,
)
from embedkafka.broker.coordinator.groups.decision import Decisions, TimerKey, TimerKind
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode


class GroupType(Enum):
    """Values are the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRetention:
    """Which offsets of a group may expire, and when their age starts to count."""

    subscribed: frozenset[str]  # topics whose offsets stay
    since_ms: int | None = None  # None: each offset ages from its commit


class Group(Protocol):
    """One group of any kind. Nothing here changes it."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """The state that ListGroups shows."""
        ...

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type that ListGroups shows."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so an admin may delete it."""
        ...

    @property
    def expects_members(self) -> bool:
        """Whether a client has a member id and has yet to join: an empty group must not expire."""
        ...

    def find_commit_error(self, committer: Committer) -> ErrorCode | None:
        """The reason why the committer may not commit offsets; None if it may."""
        ...

    def find_fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """The reason why the member (from OffsetFetch v9 on) may not read offsets."""
        ...

    def find_offset_delete_error(self) -> ErrorCode | None:
        """The reason why no offset of the group may be deleted."""
        ...

    def subscribed_among(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of `topics` that a member subscribes to, or may subscribe to."""
        ...

    def find_offset_retention(self) -> OffsetRetention | None:
        """The rule by which offsets expire; None keeps them all."""
        ...

    def tombstones(self, *, now_ms: int) -> Sequence[LogRecord]:
        """Records that delete the group; empty for a group that was never stored."""
        ...


class GroupKind(Protocol):
    """The rules for one kind of group in one shard.

    Rules add what they decide to `out`. A rule runs only while no batch of its group is on the way
    to the log (`sequencer.py`).
    """

    @property
    def groups(self) -> Mapping[str, Group]: ...

    @property
    def timers(self) -> Collection[TimerKind]:
        """The timers that this kind sets."""
        ...

    # Requests of the classic protocol, which a client may send to a group of any kind

    def join(self, call: JoinCall, out: Decisions, now_ms: int) -> None: ...

    def sync(self, call: SyncCall, out: Decisions) -> None: ...

    def heartbeat(self, call: HeartbeatCall, out: Decisions) -> None: ...

    def leave(self, call: LeaveCall, out: Decisions, now_ms: int) -> None: ...

    # Events

    def on_timer(self, key: TimerKey, out: Decisions, now_ms: int) -> None:
        """One of `timers` is due; no decision has replaced or cancelled it."""
        ...

    def on_commit(self, committer: Committer, out: Decisions) -> None:
        """The committer, whom `find_commit_error` let through, has committed offsets."""
        ...

    def dismiss(self, group_id: str, out: Decisions) -> None:
        """Ends waiting requests and timers of the members, with whom the group is deleted."""
        ...

    def on_deleted(self, group_id: str) -> None:
        """The group's tombstones have been stored and replayed."""
        ...

    # The log

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Applies one record, stored just now or loaded; False if it is not of this kind."""
        ...

    def on_loaded(self, out: Decisions, now_ms: int) -> None:
        """The log has been replayed to its end: sessions start."""
        ...

    def on_unloaded(self, out: Decisions) -> None:
        """Another broker leads the shard: every waiting request is answered."""
        ...


class SimpleGroupKind(GroupKind, Protocol):
    """The kind that also holds groups without members, made by a client that only keeps offsets."""

    def add_simple_group(self, group_id: str, *, now_ms: int) -> Group: ...


class GroupKinds:
    """All kinds of one shard. A group is of one kind at a time."""

    def __init__(self, simple: SimpleGroupKind, *others: GroupKind) -> None:
        self._simple = simple
        self._kinds = (simple, *others)
        self._by_timer = {timer: kind for kind in self._kinds for timer in kind.timers}

    def __iter__(self) -> Iterator[GroupKind]:
        return iter(self._kinds)

    def of_group(self, group_id: str) -> GroupKind:
        """The group's kind. A group that does not exist yet would be a classic one."""
        return next((kind for kind in self._kinds if group_id in kind.groups), self._simple)

    def of_timer(self, timer: TimerKind) -> GroupKind:
        return self._by_timer[timer]

    def find_group(self, group_id: str) -> Group | None:
        return self.of_group(group_id).groups.get(group_id)

    def all_groups(self) -> list[Group]:
        return [group for kind in self._kinds for group in kind.groups.values()]

    def add_simple_group(self, group_id: str, *, now_ms: int) -> Group:
        return self._simple.add_simple_group(group_id, now_ms=now_ms)
