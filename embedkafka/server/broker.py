"""One broker: builds its parts, starts and stops them in order. The only place where they meet.

Owner: the caller of `start`, `stop` and `kill`, one at a time; each part owns its own state.
Invariants: a broker registers only after its control plane answers, so the controller's first
requests reach it. After `stop` or `kill`, no thread, port or session of it remains.
Not here: what requests mean (`handlers`), what the cluster decides (`controller`).
"""

import logging
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.controller.controller import Controller
from embedkafka.controller.event_log import ControllerEventLog
from embedkafka.controller.state_change_log import StateChangeLog
from embedkafka.group.consumer.live_members import LiveMembers
from embedkafka.log.config import LogConfig
from embedkafka.log.environment import LogEnvironment
from embedkafka.log.files.checkpoints import MetaProperties
from embedkafka.log.files.record_ages import RecordAges
from embedkafka.log.manager import LogManager
from embedkafka.net.authentication import NewAuthenticator, NewLogin
from embedkafka.net.client import BrokerClient
from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.net.socket_server import Connection, ProcessorView, SocketServer
from embedkafka.net.transport import Encrypt, Transport, own_address
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.brokers import (
    ControlledShutdownRequest,
    UpdateMetadataRequest,
)
from embedkafka.purgatory.purgatory import Purgatory
from embedkafka.purgatory.timer import SystemTimer
from embedkafka.replica.fetch_session import FetchManager
from embedkafka.replica.following.leader_endpoint import (
    LeaderAccess,
    LeaderEndPoint,
    LeaderUnavailable,
    OnNews,
)
from embedkafka.replica.local_leader import LocalLeader
from embedkafka.replica.manager import ReplicaManager
from embedkafka.replica.ports import ReplicaPorts
from embedkafka.replica.strays import find_strays
from embedkafka.runtime.addresses import LOOPBACK, format_address, is_loopback, is_wildcard
from embedkafka.runtime.clock import Clock, SystemClock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import ConfigError, Failures
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import NO_BROKER_EPOCH, BrokerId, TopicPartition, format_uuid
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import dataclass, field, replace
from embedkafka.security.principals import ANONYMOUS
from embedkafka.server.adapters import (
    CachedCoordinatorLeaders,
    CachedMetadata,
    CoordinatorLeadership,
    DiskFailures,
    LocalPartitions,
    StoredProducerIds,
)
from embedkafka.server.broker_channels import BrokerChannels
from embedkafka.server.config import part_configs
from embedkafka.server.config.broker import BrokerConfig
from embedkafka.server.config.definition import ConfigValue
from embedkafka.server.config.dynamic import OF_QUOTAS, DynamicConfig
from embedkafka.server.config.listeners import (
    AS_SET,
    PLAINTEXT,
    Address,
    Listeners,
    NamedListener,
    Placement,
    plan_listeners,
)
from embedkafka.server.dispatch import Dispatcher
from embedkafka.server.handler_pool import HandlerPool
from embedkafka.server.lazy_coordinator import LazyCoordinator
from embedkafka.server.metadata_cache import MetadataCache
from embedkafka.server.run_state import RunState
from embedkafka.server.topics.admin import TopicAdmin
from embedkafka.server.topics.auto_creation import AutoCreation
from embedkafka.server.topics.delayed import DelayedTopics
from embedkafka.server.topics.rules import DEFAULT, is_valid_topic_name
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo
from embedkafka.zk.store import ConnectionLoss, SessionExpired, ZkStore

if TYPE_CHECKING:
    from embedkafka.coordinator.ports import CoordinatorParts
    from embedkafka.group.service import GroupService
    from embedkafka.security.acl.authorizer import AclAuthorizer
    from embedkafka.security.principals import KafkaPrincipal
    from embedkafka.security.quotas.client_quotas import ClientQuotas
    from embedkafka.security.tokens import DelegationTokens
    from embedkafka.server.authentication import Authentication
    from embedkafka.server.encryption import Encryption
    from embedkafka.server.meter import Meter
    from embedkafka.server.txn_verification import TxnVerification
    from embedkafka.txn.service import TxnService

_LOG = logging.getLogger(__name__)

_TXN_APPEND_TIMEOUT_MS: Final = 5_000
_FORWARDING: Final = "forwarding"
_CONTROL_PLANE_QUEUED_MAX_REQUESTS: Final = 20  # Kafka's, and no setting there either

PeerResolver = Callable[[BrokerId], ReplicaManager | None]
"""Finds the replicas of a broker in the same process, or None while it is down."""

