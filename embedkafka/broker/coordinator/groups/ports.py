"""What groups need from the rest of the broker, besides `coordinator.ports`."""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID


class GroupOverrides(Protocol):
    """Settings of single groups, by Kafka's names."""

    def find_group_value(self, group_id: str, name: str) -> int | None:
        """The group's own value; None if the broker's setting applies. Must be quick."""
        ...


class TopicCatalog(Protocol):
    """The topics of the cluster, for groups whose coordinator assigns partitions."""

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        """Current ids and partition counts, by topic name."""
        ...
