"""All brokers of one cluster, and what they share: ZooKeeper, network, clock and directory.

Owner: the thread that starts and closes the cluster; `_lock` (leaf) guards the map of brokers.
Invariants: a broker finds the replicas of another only while that one runs and the network permits.
Not here: one broker's lifecycle (`lifecycle`), topics (`admin`), the public methods (`embedded`).
"""

import random
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from embedkafka.broker.assembly import Assembly, Handle
from embedkafka.broker.broker import Broker
from embedkafka.broker.controller.event_log import ControllerEventLog
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.identity import BrokerSpec
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.part_configs import zookeeper_connect_timeout_ms
from embedkafka.broker.topics.auto_creation import AutoCreation
from embedkafka.cluster.broker_warnings import BrokerWarnings
from embedkafka.cluster.clients.decoding import Decoders
from embedkafka.cluster.clients.groupless_reads import refuse_readers
from embedkafka.cluster.cluster_state import ClusterState
from embedkafka.cluster.config import ClusterConfig, broker_settings, placement_of
from embedkafka.cluster.lifecycle.ensemble import Ensemble, MemoryEnsemble, RealEnsemble
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle, Incarnation
from embedkafka.cluster.request_log import OWN_CLIENTS, RequestLog
from embedkafka.cluster.waiting import PATIENCE_S, Waiting
from embedkafka.faults.disk import Disk, DiskFiles
from embedkafka.faults.injection import Faults
from embedkafka.faults.network import Network
from embedkafka.faults.pausable_clock import PausableClock
from embedkafka.faults.plans import Choose
from embedkafka.faults.request_faults import RequestFaults
from embedkafka.faults.session_link import Cut, Session, SessionLink
from embedkafka.runtime.arguments import require_int
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import ClusterClosed, EmbedKafkaError, Failures, InvalidArgument
from embedkafka.runtime.files import Files, SystemFiles
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.threads import PATIENCE_S as BUSY_S
from embedkafka.runtime.threads import end_thread, start_thread
from embedkafka.runtime.values import replace
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import WatchEvent

if TYPE_CHECKING:
    from embedkafka.broker.meter import Meter


class OpenPage(Protocol):
    """A page that looks at the cluster."""

    def close(self) -> None: ...


