"""One broker in a process by itself: its ZooKeeper is real and its peers are in other processes.

Owner: the thread that starts and closes it.
Invariants: `start` returns once the controller has sent the broker its metadata, so that it can
answer clients. After `close` no thread, port or (unless data is kept) file is left.
Not here: several brokers in one process (`embedded`), signals and standard input (`cli`).
"""

import logging
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from embedkafka.broker.assembly import Assembly
from embedkafka.broker.broker import Broker
from embedkafka.broker.identity import BrokerSpec
from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.settings.broker import BrokerConfig, parse_broker_settings
from embedkafka.broker.settings.listeners import Placement
from embedkafka.broker.settings.part_configs import zookeeper_connect_timeout_ms
from embedkafka.cluster.config import (
    REMOTE_DEFAULTS,
    TEST_DEFAULTS,
    usable_placement,
    warn_of_idle_settings,
)
from embedkafka.cluster.lifecycle.start_errors import start_error
from embedkafka.runtime.addresses import LOOPBACK, is_loopback
from embedkafka.runtime.arguments import require_int, require_text
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import (
    AwaitTimeout,
    ClusterClosed,
    ConfigError,
    EmbedKafkaError,
    Failures,
)
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.kazoo_store import KazooZk
from embedkafka.zk.store import WatchEvent, ZkError

_LOG = logging.getLogger(__name__)

PATIENCE_MS = 30_000
"""How long to wait for an earlier session to expire, and for the controller's first metadata."""

_DECIDED_HERE: Final = {
    "broker.id": "use `broker_id`",
    "node.id": "use `broker_id`",
    "zookeeper.connect": "use `zookeeper`",
}


