"""How an `EmbeddedKafka` is reached: its brokers, its clients, and the settings they connect with.

Owner: any thread of the test, between the start and the end of the cluster.
Invariants: without clients, nothing here keeps the cluster from being garbage-collected.
Not here: starting and closing it (`embedded`).
"""

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.decoding import Decoders
from embedkafka.cluster.cluster_state import ClusterState
from embedkafka.cluster.resources import NOT_RUNNING, ClusterResources
from embedkafka.cluster.waiting import PATIENCE_S, Probe
from embedkafka.runtime.arguments import require_number, require_text
from embedkafka.runtime.failures import ClusterClosed, InvalidArgument
from embedkafka.runtime.files import SystemFiles

if TYPE_CHECKING:
    from random import Random

    from embedkafka.broker.broker import Broker
    from embedkafka.cluster.access.security import PreparedSecurity
    from embedkafka.cluster.admin import Admin
    from embedkafka.cluster.clients.clients import Clients
    from embedkafka.cluster.on_demand import BrokersOnDemand
    from embedkafka.cluster.owned.brokers import OwnedBroker
    from embedkafka.spark.client_settings import ClientSettings
    from embedkafka.wire.net.client import BrokerClient


class EmbeddedReach:
    """Everything raises `ClusterClosed` while the cluster is not running."""

    def __init__(self, cluster: object) -> None:
        """`cluster` must not be garbage-collected while its clients are in use."""
        self._cluster = weakref.ref(cluster)
        self.resources: ClusterResources | None = None
        self.prepared: PreparedSecurity | None = None
        self.made_clients: Clients | None = None
        """Those that have been asked for."""
        self.decoders = Decoders()

    # -- the brokers

    @property
    def is_running(self) -> bool:
        return self.resources is not None and self.resources.brokers is not None

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that started the cluster."""
        return self.resources is not None and not self.resources.owner.is_here

    def require_brokers(self) -> Brokers:
        if self.resources is None:
            raise ClusterClosed(NOT_RUNNING)
        return self.resources.require_brokers()

    def brokers(self) -> "list[OwnedBroker]":
        from embedkafka.cluster.owned.brokers import OwnedBroker  # on first use

        brokers = self.require_brokers()
        return [OwnedBroker(lifecycle, brokers, self) for lifecycle in brokers.all()]

    def running_broker(self) -> "Broker":
        live = self.require_brokers().live()
        if not live:
            raise ClusterClosed(_NO_BROKER)
        return live[0]

    def addresses(self, of: "Callable[[Broker], dict[str, str]]") -> dict[str, str]:
        """Those of all running brokers, by listener; a forked child may ask too."""
        brokers = None if self.resources is None else self.resources.brokers
        if brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        running = [of(broker) for broker in brokers.live()]
        if not running:
            raise ClusterClosed(_NO_BROKER)
        return {name: ",".join(one[name] for one in running) for name in running[0]}

    @property
    def listeners(self) -> dict[str, str]:
        return self.addresses(lambda broker: broker.bound.addresses)

    @property
    def bootstrap_servers(self) -> str:
        return next(iter(self.listeners.values()))

    # -- the state

    @property
    def state(self) -> ClusterState:
        return self.require_brokers().state

    def await_state(self, what: str, probe: Probe, timeout_s: float = PATIENCE_S) -> None:
        require_number("timeout_s", timeout_s)
        self.require_brokers().waiting.await_state(what, probe, timeout_s)

    @property
    def on_demand(self) -> "BrokersOnDemand":
        from embedkafka.cluster.on_demand import BrokersOnDemand  # most clusters need none

        return BrokersOnDemand(self.require_brokers())

    # -- topics

    @property
    def admin(self) -> "Admin":
        from embedkafka.cluster.admin import Admin  # with the first topic

        return Admin(self._admin_clients, self._maker_of)

    @property
    def rng(self) -> "Random":
        return self.require_brokers().rng

    @property
    def scratch(self) -> Path:
        if self.resources is None or self.resources.brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        return self.resources.directory.path / "scratch"

    def new_name(self, name: str) -> str:
        return name

    def known_name(self, name: str) -> str:
        return name

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic; a forked child takes it for granted."""
        return self.is_forked or self.require_brokers().zk.topic_exists(name)

    def on_deletion(self, topic: str) -> None:
        if self.made_clients is not None:
            found = self.state.partitions_of(topic)
            had_other_leaders = any(status.leader_epoch for status in found)
            self.made_clients.on_deletion(topic, had_other_leaders=had_other_leaders)

    def on_missing(self, noun: str, name: str) -> None:
        """Does nothing: an `AttributeError` follows."""

    # -- clients

    @property
    def clients(self) -> "Clients":
        if self.made_clients is None:
            from embedkafka.cluster.clients.clients import Clients  # on first use

            settings, servers = self.settings_for(None)
            self.made_clients = Clients(
                servers,
                cluster=self._cluster(),
                settings=settings,
                for_user=self.settings_for,
                explain=self._explain,
                exists=self.has_topic,
                decoders=self.decoders,
            )
        return self.made_clients

    def make_clients(self) -> None:
        """Makes them while it can: a forked child uses topic handles, and can make none."""
        if self.made_clients is None and self.require_brokers().live():
            assert self.clients is self.made_clients

    def forget_producer(self) -> None:
        """The producer's knowledge of topics and sequence numbers is no longer true."""
        if self.made_clients is not None:
            self.made_clients.forget_producer()

    def close_clients(self) -> None:
        if self.made_clients is not None:
            self.made_clients.close()

    def settings_for(
        self, user: str | None, mechanism: str | None = None
    ) -> "tuple[ClientSettings, str]":
        """What a user's clients need, and the addresses they connect to."""
        from embedkafka.spark.client_settings import ClientSettings, translate_properties

        broker = self.running_broker()
        if user is None and mechanism is not None:
            raise InvalidArgument("mechanism is for a user's clients: name the user too")
        if user is None and not broker.is_secured:
            return ClientSettings(), self.bootstrap_servers
        from embedkafka.cluster.access.client_access import ClientAccess

        assert self.resources is not None
        directory = self.resources.directory.path / "security"
        access = ClientAccess(self.prepared, directory, SystemFiles())
        if user is None:
            listener, properties = access.own(broker)
        else:
            require_text("user", user)
            listener, properties = access.of_user(user, broker, mechanism)
        return translate_properties(properties), self.listeners[listener]

    def _explain(self, seconds: float) -> str:
        """What is wrong now, and the errors that clients got in the last seconds."""
        if self.is_forked or not self.is_running:
            return ""
        from embedkafka.cluster.reports.report import explain  # most clusters need none

        return explain(self.require_brokers(), seconds)

    def _admin_clients(self) -> "Iterator[BrokerClient]":
        for handle in self.require_brokers().all():
            if handle.is_reachable:
                yield handle.require_broker().make_client("embedkafka-admin")

    def _maker_of(self, topic: str) -> str | None:
        """The id of the client that had a topic created by asking for it."""
        brokers = self.require_brokers()
        return brokers.auto_creation.maker_of(brokers.zk.topic_ids().get(topic))


_NO_BROKER = "no broker is running: start one with `kafka.broker(id).start()`"
