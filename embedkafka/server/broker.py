"""One broker: builds its parts, starts and stops them in order. The only place where they meet.

Owner: the caller of `start`, `stop` and `kill`, one at a time; each part owns its own state.
Invariants: a broker registers only after its control plane answers, so the controller's first
requests reach it. After `stop` or `kill`, no thread, port or session of it remains.
Not here: what requests mean (`handlers`), what the cluster decides (`controller`).
"""

import logging
import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from embedkafka.controller.controller import Controller
from embedkafka.coordinator.ports import CoordinatorParts
from embedkafka.group.service import GroupService
from embedkafka.log.checkpoints import MetaProperties
from embedkafka.log.config import LogConfig
from embedkafka.log.environment import LogEnvironment
from embedkafka.log.manager import LogManager
from embedkafka.log.record_ages import RecordAges
from embedkafka.net.client import BrokerClient
from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.net.socket_server import LOOPBACK, SocketServer
from embedkafka.net.transport import Transport
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.brokers import (
    ControlledShutdownRequest,
    UpdateMetadataRequest,
)
from embedkafka.purgatory.purgatory import Purgatory
from embedkafka.purgatory.timer import SystemTimer
from embedkafka.replica.fetch_session import FetchManager
from embedkafka.replica.leader_endpoint import (
    LeaderAccess,
    LeaderEndPoint,
    LeaderUnavailable,
    OnNews,
)
from embedkafka.replica.local_leader import LocalLeader
from embedkafka.replica.manager import ReplicaManager
from embedkafka.replica.ports import ReplicaPorts
from embedkafka.replica.remote_leader import RemoteLeader
from embedkafka.replica.strays import find_strays
from embedkafka.runtime.addresses import format_address, is_loopback
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import NO_BROKER_EPOCH, BrokerId, TopicPartition
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import dataclass
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
from embedkafka.server.config.dynamic import DynamicConfig
from embedkafka.server.config.listeners import (
    CLIENT_LISTENER,
    CONTROL_LISTENER,
    LISTENER_FACTS,
    Advertised,
    format_listener,
    parse_advertised,
)
from embedkafka.server.controlled_shutdown import ShutdownPolicy, leave_cluster
from embedkafka.server.dispatch import Dispatcher
from embedkafka.server.handler_pool import HandlerPool
from embedkafka.server.marker_channels import MarkerChannels
from embedkafka.server.metadata_cache import MetadataCache
from embedkafka.server.topics.admin import DEFAULT, TopicAdmin
from embedkafka.server.topics.delayed import DelayedTopics
from embedkafka.server.topics.rules import is_valid_topic_name
from embedkafka.server.txn_verification import TxnVerification
from embedkafka.txn.service import TxnService
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo, format_uuid
from embedkafka.zk.store import ZkStore

_LOG = logging.getLogger(__name__)

