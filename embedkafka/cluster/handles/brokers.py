"""One broker as a test holds it, and all brokers of a cluster.

Not here: what only their owner can do (`owned.brokers`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, overload

from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.failures import EmbedKafkaError

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import ClusterReach


class BrokerHandle:
    """One broker of a cluster. `kafka.broker(1)` and `kafka.brokers` return handles."""

    def __init__(self, broker_id: int, address: str | None, reach: "ClusterReach") -> None:
        """`address` is None while the broker does not run."""
        self._id = broker_id
        self._address = address
        self._reach = reach

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerHandle) and (self.id, self._reach) == (
            other.id,
            other._reach,
        )

    def __hash__(self) -> int:
        return hash((self.id, self._reach))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            __tracebackhide__ = True
            from embedkafka.cluster.handles.moved import refuse_missing

            refuse_missing(self, name, "broker")

    @property
    def id(self) -> int:
        """The broker's id, Kafka's `broker.id`."""
        return self._id

    @property
    def address(self) -> str:
        """The `host:port` that clients connect to.

        Raises:
            EmbedKafkaError: the broker is not running.
        """
        if self._address is None:
            raise EmbedKafkaError(f"broker {self.id} is not running")
        return self._address


H = TypeVar("H", bound=BrokerHandle, covariant=True)


class BrokerHandles(Sequence[H], Generic[H]):
    """The brokers of a cluster, running or not, by id: `kafka.brokers`.

        assert len(kafka.brokers) == 3
        first, *others = kafka.brokers

    It shows the brokers of the moment at which it is asked.
    """

    def __init__(self, reach: "ClusterReach", find: Callable[[], Sequence[H]]) -> None:
        """`find` finds the brokers that there are at the moment."""
        self._reach = reach
        self._find = find

    def __repr__(self) -> str:
        return repr(list(self._find()))

    def __len__(self) -> int:
        return len(self._find())

    def __iter__(self) -> Iterator[H]:
        return iter(self._find())

    @overload
    def __getitem__(self, place: int) -> H: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[H]: ...
    def __getitem__(self, place: int | slice) -> H | Sequence[H]:
        return self._find()[place]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            __tracebackhide__ = True
            from embedkafka.cluster.handles.moved import refuse_missing

            refuse_missing(self, name, "kafka.brokers")

    @property
    def controller(self) -> int | None:
        """The id of the broker that is the controller; None while there is none."""
        return self._reach.state.find_controller()

    def await_controller(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until a reachable broker is the controller and all brokers know it.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The controller's id.

        Raises:
            AwaitTimeout: it did not happen in that time.
        """
        self._reach.await_state("a controller", self._reach.state.controller(), timeout_s)
        controller = self.controller
        assert controller is not None, "a controller that was awaited has gone already"
        return controller

    def await_all(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until all running brokers know each other and the same controller.

        After `heal` and `resume`, brokers take a moment to register again and to drop replicas
        that were moved or deleted without them.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message says what was missing.
        """
        probe = self._reach.state.membership()
        self._reach.await_state("all brokers to know each other", probe, timeout_s)
