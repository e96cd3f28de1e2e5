"""The brokers of an embedded cluster as a test holds them, to stop, kill and cut off.

Not here: what each call does to the broker (`lifecycle`), the network (`brokers`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.handles.brokers import BrokerHandle, BrokerHandles
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle, BrokerState
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_number, shown
from embedkafka.runtime.failures import InvalidArgument

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import ClusterReach


class OwnedBroker(BrokerHandle):
    """One broker of an `EmbeddedKafka`, running or not.

    A handle stays valid while the broker stops and starts: the broker keeps its id, its directory
    and, unless another program has taken it, its port.

        leader = kafka.broker(orders.leader())
        leader.kill()
        orders.await_isr(size=2)
        leader.start()

    A call that the broker's state does not allow, such as `stop` on a stopped broker, raises
    `EmbedKafkaError`. In a forked child every call raises `ClusterClosed`.
    """

    def __init__(self, lifecycle: BrokerLifecycle, brokers: Brokers, reach: "ClusterReach") -> None:
        super().__init__(lifecycle.id, None, reach)
        self._lifecycle = lifecycle
        self._brokers = brokers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self.state.value})"

    @property
    def state(self) -> BrokerState:
        """Running, paused, stopped or killed."""
        return self._lifecycle.state

    @property
    def is_running(self) -> bool:
        """Whether the broker has been started and not ended since. True while it is paused."""
        return self._lifecycle.is_running

    @property
    def is_paused(self) -> bool:
        """Whether the broker is paused."""
        return self._lifecycle.is_paused

    @property
    def is_reachable(self) -> bool:
        """Whether the broker runs, is not paused, and reaches ZooKeeper."""
        return self._lifecycle.is_reachable

    @property
    def has_all_disks(self) -> bool:
        """Whether the broker runs and none of its log directories has failed."""
        return self._lifecycle.has_all_disks

    @property
    def address(self) -> str:
        """The `host:port` that clients connect to.

        Raises:
            EmbedKafkaError: the broker is not running.
        """
        return self._lifecycle.address

    def start(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Starts the broker again and returns when all other brokers know it.

        After `kill` this first waits for the old ZooKeeper session to expire, which takes
        `zookeeper.session.timeout.ms` (300 ms unless configured).

        Args:
            timeout_s: how long each of the two waits may take, in seconds.

        Raises:
            AwaitTimeout: the session did not expire, or the brokers did not see each other.
            EmbedKafkaError: the broker is running, or a network partition keeps it from ZooKeeper.
        """
        self._lifecycle.start(timeout_s=timeout_s)

    def stop(self) -> None:
        """Shuts the broker down cleanly: leaders move away, then logs are flushed and closed.

        Raises:
            EmbedKafkaError: the broker is not running, or is paused.
        """
        self._lifecycle.stop()

    def kill(self) -> None:
        """Ends the broker like `kill -9`: connections break and nothing is flushed.

        The other brokers notice when the session expires; `await_leader` and `await_isr` wait for
        that.

        Raises:
            EmbedKafkaError: the broker is not running.
        """
        self._lifecycle.kill()

    def pause(self) -> None:
        """Freezes the broker, like a long garbage collection, until `resume`.

        Connections stay open and get no answers. The session expires if the pause outlasts it.

        Raises:
            EmbedKafkaError: the broker is not running, or is paused already.
        """
        self._lifecycle.pause()

    def resume(self) -> None:
        """Continues after `pause`. The broker finds out by itself what it missed.

        Raises:
            EmbedKafkaError: the broker is not paused.
        """
        self._lifecycle.resume()

    def restart(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Stops the broker cleanly if it runs, then starts it.

        Args:
            timeout_s: as for `start`, in seconds.

        Raises:
            AwaitTimeout: as for `start`.
            EmbedKafkaError: the broker is paused.
        """
        self._lifecycle.restart(timeout_s=timeout_s)

    def become_controller(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Makes the broker the controller, and returns when all brokers know it.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            EmbedKafkaError: the broker is not running, is paused or cut off from ZooKeeper.
        """
        from embedkafka.cluster.on_demand import elect_controller  # most clusters need none

        require_number("timeout_s", timeout_s)
        elect_controller(self._brokers, self.id, timeout_s)

    def remove(self) -> None:
        """Stops the broker cleanly and for good.

        Its leaders move away. Its replicas stay assigned to it until they are reassigned, as in
        Kafka.

        Raises:
            InvalidArgument: it has been removed already.
        """
        self._brokers.remove(self.id)


class OwnedBrokers(BrokerHandles[OwnedBroker]):
    """The brokers of an `EmbeddedKafka`, and the network between them."""

    def __init__(
        self, brokers: Brokers, reach: "ClusterReach", find: Callable[[], Sequence[OwnedBroker]]
    ) -> None:
        super().__init__(reach, find)
        self._brokers = brokers

    def add(self) -> OwnedBroker:
        """Starts one more broker, with the next id. Topics created from now on may use it."""
        return OwnedBroker(self._brokers.add(), self._brokers, self._reach)

    def partition(self, *sides: Collection[int], zookeeper: Collection[int] | None = None) -> None:
        """Cuts the network between brokers on different sides, until `heal`.

            kafka.brokers.partition({1}, {2, 3})  # broker 1 loses ZooKeeper too

        Clients still reach every broker, and brokers on no side still reach all others. A second
        call replaces the first.

        Args:
            *sides: sets of broker ids.
            zookeeper: the brokers that keep their ZooKeeper sessions; by default those of the
                largest side.

        Raises:
            InvalidArgument: a broker is unknown or on two sides, or no side is the largest and
                `zookeeper` is missing.
        """
        checked = [_require_ids("a side", side, self._brokers) for side in sides]
        _require_disjoint(checked)
        keepers = _largest(checked) if zookeeper is None else zookeeper
        self._brokers.split(checked, _require_ids("zookeeper", keepers, self._brokers))

    def heal(self) -> None:
        """Ends a `partition`. `await_all` waits until all brokers know each other again."""
        self._brokers.heal()


def _require_ids(name: str, ids: Collection[int], brokers: Brokers) -> frozenset[int]:
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Collection):
        raise InvalidArgument(
            f"{name} must be a set of broker ids such as {{1, 2}}, got {shown(ids)}"
        )
    return frozenset(brokers.require(broker_id).id for broker_id in ids)


def _require_disjoint(sides: Sequence[frozenset[int]]) -> None:
    placed: set[int] = set()
    for side in sides:
        if twice := sorted(placed & side):
            raise InvalidArgument(f"broker {twice[0]} is on two sides of the partition")
        placed |= side


def _largest(sides: Sequence[frozenset[int]]) -> frozenset[int]:
    by_size = sorted(sides, key=len, reverse=True)
    if not by_size:
        raise InvalidArgument(
            "`partition` needs sides, such as `kafka.brokers.partition({1}, {2})`"
        )
    if len(by_size) > 1 and len(by_size[0]) == len(by_size[1]):
        raise InvalidArgument(
            f"the sides {set(by_size[0])} and {set(by_size[1])} are equally large: say with "
            "`zookeeper=` which brokers keep ZooKeeper"
        )
    return by_size[0]
