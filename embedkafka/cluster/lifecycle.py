"""One broker as a test holds it: started, stopped, killed, paused, as often as the test likes.

Owner: `_lock` lets one of these happen at a time; other brokers read `life` without it.
Invariants: a handle lives as long as its cluster, through many lives of its broker, all with the
same id, directory and, while it is free, port. A broker that does not run is nobody's peer.
Not here: how a broker starts and ends (`server.broker`), and what a pause stops (`faults`).
"""

import errno
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from embedkafka.faults.network import Network
from embedkafka.faults.pausable_clock import PausableClock
from embedkafka.faults.session_link import Cut, SessionLink
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.values import dataclass
from embedkafka.server.broker import Broker

ANY_PORT: Final = 0


class BrokerState(Enum):
    """What a broker's process does.

    NEW        has not been started yet.
    RUNNING    answers.
    PAUSED     is there, and does nothing: connections hang, its session expires.
    STOPPED    has left in good order.
    KILLED     has died; it is missed when its session expires.
    """

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"


PREDECESSORS: Final[Mapping[BrokerState, frozenset[BrokerState]]] = {
    BrokerState.NEW: frozenset(),
    BrokerState.RUNNING: frozenset(
        {BrokerState.NEW, BrokerState.PAUSED, BrokerState.STOPPED, BrokerState.KILLED}
    ),
    BrokerState.PAUSED: frozenset({BrokerState.RUNNING}),
    BrokerState.STOPPED: frozenset({BrokerState.RUNNING}),
    BrokerState.KILLED: frozenset({BrokerState.RUNNING, BrokerState.PAUSED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One run of a broker, with the seams through which faults reach it."""

    broker: Broker
    session: SessionLink
    clock: PausableClock


class Surroundings(Protocol):
    """What a handle needs of its cluster."""

    def make_life(self, broker_id: BrokerId, port: int) -> Life: ...

    def await_unregistered(self, broker_id: BrokerId, timeout_s: float) -> None:
        """Waits until an earlier life's session has expired."""
        ...

    def await_known(self, broker_id: BrokerId, timeout_s: float) -> None:
        """Waits until the broker and all others know of each other."""
        ...

    def on_change(self) -> None:
        """A broker came or went."""
        ...


class BrokerHandle:
    """A broker of an `EmbeddedKafka`, running or not. Made by `kafka.broker(id)`."""

    def __init__(
        self, broker_id: BrokerId, surroundings: Surroundings, network: Network, *, port: int
    ) -> None:
        self.id = broker_id
        self.life: Life | None = None
        self._surroundings = surroundings
        self._network = network
        self._configured_port = port
        self._last_port = port
        self._state = BrokerState.NEW
        self._lock = threading.RLock()
        self._owner = Owner()

    def __repr__(self) -> str:
        return f"BrokerHandle({self.id}, {self._state.value})"

    # -- what it is

    @property
    def state(self) -> BrokerState:
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether its process is there, be it paused."""
        return self.life is not None

    @property
    def is_paused(self) -> bool:
        return self._state is BrokerState.PAUSED

    @property
    def is_reachable(self) -> bool:
        """Whether it runs, answers, and reaches ZooKeeper: whether it can know what is going on."""
        life = self.life
        return self._state is BrokerState.RUNNING and not (life is None or life.session.is_cut)

    @property
    def has_all_disks(self) -> bool:
        """Whether it runs, and none of its log directories has failed."""
        life = self.life
        if life is None:
            return False
        logs = life.broker.logs
        return len(logs.live_directories) == len(logs.directories)

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`; an error while it is not running."""
        return self.require_broker().address

    def require_broker(self) -> Broker:
        life = self.life
        if life is None:
            raise EmbedKafkaError(f"broker {self.id} is {self._state.value}")
        return life.broker

    # -- what a test does to it

    def start(self, *, timeout_s: float = 30.0) -> None:
        """Starts the broker again, on its directory; returns when all others know it.

        After a kill this first waits until the session of the former life has expired.
        """
        with self._changing():
            self._require_move(BrokerState.RUNNING, "start", unless=BrokerState.PAUSED)
            self._surroundings.await_unregistered(self.id, timeout_s)
            self.boot()
            self.require_broker().stand_for_election()
            self._surroundings.await_known(self.id, timeout_s)

    def stop(self) -> None:
        """Leaves in good order: leaders move away first, then everything is flushed and closed."""
        with self._changing():
            self._require_move(BrokerState.STOPPED, "stop")
            self.require_broker().hand_over()
            self.shut_down()

    def kill(self) -> None:
        """Dies without a goodbye: connections break, nothing is flushed, the session expires."""
        with self._changing():
            self._require_move(BrokerState.KILLED, "kill")
            life = self._end(BrokerState.KILLED)
            life.session.cut(Cut.DEAD)
            life.clock.resume()  # what stood still has to see that it is over
            life.broker.kill()
            life.session.session.drop()
            self._network.rejoin(self.id)

    def pause(self) -> None:
        """Stands still, as in a long garbage collection, until `resume`.

        Connections stay open and nobody answers; the session expires when it takes long.
        """
        with self._changing():
            self._require_move(BrokerState.PAUSED, "pause")
            life = self.life
            assert life is not None
            self._state = BrokerState.PAUSED
            life.broker.pause()
            self._network.isolate(self.id)
            life.clock.pause()
            life.session.cut(Cut.PAUSED)
            self._surroundings.on_change()

    def resume(self) -> None:
        """Goes on where it stood; it finds out by itself what it has missed."""
        with self._changing():
            if self._state is not BrokerState.PAUSED:
                raise EmbedKafkaError(f"broker {self.id} cannot resume: it is {self._state.value}")
            self._go_on()
            self._surroundings.on_change()

    def restart(self, *, timeout_s: float = 30.0) -> None:
        """Stops in good order, unless it is not running, and starts."""
        with self._changing():
            if self.is_running:
                self.stop()
            self.start(timeout_s=timeout_s)

    # -- what its cluster does to it

    def boot(self) -> None:
        """Starts a life that registers, and is not yet a candidate for controller."""
        self.life = self._boot_on(self._last_port)
        self._last_port = self.life.broker.port()
        self._state = BrokerState.RUNNING
        self._surroundings.on_change()

    def halt(self, broker: Broker) -> None:
        """Kills this life, if it is not over: its last disk has failed."""
        with self._lock:
            if self.life is not None and self.life.broker is broker:
                self.kill()

    def hush(self) -> None:
        """Takes no more requests, while the whole cluster is looked at or about to end."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().pause()

    def stand_down(self) -> None:
        """Does not care any more who is controller, for the whole cluster is about to end."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().stand_down()

    def unhush(self) -> None:
        """Takes requests again."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().resume()

    def abandon(self) -> None:
        """Dies with its session, for its cluster goes back to an earlier state."""
        with self._lock:
            if self.life is None:
                return
            life = self._end(BrokerState.KILLED)
            life.session.cut(Cut.DEAD)
            life.clock.resume()  # what stood still has to see that it is over
            life.broker.kill()
            life.session.session.close()
            self._network.rejoin(self.id)

    def shut_down(self, *, keep: bool = True) -> None:
        """Stops without asking the controller first; nothing to do when it is not running.

        What is on its disk is left in good order only if somebody wants to `keep` it.
        """
        with self._lock:
            if self._state is BrokerState.PAUSED:
                self._go_on()
            if self.life is not None:
                self._end(BrokerState.STOPPED).broker.stop(keep=keep)

    # -- how

    def _changing(self) -> threading.RLock:
        """The lock; a forked child has no broker to do anything to."""
        self._owner.require_here()
        return self._lock

    def _boot_on(self, port: int) -> Life:
        life = self._surroundings.make_life(self.id, port)
        try:
            life.broker.start()
        except BaseException as error:
            life.session.session.close()
            life.broker.kill()
            if _is_taken(error) and port != self._configured_port:
                return self._boot_on(ANY_PORT)
            raise
        self._network.claim(self.id, life.broker.ports())
        return life

    def _go_on(self) -> None:
        life = self.life
        assert life is not None
        self._state = BrokerState.RUNNING
        self._network.rejoin(self.id)
        life.clock.resume()
        life.session.mend(Cut.PAUSED)
        life.broker.resume()

    def _end(self, state: BrokerState) -> Life:
        """From now on it is nobody's peer."""
        life, self.life = self.life, None
        assert life is not None
        self._state = state
        self._surroundings.on_change()
        return life

    def _require_move(
        self, target: BrokerState, verb: str, unless: BrokerState | None = None
    ) -> None:
        if self._state not in PREDECESSORS[target] or self._state is unless:
            raise EmbedKafkaError(f"broker {self.id} cannot {verb}: it is {self._state.value}")


def _is_taken(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