Handle = Callable[[Request], None]
Around = Callable[[Handle, MetadataCache], Handle]
"""Wraps the function that answers requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """What makes one broker different from the next.

    Access to the control plane is control of the broker. So it listens on `control_host`, which is
    loopback unless the cluster spans machines.
    """

    id: BrokerId
    placement: Placement = AS_SET
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports for listeners that have none, by name."""
    control_host: str = LOOPBACK
    config: BrokerConfig

    @property
    def log_dirs(self) -> Sequence[Path]:
        text = self.config.text("log.dirs") or self.config.text("log.dir")
        return [Path(part.strip()) for part in text.split(",")]

    @property
    def rack(self) -> str | None:
        return self.config.text("broker.rack") or None

    def listeners(self) -> Listeners:
        return plan_listeners(
            self.config.given, self.placement, control_host=self.control_host, ports=self.ports
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkView:
    """The way of requests through a broker at one moment; planes are by `is_control_plane`."""

    processors: Sequence[ProcessorView]
    blocked_shares: Mapping[str, float]
    """The part of the time in which a listener accepted no connections."""
    queue_sizes: Mapping[bool, int]
    """How many requests wait for a handler thread."""
    idle_shares: Mapping[bool, float | None]
    """The part of the time that handler threads have to spare; None if there are none."""


class Broker:
    """A running broker; every restart makes a new one.

    It follows the leaders that `find_peer` finds in this process; without `find_peer`, over the
    wire.
    """

    def __init__(
        self,
        spec: BrokerSpec,
        *,
        store: ZkStore,
        clock: Clock,
        failures: Failures,
        files: Files,
        rng: random.Random,
        find_peer: PeerResolver | None = None,
        transport: Transport | None = None,
        around: Around | None = None,
        on_halt: Callable[[], None] | None = None,
        ages: RecordAges | None = None,
        live_members: LiveMembers | None = None,
        auto_creation: AutoCreation | None = None,
        state_change_log: StateChangeLog | None = None,
        controller_event_log: ControllerEventLog | None = None,
    ) -> None:
        """Calls `on_halt`, on any thread, when the last log directory has failed.

        Kafka ends its process then; the owner of this broker should end it too. Brokers whose clock
        can be moved share their `ages`, brokers that can be emptied their `live_members` and
        `auto_creation`, and the brokers of one process their `state_change_log` and
        `controller_event_log`.
        """
        self.id = spec.id
        self.spec = spec
        self.listeners = spec.listeners()
        self._own_addresses = {
            one.host: own_address(one.host) for one in self.listeners.all if is_wildcard(one.host)
        }
        self.cluster_id = ""
        self.features_epoch = 0
        self.clock = clock
        self._failures = failures
        self._rng = rng
        self._transport = transport
        self._find_peer = find_peer
        self._live_members = live_members or LiveMembers()
        self.auto_creation = auto_creation or AutoCreation()
        self._state_change_log = state_change_log
        self._controller_event_log = controller_event_log
        self._on_halt = on_halt
        self._zk_store = store
        self.zk = KafkaZk(store, clock)
        self.controller: Controller | None = None
        self.meter: Meter | None = None
        """Counts requests, once metrics are wanted; `measure` sets it."""
        self.run_state = RunState.NOT_RUNNING
        self._is_unclean = False

        self._background = ThreadScheduler(f"ek-b{self.id}-background", clock, failures)
        self._cleaners: list[ThreadScheduler] = []
        self.conversions = ThreadScheduler(f"ek-b{self.id}-conversions", clock, failures)
        self.timer = SystemTimer(clock, failures, f"ek-b{self.id}-timer")
        self._coordinator: EventLoop[Callable[[], None]] = EventLoop(
            f"ek-b{self.id}-coordinator", lambda event: event(), failures
        )

        self.metadata = MetadataCache()
        self.config = DynamicConfig(self.id, spec.config, self.zk, self._background)
        # A separate generator: other draws, and their timing, must not change topic ids.
        self.topics = TopicAdmin(self.zk, self.metadata, random.Random(rng.getrandbits(64)))
        self.topic_purgatory: Purgatory[DelayedTopics] = Purgatory("topics", self.timer, failures)
        self.election_purgatory: Purgatory[DelayedTopics] = Purgatory(
            "elections", self.timer, failures
        )
        self.logs = self._make_logs(files, ages or RecordAges())
        self.replicas = self._make_replicas()
        self.fetches = FetchManager(
            clock, rng, slots=spec.config.integer("max.incremental.fetch.session.cache.slots")
        )

        self.tokens = self._make_tokens()
        problems = Problems()
        self.authentication = problems.attempt(lambda: self._make_authentication(files))
        self.encryption = problems.attempt(lambda: self._make_encryption(files))
        problems.raise_all()
        self._markers = self._channels_for("markers")
        self._verifications = self._channels_for("verification")
        self.forwarding = self._channels_for(_FORWARDING)
        """To the active controller, which alone can answer some requests."""
        self._groups = LazyCoordinator(GROUP_METADATA_TOPIC, self._make_groups, self.metadata)
        self._txns = LazyCoordinator(TRANSACTION_STATE_TOPIC, self._make_txns, self.metadata)

        self.authorizer = self._make_authorizer()
        self._quotas: ClientQuotas | None = None
        self._dispatcher = self._make_dispatcher()
        handle: Handle = self._dispatcher.handle
        if around is not None:
            handle = around(handle, self.metadata)
        io_threads = spec.config.integer("num.io.threads")
        self._pool = HandlerPool(
            f"ek-b{self.id}-handler",
            io_threads,
            RequestChannel(
                spec.config.integer("queued.max.requests"),
                max_bytes=part_configs.queued_max_bytes(spec.config),
            ),
            handle,
            clock,
            failures,
        )
        self._control_pool = HandlerPool(
            f"ek-b{self.id}-control-handler",
            min(io_threads, 1),
            RequestChannel(_CONTROL_PLANE_QUEUED_MAX_REQUESTS),
            handle,
            clock,
            failures,
        )
        self._server = self._make_server()

    # -- lifecycle

    def start(self) -> None:
        """Loads the logs, listens and registers; `stand_for_election` is the last step.

        It binds first, so a port that is taken fails before anything has changed.
        """
        self.run_state = RunState.STARTING
        self._server.bind()
        self.config.state_facts(self._facts())
        self.zk.make_persistent_paths()
        self.cluster_id = self.zk.create_or_get_cluster_id(_new_cluster_id(self._rng))
        self.features_epoch = self.zk.features_epoch()
        if self.tokens is not None:
            self.tokens.load(self._background)
            interval_ms = self.spec.config.integer("delegation.token.expiry.check.interval.ms")
            self._background.every("expire-tokens", interval_ms, self._expire_tokens)
        self.config.start(
            on_topic=self._on_topic_config,
            on_broker=self._on_broker_config,
            on_quotas=self._on_quotas,
        )
        self._start_security()
        self._on_quotas()
        self._on_broker_config(self.config.broker)
        if self.authorizer is not None:
            self.authorizer.start()
            self._require_rights_of_brokers(self.authorizer)
        self.logs.claim(MetaProperties(broker_id=self.id, cluster_id=self.cluster_id))
        self.logs.startup(on_unclean=self._on_unclean_shutdown)
        self.run_state = RunState.STARTING
        self._set_strays_aside()
        self._coordinator.start()
        self.replicas.start()
        self._groups.start(self._count_partitions(GROUP_METADATA_TOPIC))
        self._txns.start(self._count_partitions(TRANSACTION_STATE_TOPIC))
        self._pool.start()
        self._control_pool.start()
        self._server.start()
        self._on_broker_config(self.config.broker)
        info = self._info()
        epoch = self.zk.register_broker(info)
        self.controller = Controller(
            info,
            epoch,
            self.zk,
            clock=self.clock,
            failures=self._failures,
            config=part_configs.controller_config(self.config.broker, self.listeners),
            scheduler=self._background,
            connect=self._connect,
            state_change_log=self._state_change_log,
            event_log=self._controller_event_log,
        )
        self.run_state = RunState.RUNNING

    def _on_unclean_shutdown(self) -> None:
        self.run_state = RunState.RECOVERY

    def stand_for_election(self) -> None:
        """Takes part in controller elections.

        Brokers that start together all register first. Then the first controller finds all of them
        and does not have to move leaders as they arrive.
        """
        assert self.controller is not None, f"broker {self.id} has not been started"
        self.controller.start()

    def hand_over(self) -> bool:
        """Has the controller move leaders away before `stop`; False if some remain."""
        if self.controller is None or not self.spec.config.flag("controlled.shutdown.enable"):
            return False
        from embedkafka.server.controlled_shutdown import ShutdownPolicy, leave_cluster

        self.run_state = RunState.PENDING_CONTROLLED_SHUTDOWN
        return leave_cluster(
            ControlledShutdownRequest(broker_id=self.id, broker_epoch=self.controller.broker_epoch),
            zk=self.zk,
            connect=self._connect,
            listener=self.listeners.control.name,
            clock=self.clock,
            policy=ShutdownPolicy.of(self.spec.config),
        )

    def stand_down(self) -> None:
        """Withdraws from elections, because the whole cluster is about to end."""
        if self.controller is not None:
            self.controller.stop()

    def stop(self, *, keep: bool = True) -> None:
        """Leaves the cluster, answers waiting requests, flushes and checkpoints.

        Without `keep` it skips the disk, because the log directories are about to be removed.
        """
        self._end(leave=True, keep=keep)

    def pause(self) -> None:
        """Reads and answers nothing until `resume`; connections stay open."""
        self._server.pause()

    def resume(self) -> None:
        self._server.resume()

    def kill(self) -> None:
        """Dies: resets connections, flushes nothing, leaves its session to expire.

        The caller has cut off the session first, so the broker can write nothing more to it.
        """
        self._server.kill()
        self._end(leave=False, keep=False)

    def cut_off(self) -> None:
        """Frees its ports at once, also when `stop` cannot finish."""
        self._server.cut_off()

    def _end(self, *, leave: bool, keep: bool) -> None:
        self.run_state = RunState.SHUTTING_DOWN if leave else RunState.NOT_RUNNING
        self.stand_down()
        if leave:
            self._zk_store.close()
        self.topic_purgatory.shutdown(complete=leave)
        self.election_purgatory.shutdown(complete=leave)
        self._groups.stop()
        self._txns.stop()
        self.replicas.shutdown(complete=keep)
        self._markers.close()
        self._verifications.close()
        self.forwarding.close()
        self._coordinator.stop(drain=leave)
        if leave:
            self._server.stop()
        self._background.shutdown()  # it resizes the pool
        self._pool.close()
        self._control_pool.close()
        self.conversions.shutdown()
        self.logs.stop_cleaning()
        for cleaner in self._cleaners:
            cleaner.shutdown()
        self.timer.shutdown()
        if keep:
            self.logs.shutdown()
        else:
            self.logs.kill()
        self.run_state = RunState.NOT_RUNNING

    def log_out(self, which: "Callable[[KafkaPrincipal], bool]", reason: str) -> None:
        """Soon closes the connections of clients that logged in as one of `which`."""
        self._server.close_clients(lambda one: one is not None and which(one), reason)

    def measure(self, meter: "Meter | None") -> None:
        """Counts requests, and measures how much time threads have to spare; None ends both."""
        self.meter = meter
        for part in (self._server, self._pool, self._control_pool):
            part.measure(on=meter is not None)

    def network_view(self) -> NetworkView:
        """What the threads do that read requests and handle them."""
        pools = {False: self._pool, True: self._control_pool}
        return NetworkView(
            processors=self._server.processor_views(),
            blocked_shares=self._server.blocked_shares(),
            queue_sizes={plane: pool.queue_size for plane, pool in pools.items()},
            idle_shares={
                plane: pool.idle_share if pool.count else None for plane, pool in pools.items()
            },
        )

    def client_connections(self) -> list[Connection]:
        """The open connections of clients, and of brokers that replicate over the wire."""
        return self._server.client_connections()

    # -- where it is

    def port(self, listener: str | None = None) -> int:
        """The port of the named listener, or of the first one for clients."""
        return self._server.bound_port(listener or self.listeners.clients[0].name)

    def ports(self) -> dict[str, int]:
        """All ports it listens on, by listener."""
        return {listener.name: self.port(listener.name) for listener in self.listeners.all}

    @property
    def is_secured(self) -> bool:
        """Whether some listener asks clients for more than plain text."""
        return any(one.protocol != PLAINTEXT for one in self.listeners.clients)

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[str, str]:
        """Where clients connect, as `host:port`, by listener.

        A listener on all addresses of the machine is where it says that it is, or at the machine's
        own address if it says the port of a proxy.
        """
        return {
            one.name: format_address(self._host_of(one), self.port(one.name))
            for one in self.listeners.clients
        }

    @property
    def advertised(self) -> dict[str, str]:
        """What clients learn from the listeners that are advertised, as `host:port`, by name."""
        found = [self._advertised(one) for one in self.listeners.clients if one.advertised]
        return {one.name: format_address(one.host, one.port) for one in found}

    def local_hosts(self) -> dict[int, str]:
        """The host at which this process reaches each port, whatever clients are given."""
        loopback = {"0.0.0.0": LOOPBACK, "::": "::1"}
        return {self.port(one.name): loopback.get(one.host, one.host) for one in self.listeners.all}

    def make_client(self, client_id: str, **options: float) -> BrokerClient:
        """A client of this broker that logs in as brokers do; not a link between brokers."""
        listener = self.listeners.inter_broker
        port = self.port(listener)
        return BrokerClient(
            self.local_hosts()[port],
            port,
            SystemClock(),
            client_id,
            transport=None if self.encryption is None else self.encryption.own_transport(),
            new_login=self._find_login(listener),
            **options,
        )

    # -- for the handlers

    @property
    def groups(self) -> "GroupService":
        return self._groups.get()

    @property
    def txns(self) -> "TxnService":
        return self._txns.get()

    @cached_property
    def txn_verification(self) -> "TxnVerification":
        """Asks the coordinators of transactions; it has no state, so two may be made."""
        from embedkafka.server.txn_verification import TxnVerification  # for transactions

        return TxnVerification(
            self.id,
            self.config,
            partitions=self.replicas.hosted,
            metadata=self.metadata,
            txns=self.txns,
            channels=self._verifications,
            scheduler=self._background,
            clock=self.clock,
        )

    def require_controller(self) -> Controller:
        """This broker's controller, if it is the active one."""
        if self.controller is None or not self.controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"broker {self.id} is not the controller")
        return self.controller

    def is_forwarded(self, client_id: str) -> bool:
        """Whether another broker has passed a request on, taking this one for the controller."""
        return client_id.startswith("ek-b") and client_id.endswith(f"-{_FORWARDING}")

    def is_stale(self, broker_epoch: int) -> bool:
        """Whether a control request was meant for an earlier registration of this broker."""
        return self.controller is not None and broker_epoch < self.controller.broker_epoch

    def update_metadata(self, request: UpdateMetadataRequest) -> ErrorCode:
        """Applies the controller's metadata, and completes the requests that waited for it."""
        if not self.replicas.leadership.accept_controller(request.controller_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        known_brokers = self.metadata.snapshot.brokers.keys()
        removed = self.metadata.update(request)
        if self.metadata.snapshot.brokers.keys() != known_brokers:
            self.replicas.isr_updates.on_brokers_changed()
        if removed and self._groups.made is not None:
            self._groups.made.on_partitions_deleted(sorted(removed))
        for topic in {topic for topic, _ in removed}:
            self.config.forget_topic(topic)
        for state in request.topic_states:
            self.topic_purgatory.check_and_complete(state.topic_name)
            self.election_purgatory.check_and_complete(state.topic_name)
        return ErrorCode.NONE

    def auto_create_topics(self, names: Iterable[str], client_id: str) -> None:
        """Begins to create topics that a client asked for; logs failures."""
        for name in names:
            with self.auto_creation.creating(name, client_id) as is_allowed:
                if not is_allowed:
                    continue
                if name in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
                    self.create_internal_topic(name)
                elif is_valid_topic_name(name):
                    made = self._create_quietly(name, DEFAULT, DEFAULT, {})
                    if made is not None:
                        self.auto_creation.on_created(made, client_id)

    def create_internal_topic(self, name: str) -> None:
        partitions, replication, config = part_configs.internal_topic_settings(
            self.config.broker, group=name == GROUP_METADATA_TOPIC
        )
        self._create_quietly(name, partitions, replication, config)

    def _create_quietly(
        self, name: str, partitions: int, replication: int, config: dict[str, str]
    ) -> uuid.UUID | None:
        """Returns the new topic's id."""
        try:
            planned = self.topics.plan_topic(
                name,
                partitions=partitions,
                replication=replication,
                config=config,
                broker_config=self.config.broker,
            )
            self.topics.create(planned)
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                _LOG.warning("broker %d cannot create topic %s: %s", self.id, name, error)
            return None
        return planned.topic_id

    def _start_security(self) -> None:
        """Applies what was stored for listeners while the broker ran before."""
        for part in (self.encryption, self.authentication):
            if part is not None:
                try:
                    part.start(self.config.broker)
                except ConfigError as error:
                    _LOG.error("broker %d starts without stored settings: %s", self.id, error)

    def _require_rights_of_brokers(self, authorizer: "AclAuthorizer") -> None:
        """Refuses to start if ACLs forbid what this broker would send to others as controller."""
        control, principal = self.listeners.control, self._principal_of_brokers()
        if principal is None or authorizer.allows_brokers(str(principal), control.host):
            return
        raise ConfigError(
            f"the authorizer would refuse what brokers send each other as {principal} on listener "
            f"{control.name} ({control.protocol}): add {principal} to super.users, or allow it "
            "CLUSTER_ACTION on the cluster"
        )

    def _principal_of_brokers(self) -> "KafkaPrincipal | None":
        """Who brokers are on the control plane; None if only a login can tell."""
        name, protocol = self.listeners.control.name, self.listeners.control.protocol
        if protocol == PLAINTEXT:
            return ANONYMOUS
        if protocol == "SSL":
            assert self.encryption is not None
            return self.encryption.own_principal(name)
        assert self.authentication is not None
        return self.authentication.find_own_principal(name)

    def check_security(self, config: BrokerConfig) -> None:
        """Raises ConfigError if the broker could not use these certificates from now on."""
        if self.encryption is not None:
            self.encryption.check(config)

    # -- how the parts are joined

    def _make_logs(self, files: Files, ages: RecordAges) -> LogManager:
        return LogManager(
            self.spec.log_dirs,
            LogEnvironment(
                clock=self.clock,
                files=files,
                scheduler=self._background,
                random=self._rng,
                ages=ages,
            ),
            config=part_configs.log_manager_config(self.spec.config),
            cleaner_config=part_configs.cleaner_config(self.spec.config),
            new_cleaner_tasks=self._new_cleaner_tasks,
            topic_config=self.config.log_config,
            on_dir_failure=self._on_log_dir_failure,
        )

    def _new_cleaner_tasks(self, number: int) -> ThreadScheduler:
        name = f"ek-b{self.id}-cleaner" + (f"-{number}" if number else "")
        self._cleaners.append(ThreadScheduler(name, self.clock, self._failures))
        return self._cleaners[-1]

    def _coordinator_parts(self, *, append_timeout_ms: int, load_bytes: int) -> "CoordinatorParts":
        from embedkafka.coordinator.ports import CoordinatorParts  # for groups and transactions

        return CoordinatorParts(
            loop=self._coordinator,
            clock=self.clock,
            timer=self.timer,
            logs=LocalPartitions(
                lambda: self.replicas, append_timeout_ms=append_timeout_ms, load_bytes=load_bytes
            ),
            failures=self._failures,
        )

    def _make_groups(self) -> "GroupService":
        from embedkafka.group.service import GroupService  # most clusters of tests have none

        config = self.spec.config
        return GroupService(
            part_configs.group_config(config),
            self._coordinator_parts(
                append_timeout_ms=config.integer("offsets.commit.timeout.ms"),
                load_bytes=config.integer("offsets.load.buffer.size"),
            ),
            random=self._rng,
            topics=CachedMetadata(self.metadata),
            leaders=self._leaders_of(GROUP_METADATA_TOPIC),
            overrides=self.config,
            live_members=self._live_members,
        )

    def _make_txns(self) -> "TxnService":
        from embedkafka.server.marker_channels import MarkerChannels  # as above
        from embedkafka.txn.service import TxnService

        config = self.spec.config
        return TxnService(
            part_configs.txn_config(config),
            self._coordinator_parts(
                append_timeout_ms=_TXN_APPEND_TIMEOUT_MS,
                load_bytes=config.integer("transaction.state.log.load.buffer.size"),
            ),
            producer_id_blocks=StoredProducerIds(self.id, self.zk),
            markers=MarkerChannels(self.metadata, self._markers, self.zk),
            leaders=self._leaders_of(TRANSACTION_STATE_TOPIC),
        )

    def _leaders_of(self, topic: str) -> CachedCoordinatorLeaders:
        return CachedCoordinatorLeaders(
            self.id, self.metadata, topic, broker_epoch=self._broker_epoch
        )

    def _make_authorizer(self) -> "AclAuthorizer | None":
        config = part_configs.authorizer_config(self.spec.config)
        if config is None:
            return None
        from embedkafka.security.acl.authorizer import AclAuthorizer  # only a secured broker

        return AclAuthorizer(config, self.zk, self._background)

    def _make_dispatcher(self) -> Dispatcher:
        dispatcher = Dispatcher(self, self._failures)
        if self.authorizer is not None:
            from embedkafka.server.authorization.needs import permitted  # as above

            dispatcher.permit = partial(permitted, self.authorizer, self)
        return dispatcher

    def _on_quotas(self) -> None:
        """Reads the quotas of clients, and puts them before the handlers if there are any."""
        if self._quotas is None:
            if not any(map(self.zk.configured_entities, OF_QUOTAS)):
                return
            from embedkafka.security.quotas.client_quotas import ClientQuotas  # only with quotas

            self._quotas = ClientQuotas(self.clock, part_configs.quota_windows(self.spec.config))
        from embedkafka.server.quota_store import QuotaStore  # only with quotas

        found = list(QuotaStore(self.zk).all())
        self._quotas.set_limits(found)
        self._server.set_address_rates(
            {
                entity["ip"]: int(quotas["connection_creation_rate"])
                for entity, quotas in found
                if "ip" in entity
            }
        )
        if not self._quotas.is_active:
            self._dispatcher.charge = None
        elif self._dispatcher.charge is None:
            from embedkafka.server.throttling import charge  # only with quotas

            self._dispatcher.charge = partial(charge, self._quotas, self)

    def _make_server(self) -> SocketServer:
        spec = self.spec
        return SocketServer(
            part_configs.server_config(
                spec.config, self.listeners, self._find_authenticators, self._find_encrypt
            ),
            self._pool.sink,
            self.clock,
            self._failures,
            self.id,
            control_handle=self._control_pool.sink,
            transport=self._transport,
        )

    def _make_tokens(self) -> "DelegationTokens | None":
        settings = part_configs.find_token_settings(self.spec.config)
        if settings is None:
            return None
        from embedkafka.security.tokens import DelegationTokens

        rng = random.Random(self._rng.getrandbits(64))
        return DelegationTokens(settings, self.zk, self.clock, rng)

    def _expire_tokens(self) -> None:
        """The controller removes tokens that have expired."""
        assert self.tokens is not None
        if self.controller is not None and self.controller.is_active:
            with suppress(ConnectionLoss, SessionExpired):
                self.tokens.remove_expired()

    def _make_authentication(self, files: Files) -> "Authentication | None":
        """None if no listener asks its clients to authenticate; then nothing of it is loaded."""
        if not any(one.protocol.startswith("SASL_") for one in self.listeners.all):
            return None
        from embedkafka.security.credentials import ScramCredentials
        from embedkafka.server.authentication import Authentication

        return Authentication(
            self.spec.config,
            self.listeners,
            credentials=ScramCredentials(self.zk),
            tokens=self.tokens,
            clock=self.clock,
            files=files,
            rng=random.Random(self._rng.getrandbits(64)),
        )

    def _make_encryption(self, files: Files) -> "Encryption | None":
        """None if no listener speaks TLS; then nothing of it is loaded."""
        if not any(one.speaks_tls for one in self.listeners.all):
            return None
        from embedkafka.server.encryption import Encryption

        return Encryption(self.spec.config, self.listeners, files, self._transport)

    def _find_authenticators(self, listener: NamedListener) -> NewAuthenticator | None:
        if self.encryption is not None and listener.protocol == "SSL":
            return self.encryption.find_authenticators(listener)
        if self.authentication is not None:
            return self.authentication.find_authenticators(listener.name)
        return None

    def _find_encrypt(self, listener: str) -> Encrypt | None:
        return None if self.encryption is None else self.encryption.find_encrypt(listener)

    def _transport_to(self, listener: str) -> Transport | None:
        return (
            self._transport if self.encryption is None else self.encryption.transport_to(listener)
        )

    def _find_login(self, listener: str) -> NewLogin | None:
        return None if self.authentication is None else self.authentication.find_login(listener)

    def _make_replicas(self) -> ReplicaManager:
        leadership = CoordinatorLeadership(
            {
                GROUP_METADATA_TOPIC: (
                    lambda partition, epoch: self._groups.on_leading(partition, epoch),
                    lambda partition, epoch: self._groups.on_resigned(partition, epoch),
                ),
                TRANSACTION_STATE_TOPIC: (
                    lambda partition, epoch: self._txns.on_leading(partition, epoch),
                    lambda partition, epoch: self._txns.on_resigned(partition, epoch),
                ),
            }
        )
        return ReplicaManager(
            self.id,
            ReplicaPorts(
                logs=self.logs,
                topic_configs=self.config,
                metadata=CachedMetadata(self.metadata),
                isr_store=self.zk,
                leadership_listener=leadership,
                log_dir_events=DiskFailures(self.id, self.zk, self._background),
            ),
            LeaderAccess(connect=self._reach_leader, one_thread=self._find_peer is not None),
            config=part_configs.replica_config(self.spec.config),
            timer=self.timer,
            scheduler=self._background,
            clock=self.clock,
            failures=self._failures,
        )

    def _reach_leader(self, leader: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        if self._find_peer is not None:
            return LocalLeader(leader, self.id, self._find_peer, on_news, self._broker_epoch)
        from embedkafka.replica.following.remote_leader import RemoteLeader  # other processes

        return RemoteLeader(
            leader,
            self.id,
            self._connect_to_leader,
            part_configs.replica_config(self.spec.config),
            broker_epoch=self._broker_epoch,
        )

    def _broker_epoch(self) -> int:
        return NO_BROKER_EPOCH if self.controller is None else self.controller.broker_epoch

    def _connect_to_leader(self, leader: BrokerId) -> BrokerClient:
        endpoint = self.metadata.snapshot.find_endpoint(leader, self.listeners.inter_broker)
        if endpoint is None:
            raise LeaderUnavailable(f"broker {leader} is not known to be alive")
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self.clock,
            f"broker-{self.id}-fetcher-{leader}",
            request_timeout_ms=self.spec.config.integer("replica.socket.timeout.ms"),
            transport=self._transport_to(self.listeners.inter_broker),
            new_login=self._find_login(self.listeners.inter_broker),
        )

    def _connect(self, endpoint: BrokerEndpoint) -> BrokerClient:
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self.clock,
            f"controller-{self.id}",
            request_timeout_ms=self.spec.config.integer("controller.socket.timeout.ms"),
            transport=self._transport_to(endpoint.listener),
            new_login=self._find_login(endpoint.listener),
        )

    def _channels_for(self, purpose: str) -> BrokerChannels:
        return BrokerChannels(
            f"ek-b{self.id}-{purpose}",
            self.metadata,
            self.listeners.inter_broker,
            self.clock,
            self._failures,
            self._transport_to(self.listeners.inter_broker),
            self._find_login(self.listeners.inter_broker),
        )

    def _set_strays_aside(self) -> None:
        for stray in find_strays(self.logs.all_logs(), self.id, self.zk.find_topic):
            _LOG.warning("broker %d sets a stray log of %s aside", self.id, stray)
            self.logs.set_aside(stray)

    def _count_partitions(self, topic: str) -> int | None:
        found = self.zk.find_topic(topic)
        return None if found is None else len(found.partitions)

    def _facts(self) -> dict[str, ConfigValue]:
        """Settings that describe this broker, whatever the user asked for."""
        listeners = self.listeners
        advertised = [self._advertised(one) for one in listeners.clients if one.advertised]
        return {
            "advertised.listeners": ",".join(map(str, advertised)),
            "broker.id": self.id,
            "control.plane.listener.name": listeners.control.name,
            "inter.broker.listener.name": listeners.inter_broker,
            "listener.security.protocol.map": listeners.protocol_map(),
            "listeners": ",".join(
                str(Address(name=one.name, host=one.host, port=self.port(one.name)))
                for one in listeners.all
            ),
            "log.dirs": ",".join(map(str, self.spec.log_dirs)),
            "node.id": self.id,
        }

    def _advertised(self, listener: NamedListener) -> Address:
        """What others learn about one of the listeners that are advertised."""
        given = listener.advertised
        assert given is not None, f"{listener.name} is not advertised"
        return Address(
            name=listener.name,
            host=given.host or self._own_addresses.get(listener.host, listener.host),
            port=given.port or self.port(listener.name),
        )

    def _host_of(self, listener: NamedListener) -> str:
        """Another port is a proxy's, which may not pass this one on."""
        if listener.host not in self._own_addresses:
            return listener.host
        told, port = listener.advertised, self.port(listener.name)
        is_direct = told is not None and (told.port or port) == port
        return (told.host if told and is_direct else "") or self._own_addresses[listener.host]

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            id=self.id,
            endpoints=tuple(
                self._endpoint(one) for one in self.listeners.all if one.advertised is not None
            ),
            rack=self.spec.rack,
        )

    def _endpoint(self, listener: NamedListener) -> BrokerEndpoint:
        address = self._advertised(listener)
        if listener.is_control_plane and not is_loopback(address.host):
            # Other machines reach it by the name under which they reach everything else.
            [inter_broker] = [
                one for one in self.listeners.clients if one.name == self.listeners.inter_broker
            ]
            address = replace(address, host=self._advertised(inter_broker).host)
        return BrokerEndpoint(
            host=address.host,
            port=address.port,
            listener=listener.name,
            security_protocol=listener.protocol,
        )

    def _on_log_dir_failure(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        self.replicas.on_log_dir_failure(directory, lost)
        if not self.logs.live_directories and self._on_halt is not None:
            self._on_halt()

    def _on_topic_config(self, topic: str, config: LogConfig) -> None:
        self.logs.update_topic_config(topic, config)
        if config.unclean_leader_election_enable and self.controller is not None:
            self.controller.enable_unclean_election(topic)

    def _on_broker_config(self, config: BrokerConfig) -> None:
        """Passes changed settings to the parts they affect."""
        self.logs.reconfigure(
            part_configs.log_manager_config(config), part_configs.cleaner_config(config)
        )
        if self.encryption is not None:
            try:
                self.encryption.reconfigure(config)
            except ConfigError as error:  # a file has changed since the setting was checked
                _LOG.warning("broker %d keeps its certificates: %s", self.id, error)
        self._server.set_limits(part_configs.limits(config, self.listeners))
        self._server.resize(config.integer("num.network.threads"))
        self._pool.resize(config.integer("num.io.threads"))
        self.replicas.leader_quota.set_rate(config.integer("leader.replication.throttled.rate"))
        self.replicas.follower_quota.set_rate(config.integer("follower.replication.throttled.rate"))
        is_unclean = config.flag("unclean.leader.election.enable")
        if self.controller is not None and is_unclean != self._is_unclean:
            self.controller.enable_unclean_election(enabled=is_unclean)
        self._is_unclean = is_unclean


def _new_cluster_id(rng: random.Random) -> str:
    return format_uuid(uuid.UUID(int=rng.getrandbits(128), version=4))