class BrokerProcess:
    """A broker used in a `with`, or with `start` and `close`; other processes run its peers.

    `zookeeper` is `host:port,...[/chroot]`. `config` takes broker settings by Kafka's names, over
    the defaults for tests. `host`, `port` and `advertise` are as in `ClusterConfig`. The broker
    keeps its logs in `data_dir` or in `log.dirs`; without either it keeps nothing.

    A controller on another machine must reach this broker, so the control plane listens on `host`
    too. It obeys everyone who connects: use it only in a network that you trust.
    """

    def __init__(
        self,
        *,
        zookeeper: str,
        broker_id: int,
        host: str | None = None,
        port: int = 0,
        advertise: str | None = None,
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
    ) -> None:
        problems = Problems()
        problems.check(
            lambda: require_int("a broker's id", broker_id, least=0, refusal=ConfigError)
        )
        problems.check(lambda: require_text("zookeeper", zookeeper, refusal=ConfigError))
        self._placement = usable_placement(
            Placement(host=host, port=port, advertise=advertise), problems
        )
        given = {**TEST_DEFAULTS, **REMOTE_DEFAULTS, **(config or {})}
        settings = problems.attempt(lambda: parse_broker_settings(given, self._placement))
        problems.raise_all()
        warn_of_idle_settings(config or {}, decided=_DECIDED_HERE)
        self._settings = settings or {}
        self._settings["broker.id"] = broker_id
        self._settings["zookeeper.connect"] = zookeeper
        if data_dir is not None:
            self._settings["log.dirs"] = str(Path(data_dir) / f"broker-{broker_id}")
        self._id = BrokerId(broker_id)
        self._zookeeper = zookeeper
        self._control_host = host or LOOPBACK
        self._clock = SystemClock()
        self._failures = Failures()
        self._owner = Owner()
        self._directory: TemporaryDirectory | None = None
        self._broker: Broker | None = None

    @property
    def address(self) -> str:
        """The `host:port` that clients connect to."""
        if self._broker is None:
            raise ClusterClosed(f"broker {self._id} is not running")
        return self._broker.address

    @property
    def listeners(self) -> dict[str, str]:
        """The `host:port` of each listener for clients; `address` is that of the first."""
        if self._broker is None:
            raise ClusterClosed(f"broker {self._id} is not running")
        return self._broker.bound.addresses

    @property
    def advertised(self) -> dict[str, str]:
        """The `host:port` that clients of each listener are given."""
        if self._broker is None:
            raise ClusterClosed(f"broker {self._id} is not running")
        return self._broker.bound.advertised

    def start(self) -> Self:
        """Joins the cluster, after an earlier session of this broker has expired."""
        if "log.dirs" not in self._settings and "log.dir" not in self._settings:
            self._directory = TemporaryDirectory()
            self._settings["log.dirs"] = str(self._directory.path / "logs")
        if not is_loopback(self._control_host):
            _LOG.warning(
                "the control plane of broker %d listens on %s and obeys everyone who connects: "
                "use it only in a network that you trust",
                self._id,
                self._control_host,
            )
        try:
            self._boot(self._spec())
        except BaseException as error:
            self._remove_directory()
            if isinstance(error, ZkError):
                reason = f"broker {self._id} cannot use ZooKeeper at {self._zookeeper}: {error!r}"
                raise EmbedKafkaError(reason) from error
            raise
        return self

    def close(self) -> None:
        """Moves its leaders away and stops. Does nothing a second time, or in a forked child."""
        if not self._owner.is_here:
            return
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.hand_over()
            broker.stop()
        self._remove_directory()

    def check(self) -> None:
        """Raises `BackgroundFailure` if a thread of the broker failed since the last check."""
        self._failures.check()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if exc is None and self._owner.is_here:
            self.check()

    # -- internals

    def _spec(self) -> BrokerSpec:
        config = BrokerConfig(self._settings)
        return BrokerSpec(
            id=self._id,
            placement=self._placement,
            config=config,
            control_host=self._control_host,
        )

    def _boot(self, spec: BrokerSpec) -> None:
        store = self._connect(spec.config)
        broker = Broker(
            Assembly(
                spec,
                store=store,
                clock=self._clock,
                failures=self._failures,
                files=SystemFiles(syncs=self._directory is None),
                rng=random.Random(),
            )
        )
        try:
            self._await_unregistered(KafkaZk(store, self._clock), spec.config)
            broker.start()
            broker.stand_for_election()
            self._await_metadata(broker)
        except BaseException as error:
            store.close()
            broker.kill()
            if isinstance(error, OSError):
                raise start_error(spec, error) from error
            raise
        self._broker = broker

    def _connect(self, config: BrokerConfig) -> KazooZk:
        return KazooZk(
            self._zookeeper,
            session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
            connect_timeout_ms=zookeeper_connect_timeout_ms(config),
            name=f"ek-b{self._id}-zk",
            failures=self._failures,
        )

    def _await_unregistered(self, zk: KafkaZk, config: BrokerConfig) -> None:
        """A broker that was killed stays registered until its session expires."""
        gone = threading.Event()

        def on_change(event: WatchEvent) -> None:
            gone.set()

        patience_ms = max(PATIENCE_MS, 2 * config.integer("zookeeper.session.timeout.ms"))
        if zk.find_broker(self._id, on_change) is None:
            return
        if not gone.wait(patience_ms / 1000) and zk.find_broker(self._id) is not None:
            raise EmbedKafkaError(
                f"another broker with id {self._id} is registered in {self._zookeeper}: choose "
                "another id"
            )

    def _await_metadata(self, broker: Broker) -> None:
        def is_known(snapshot: MetadataSnapshot) -> bool:
            return broker.id in snapshot.brokers and snapshot.controller_id in snapshot.brokers

        deadline_ms = self._clock.monotonic_ms() + PATIENCE_MS
        if not broker.metadata.await_snapshot(is_known, self._clock, deadline_ms):
            known = sorted(broker.metadata.snapshot.brokers)
            raise AwaitTimeout(
                f"waited {PATIENCE_MS / 1000:g} s for the controller's metadata for broker "
                f"{self._id}, which knows brokers {known}"
            )

    def _remove_directory(self) -> None:
        if self._directory is not None:
            self._directory.remove()
