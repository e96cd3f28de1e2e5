"""The state of a cluster: what ZooKeeper has, and whether the brokers know it.

A partition is in a state once ZooKeeper has it and every broker that the controller can reach knows
it: then every such broker gives clients the same answer. The controller cannot reach brokers that
are paused, or cut off from ZooKeeper or from the controller's side of the network.

Owner: none; it reads ZooKeeper and the brokers' metadata.
Not here: waiting for a state (`waiting`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.replica.strays import find_strays
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle
from embedkafka.cluster.waiting import Probe
from embedkafka.faults.network import Network
from embedkafka.runtime.arguments import require_int, require_text
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import WatchEvent

_SHOWN = 5
"""How many partitions a message names at most."""

Handles = Callable[[], Collection[BrokerLifecycle]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """A partition at one moment, as ZooKeeper has it."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number, from 0 on."""
    leader: int | None
    """The id of the broker that leads it; None while there is no leader."""
    leader_epoch: int
    """How often leadership has changed; -1 before the first leader."""
    isr: tuple[int, ...]
    """The ids of the in-sync replicas."""
    replicas: tuple[int, ...]
    """The ids of all replicas, the preferred leader first."""

    def __str__(self) -> str:
        leader = "none" if self.leader is None else self.leader
        return (
            f"{self.topic}-{self.partition} with leader {leader} in epoch "
            f"{self.leader_epoch}, ISR {list(self.isr)}, replicas {list(self.replicas)}"
        )

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return set(self.isr) != set(self.replicas)