class Brokers:
    """Starts, ends, finds and disconnects the brokers; the `lifecycle.Host` of each."""

    def __init__(
        self,
        config: ClusterConfig,
        directory: Path,
        *,
        clock: SystemClock,
        failures: Failures,
        rng: random.Random,
        describe: "Callable[[Brokers], str]",
        fault_choices: "Callable[[Brokers], Mapping[str, Choose]]",
        decoders: Decoders,
        secured: Mapping[str, object] | None = None,
    ) -> None:
        """Takes what it cannot know itself from those above it.

        Args:
            config: the cluster's settings.
            directory: where the brokers keep their logs.
            clock: the cluster's clock.
            failures: where threads record what went wrong.
            rng: the cluster's random choices.
            describe: what a wait that gives up says about the cluster.
            fault_choices: what a random plan of faults may do to it.
            decoders: those of the test's topics, for reports.
            secured: the settings that security adds to the user's.
        """
        self._secured = secured or {}
        self.waiting = Waiting(lambda: describe(self))
        self._config = config
        self._directory = directory
        self.clock = clock
        self._failures = failures
        self.files: Files = SystemFiles(syncs=config.data_dir is not None)
        self._lock = ranked_lock("brokers of a cluster", LEAF_RANK)
        self._handles: dict[BrokerId, BrokerLifecycle] = {}
        self._removed: dict[BrokerId, BrokerLifecycle] = {}
        self._closed = False
        self.pages: list[OpenPage] = []
        """Those that look at the cluster now."""
        self._without_zookeeper: frozenset[BrokerId] = frozenset()
        self.ensemble = self._make_ensemble()
        self.zk = KafkaZk(self.ensemble.observe(), clock)
        self.rng = self._continued(rng)
        self.request_log = RequestLog()
        self.warnings = BrokerWarnings(lambda: self.request_log.mark().number)
        self.warnings.start()
        self.state_change_log = StateChangeLog(lambda: self.request_log.mark().number)
        self.controller_event_log = ControllerEventLog(lambda: self.request_log.mark().number)
        self._requests = RequestFaults(
            clock, failures, self.rng, source_of=lambda request: self.network.source_of(request)
        )
        self.network = Network(links=self._requests.links)
        self._requests.links.subscribe(self._on_links_changed)
        self._disks: dict[BrokerId, Disk] = {}
        self._ages = RecordAges()
        self._live_members = LiveMembers()
        self.auto_creation = AutoCreation()
        self.decoders = decoders
        self._halting: list[threading.Thread] = []
        self.incarnation_count = 0
        self._meters: dict[BrokerId, Meter] = {}
        self.faults = Faults(
            self._requests,
            disk=self._disk,
            disks=lambda: list(self._disks.values()),
            choices=lambda: fault_choices(self),
            require_broker=lambda broker_id: self.require(broker_id).id,
        )
        self.state = ClusterState(self.zk, self.all, self.network, self.on_change)

    # -- the brokers

    def all(self) -> list[BrokerLifecycle]:
        """Every broker, running or not, by id."""
        handles = list(self._handles.values())  # atomic: a fork could copy a lock while it is held
        return sorted(handles, key=lambda handle: handle.id)

    def running(self) -> list[BrokerLifecycle]:
        return [handle for handle in self.all() if handle.is_running]

    def live(self) -> list[Broker]:
        """What runs now, by id. Another thread may end one of them at any moment."""
        return [broker for handle in self.all() if (broker := handle.broker) is not None]

    def find_live(self, broker_id: int) -> Broker | None:
        """One of them."""
        handle = self._handles.get(BrokerId(broker_id))
        return None if handle is None else handle.broker

    def within_reach(self) -> list[Broker]:
        """Those that are not paused and reach ZooKeeper."""
        return [
            broker
            for handle in self.all()
            if handle.is_reachable and (broker := handle.broker) is not None
        ]

    def require(self, broker_id: int) -> BrokerLifecycle:
        """The broker with this id; raises `InvalidArgument` if there is none."""
        handle = self._handles.get(BrokerId(require_int("a broker's id", broker_id)))
        if handle is None:
            known = ", ".join(str(handle.id) for handle in self.all())
            raise InvalidArgument(f"there is no broker {broker_id}; there are {known}")
        return handle

    def boot_all(self) -> None:
        """Starts the configured brokers; returns when they know each other."""
        first = self._config.first_id
        self.boot([BrokerId(number) for number in range(first, first + self._config.brokers)])

    def boot(self, broker_ids: Collection[BrokerId]) -> None:
        """Starts brokers that are new or dead; returns when all know each other."""
        handles = [self._handles.get(broker_id) or self._add(broker_id) for broker_id in broker_ids]
        for handle in handles:
            self.await_unregistered(handle.id, PATIENCE_S)
            handle.boot()
        for handle in handles:
            handle.require_broker().stand_for_election()
        if handles:  # a snapshot may hold no running broker, and then there is no controller
            self.waiting.await_state("all brokers to know each other", self.state.membership())

    def add(self) -> BrokerLifecycle:
        """Starts one more broker, with the next id."""
        handle = self._add(BrokerId(max((handle.id for handle in self.all()), default=0) + 1))
        try:
            handle.start(timeout_s=PATIENCE_S)
        except BaseException:
            self.remove(handle.id)
            raise
        return handle

    def remove(self, broker_id: int) -> None:
        """Stops a broker cleanly if it runs, and forgets it."""
        handle = self.require(broker_id)
        if handle.is_paused:
            handle.resume()
        if handle.is_running:
            handle.stop()
        self.forget([handle.id])
        self.on_change()

    def forget(self, broker_ids: Collection[BrokerId]) -> None:
        """Forgets brokers that are dead. If one comes back, it has its addresses again."""
        with self._lock:
            for broker_id in broker_ids:
                self._removed[broker_id] = self._handles.pop(broker_id)

    def close(self, *, keep: bool) -> None:
        """Stops every broker; with `keep`, leaves clean logs for the next cluster here.

        First all brokers stop taking requests and leave the election. Otherwise those that end
        later would elect leaders and a controller because of those that end earlier.
        """

        def rest(handle: BrokerLifecycle) -> None:
            handle.hush()
            handle.stand_down()

        self.close_pages()  # while the brokers still run
        self.give_up()
        self.at_once(rest)
        self._requests.close()
        brokers = self.live()
        self.at_once(lambda handle: handle.shut_down(keep=keep))
        for broker in brokers:
            broker.cut_off()  # in case a stuck thread kept it from doing so
        for thread in self._halting:
            end_thread(thread, self._failures)
        self.zk.store.close()
        self.ensemble.close()
        self.warnings.stop()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def requests_at(self, listener: str | None) -> RequestLog:
        """The requests that came in through a listener, or all of them."""
        return self.request_log if listener is None else self.request_log.part(listener)

    def close_pages(self, *, kept: Collection[OpenPage] = ()) -> None:
        """Closes all pages but `kept`."""
        for page in [page for page in self.pages if page not in kept]:
            self.pages.remove(page)
            page.close()

    def give_up(self) -> None:
        """Ends all waiting, and refuses to start brokers."""
        self._closed = True
        self.waiting.close()

    def at_once(self, act: Callable[[BrokerLifecycle], None]) -> None:
        """Acts on all brokers in parallel: most of the work is waiting for their threads."""
        acting = []
        for handle in self.all():
            do = partial(act, handle)
            try:
                acting.append(start_thread(f"ek-b{handle.id}-end", do, self._failures))
            except RuntimeError:  # the interpreter is ending and starts no threads
                do()
        for thread in acting:  # a broker joins its threads one by one, and several may be stuck
            end_thread(thread, self._failures, patience_s=3 * BUSY_S)

    # -- the network

    def split(self, sides: Collection[Collection[int]], keepers: Collection[int]) -> None:
        """Cuts the network between `sides`; of these brokers only `keepers` reach ZooKeeper."""
        named = {self.require(broker_id).id for side in sides for broker_id in side}
        self._without_zookeeper = frozenset(named - set(keepers))
        self.network.split([[BrokerId(broker_id) for broker_id in side] for side in sides])
        for handle in self.running():
            self._link(handle)
        self.on_change()

    def heal(self) -> None:
        """Ends a `split`."""
        self._without_zookeeper = frozenset()
        self.network.heal()
        for handle in self.running():
            self._link(handle)
        self.on_change()

    def drop_held_requests(self) -> None:
        """Requests that faults hold up now never happen: their connections are closed."""
        self._requests.links.held.hang_up()

    def _on_links_changed(self) -> None:
        self.network.on_links_changed()
        for broker in self.live():  # followers fetch once more, and notice the link
            waiters = broker.replicas.waiters
            for view in broker.replicas.hosted.views():
                waiters.on_append(view.topic_partition, high_watermark_advanced=False)
        self.on_change()

    def _link(self, handle: BrokerLifecycle) -> None:
        incarnation = handle.incarnation
        if incarnation is None:
            return
        if handle.id in self._without_zookeeper:
            incarnation.session.cut(Cut.PARTITIONED)
        else:
            incarnation.session.mend(Cut.PARTITIONED)

    def bring_back(self) -> None:
        """Ends every fault: all brokers run, reach each other and have working disks."""
        self.faults.clear()
        self.heal()
        self.revive([handle.id for handle in self.all()])

    def bury(self, broker_ids: Collection[BrokerId], topics: Collection[str]) -> None:
        """Ends the sessions of dead brokers, and removes what they have of `topics`."""
        for handle in [self.require(each) for each in broker_ids if each in self._handles]:
            if handle.is_running:
                continue
            handle.bury()
            for log_dir in self.log_dirs(handle.id):
                for name in self.files.names(log_dir):
                    if name.rpartition("-")[0] in topics:
                        self.files.remove_tree(log_dir / name)

    def revive(self, broker_ids: Collection[BrokerId]) -> None:
        """Makes brokers work again: paused, dead or removed ones, and those that lost a disk."""
        dead = [each for each in broker_ids if each not in self._handles]
        for handle in [self.require(each) for each in broker_ids if each in self._handles]:
            if handle.is_paused:
                handle.resume()
            elif not handle.is_running:
                handle.bury()
                dead.append(handle.id)
            elif not handle.has_all_disks:
                handle.restart(timeout_s=PATIENCE_S)
        self.boot(sorted(dead))
        self.waiting.await_state("all brokers to know each other", self.state.membership())

    def meters(self) -> "Mapping[BrokerId, Meter]":
        """Each broker's meter, which outlives it; the first call switches them on."""
        from embedkafka.broker.meter import Meter  # most clusters need none

        self.controller_event_log.start()
        for handle in self.all():
            if handle.id not in self._meters:
                self._meters[handle.id] = Meter(self.clock, ignored=OWN_CLIENTS)
        for broker in self.live():
            if broker.meter is None:
                broker.measure(self._meters[broker.id])
        return self._meters

    def settle_controllers(self) -> None:
        """Returns when each controller has handled what happened until now."""
        for broker in self.live():
            if broker.controller is not None:
                broker.controller.settle()

    def find_revoked(self) -> dict[BrokerId, frozenset[str]]:
        """The users whose passwords of PLAIN do not count, by broker."""
        return {
            broker.id: broker.authentication.revoked
            for broker in self.live()
            if broker.authentication is not None
        }

    def set_revoked(self, users: Mapping[BrokerId, frozenset[str]]) -> None:
        """Makes the passwords of PLAIN count, but for those of these users."""
        for broker in self.live():
            if broker.authentication is not None:
                broker.authentication.revoked = users.get(broker.id, frozenset())

    @property
    def has_meters(self) -> bool:
        """Whether they are switched on."""
        return bool(self._meters) or self.controller_event_log.is_kept

    def drop_meters(self) -> None:
        """Switches them off, and forgets what they have counted."""
        self._meters = {}
        self.controller_event_log.stop()
        for broker in self.live():
            broker.measure(None)

    # -- `lifecycle.Host`

    def make_incarnation(self, broker_id: BrokerId, ports: Mapping[str, int]) -> Incarnation:
        if self._closed:
            raise ClusterClosed("the cluster is closed: its brokers cannot be started")
        if broker_id in self._without_zookeeper:
            raise EmbedKafkaError(
                f"broker {broker_id} cannot start: a network partition keeps it from ZooKeeper. "
                "End the partition first with `kafka.brokers.heal()`"
            )
        self.incarnation_count += 1
        spec = self._spec(broker_id, ports)
        session = self.ensemble.connect(
            broker_id, spec.config.integer("zookeeper.session.timeout.ms")
        )
        clock = PausableClock(self.clock)
        broker = Broker(
            Assembly(
                spec,
                store=session,
                clock=clock,
                failures=self._failures,
                files=DiskFiles(self._disk(broker_id), self.files),
                rng=random.Random(self.rng.getrandbits(64)),
                find_peer=self.network.peers(broker_id, self._find_replicas),
                transport=self.network.transport(broker_id),
                around=lambda handle, metadata: self._around(spec, handle, metadata),
                on_halt=lambda: self._halt(broker),
                ages=self._ages,
                live_members=self._live_members,
                auto_creation=self.auto_creation,
                state_change_log=self.state_change_log,
                controller_event_log=self.controller_event_log,
            )
        )
        if broker_id in self._meters:
            broker.measure(self._meters[broker_id])
        broker.metadata.subscribe(self.on_change)
        return Incarnation(broker=broker, session=SessionLink(session), clock=clock)

    def end_session(self, session: Session) -> None:
        self.ensemble.expire(session)

    def await_unregistered(self, broker_id: BrokerId, timeout_s: float) -> None:
        what = f"the last session of broker {broker_id} to expire"
        self.waiting.await_state(what, self.state.unregistered(broker_id), timeout_s)

    def await_known(self, broker_id: BrokerId, timeout_s: float) -> None:
        what = f"broker {broker_id} and all others to know each other"
        self.waiting.await_state(what, self.state.broker_known(broker_id), timeout_s)

    def on_change(self) -> None:
        self.waiting.on_change()

    def on_watch(self, event: WatchEvent) -> None:
        self.on_change()

    # -- internals

    def _add(self, broker_id: BrokerId) -> BrokerLifecycle:
        with self._lock:
            removed = self._removed.pop(broker_id, None)
            handle = removed or BrokerLifecycle(broker_id, self, self.network)
            self._handles[broker_id] = handle
        return handle

    def _place(self, broker_id: BrokerId) -> int:
        """How many configured brokers come before this one."""
        return broker_id - self._config.first_id

    def _spec(self, broker_id: BrokerId, ports: Mapping[str, int]) -> BrokerSpec:
        settings = broker_settings(self._config, self._secured)
        racks = self._config.racks
        place = self._place(broker_id)
        if racks and place < len(racks):
            settings["broker.rack"] = racks[place]
        settings["broker.id"] = broker_id
        settings["log.dirs"] = ",".join(map(str, self.log_dirs(broker_id)))
        settings["zookeeper.connect"] = self._config.zookeeper
        settings.pop("log.dir", None)
        return BrokerSpec(
            id=broker_id,
            placement=replace(placement_of(self._config), place=place),
            ports=ports,
            config=BrokerConfig(settings),
        )

    def log_dirs(self, broker_id: BrokerId) -> list[Path]:
        """`broker-1`, and if there are more directories, `broker-1-2` and so on."""
        first = self._directory / f"broker-{broker_id}"
        others = range(2, self._config.log_dirs + 1)
        return [first, *(first.with_name(f"{first.name}-{number}") for number in others)]

    def _disk(self, broker_id: BrokerId) -> Disk:
        with self._lock:
            known = self._disks.get(broker_id)
            if known is None:
                known = self._disks[broker_id] = Disk(
                    lambda: self.log_dirs(broker_id),
                    self.files,
                    is_running=lambda: self.require(broker_id).is_running,
                )
            return known

    def _halt(self, broker: Broker) -> None:
        """Ends a broker that cannot continue, on a thread that is not the broker's."""
        handle = self._handles.get(broker.id)
        if handle is not None:
            name = f"ek-b{broker.id}-halt"
            halting = start_thread(name, lambda: handle.halt(broker), self._failures)
            self._halting.append(halting)

    def _around(self, spec: BrokerSpec, handle: Handle, metadata: MetadataCache) -> Handle:
        """Notes each request of a client, then lets faults act on it."""

        def find_topic(topic_id: UUID) -> str | None:
            return metadata.snapshot.topic_names.get(topic_id)

        failing = self._requests.around(spec.id, handle, find_topic)
        listeners = [listener.name for listener in spec.listeners().clients]
        return refuse_readers(self.request_log.around(spec.id, failing, find_topic, listeners))

    def _find_replicas(self, broker_id: BrokerId) -> ReplicaManager | None:
        handle = self._handles.get(broker_id)
        incarnation = None if handle is None else handle.incarnation
        return None if incarnation is None else incarnation.broker.replicas

    def _continued(self, rng: random.Random) -> random.Random:
        """`rng`, or another if an earlier cluster, perhaps with the same seed, left its state here.

        A topic id must not be given out twice. Every start elects a controller, so the
        controller's epoch distinguishes one start from the next.
        """
        if self.zk.find_cluster_id() is None:
            return rng
        epoch, _ = self.zk.controller_epoch()
        return random.Random(f"{rng.getrandbits(64)} after epoch {epoch}")

    def _make_ensemble(self) -> Ensemble:
        if self._config.zookeeper is not None:
            settings = BrokerConfig(broker_settings(self._config))
            return RealEnsemble(
                self._config.zookeeper,
                self._failures,
                connect_timeout_ms=zookeeper_connect_timeout_ms(settings),
            )
        return MemoryEnsemble(
            self._config.data_dir,
            files=self.files,
            clock=self.clock,
            failures=self._failures,
        )
