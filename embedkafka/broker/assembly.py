"""Makes the parts of one broker and joins them. The only place where they meet.

Owner: none; each part owns its own state.
Not here: what starts and stops them, and in which order (`broker`).
"""

import random
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.broker.adapters import (
    CachedCoordinatorLeaders,
    CachedMetadata,
    CoordinatorLeadership,
    DiskFailures,
    LocalPartitions,
    StoredProducerIds,
)
from embedkafka.broker.broker_channels import BrokerChannels
from embedkafka.broker.controller.controller import Controller
from embedkafka.broker.controller.event_log import ControllerEventLog
from embedkafka.broker.controller.state_change_log import StateChangeLog
from embedkafka.broker.coordinator.groups.consumer.live_members import LiveMembers
from embedkafka.broker.dispatch import Dispatcher
from embedkafka.broker.handler_pool import HandlerPool
from embedkafka.broker.identity import BoundListeners, BrokerSpec
from embedkafka.broker.lazy_coordinator import LazyCoordinator
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.parts import FORWARDING, BrokerParts, Registration
from embedkafka.broker.replica.fetch_session import FetchManager
from embedkafka.broker.replica.following.leader_endpoint import (
    LeaderAccess,
    LeaderEndPoint,
    LeaderUnavailable,
    OnNews,
)
from embedkafka.broker.replica.local_leader import LocalLeader
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.ports import ReplicaPorts
from embedkafka.broker.settings import part_configs
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.dynamic import DynamicConfig
from embedkafka.broker.settings.listeners import NamedListener
from embedkafka.broker.topics.admin import TopicAdmin
from embedkafka.broker.topics.auto_creation import AutoCreation
from embedkafka.runtime.clock import Clock, SystemClock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.purgatory.purgatory import Purgatory
from embedkafka.runtime.purgatory.timer import SystemTimer
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.wire.net.channel_authenticator import NewAuthenticator, NewLogin
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.net.request_channel import Request, RequestChannel
from embedkafka.wire.net.socket_server import SocketServer
from embedkafka.wire.net.transport import Encrypt, Transport
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo
from embedkafka.zk.store import ZkStore

if TYPE_CHECKING:
    from embedkafka.broker.coordinator.groups.service import GroupService
    from embedkafka.broker.coordinator.ports import CoordinatorParts
    from embedkafka.broker.coordinator.transactions.service import TxnService
    from embedkafka.broker.encryption import Encryption
    from embedkafka.broker.listener_authentication import Authentication
    from embedkafka.broker.txn_verification import TxnVerification
    from embedkafka.security.acl.authorizer import AclAuthorizer
    from embedkafka.security.tokens import DelegationTokens

_TXN_APPEND_TIMEOUT_MS: Final = 5_000
_CONTROL_PLANE_QUEUED_MAX_REQUESTS: Final = 20  # Kafka's, and no setting there either

PeerResolver = Callable[[BrokerId], ReplicaManager | None]
"""Finds the replicas of a broker in the same process, or None while it is down."""

Handle = Callable[[Request], None]
Around = Callable[[Handle, MetadataCache], Handle]
"""Wraps the function that answers requests."""


