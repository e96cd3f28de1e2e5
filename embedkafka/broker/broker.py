"""One broker: starts and stops its parts in order, and passes on changes of settings.

Owner: the caller of `start`, `stop` and `kill`, one at a time; each part owns its own state.
Invariants: a broker registers only after its control plane answers, so the controller's first
requests reach it. After `stop` or `kill`, no thread, port or session of it remains.
Not here: what requests mean (`apis`), what the cluster decides (`controller`), and how the
parts are made and joined (`assembly`).
"""

import logging
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from embedkafka.broker.assembly import Assembly
from embedkafka.broker.controller.controller import Controller
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files.checkpoints import MetaProperties
from embedkafka.broker.replica.strays import find_strays
from embedkafka.broker.settings import part_configs
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.dynamic import OF_QUOTAS
from embedkafka.broker.settings.listeners import PLAINTEXT
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import format_uuid
from embedkafka.runtime.locks import ACL_RANK, ranked_lock
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import dataclass
from embedkafka.security.principals import ANONYMOUS
from embedkafka.wire.net.socket_server import Connection, ProcessorView
from embedkafka.wire.protocol.messages.brokers import ControlledShutdownRequest
from embedkafka.zk.store import ConnectionLoss, SessionExpired

if TYPE_CHECKING:
    from embedkafka.broker.coordinator.groups.service import GroupService
    from embedkafka.broker.coordinator.transactions.service import TxnService
    from embedkafka.broker.meter import Meter
    from embedkafka.security.acl.authorizer import AclAuthorizer
    from embedkafka.security.principals import KafkaPrincipal
    from embedkafka.security.quotas.client_quotas import ClientQuotas

_LOG = logging.getLogger(__name__)