class ClusterState:
    """Looks at one cluster; calls `on_change` when something changes in ZooKeeper alone."""

    def __init__(
        self, zk: KafkaZk, handles: Handles, network: Network, on_change: Callable[[], None]
    ) -> None:
        self._zk = zk
        self._handles = handles
        self._network = network
        self._on_change = on_change

    # -- looking

    def find_controller(self) -> int | None:
        return self._zk.find_controller_id()

    def require_topic(self, topic: str) -> None:
        """Raises `InvalidArgument` if there is no such topic."""
        if self._zk.find_topic(require_text("topic", topic)) is None:
            known = ", ".join(sorted(self._zk.topics())) or "none"
            raise InvalidArgument(
                f"there is no topic {topic!r}; there are {known}. `kafka.topic` creates one"
            )

    def require_partition(self, topic: str, partition: int) -> PartitionStatus:
        """The partition; raises `InvalidArgument` if there is none."""
        require_int("partition", partition, least=0)
        found = self._partitions([require_text("topic", topic)])
        if not found:
            self.require_topic(topic)
            found = self._partitions([topic])  # it has just been created
        for status in found:
            if status.partition == partition:
                return status
        count = len(found)
        raise InvalidArgument(
            f"topic {topic} has no partition {partition}: it has {count}, from 0 to {count - 1}"
        )

    def partitions_of(self, topic: str) -> list[PartitionStatus]:
        """All partitions of a topic; none if there is no such topic."""
        return self._partitions([topic])

    def partitions(self) -> list[PartitionStatus]:
        """All partitions of all topics, except those being deleted."""
        return self._partitions(self._zk.topics() - self._zk.topic_deletions())

    # -- probes for `Waiting`

    def membership(self) -> Probe:
        """All reachable brokers know each other and the same controller among them.

        None of them still holds replicas that it lost while it was away.
        """

        def probe() -> str | None:
            wanted = {handle.id for handle in self._reachable()}
            for handle, snapshot in self._snapshots():
                if snapshot.brokers.keys() != wanted:
                    return f"broker {handle.id} knows {_listed(snapshot.brokers)}"
            return self._find_unsettled_controller() or self._find_zombie()

        return probe

    def broker_known(self, broker_id: int) -> Probe:
        """All reachable brokers know `broker_id`, and it knows them."""

        def probe() -> str | None:
            reachable = {handle.id for handle in self._reachable()}
            for handle, snapshot in self._snapshots():
                wanted = reachable if handle.id == broker_id else {broker_id}
                if not snapshot.brokers.keys() >= wanted:
                    return f"broker {handle.id} knows {_listed(snapshot.brokers)}"
            return None

        return probe

    def controller(self) -> Probe:
        """There is a controller, and all reachable brokers know it."""
        return self._find_unsettled_controller

    def everywhere(self, holds: Callable[[MetadataSnapshot], bool]) -> Probe:
        """`holds` is true for the metadata of every reachable broker."""

        def probe() -> str | None:
            unaware = [handle.id for handle, snapshot in self._snapshots() if not holds(snapshot)]
            return f"not on brokers {_listed(unaware)}" if unaware else None

        return probe

    def leaders_known(self, counts: Mapping[str, int]) -> Probe:
        """Every reachable broker knows the leaders of topics with so many partitions."""
        return self.everywhere(
            lambda snapshot: all(snapshot.has_leaders(name, n) for name, n in counts.items())
        )

    def topic_gone(self, topic: str) -> Probe:
        """ZooKeeper has nothing left of the topic, and no reachable broker knows it."""
        unknown = self.everywhere(lambda snapshot: topic not in snapshot.topics)

        def probe() -> str | None:
            if self._zk.find_topic(topic, self._on_watch) is not None:
                return f"{topic} is in ZooKeeper"
            return unknown()

        return probe

    def unregistered(self, broker_id: int) -> Probe:
        """The broker is not registered in ZooKeeper."""

        def probe() -> str | None:
            registered = self._zk.find_broker(broker_id, self._on_watch)
            return None if registered is None else "it is still registered"

        return probe

    def partition(
        self, topic: str, partition: int, holds: Callable[[PartitionStatus], bool]
    ) -> Probe:
        """`holds` is true for the partition, and every broker within reach knows its state."""
        self.require_partition(topic, partition)

        def probe() -> str | None:
            status = self.require_partition(topic, partition)
            return self._find_unaware(status) if holds(status) else str(status)

        return probe

    def nothing_under_replicated(self) -> Probe:
        """Every partition has a reachable leader and all its replicas in sync."""

        def probe() -> str | None:
            statuses = self.partitions()
            lacking = [s for s in statuses if s.is_under_replicated or not self.is_led(s)]
            if lacking:
                rest = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
                return "; ".join(map(str, lacking[:_SHOWN])) + rest
            untold = (self._find_unaware(status) for status in statuses)
            reason = next((reason for reason in untold if reason is not None), None)
            return reason or self._find_zombie()

        return probe

    def led(self, topics: Collection[str]) -> Probe:
        """Every partition that can have a reachable leader has one, and all brokers know it."""

        def probe() -> str | None:
            reachable = {handle.id for handle in self._reachable()}
            for status in self._partitions(topics):
                if status.leader in reachable:
                    unaware = self._find_unaware(status)
                    if unaware is not None:
                        return unaware
                elif not reachable.isdisjoint(status.isr):
                    return str(status)
            return None

        return probe

    def preferred_lead(self) -> Probe:
        """Every partition is led by its preferred replica, and all brokers know it."""

        def probe() -> str | None:
            statuses = self.partitions()
            displaced = [status for status in statuses if status.leader != status.replicas[0]]
            if displaced:
                return str(displaced[0])
            return next(filter(None, map(self._find_unaware, statuses)), None)

        return probe

    def is_led(self, status: PartitionStatus) -> bool:
        """Whether the partition has a reachable leader."""
        return status.leader in {handle.id for handle in self._reachable()}

    # -- internals

    def _partitions(self, topics: Collection[str]) -> list[PartitionStatus]:
        assigned = {
            TopicPartition(topic, partition): assignment.replicas
            for topic, found in self._zk.topic_assignments(sorted(topics)).items()
            for partition, assignment in found.partitions.items()
        }
        states = self._zk.partition_states(list(assigned))
        return [
            PartitionStatus(
                topic=tp.topic,
                partition=tp.partition,
                leader=states[tp].leader if tp in states and states[tp].leader >= 0 else None,
                leader_epoch=states[tp].leader_epoch if tp in states else -1,
                isr=tuple(states[tp].isr) if tp in states else (),
                replicas=tuple(replicas),
            )
            for tp, replicas in assigned.items()
        ]

    def _find_unaware(self, status: PartitionStatus) -> str | None:
        for handle, snapshot in self._snapshots():
            info = snapshot.find_partition(status.topic, status.partition)
            if info is None:
                return f"broker {handle.id} does not know {status.topic}-{status.partition}"
            known = (info.leader_epoch, set(info.isr))
            if known != (status.leader_epoch, set(status.isr)):
                return (
                    f"{status}, but broker {handle.id} knows leader {info.leader} in epoch "
                    f"{info.leader_epoch}, ISR {list(info.isr)}"
                )
        return None

    def _find_unsettled_controller(self) -> str | None:
        controller = self.find_controller()
        if controller not in {handle.id for handle in self._reachable()}:
            return f"controller {'none' if controller is None else controller}"
        for handle, snapshot in self._snapshots():
            if snapshot.controller_id != controller:
                return (
                    f"controller {controller}, but broker {handle.id} knows "
                    f"{snapshot.controller_id}"
                )
        return None

    def _find_zombie(self) -> str | None:
        """A broker that was away and does not know yet which replicas it has lost."""
        registered = self._zk.brokers(self._on_watch)
        topics = self._zk.topic_assignments(sorted(self._zk.topics()))
        for handle, snapshot in self._snapshots():
            if handle.id not in registered:
                return f"broker {handle.id} is not registered"
            if registered[handle.id][1] != snapshot.broker_epoch:
                return f"broker {handle.id} has had no metadata since it registered"
            incarnation = handle.incarnation
            logs = () if incarnation is None else incarnation.broker.logs.all_logs()
            strays = find_strays(logs, handle.id, topics.get)
            if strays:
                return f"broker {handle.id} still has {strays[0]}, which is not assigned to it"
        return None

    def _on_watch(self, event: WatchEvent) -> None:
        self._on_change()

    def _snapshots(self) -> Iterable[tuple[BrokerLifecycle, MetadataSnapshot]]:
        """The metadata of every broker that the controller can reach."""
        controller = self.find_controller()
        for handle in self._reachable():
            incarnation = handle.incarnation
            hears = controller is None or self._network.joins(BrokerId(controller), handle.id)
            if incarnation is not None and hears:
                yield handle, incarnation.broker.metadata.snapshot

    def _reachable(self) -> list[BrokerLifecycle]:
        return [handle for handle in self._handles() if handle.is_reachable]


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"
