"""The seam under the handles of an owner: a cluster whose brokers do what they are asked.

An embedded cluster asks its brokers. A worker of pytest-xdist asks the process that has them.

Owner: none.
"""

from typing import TYPE_CHECKING, Protocol

from embedkafka.cluster.handles.reach import ClusterReach

if TYPE_CHECKING:
    from embedkafka.cluster.reports.followers import FollowerStatus


class OnDemand(Protocol):
    """What the owner of a cluster can have done to topics and groups."""

    def move_leader(self, topic: str, partition: int, *, to: int, timeout_s: float) -> None: ...
    def roll(self, topic: str) -> None: ...
    def compact(self, topic: str) -> None: ...
    def apply_retention(self, topic: str) -> None: ...
    def expire(self, group: str, *, timeout_s: float) -> None: ...
    def followers(self, topic: str, partition: int) -> "list[FollowerStatus]": ...
    def explain(self, topic: str, partition: int) -> str: ...


class OwnedReach(ClusterReach, Protocol):
    """A cluster that the test owns."""

    @property
    def on_demand(self) -> OnDemand: ...
