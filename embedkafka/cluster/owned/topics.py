"""`OwnedTopic`: a topic of a cluster that the test owns, whose handle does more.

What Kafka does in its own time, it has done now.
"""

from typing import TYPE_CHECKING

from embedkafka.cluster.handles.topic import Topic
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_number

if TYPE_CHECKING:
    from embedkafka.cluster.owned.reach import OwnedReach
    from embedkafka.cluster.reports.followers import FollowerStatus


class OwnedTopic(Topic):
    """A topic of a cluster that the test owns: what Kafka does in its own time can be asked for.

    orders = kafka.topic("orders", replication=3)
    orders.move_leader(to=2)
    orders.roll()
    """

    def __init__(self, name: str, reach: "OwnedReach") -> None:
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