_TXN_APPEND_TIMEOUT_MS: Final = 5_000

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
    host: str
    port: int
    control_host: str = LOOPBACK
    config: BrokerConfig

    @property
    def log_dirs(self) -> Sequence[Path]:
        text = self.config.text("log.dirs") or self.config.text("log.dir")
        return [Path(part.strip()) for part in text.split(",")]

    @property
    def rack(self) -> str | None:
        return self.config.text("broker.rack") or None


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
    ) -> None:
        """Calls `on_halt`, on any thread, when the last log directory has failed.

        Kafka ends its process then; the owner of this broker should end it too. Brokers whose clock
        can be moved share their `ages`.
        """
        self.id = spec.id
        self.spec = spec
        self.cluster_id = ""
        self.clock = clock
        self._failures = failures
        self._rng = rng
        self._transport = transport
        self._find_peer = find_peer
        self._on_halt = on_halt
        self._zk_store = store
        self.zk = KafkaZk(store, clock)
        self.controller: Controller | None = None
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
        self.logs = self._make_logs(files, ages or RecordAges())
        self.replicas = self._make_replicas()
        self.fetches = FetchManager(
            clock, rng, slots=spec.config.integer("max.incremental.fetch.session.cache.slots")
        )

        self._markers = self._channels_for("markers")
        self._verifications = self._channels_for("verification")
        self.groups = self._make_groups()
        self.txns = self._make_txns()
        self.metadata.subscribe(self.groups.coordinator.on_metadata_changed)
        self.metadata.subscribe(self.txns.coordinator.on_metadata_changed)
        self.txn_verification = self._make_txn_verification()

        handle: Handle = Dispatcher(self, failures).handle
        if around is not None:
            handle = around(handle, self.metadata)
        self._channel = RequestChannel(
            spec.config.integer("queued.max.requests"),
            max_bytes=part_configs.queued_max_bytes(spec.config),
        )
        self._pool = self._make_pool(handle)
        self._server = self._make_server(handle)

    # -- lifecycle

    def start(self) -> None:
        """Loads the logs, listens and registers; `stand_for_election` is the last step.

        It binds first, so a port that is taken fails before anything has changed.
        """
        self._server.bind()
        self.config.state_facts(self._facts())
        self.zk.make_persistent_paths()
        self.cluster_id = self.zk.create_or_get_cluster_id(_new_cluster_id(self._rng))
        self.config.start(on_topic=self._on_topic_config, on_broker=self._on_broker_config)
        self._on_broker_config(self.config.broker)
        self.logs.claim(MetaProperties(broker_id=self.id, cluster_id=self.cluster_id))
        self.logs.startup()
        self._set_strays_aside()
        self._coordinator.start()
        self.replicas.start()
        self.groups.start(partition_count=self._count_partitions(GROUP_METADATA_TOPIC))
        self.txns.start(partition_count=self._count_partitions(TRANSACTION_STATE_TOPIC))
        self._pool.start()
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
            config=part_configs.controller_config(self.config.broker),
            scheduler=self._background,
            connect=self._connect,
        )

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
        return leave_cluster(
            ControlledShutdownRequest(broker_id=self.id, broker_epoch=self.controller.broker_epoch),
            zk=self.zk,
            connect=self._connect,
            listener=CONTROL_LISTENER,
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
        self.stand_down()
        if leave:
            self._zk_store.close()
        self.topic_purgatory.shutdown(complete=leave)
        self.groups.stop()
        self.txns.stop()
        self.replicas.shutdown(complete=keep)
        self._markers.close()
        self._verifications.close()
        self._coordinator.stop(drain=leave)
        if leave:
            self._server.stop()
        self._channel.close()
        self._pool.join()
        self._background.shutdown()
        self.conversions.shutdown()
        self.logs.stop_cleaning()
        for cleaner in self._cleaners:
            cleaner.shutdown()
        self.timer.shutdown()
        if keep:
            self.logs.shutdown()
        else:
            self.logs.kill()

    # -- where it is

    def port(self, listener: str = CLIENT_LISTENER) -> int:
        return self._server.bound_port(listener)

    def ports(self) -> list[int]:
        """All ports it listens on."""
        return [self.port(CLIENT_LISTENER), self.port(CONTROL_LISTENER)]

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`."""
        return format_address(self.spec.host, self.port())

    # -- for the handlers

    def require_controller(self) -> Controller:
        """This broker's controller, if it is the active one."""
        if self.controller is None or not self.controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"broker {self.id} is not the controller")
        return self.controller

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
        if removed:
            self.groups.on_partitions_deleted(sorted(removed))
        for topic in {topic for topic, _ in removed}:
            self.config.forget_topic(topic)
        for state in request.topic_states:
            self.topic_purgatory.check_and_complete(state.topic_name)
        return ErrorCode.NONE

    def auto_create_topics(self, names: Iterable[str]) -> None:
        """Begins to create topics that a client asked for; logs failures."""
        for name in names:
            if name in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
                self.create_internal_topic(name)
            elif is_valid_topic_name(name):
                self._create_quietly(name, DEFAULT, DEFAULT, {})

    def create_internal_topic(self, name: str) -> None:
        partitions, replication, config = part_configs.internal_topic_settings(
            self.config.broker, group=name == GROUP_METADATA_TOPIC
        )
        self._create_quietly(name, partitions, replication, config)

    def _create_quietly(
        self, name: str, partitions: int, replication: int, config: dict[str, str]
    ) -> None:
        try:
            self.topics.create(
                self.topics.plan_topic(
                    name,
                    partitions=partitions,
                    replication=replication,
                    config=config,
                    broker_config=self.config.broker,
                )
            )
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                _LOG.warning("broker %d cannot create topic %s: %s", self.id, name, error)

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

    def _coordinator_parts(self, *, append_timeout_ms: int, load_bytes: int) -> CoordinatorParts:
        return CoordinatorParts(
            loop=self._coordinator,
            clock=self.clock,
            timer=self.timer,
            logs=LocalPartitions(
                lambda: self.replicas, append_timeout_ms=append_timeout_ms, load_bytes=load_bytes
            ),
            failures=self._failures,
        )

    def _make_groups(self) -> GroupService:
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
        )

    def _make_txns(self) -> TxnService:
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

    def _make_txn_verification(self) -> TxnVerification:
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

    def _make_pool(self, handle: Handle) -> HandlerPool:
        return HandlerPool(
            f"ek-b{self.id}-handler",
            self.spec.config.integer("num.io.threads"),
            self._channel,
            handle,
            self._failures,
        )

    def _make_server(self, handle: Handle) -> SocketServer:
        """Without handler threads, processors handle requests themselves."""
        spec = self.spec
        return SocketServer(
            part_configs.server_config(
                spec.config, host=spec.host, port=spec.port, control_host=spec.control_host
            ),
            self._channel if spec.config.integer("num.io.threads") else handle,
            self.clock,
            self._failures,
            self.id,
            control_handle=handle,
            transport=self._transport,
        )

    def _make_replicas(self) -> ReplicaManager:
        leadership = CoordinatorLeadership(
            {
                GROUP_METADATA_TOPIC: (
                    lambda partition, epoch: self.groups.coordinator.on_leading(partition, epoch),
                    lambda partition, epoch: self.groups.coordinator.on_resigned(partition, epoch),
                ),
                TRANSACTION_STATE_TOPIC: (
                    lambda partition, epoch: self.txns.coordinator.on_leading(partition, epoch),
                    lambda partition, epoch: self.txns.coordinator.on_resigned(partition, epoch),
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
        endpoint = self.metadata.snapshot.find_endpoint(leader, CLIENT_LISTENER)
        if endpoint is None:
            raise LeaderUnavailable(f"broker {leader} is not known to be alive")
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self.clock,
            f"broker-{self.id}-fetcher-{leader}",
            request_timeout_ms=self.spec.config.integer("replica.socket.timeout.ms"),
            transport=self._transport,
        )

    def _connect(self, endpoint: BrokerEndpoint) -> BrokerClient:
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self.clock,
            f"controller-{self.id}",
            request_timeout_ms=self.spec.config.integer("controller.socket.timeout.ms"),
            transport=self._transport,
        )

    def _channels_for(self, purpose: str) -> BrokerChannels:
        return BrokerChannels(
            f"ek-b{self.id}-{purpose}",
            self.metadata,
            CLIENT_LISTENER,
            self.clock,
            self._failures,
            self._transport,
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
        return {
            **LISTENER_FACTS,
            "advertised.listeners": str(self._advertised()),
            "broker.id": self.id,
            "listeners": ",".join(
                format_listener(name, host, self.port(name))
                for name, host in (
                    (CLIENT_LISTENER, self.spec.host),
                    (CONTROL_LISTENER, self.spec.control_host),
                )
            ),
            "log.dirs": ",".join(map(str, self.spec.log_dirs)),
            "node.id": self.id,
        }

    def _advertised(self) -> Advertised:
        given = parse_advertised(self.spec.config.text("advertised.listeners"))
        return Advertised(given.host or self.spec.host, given.port or self.port())

    def _info(self) -> BrokerInfo:
        advertised = self._advertised()
        control_host = self.spec.control_host
        if not is_loopback(control_host):
            control_host = advertised.host or control_host
        return BrokerInfo(
            id=self.id,
            endpoints=(
                BrokerEndpoint(
                    host=advertised.host, port=advertised.port, listener=CLIENT_LISTENER
                ),
                BrokerEndpoint(
                    host=control_host,
                    port=self.port(CONTROL_LISTENER),
                    listener=CONTROL_LISTENER,
                ),
            ),
            rack=self.spec.rack,
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
        self._server.set_limits(part_configs.limits(config))
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