class Assembly:
    """The parts of a broker that has not started.

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
        self.clock = clock
        self.failures = failures
        self.rng = rng
        self._transport = transport
        self._find_peer = find_peer
        self._live_members = live_members or LiveMembers()
        self._state_change_log = state_change_log
        self._controller_event_log = controller_event_log
        self._on_halt = on_halt
        self.store = store
        self.zk = KafkaZk(store, clock)
        self.registration = Registration(self.id)

        self.background = ThreadScheduler(f"ek-b{self.id}-background", clock, failures)
        self.cleaners: list[ThreadScheduler] = []
        self.timer = SystemTimer(clock, failures, f"ek-b{self.id}-timer")
        self.loop: EventLoop[Callable[[], None]] = EventLoop(
            f"ek-b{self.id}-coordinator", lambda event: event(), failures
        )

        self.metadata = MetadataCache()
        self.config = DynamicConfig(self.id, spec.config, self.zk, self.background)
        # A separate generator: other draws, and their timing, must not change topic ids.
        topics = TopicAdmin(self.zk, self.metadata, random.Random(rng.getrandbits(64)))
        self.groups = LazyCoordinator(GROUP_METADATA_TOPIC, self._make_groups, self.metadata)
        self.txns = LazyCoordinator(TRANSACTION_STATE_TOPIC, self._make_txns, self.metadata)
        self.logs = self._make_logs(files, ages or RecordAges())
        self.replicas = self._make_replicas()
        slots = spec.config.integer("max.incremental.fetch.session.cache.slots")
        fetches = FetchManager(clock, rng, slots=slots)

        self.tokens = self._make_tokens()
        problems = Problems()
        self.authentication = problems.attempt(lambda: self._make_authentication(files))
        self.encryption = problems.attempt(lambda: self._make_encryption(files))
        problems.raise_all()
        self.markers = self._channels_for("markers")
        self.verifications = self._channels_for("verification")

        self.parts = BrokerParts(
            id=self.id,
            registration=self.registration,
            listeners=self.listeners,
            clock=clock,
            zk=self.zk,
            metadata=self.metadata,
            config=self.config,
            topics=topics,
            auto_creation=auto_creation or AutoCreation(),
            topic_purgatory=Purgatory("topics", self.timer, failures),
            election_purgatory=Purgatory("elections", self.timer, failures),
            logs=self.logs,
            replicas=self.replicas,
            fetches=fetches,
            conversions=ThreadScheduler(f"ek-b{self.id}-conversions", clock, failures),
            forwarding=self._channels_for(FORWARDING),
            authorizer=self._make_authorizer(),
            tokens=self.tokens,
            check_security=self._check_security,
            group_coordinator=self.groups,
            txn_coordinator=self.txns,
            find_txn_verification=lambda: self.txn_verification,
        )
        self.dispatcher = self._make_dispatcher()
        handle: Handle = self.dispatcher.handle
        if around is not None:
            handle = around(handle, self.metadata)
        io_threads = spec.config.integer("num.io.threads")
        self.pool = HandlerPool(
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
        self.control_pool = HandlerPool(
            f"ek-b{self.id}-control-handler",
            min(io_threads, 1),
            RequestChannel(_CONTROL_PLANE_QUEUED_MAX_REQUESTS),
            handle,
            clock,
            failures,
        )
        self.server = self._make_server()
        self.bound = BoundListeners(spec, self.listeners, self.server.bound_port)

    def make_controller(self, info: BrokerInfo, broker_epoch: int) -> Controller:
        return Controller(
            info,
            broker_epoch,
            self.zk,
            clock=self.clock,
            failures=self.failures,
            config=part_configs.controller_config(self.config.broker, self.listeners),
            scheduler=self.background,
            connect=self.connect_to,
            state_change_log=self._state_change_log,
            event_log=self._controller_event_log,
        )

    def _broker_epoch(self) -> int:
        return self.registration.broker_epoch

    def _make_logs(self, files: Files, ages: RecordAges) -> LogManager:
        return LogManager(
            self.spec.log_dirs,
            LogEnvironment(
                clock=self.clock,
                files=files,
                scheduler=self.background,
                random=self.rng,
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
        self.cleaners.append(ThreadScheduler(name, self.clock, self.failures))
        return self.cleaners[-1]

    def _coordinator_parts(self, *, append_timeout_ms: int, load_bytes: int) -> "CoordinatorParts":
        from embedkafka.broker.coordinator.ports import (
            CoordinatorParts,  # for groups and transactions
        )

        return CoordinatorParts(
            loop=self.loop,
            clock=self.clock,
            timer=self.timer,
            logs=LocalPartitions(
                lambda: self.replicas, append_timeout_ms=append_timeout_ms, load_bytes=load_bytes
            ),
            failures=self.failures,
        )

    def _make_groups(self) -> "GroupService":
        from embedkafka.broker.coordinator.groups.service import (
            GroupService,  # most clusters of tests have none
        )

        config = self.spec.config
        return GroupService(
            part_configs.group_config(config),
            self._coordinator_parts(
                append_timeout_ms=config.integer("offsets.commit.timeout.ms"),
                load_bytes=config.integer("offsets.load.buffer.size"),
            ),
            random=self.rng,
            topics=CachedMetadata(self.metadata),
            leaders=self._leaders_of(GROUP_METADATA_TOPIC),
            overrides=self.config,
            live_members=self._live_members,
        )

    def _make_txns(self) -> "TxnService":
        from embedkafka.broker.coordinator.transactions.service import TxnService
        from embedkafka.broker.marker_channels import MarkerChannels  # as above

        config = self.spec.config
        return TxnService(
            part_configs.txn_config(config),
            self._coordinator_parts(
                append_timeout_ms=_TXN_APPEND_TIMEOUT_MS,
                load_bytes=config.integer("transaction.state.log.load.buffer.size"),
            ),
            producer_id_blocks=StoredProducerIds(self.id, self.zk),
            markers=MarkerChannels(self.metadata, self.markers, self.zk),
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

        return AclAuthorizer(config, self.zk, self.background)

    def _make_dispatcher(self) -> Dispatcher:
        dispatcher = Dispatcher(self.parts, self.failures)
        authorizer = self.parts.authorizer
        if authorizer is not None:
            from embedkafka.broker.authorization.needs import permitted  # as above

            dispatcher.permit = partial(permitted, authorizer, self.parts)
        return dispatcher

    def _make_server(self) -> SocketServer:
        spec = self.spec
        return SocketServer(
            part_configs.server_config(
                spec.config, self.listeners, self._find_authenticators, self._find_encrypt
            ),
            self.pool.sink,
            self.clock,
            self.failures,
            self.id,
            control_handle=self.control_pool.sink,
            transport=self._transport,
        )

    def _make_tokens(self) -> "DelegationTokens | None":
        settings = part_configs.find_token_settings(self.spec.config)
        if settings is None:
            return None
        from embedkafka.security.tokens import DelegationTokens

        rng = random.Random(self.rng.getrandbits(64))
        return DelegationTokens(settings, self.zk, self.clock, rng)

    def _make_authentication(self, files: Files) -> "Authentication | None":
        """None if no listener asks its clients to authenticate; then nothing of it is loaded."""
        if not any(one.protocol.startswith("SASL_") for one in self.listeners.all):
            return None
        from embedkafka.broker.listener_authentication import Authentication
        from embedkafka.security.credentials import ScramCredentials

        return Authentication(
            self.spec.config,
            self.listeners,
            credentials=ScramCredentials(self.zk),
            tokens=self.tokens,
            clock=self.clock,
            files=files,
            rng=random.Random(self.rng.getrandbits(64)),
        )

    def _make_encryption(self, files: Files) -> "Encryption | None":
        """None if no listener speaks TLS; then nothing of it is loaded."""
        if not any(one.speaks_tls for one in self.listeners.all):
            return None
        from embedkafka.broker.encryption import Encryption

        return Encryption(self.spec.config, self.listeners, files, self._transport)

    def _find_authenticators(self, listener: NamedListener) -> NewAuthenticator | None:
        if self.encryption is not None and listener.protocol == "SSL":
            return self.encryption.find_authenticators(listener)
        if self.authentication is not None:
            return self.authentication.find_authenticators(listener.name)
        return None

    def _find_encrypt(self, listener: str) -> Encrypt | None:
        return None if self.encryption is None else self.encryption.find_encrypt(listener)

    def _make_replicas(self) -> ReplicaManager:
        leadership = CoordinatorLeadership(
            {
                GROUP_METADATA_TOPIC: (self.groups.on_leading, self.groups.on_resigned),
                TRANSACTION_STATE_TOPIC: (self.txns.on_leading, self.txns.on_resigned),
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
                log_dir_events=DiskFailures(self.id, self.zk, self.background),
            ),
            LeaderAccess(connect=self._reach_leader, one_thread=self._find_peer is not None),
            config=part_configs.replica_config(self.spec.config),
            timer=self.timer,
            scheduler=self.background,
            clock=self.clock,
            failures=self.failures,
        )

    def _reach_leader(self, leader: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        if self._find_peer is not None:
            return LocalLeader(leader, self.id, self._find_peer, on_news, self._broker_epoch)
        from embedkafka.broker.replica.following.remote_leader import (
            RemoteLeader,  # other processes
        )

        return RemoteLeader(
            leader,
            self.id,
            self._connect_to_leader,
            part_configs.replica_config(self.spec.config),
            broker_epoch=self._broker_epoch,
        )

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

    def _channels_for(self, purpose: str) -> BrokerChannels:
        return BrokerChannels(
            f"ek-b{self.id}-{purpose}",
            self.metadata,
            self.listeners.inter_broker,
            self.clock,
            self.failures,
            self._transport_to(self.listeners.inter_broker),
            self._find_login(self.listeners.inter_broker),
        )

    def _transport_to(self, listener: str) -> Transport | None:
        return (
            self._transport if self.encryption is None else self.encryption.transport_to(listener)
        )

    def _find_login(self, listener: str) -> NewLogin | None:
        return None if self.authentication is None else self.authentication.find_login(listener)

    def _on_log_dir_failure(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        self.replicas.on_log_dir_failure(directory, lost)
        if not self.logs.live_directories and self._on_halt is not None:
            self._on_halt()

    def _check_security(self, config: BrokerConfig) -> None:
        """Raises ConfigError if the broker could not use these certificates from now on."""
        if self.encryption is not None:
            self.encryption.check(config)

    @cached_property
    def txn_verification(self) -> "TxnVerification":
        """Asks the coordinators of transactions; it has no state, so two may be made."""
        from embedkafka.broker.txn_verification import TxnVerification  # for transactions

        return TxnVerification(
            self.id,
            self.config,
            partitions=self.replicas.hosted,
            metadata=self.metadata,
            txns=self.txns.get(),
            channels=self.verifications,
            scheduler=self.background,
            clock=self.clock,
        )

    def connect_to(self, endpoint: BrokerEndpoint) -> BrokerClient:
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self.clock,
            f"controller-{self.id}",
            request_timeout_ms=self.spec.config.integer("controller.socket.timeout.ms"),
            transport=self._transport_to(endpoint.listener),
            new_login=self._find_login(endpoint.listener),
        )

    def make_client(self, client_id: str, **options: float) -> BrokerClient:
        """A client of this broker that logs in as brokers do; not a link between brokers."""
        listener = self.listeners.inter_broker
        port = self.bound.port(listener)
        return BrokerClient(
            self.bound.local_hosts()[port],
            port,
            SystemClock(),
            client_id,
            transport=None if self.encryption is None else self.encryption.own_transport(),
            new_login=self._find_login(listener),
            **options,
        )
