"""The assignors of consumer groups: which member should have which partition.

Both are pure. `range` sorts the members and cuts each topic into even slices, so a member gets the
same partitions of topics that have the same number of them. `uniform` spreads all partitions
evenly and moves as few as it can.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.groups.consumer.assignment import Assignment, assignment_of
from embedkafka.runtime.values import dataclass

Targets = dict[str, Assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """A member as an assignor sees it."""

    instance_id: str | None
    topics: frozenset[UUID]
    current: Assignment


Members = Mapping[str, MemberSpec]
PartitionCounts = Mapping[UUID, int]
Assignor = Callable[[Members, PartitionCounts], Targets]


def assign_range(members: Members, partition_counts: PartitionCounts) -> Targets:
    """Cuts each topic into even slices for its subscribers, in the order of their ids."""
    targets: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in partition_counts.items():
        subscribers = [m for m in _in_order(members) if topic_id in members[m].topics]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            if size:
                targets[member_id][topic_id] = frozenset(range(start, start + size))
            start += size
    return dict(targets)


def assign_uniformly(members: Members, partition_counts: PartitionCounts) -> Targets:
    """Gives each member an even share of all partitions, as far as subscriptions allow.

    Members keep their partitions up to that share, and the rest goes to the members with the
    fewest. After that a partition moves only if it makes two members more even.
    """
    shares = _Shares(members, partition_counts)
    shares.keep_current()
    shares.hand_out()
    shares.even_out()
    return shares.targets()


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_range}


class _Shares:
    """The work of one uniform assignment."""

    def __init__(self, members: Members, partition_counts: PartitionCounts) -> None:
        self._members = members
        self._counts = partition_counts
        self._order = _in_order(members)
        self._owned: dict[str, list[tuple[UUID, int]]] = {m: [] for m in self._order}
        self._free: list[tuple[UUID, int]] = []
        self._subscribers = {
            topic_id: [m for m in self._order if topic_id in members[m].topics]
            for topic_id in partition_counts
        }

    def keep_current(self) -> None:
        """Lets members keep partitions of subscribed topics, up to the limit."""
        limit = self._limit()
        taken: set[tuple[UUID, int]] = set()
        for member_id in self._order:
            spec = self._members[member_id]
            for topic_id in sorted(spec.current):
                for partition in sorted(spec.current[topic_id]):
                    is_wanted = topic_id in spec.topics
                    exists = partition < self._counts.get(topic_id, 0)
                    has_room = len(self._owned[member_id]) < limit
                    if is_wanted and exists and has_room and (topic_id, partition) not in taken:
                        self._owned[member_id].append((topic_id, partition))
                        taken.add((topic_id, partition))
        self._free = [
            (topic_id, partition)
            for topic_id in sorted(self._counts, key=lambda t: (len(self._subscribers[t]), t))
            for partition in range(self._counts[topic_id])
            if (topic_id, partition) not in taken
        ]

    def _limit(self) -> int:
        """The largest share if all members subscribe to the same topics, else no limit."""
        total = sum(self._counts.values())
        is_homogeneous = len({spec.topics for spec in self._members.values()}) == 1
        return -(-total // len(self._members)) if is_homogeneous else total

    def hand_out(self) -> None:
        """Gives each free partition to the subscriber with the fewest."""
        for topic_partition in self._free:
            subscribers = self._subscribers[topic_partition[0]]
            if subscribers:
                poorest = min(subscribers, key=self._load)
                self._owned[poorest].append(topic_partition)

    def even_out(self) -> None:
        """Moves partitions to members that have at least two fewer than the owner."""
        while (move := self._next_move()) is not None:
            giver, taker, topic_partition = move
            self._owned[giver].remove(topic_partition)
            self._owned[taker].append(topic_partition)

    def _next_move(self) -> tuple[str, str, tuple[UUID, int]] | None:
        for giver in sorted(self._order, key=self._load, reverse=True):
            for topic_partition in reversed(self._owned[giver]):
                taker = min(self._subscribers[topic_partition[0]], key=self._load)
                if self._load(giver) - self._load(taker) >= 2:
                    return giver, taker, topic_partition
        return None

    def targets(self) -> Targets:
        return {member_id: _by_topic(owned) for member_id, owned in self._owned.items()}

    def _load(self, member_id: str) -> int:
        return len(self._owned[member_id])


def _in_order(members: Members) -> list[str]:
    """Sorts static members first, by instance id: a new member id keeps the old place."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=key)


def _by_topic(partitions: Sequence[tuple[UUID, int]]) -> Assignment:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return assignment_of(by_topic.items())
