"""Members of consumer groups that have joined, and have neither left nor been removed.

Kafka deletes no group that has members. Only a reset, a restore or the end of an isolated test
takes a group away from under them. Kafka's answer for a missing group would end such a client for
good. So a live member hears that it is unknown, as if it alone were gone, and joins again.

Owner: the brokers of a cluster share it; their coordinators add and discard single ids.
"""

from collections.abc import Iterable


class LiveMembers:
    """The ids of the members of one cluster. They outlive their groups, and restarts of brokers."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add(self, member_id: str) -> None:
        self._ids.add(member_id)

    def discard(self, member_ids: Iterable[str]) -> None:
        self._ids.difference_update(member_ids)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._ids
