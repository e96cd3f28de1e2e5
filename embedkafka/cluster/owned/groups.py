"""`OwnedGroup`: a consumer group of a cluster that the test owns, whose handle does more."""

from typing import TYPE_CHECKING

from embedkafka.cluster.handles.group import GroupHandle
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_number

if TYPE_CHECKING:
    from embedkafka.cluster.owned.reach import OwnedReach


class OwnedGroup(GroupHandle):
    """A consumer group of a cluster that the test owns."""

    def __init__(self, name: str, reach: "OwnedReach") -> None:
        super().__init__(name, reach)
        self._owned = reach

    def expire(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Lets the group's offsets expire, as if `offsets.retention.minutes` had passed.

        A group without members disappears. Offsets of topics that its members subscribe to stay, as
        in Kafka.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            EmbedKafkaError: there is no such group, or nothing that may expire.
        """
        require_number("timeout_s", timeout_s)
        self._owned.on_demand.expire(self.name, timeout_s=timeout_s)
