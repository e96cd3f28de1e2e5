"""`BrokerHandle`: one broker as a test holds it.

Not here: what each call does to the broker (`lifecycle`).
"""

from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle, BrokerState
from embedkafka.cluster.waiting import PATIENCE_S


class BrokerHandle:
    """One broker of an `EmbeddedKafka`, running or not.

    `kafka.broker(1)` and `kafka.brokers` return handles. A handle stays valid while the broker
    stops and starts: the broker keeps its id, its directory and, unless another program has taken
    it, its port.

        leader = kafka.broker(kafka.leader_of("orders"))
        leader.kill()
        kafka.await_isr("orders", size=2)
        leader.start()

    A call that the broker's state does not allow, such as `stop` on a stopped broker, raises
    `EmbedKafkaError`. In a forked child every call raises `ClusterClosed`.
    """

    def __init__(self, lifecycle: BrokerLifecycle) -> None:
        self._lifecycle = lifecycle

    def __repr__(self) -> str:
        return f"BrokerHandle({self.id}, {self.state.value})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerHandle) and self._lifecycle is other._lifecycle

    def __hash__(self) -> int:
        return hash(self._lifecycle)

    @property
    def id(self) -> int:
        """The broker's id, Kafka's `broker.id`."""
        return self._lifecycle.id

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
