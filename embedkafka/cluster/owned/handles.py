"""Topics and groups of a cluster that the test owns: their handles do more.

What Kafka does in its own time, they have done now. The calls go through `OnDemand`: straight to
the brokers, or from a worker of pytest-xdist to the process that has them.
"""

from typing import TYPE_CHECKING, Protocol

from embedkafka.cluster.handles.group import Group
from embedkafka.cluster.handles.reach import Reach
from embedkafka.cluster.handles.topic import Topic
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_number

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


class OwnedReach(Reach, Protocol):
    """A cluster that the test owns."""

    @property
    def on_demand(self) -> OnDemand: ...


class OwnedTopic(Topic):
    """A topic of a cluster that the test owns: what Kafka does in its own time can be asked for.

    orders = kafka.topic("orders", replication=3)
    orders.move_leader(to=2)
    orders.roll()
    """

    def __init__(self, name: str, reach: OwnedReach) -> None:
        super().__init__(name, reach)
        self._owned = reach

    def followers(self, partition: int = 0) -> "list[FollowerStatus]":
        """How far each follower of a partition is, when it last had all, and what it does.

            slowest = max(orders.followers(), key=lambda each: each.lag or 0)
            assert slowest.state == "fetching"

        The list is empty while no broker leads the partition.

        Args:
            partition: the partition's number, from 0 on.

        Raises:
            ClusterClosed: the cluster is not running.
            InvalidArgument: there is no such partition.
        """
        return self._owned.on_demand.followers(self.name, partition)

    def explain(self, partition: int = 0) -> str:
        """Why a partition is as it is, in a paragraph.

            print(orders.explain())

        It says who leads since which epoch and why, who is in sync and why others are not, what
        keeps the high watermark and the last stable offset back, and which requests wait.

        Args:
            partition: the partition's number, from 0 on.

        Raises:
            ClusterClosed: the cluster is not running.
            InvalidArgument: there is no such partition.
        """
        return self._owned.on_demand.explain(self.name, partition)

    def move_leader(self, partition: int = 0, *, to: int, timeout_s: float = PATIENCE_S) -> None:
        """Makes a broker the leader of a partition, and returns when all brokers know it.

        It becomes the preferred replica, and the controller elects the preferred leader, as
        `kafka-reassign-partitions` and `kafka-leader-election` do.

        Args:
            partition: the partition's number.
            to: the id of a broker with an in-sync replica.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            InvalidArgument: there is no such partition, or the broker has no replica of it.
            EmbedKafkaError: the replica is not in sync, or the controller refused.
        """
        require_number("timeout_s", timeout_s)
        self._owned.on_demand.move_leader(self.name, partition, to=to, timeout_s=timeout_s)
        self.await_leader(partition, timeout_s=timeout_s)

    def roll(self) -> None:
        """Starts a new segment in every replica.

        Raises:
            InvalidArgument: there is no such topic.
        """
        self._owned.on_demand.roll(self.name)

    def compact(self) -> None:
        """Compacts every replica now, up to its newest records.

        `min.compaction.lag.ms` still protects young records, and `delete.retention.ms` tombstones.

        Raises:
            InvalidArgument: there is no such topic, or its `cleanup.policy` has no `compact`.
            EmbedKafkaError: a replica is moving between log directories, which pauses compaction.
        """
        self._owned.on_demand.compact(self.name)

    def await_compaction(self) -> None:
        """Waits until the topic is compacted up to its newest records, which it asks for.

        Raises:
            InvalidArgument: as for `compact`.
            EmbedKafkaError: as for `compact`.
        """
        self.compact()

    def await_retention(self) -> None:
        """Waits until retention has deleted what it may, and lets it look now, not in minutes.

            kafka.clock.advance(days=8)
            orders.await_retention()

        Segments that are too old, too many or below the log's start are then gone from every
        reachable replica.

        Raises:
            InvalidArgument: there is no such topic.
        """
        self._owned.on_demand.apply_retention(self.name)


class OwnedGroup(Group):
    """A consumer group of a cluster that the test owns."""

    def __init__(self, name: str, reach: OwnedReach) -> None:
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
