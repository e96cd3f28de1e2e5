"""EmbeddedKafka: a whole cluster in this process.

Owner: the thread that starts and closes it; any thread may use it in between.
Invariants: after `close()` no thread, port or (without `data_dir`) file of it is left; a failure
on one of its threads is raised by `check()` or on leaving the `with`.
Not here: what a broker does (`server`), what a topic handle does (`topic`).
"""

import random
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from embedkafka.cluster.admin import Admin
from embedkafka.cluster.clients import Clients
from embedkafka.cluster.config import ClusterConfig, TopicSpec
from embedkafka.cluster.topic import Topic
from embedkafka.cluster.views import describe_cluster
from embedkafka.cluster.waiting import SnapshotCheck, await_all
from embedkafka.replica.manager import ReplicaManager
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import ClusterClosed, EmbedKafkaError, Failures
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.ids import BrokerId
from embedkafka.server.broker import Broker, BrokerSpec
from embedkafka.server.broker_config import BrokerConfig
from embedkafka.server.delayed_topics import has_leaders, is_gone
from embedkafka.server.metadata_cache import MetadataSnapshot
from embedkafka.zk.memory import MemoryZk


class EmbeddedKafka:
    """A Kafka cluster in threads of this process, used in a `with` or with `start` and `close`.

    `config` takes broker settings by Kafka's names; `topics` are created before the `with` body
    runs; see `ClusterConfig` for the rest.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        topics: Mapping[str, int | TopicSpec] | None = None,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        racks: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> None:
        self.config = ClusterConfig(
            brokers=brokers,
            config=config or {},
            topics=topics or {},
            data_dir=None if data_dir is None else Path(data_dir),
            host=host,
            port=port,
            racks=racks,
        )
        self.clock = SystemClock()
        self._failures = Failures()
        self._rng = random.Random(seed)
        self._zk = MemoryZk(self.clock, self._failures)
        self._brokers: dict[BrokerId, Broker] = {}
        self._directory: Path | None = None
        self._clients: Clients | None = None
        self._admin = Admin(lambda: self.bootstrap_servers)

    # -- lifecycle

    def start(self) -> Self:
        """Starts every broker and returns when all of them know all others; creates `topics`."""
        if self._directory is not None:
            raise EmbedKafkaError("the cluster has been started already")
        self._directory = Path(tempfile.mkdtemp(prefix="embedkafka-"))
        try:
            for number in range(1, self.config.brokers + 1):
                self._start_broker(BrokerId(number))
            self._await_metadata("all brokers to know each other", self._is_complete)
            self._create({name: self.config.topic_spec(name) for name in self.config.topics})
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops every broker and removes what it left; a second call does nothing."""
        if self._clients is not None:
            self._clients.close()
            self._clients = None
        brokers, self._brokers = self._brokers, {}
        for broker in brokers.values():
            broker.stop()
        self._zk.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def check(self) -> None:
        """Raises `BackgroundFailure` if a thread of the cluster failed since the last check."""
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
        if exc is None:
            self.check()

    # -- what is there

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the running brokers, as clients take them."""
        return ",".join(broker.address for broker in self._running())

    @property
    def cluster_id(self) -> str:
        return self._running()[0].cluster_id

    def describe(self) -> str:
        """Brokers, leaders, ISRs and offsets, to be read by a person."""
        return describe_cluster(list(self._brokers.values()))

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory that is removed with the cluster, for checkpoints and the like."""
        if self._directory is None:
            raise ClusterClosed("the cluster has not been started")
        path = self._directory / "scratch" / (name or uuid.uuid4().hex)
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    # -- topics

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Creates a topic and returns its handle; without a name it gets one of its own.

        A topic that exists is an error; `existing_topic` gives its handle.
        """
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        spec = TopicSpec(partitions=partitions, replication=replication, config=config or {})
        self._create({name: spec})
        return self.existing_topic(name)

    def existing_topic(self, name: str) -> Topic:
        """A handle on a topic that is there already."""
        bootstrap_servers = self.bootstrap_servers
        if self._clients is None:
            self._clients = Clients(bootstrap_servers)
        return Topic(name, bootstrap_servers, self._clients)

    def add_partitions(self, topic: str, count: int) -> None:
        """Grows `topic` to `count` partitions, and returns when every broker knows them."""
        self._admin.create_partitions(topic, count)
        self._await_topics({topic: count})

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, and returns when no broker knows it any more."""
        self._admin.delete_topics(name)
        self._await_metadata(f"{name} to be gone", lambda snapshot: is_gone(snapshot, name))

    # -- how

    def _create(self, topics: Mapping[str, TopicSpec]) -> None:
        if topics:
            self._admin.create_topics(topics)
            self._await_topics({name: spec.partitions for name, spec in topics.items()})

    def _await_topics(self, counts: Mapping[str, int]) -> None:
        self._await_metadata(
            f"every broker to know the leaders of {', '.join(counts)}",
            lambda snapshot: all(has_leaders(n)(snapshot, name) for name, n in counts.items()),
        )

    def _await_metadata(self, what: str, holds: SnapshotCheck) -> None:
        await_all(
            what,
            {broker.id: broker.metadata for broker in self._brokers.values()},
            holds,
            describe=self.describe,
        )

    def _is_complete(self, snapshot: MetadataSnapshot) -> bool:
        return snapshot.brokers.keys() == self._brokers.keys() and (
            snapshot.controller_id in snapshot.brokers
        )

    def _start_broker(self, broker_id: BrokerId) -> None:
        settings = self.config.broker_settings()
        racks, port = self.config.racks, self.config.port
        if racks:
            settings["broker.rack"] = racks[broker_id - 1]
        settings["broker.id"] = broker_id
        settings["log.dirs"] = str(self._data_directory() / f"broker-{broker_id}")
        spec = BrokerSpec(
            id=broker_id,
            host=self.config.host,
            port=port + broker_id - 1 if port else 0,
            config=BrokerConfig(settings),
        )
        broker = Broker(
            spec,
            store=self._zk.connect(spec.config.integer("zookeeper.session.timeout.ms")),
            clock=self.clock,
            failures=self._failures,
            files=SystemFiles(),
            rng=random.Random(self._rng.getrandbits(64)),
            find_peer=self._find_replicas,
        )
        self._brokers[broker_id] = broker
        broker.start()

    def _data_directory(self) -> Path:
        assert self._directory is not None
        return self.config.data_dir or self._directory / "data"

    def _find_replicas(self, broker_id: BrokerId) -> ReplicaManager | None:
        broker = self._brokers.get(broker_id)
        return broker.replicas if broker else None

    def _running(self) -> list[Broker]:
        if not self._brokers:
            raise ClusterClosed("the cluster is not running")
        return list(self._brokers.values())
