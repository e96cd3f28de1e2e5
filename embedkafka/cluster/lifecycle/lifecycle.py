"""One broker's lifecycle: started, stopped, killed, paused, as often as a test likes.

Owner: `_lock` admits one change at a time; other brokers read `incarnation` without it.
Invariants: a lifecycle lasts as long as its cluster and spans many incarnations of its broker, all
with the same id, directory and, while it is free, port. A broker that is not running is no peer.
Not here: how a broker starts and ends (`broker.broker`), what a pause stops (`faults`), what a
user sees of all this (`owned.brokers`).
"""

import errno
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from embedkafka.broker.broker import Broker, RunState
from embedkafka.faults.network import Network
from embedkafka.faults.pausable_clock import PausableClock
from embedkafka.faults.session_link import Cut, Session, SessionLink
from embedkafka.runtime.arguments import require_number
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import Lock, outermost_lock
from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.socket_server import Connection


class BrokerState(Enum):
    """The state of a broker.

    `NEW`: not started yet. `RUNNING`: answers. `PAUSED`: alive but frozen; connections hang and the
    session expires. `STOPPED`: shut down cleanly. `KILLED`: died; the others notice when its
    session expires.
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
class Incarnation:
    """One run of a broker, with the seams through which faults reach it."""

    broker: Broker
    session: SessionLink
    clock: PausableClock


class Host(Protocol):
    """The cluster, as a lifecycle uses it."""

    def make_incarnation(self, broker_id: BrokerId, ports: Mapping[str, int]) -> Incarnation:
        """A broker that takes `ports`, by listener, where the settings leave them open."""
        ...

    def end_session(self, session: Session) -> None:
        """Ends the session of a broker that was killed."""
        ...

    def await_unregistered(self, broker_id: BrokerId, timeout_s: float) -> None:
        """Waits until the session of an earlier incarnation has expired."""
        ...

    def await_known(self, broker_id: BrokerId, timeout_s: float) -> None:
        """Waits until the broker and all others know each other."""
        ...

    def on_change(self) -> None:
        """A broker started, ended, paused or resumed."""
        ...


class BrokerLifecycle:
    """Starts and ends one broker. Users hold it through an `OwnedBroker`."""

    def __init__(self, broker_id: BrokerId, host: Host, network: Network) -> None:
        self.id = broker_id
        self.incarnation: Incarnation | None = None
        self.lost_connections: Sequence[Connection] | None = None
        """Those of clients when its last incarnation ended; None if none has ended since topics
        were last removed (`restoring.removal`)."""
        self._left_behind: Session | None = None
        self._host = host
        self._network = network
        self._last_ports: Mapping[str, int] = {}
        self._last_addresses: Mapping[str, str] = {}
        self._state = BrokerState.NEW
        self._latest: Broker | None = None
        self._lock = outermost_lock()
        self._owner = Owner()

    def __repr__(self) -> str:
        return f"BrokerLifecycle({self.id}, {self._state.value})"

    # -- state

    @property
    def state(self) -> BrokerState:
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not ended since; true while it is paused."""
        return self.incarnation is not None

    @property
    def broker(self) -> Broker | None:
        """What runs now, if anything does; it may end at any time."""
        incarnation = self.incarnation
        return None if incarnation is None else incarnation.broker

    @property
    def run_state(self) -> RunState:
        """What its last incarnation does, which may have ended or not be up yet."""
        return RunState.NOT_RUNNING if self._latest is None else self._latest.run_state

    @property
    def is_paused(self) -> bool:
        return self._state is BrokerState.PAUSED

    @property
    def is_reachable(self) -> bool:
        """Whether it runs, is not paused and reaches ZooKeeper, so that it can be up to date."""
        incarnation = self.incarnation
        return (
            self._state is BrokerState.RUNNING
            and incarnation is not None
            and not incarnation.session.is_cut
        )

    @property
    def has_all_disks(self) -> bool:
        """Whether it runs and none of its log directories has failed."""
        broker = self.broker
        if broker is None:
            return False
        logs = broker.logs
        return len(logs.live_directories) == len(logs.directories)

    @property
    def address(self) -> str:
        """The `host:port` that clients connect to; raises while the broker is not running."""
        return self.require_broker().address

    @property
    def last_addresses(self) -> Mapping[str, str]:
        """Where clients connect, by listener, or connected when it last ran."""
        return self._last_addresses

    def require_broker(self) -> Broker:
        broker = self.broker
        if broker is None:
            raise EmbedKafkaError(
                f"broker {self.id} is not running: it is {self._state.value}. Start it first with "
                f"`kafka.broker({self.id}).start()`"
            )
        return broker

    # -- a test's actions

    def start(self, *, timeout_s: float) -> None:
        """Starts the next incarnation, after the last one's session; waits until others know it."""
        with self._changing():
            require_number("timeout_s", timeout_s)
            self._require_move(BrokerState.RUNNING, "start", unless=BrokerState.PAUSED)
            self._host.await_unregistered(self.id, timeout_s)
            self.boot()
            self.require_broker().stand_for_election()
            self._host.await_known(self.id, timeout_s)

    def stop(self) -> None:
        """Moves leaders away, then flushes and closes everything."""
        with self._changing():
            self._require_move(BrokerState.STOPPED, "stop")
            self.require_broker().hand_over()
            self.shut_down()

    def kill(self) -> None:
        """Breaks connections, flushes nothing, and leaves the session to expire."""
        with self._changing():
            self._require_move(BrokerState.KILLED, "kill")
            incarnation = self._end(BrokerState.KILLED)
            incarnation.session.cut(Cut.DEAD)
            incarnation.clock.resume()  # threads that stood still must see the end
            incarnation.broker.kill()
            incarnation.session.session.drop()
            self._left_behind = incarnation.session.session
            self._network.rejoin(self.id)

    def pause(self) -> None:
        """Freezes threads and session until `resume`; connections stay open without answers."""
        with self._changing():
            self._require_move(BrokerState.PAUSED, "pause")
            incarnation = self.incarnation
            assert incarnation is not None
            self._state = BrokerState.PAUSED
            incarnation.broker.pause()
            self._network.isolate(self.id)
            incarnation.clock.pause()
            incarnation.session.cut(Cut.PAUSED)
            self._host.on_change()

    def resume(self) -> None:
        """Continues where it stood; the broker finds out by itself what it missed."""
        with self._changing():
            if self._state is not BrokerState.PAUSED:
                raise EmbedKafkaError(
                    f"broker {self.id} cannot resume: it is {self._state.value}, not paused"
                )
            self._go_on()
            self._host.on_change()

    def restart(self, *, timeout_s: float) -> None:
        """Stops cleanly if it runs, then starts."""
        with self._changing():
            require_number("timeout_s", timeout_s)
            if self.is_running:
                self.stop()
            self.start(timeout_s=timeout_s)

    # -- its cluster's actions

    def boot(self) -> None:
        """Starts an incarnation that registers but is not a candidate for controller yet."""
        self.incarnation = self._boot_on(self._last_ports)
        self._last_ports = self.incarnation.broker.bound.ports()
        self._last_addresses = self.incarnation.broker.bound.addresses
        self._state = BrokerState.RUNNING
        self._host.on_change()

    def halt(self, broker: Broker) -> None:
        """Kills the incarnation of `broker`, whose last disk failed, unless it has ended."""
        with self._lock:
            if self.incarnation is not None and self.incarnation.broker is broker:
                self.kill()

    def bury(self) -> None:
        """Ends the session that a killed broker left behind, instead of waiting for its end."""
        with self._lock:
            left_behind, self._left_behind = self._left_behind, None
            if left_behind is not None:
                self._host.end_session(left_behind)

    def hush(self) -> None:
        """Takes no more requests, for a snapshot or because the whole cluster is ending."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().pause()

    def stand_down(self) -> None:
        """Stops following controller elections, because the whole cluster is ending."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().stand_down()

    def unhush(self) -> None:
        """Takes requests again."""
        if self._state is BrokerState.RUNNING:
            self.require_broker().resume()

    def abandon(self) -> None:
        """Ends with its session at once, because the cluster is restored to a snapshot."""
        with self._lock:
            if self.incarnation is None:
                return
            incarnation = self._end(BrokerState.KILLED)
            incarnation.session.cut(Cut.DEAD)
            incarnation.clock.resume()  # threads that stood still must see the end
            incarnation.broker.kill()
            incarnation.session.session.close()
            self._network.rejoin(self.id)

    def shut_down(self, *, keep: bool = True) -> None:
        """Stops without moving leaders away; does nothing if it is not running.

        Without `keep` the files are about to be removed, so they are not put in order.
        """
        with self._lock:
            if self._state is BrokerState.PAUSED:
                self._go_on()
            if self.incarnation is not None:
                self._end(BrokerState.STOPPED).broker.stop(keep=keep)

    # -- internals

    def _changing(self) -> Lock:
        """The lock, for the process that owns the broker; refuses forked children."""
        self._owner.require_here()
        return self._lock

    def _boot_on(self, ports: Mapping[str, int]) -> Incarnation:
        incarnation = self._host.make_incarnation(self.id, ports)
        self._latest = incarnation.broker
        try:
            incarnation.broker.start()
        except BaseException as error:
            incarnation.session.session.close()
            incarnation.broker.kill()
            if _is_taken(error) and ports:
                return self._boot_on({})
            if isinstance(error, OSError):
                from embedkafka.cluster.lifecycle.start_errors import start_error

                raise start_error(incarnation.broker.spec, error) from error
            raise
        self._network.claim(self.id, incarnation.broker.bound.local_hosts())
        return incarnation

    def _go_on(self) -> None:
        incarnation = self.incarnation
        assert incarnation is not None
        self._state = BrokerState.RUNNING
        self._network.rejoin(self.id)
        incarnation.clock.resume()
        incarnation.session.mend(Cut.PAUSED)
        incarnation.broker.resume()

    def _end(self, state: BrokerState) -> Incarnation:
        """Takes the incarnation out of its peers' sight, before it is ended."""
        incarnation, self.incarnation = self.incarnation, None
        assert incarnation is not None
        self.lost_connections = incarnation.broker.client_connections()
        self._state = state
        self._host.on_change()
        return incarnation

    def _require_move(
        self, target: BrokerState, verb: str, unless: BrokerState | None = None
    ) -> None:
        if self._state not in PREDECESSORS[target] or self._state is unless:
            raise EmbedKafkaError(f"broker {self.id} cannot {verb}: it is {self._state.value}")


def _is_taken(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EADDRINUSE
