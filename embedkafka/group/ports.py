"""What groups need to know of the rest of the broker, besides `coordinator.ports`."""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID


class GroupOverrides(Protocol):
    """Settings of single groups, by Kafka's names for them."""

    def find_group_value(self, group_id: str, name: str) -> int | None:
        """What was set for the group; None when the broker's setting holds. Callable often."""
        ...


class TopicCatalog(Protocol):
    """The topics of the cluster, for groups whose coordinator assigns partitions."""

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        """Id and partition count by name, as of now."""
        ...