class RunState(Enum):
    """What a broker does as a whole, as Kafka's gauge BrokerState numbers it."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """It starts, and checks logs after a shutdown that was not clean."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    """It waits for the controller to move its leaders away."""
    SHUTTING_DOWN = 7


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
    """A running broker; every restart makes a new one."""

    def __init__(self, built: Assembly) -> None:
        self._built = built
        parts = self.parts = built.parts
        self.id = built.id
        self.spec = built.spec
        self.listeners = built.listeners
        self.bound = built.bound
        self.make_client = built.make_client
        self.authentication = built.authentication
        self.encryption = built.encryption
        self.authorizer, self.tokens = parts.authorizer, parts.tokens
        self.clock, self.zk = parts.clock, parts.zk
        self.metadata, self.config = parts.metadata, parts.config
        self.logs, self.replicas = parts.logs, parts.replicas
        self.run_state = RunState.NOT_RUNNING
        self._quotas: ClientQuotas | None = None
        self._reading_quotas = ranked_lock("quotas of clients", ACL_RANK)
        self._is_unclean = False

    # -- lifecycle

    def start(self) -> None:
        """Loads the logs, listens and registers; `stand_for_election` is the last step.

        It binds first, so a port that is taken fails before anything has changed.
        """
        self.run_state = RunState.STARTING
        self._built.server.bind()
        self.config.state_facts(self._built.bound.facts())
        self.zk.make_persistent_paths()
        joined = self.parts.registration
        joined.cluster_id = self.zk.create_or_get_cluster_id(_new_cluster_id(self._built.rng))
        joined.features_epoch = self.zk.features_epoch()
        if self.tokens is not None:
            self.tokens.load(self._built.background)
            interval_ms = self.spec.config.integer("delegation.token.expiry.check.interval.ms")
            self._built.background.every("expire-tokens", interval_ms, self._expire_tokens)
        self.config.start(
            on_topic=self._on_topic_config,
            on_broker=self._on_broker_config,
            on_quotas=self.reload_quotas,
        )
        self._start_security()
        self.reload_quotas()
        self._on_broker_config(self.config.broker)
        if self.authorizer is not None:
            self.authorizer.start()
            self._require_rights_of_brokers(self.authorizer)
        self.logs.claim(MetaProperties(broker_id=self.id, cluster_id=self.cluster_id))
        self.logs.startup(on_unclean=self._on_unclean_shutdown)
        self.run_state = RunState.STARTING
        self._set_strays_aside()
        self._built.loop.start()
        self.replicas.start()
        self.parts.group_coordinator.start(self._count_partitions(GROUP_METADATA_TOPIC))
        self.parts.txn_coordinator.start(self._count_partitions(TRANSACTION_STATE_TOPIC))
        self._built.pool.start()
        self._built.control_pool.start()
        self._built.server.start()
        self._on_broker_config(self.config.broker)
        info = self._built.bound.info()
        epoch = self.zk.register_broker(info)
        joined.controller = self._built.make_controller(info, epoch)
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
        from embedkafka.broker.controlled_shutdown import ShutdownPolicy, leave_cluster

        self.run_state = RunState.PENDING_CONTROLLED_SHUTDOWN
        return leave_cluster(
            ControlledShutdownRequest(broker_id=self.id, broker_epoch=self.controller.broker_epoch),
            zk=self.zk,
            connect=self._built.connect_to,
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
        self._built.server.pause()

    def resume(self) -> None:
        self._built.server.resume()

    def kill(self) -> None:
        """Dies: resets connections, flushes nothing, leaves its session to expire.

        The caller has cut off the session first, so the broker can write nothing more to it.
        """
        self._built.server.kill()
        self._end(leave=False, keep=False)

    def cut_off(self) -> None:
        """Frees its ports at once, also when `stop` cannot finish."""
        self._built.server.cut_off()

    def _end(self, *, leave: bool, keep: bool) -> None:
        self.run_state = RunState.SHUTTING_DOWN if leave else RunState.NOT_RUNNING
        self.stand_down()
        if leave:
            self._built.store.close()
        self.parts.topic_purgatory.shutdown(complete=leave)
        self.parts.election_purgatory.shutdown(complete=leave)
        self.parts.group_coordinator.stop()
        self.parts.txn_coordinator.stop()
        self.replicas.shutdown(complete=keep)
        self._built.markers.close()
        self._built.verifications.close()
        self.parts.forwarding.close()
        self._built.loop.stop(drain=leave)
        if leave:
            self._built.server.stop()
        self._built.background.shutdown()  # it resizes the pool
        self._built.pool.close()
        self._built.control_pool.close()
        self.parts.conversions.shutdown()
        self.logs.stop_cleaning()
        for cleaner in self._built.cleaners:
            cleaner.shutdown()
        self._built.timer.shutdown()
        if keep:
            self.logs.shutdown()
        else:
            self.logs.kill()
        self.run_state = RunState.NOT_RUNNING

    def log_out(self, which: "Callable[[KafkaPrincipal], bool]", reason: str) -> None:
        """Soon closes the connections of clients that logged in as one of `which`."""
        self._built.server.close_clients(lambda one: one is not None and which(one), reason)

    def measure(self, meter: "Meter | None") -> None:
        """Counts requests, and measures how much time threads have to spare; None ends both."""
        self._built.dispatcher.meter = meter
        for part in (self._built.server, self._built.pool, self._built.control_pool):
            part.measure(on=meter is not None)

    def network_view(self) -> NetworkView:
        """What the threads do that read requests and handle them."""
        pools = {False: self._built.pool, True: self._built.control_pool}
        return NetworkView(
            processors=self._built.server.processor_views(),
            blocked_shares=self._built.server.blocked_shares(),
            queue_sizes={plane: pool.queue_size for plane, pool in pools.items()},
            idle_shares={
                plane: pool.idle_share if pool.count else None for plane, pool in pools.items()
            },
        )

    def client_connections(self) -> list[Connection]:
        """The open connections of clients, and of brokers that replicate over the wire."""
        return self._built.server.client_connections()

    # -- what the owner of the cluster looks at

    @property
    def controller(self) -> Controller | None:
        return self.parts.registration.controller

    @property
    def cluster_id(self) -> str:
        return self.parts.registration.cluster_id

    @property
    def groups(self) -> "GroupService":
        return self.parts.groups

    @property
    def txns(self) -> "TxnService":
        return self.parts.txns

    @property
    def meter(self) -> "Meter | None":
        """Counts requests, once metrics are wanted."""
        return self._built.dispatcher.meter

    @property
    def is_secured(self) -> bool:
        """Whether some listener asks clients for more than plain text."""
        return any(one.protocol != PLAINTEXT for one in self.listeners.clients)

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`."""
        return next(iter(self.bound.addresses.values()))

    # -- security and settings

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

    def reload_quotas(self) -> None:
        """Reads the quotas of clients, and puts them before the handlers if there are any."""
        with self._reading_quotas:
            self._read_quotas()

    def _read_quotas(self) -> None:
        if self._quotas is None:
            if not any(map(self.zk.configured_entities, OF_QUOTAS)):
                return
            from embedkafka.security.quotas.client_quotas import ClientQuotas  # only with quotas

            self._quotas = ClientQuotas(self.clock, part_configs.quota_windows(self.spec.config))
        from embedkafka.broker.quota_store import QuotaStore  # only with quotas

        found = list(QuotaStore(self.zk).all())
        self._quotas.set_limits(found)
        self._built.server.set_address_rates(
            {
                entity["ip"]: int(quotas["connection_creation_rate"])
                for entity, quotas in found
                if "ip" in entity
            }
        )
        if not self._quotas.is_active:
            self._built.dispatcher.charge = None
        elif self._built.dispatcher.charge is None:
            from embedkafka.broker.throttling import charge  # only with quotas

            self._built.dispatcher.charge = partial(charge, self._quotas, self.parts)

    def _expire_tokens(self) -> None:
        """The controller removes tokens that have expired."""
        assert self.tokens is not None
        if self.controller is not None and self.controller.is_active:
            with suppress(ConnectionLoss, SessionExpired):
                self.tokens.remove_expired()

    def _set_strays_aside(self) -> None:
        for stray in find_strays(self.logs.all_logs(), self.id, self.zk.find_topic):
            _LOG.warning("broker %d sets a stray log of %s aside", self.id, stray)
            self.logs.set_aside(stray)

    def _count_partitions(self, topic: str) -> int | None:
        found = self.zk.find_topic(topic)
        return None if found is None else len(found.partitions)

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
        self._built.server.set_limits(part_configs.limits(config, self.listeners))
        self._built.server.resize(config.integer("num.network.threads"))
        self._built.pool.resize(config.integer("num.io.threads"))
        self.replicas.leader_quota.set_rate(config.integer("leader.replication.throttled.rate"))
        self.replicas.follower_quota.set_rate(config.integer("follower.replication.throttled.rate"))
        is_unclean = config.flag("unclean.leader.election.enable")
        if self.controller is not None and is_unclean != self._is_unclean:
            self.controller.enable_unclean_election(enabled=is_unclean)
        self._is_unclean = is_unclean


def _new_cluster_id(rng: random.Random) -> str:
    return format_uuid(uuid.UUID(int=rng.getrandbits(128), version=4))
