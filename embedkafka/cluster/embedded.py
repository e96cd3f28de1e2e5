"""EmbeddedKafka: a whole cluster in this process.

Owner: the thread that starts and closes it, one at a time (`_changing`); any thread may use it in
between. A forked child may read `bootstrap_servers`; all else belongs to its parent.
Invariants: after `close()` no thread, port or (without `data_dir`) file of it is left; a failure
on one of its threads is raised by `check()` or on leaving the `with`.
Not here: the brokers (`brokers`, `lifecycle`), closing a cluster that was never closed
(`resources`), topic handles (`topic`).
"""

import random
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from embedkafka.cluster.admin import Admin
from embedkafka.cluster.broker_handle import BrokerHandle
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients import Clients
from embedkafka.cluster.cluster_state import ClusterState, PartitionStatus
from embedkafka.cluster.config import ClusterConfig, TopicSpec
from embedkafka.cluster.request_log import SeenRequest
from embedkafka.cluster.reset import reset_cluster
from embedkafka.cluster.resources import NOT_RUNNING, ClusterResources
from embedkafka.cluster.snapshot import Snapshot, Snapshots
from embedkafka.cluster.topic import Topic
from embedkafka.cluster.waiting import PATIENCE_S, Probe
from embedkafka.faults.injection import Faults
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import ClusterClosed, EmbedKafkaError, Failures
from embedkafka.runtime.locks import CLUSTER_RANK, ranked_lock
from embedkafka.runtime.threads import run_whole


class EmbeddedKafka:
    """A Kafka cluster in threads of this process, used in a `with` or with `start` and `close`.

    `config` takes broker settings by Kafka's names; `topics` are created before the `with` body
    runs; see `ClusterConfig` for the rest.

    With `data_dir` everything is kept there: one directory of logs per broker, and ZooKeeper's
    tree in `zookeeper.json`, with its latest changes in `zookeeper.journal` while the cluster runs.
    A later cluster on the same directory has the same id, topics, settings, offsets and records,
    also when this process was killed. One cluster at a time uses it: the others are refused.

    With `zookeeper`, `host:port,...[/chroot]`, that tree is in a real ZooKeeper, which keeps it for
    longer than the cluster lives. Its sessions expire in real time, whatever `clock` says.
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
        zookeeper: str | None = None,
        log_dirs: int = 1,
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
            zookeeper=zookeeper,
            log_dirs=log_dirs,
        )
        self.clock = SystemClock()
        self._failures = Failures()
        self._rng = random.Random(seed)
        self._changing = ranked_lock("cluster", CLUSTER_RANK)
        self._resources: ClusterResources | None = None
        self._snapshots: Snapshots | None = None
        self._clients: Clients | None = None
        self._admin = Admin(self._reachable_addresses)

    # -- lifecycle

    def start(self) -> Self:
        """Starts every broker and returns when all of them know all others; creates `topics`.

        Topics that a `data_dir` has kept are left as they are.
        """
        with self._changing:
            if self._resources is not None:
                raise EmbedKafkaError("the cluster has been started already")
            try:
                run_whole("ek-start", self._start, hurry=self._hurry)
            except BaseException as failure:
                try:
                    self.close()
                except OSError as error:
                    failure.add_note(f"Nor could its state be written down: {error}")
                raise
        return self

    def _start(self) -> None:
        keep = self.config.data_dir is not None
        self._resources = resources = ClusterResources(keep=keep, failures=self._failures)
        weakref.finalize(self, resources.abandon).atexit = False
        directory = resources.directory.path
        brokers = resources.brokers = Brokers(
            self.config,
            self.config.data_dir or directory / "data",
            clock=self.clock,
            failures=self._failures,
            rng=self._rng,
        )
        self._snapshots = Snapshots(brokers, directory / "snapshots")
        brokers.boot_all()
        self._await_leaders()
        kept = {status.topic for status in self._state.partitions()}
        new = [name for name in self.config.topics if name not in kept]
        self._create({name: self.config.topic_spec(name) for name in new})

    def _hurry(self) -> None:
        if self._is_running:
            self._require_brokers().give_up()

    def close(self) -> None:
        """Stops every broker and removes what it left; a second call does nothing.

        During a `start` on another thread it waits for that. In a forked child, which has no
        cluster of its own, it does nothing.
        """
        if self._is_forked:
            return
        with self._changing:
            if self._clients is not None:
                self._clients.close()
                self._clients = None
            if self._resources is not None:
                run_whole("ek-close", self._resources.close, hurry=self._hurry)

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
        if exc is None and not self._is_forked:
            self.check()

    # -- what is there

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the running brokers, as clients take them.

        A forked child may ask too, for its own clients.
        """
        brokers = None if self._resources is None else self._resources.brokers
        if brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        running = brokers.running()
        if not running:
            raise ClusterClosed("no broker is running")
        return ",".join(handle.address for handle in running)

    @property
    def cluster_id(self) -> str:
        """The id that clients are told."""
        running = self._require_brokers().running()
        if not running:
            raise ClusterClosed("no broker is running")
        return running[0].require_broker().cluster_id

    def describe(self) -> str:
        """Brokers, leaders, ISRs and offsets, to be read by a person."""
        return self._require_brokers().describe() if self._is_running else NOT_RUNNING

    def report(self) -> str:
        """`describe`, and groups with their lag, open transactions, the last records and requests.

        It asks the brokers for some of it; pytest shows it below a test that failed.
        """
        from embedkafka.cluster.report import report  # most clusters end without

        return report(self._require_brokers()) if self._is_running else NOT_RUNNING

    def requests(
        self, api: str | None = None, *, client_id: str | None = None
    ) -> list[SeenRequest]:
        """The requests that clients sent lately, a thousand at most, oldest first.

        `api` is Kafka's name in any case, such as "fetch".
        """
        return [
            seen
            for seen in self._require_brokers().request_log.all()
            if api in (None, seen.api.lower(), seen.api) and client_id in (None, seen.client_id)
        ]

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory that is removed with the cluster, for checkpoints and the like."""
        resources = self._resources
        if resources is None or resources.brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        path = resources.directory.path / "scratch" / (name or f"{self._rng.getrandbits(64):016x}")
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    # -- brokers

    def broker(self, broker_id: int) -> BrokerHandle:
        """The broker with this id, running or not: to stop, kill, pause and start it."""
        return BrokerHandle(self._require_brokers().require(broker_id))

    @property
    def brokers(self) -> list[BrokerHandle]:
        """Every broker, running or not."""
        return [BrokerHandle(lifecycle) for lifecycle in self._require_brokers().all()]

    def add_broker(self) -> BrokerHandle:
        """Starts one broker more; it gets replicas of topics that are created from now on."""
        return BrokerHandle(self._require_brokers().add())

    def remove_broker(self, broker_id: int) -> None:
        """Stops a broker in good order, for good.

        Its leaders move; its replicas stay assigned to it, as in Kafka, until they are reassigned.
        """
        self._require_brokers().remove(broker_id)

    def partition(self, *sides: Collection[int], zookeeper: Collection[int] | None = None) -> None:
        """Cuts the network between brokers on different `sides`, until `heal`.

        Brokers in `zookeeper` keep their sessions; by default those of the largest side. Clients
        still reach every broker. A second call replaces the first.
        """
        self._require_brokers().split(sides, _largest(sides) if zookeeper is None else zookeeper)

    def heal(self) -> None:
        """Ends a `partition`: all brokers hear each other and ZooKeeper again."""
        self._require_brokers().heal()

    @property
    def faults(self) -> Faults:
        """Requests and disks that go wrong."""
        return self._require_brokers().faults

    # -- earlier states

    def snapshot(self) -> Snapshot:
        """Remembers the whole cluster: topics, records, offsets, transactions, settings.

        Clients notice a short pause at most. Linked rather than copied where nothing can change,
        it takes milliseconds and hardly any space; `close()` removes it.
        """
        return self._require_snapshots().take()

    def restore(self, snapshot: Snapshot) -> None:
        """Puts everything back to what it was at the snapshot, as often as wanted.

        Brokers that ran then run again, on their ports, and those added since are gone; a
        `partition` is over. Clients reconnect; what they wrote or committed since never happened.
        The clock is not turned back, and producer ids are not given a second time.
        """
        self._require_snapshots().restore(snapshot)
        if self._clients is not None:
            self._clients.close()  # its producer would go on with numbers nobody knows
        self._await_leaders()

    def reset(self) -> None:
        """Empties the cluster to what `start` left, in the time of a deletion.

        Topics, groups, offsets, transactions and changed settings are gone; the `topics` that the
        cluster was made with are there again, empty. Brokers run on, on their ports, and clients
        stay connected; a broker that was down is started, and every fault is over. The clock is
        not turned back.
        """
        reset_cluster(self._require_brokers())
        if self._clients is not None:
            self._clients.close()  # its producer knows topics that are gone
        self._create({name: self.config.topic_spec(name) for name in self.config.topics})

    # -- leaders and replicas

    @property
    def controller(self) -> int | None:
        """The id of the broker that is controller, None while there is none."""
        return self._state.find_controller()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the partition's leader; an error when there is none now."""
        status = self.describe_partition(topic, partition)
        if status.leader is None:
            raise EmbedKafkaError(f"no leader: {status}")
        return status.leader

    def describe_partition(self, topic: str, partition: int = 0) -> PartitionStatus:
        """A partition's leader, epoch, in-sync and assigned replicas, as ZooKeeper has them."""
        return self._state.require_partition(topic, partition)

    def await_brokers(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until all brokers that run know each other and the same controller.

        After `heal` and `resume`, brokers that were missed take a moment to come back, and to drop
        replicas that were moved or deleted without them.
        """
        self._await("all brokers to know each other", self._state.membership(), timeout_s)

    def await_controller(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until there is a controller that answers, and all brokers know it; its id."""
        self._await("a controller", self._state.controller(), timeout_s)
        controller = self.controller
        assert controller is not None, "a controller that was awaited has gone already"
        return controller

    def await_leader(self, topic: str, partition: int = 0, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until the partition has a leader that answers, and all brokers know it; its id."""
        state, found = self._state, [0]

        def is_led(status: PartitionStatus) -> bool:
            found[0] = status.leader or 0
            return state.is_led(status)

        probe = state.partition(topic, partition, is_led)
        self._await(f"a leader of {topic}-{partition}", probe, timeout_s)
        return found[0]

    def await_no_leader(
        self, topic: str, partition: int = 0, *, timeout_s: float = PATIENCE_S
    ) -> None:
        """Waits until the controller has found that nobody may lead the partition."""
        probe = self._state.partition(topic, partition, lambda status: status.leader is None)
        self._await(f"{topic}-{partition} to have no leader", probe, timeout_s)

    def await_isr(
        self, topic: str, partition: int = 0, *, size: int, timeout_s: float = PATIENCE_S
    ) -> tuple[int, ...]:
        """Waits until so many replicas are in sync, and all brokers know it; their ids."""
        found: list[tuple[int, ...]] = [()]

        def has_size(status: PartitionStatus) -> bool:
            found[0] = status.isr
            return len(status.isr) == size

        probe = self._state.partition(topic, partition, has_size)
        self._await(f"{size} in-sync replicas of {topic}-{partition}", probe, timeout_s)
        return found[0]

    def await_no_under_replicated(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until every partition has a leader and all its replicas in sync."""
        probe = self._state.nothing_under_replicated()
        self._await("every partition to be led and fully replicated", probe, timeout_s)

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
        name = name or f"topic-{self._require_brokers().rng.getrandbits(48):012x}"
        spec = TopicSpec(partitions=partitions, replication=replication, config=config or {})
        self._create({name: spec})
        return self.existing_topic(name)

    def existing_topic(self, name: str) -> Topic:
        """A handle on a topic that is there already."""
        bootstrap_servers = self.bootstrap_servers
        if self._clients is None:
            self._clients = Clients(bootstrap_servers, cluster=self)
        return Topic(name, bootstrap_servers, self._clients)

    def add_partitions(self, topic: str, count: int) -> None:
        """Grows `topic` to `count` partitions, and returns when every broker knows them."""
        self._admin.create_partitions(topic, count)
        self._await_topics({topic: count})
        if self._clients is not None:
            self._clients.close()  # its producer remembers the old count

    def delete_topic(self, name: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Deletes a topic, and returns when no broker knows it any more."""
        self._admin.delete_topics(name)
        self.await_topic_gone(name, timeout_s=timeout_s)

    def await_topic_gone(self, name: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until a topic's deletion is over; that of one with a dead replica waits for it."""
        self._await(f"{name} to be gone", self._state.topic_gone(name), timeout_s)

    # -- how

    def _create(self, topics: Mapping[str, TopicSpec]) -> None:
        if topics:
            self._admin.create_topics(topics)
            self._await_topics({name: spec.partitions for name, spec in topics.items()})

    def _await_topics(self, counts: Mapping[str, int]) -> None:
        known = self._state.everywhere(
            lambda snapshot: all(snapshot.has_leaders(name, n) for name, n in counts.items())
        )
        self._await(f"every broker to know the leaders of {', '.join(counts)}", known)

    def _await_leaders(self) -> None:
        """Waits until all brokers know the leaders of topics that have one for each partition.

        A leader that has lost a disk may have lost the partition with it.
        """
        counts: dict[str, int] = {}
        leaderless: set[str] = set()
        alive = {handle.id for handle in self._require_brokers().running() if handle.has_all_disks}
        for status in self._state.partitions():
            counts[status.topic] = counts.get(status.topic, 0) + 1
            if status.leader not in alive:
                leaderless.add(status.topic)
        led = {name: count for name, count in counts.items() if name not in leaderless}
        if led:
            self._await_topics(led)

    def _require_snapshots(self) -> Snapshots:
        self._require_brokers()
        if self._snapshots is None:
            raise ClusterClosed(NOT_RUNNING)
        return self._snapshots

    def _await(self, what: str, probe: Probe, timeout_s: float = PATIENCE_S) -> None:
        self._require_brokers().waiting.await_fact(what, probe, timeout_s)

    def _reachable_addresses(self) -> list[str]:
        return [handle.address for handle in self._require_brokers().all() if handle.is_reachable]

    @property
    def _state(self) -> ClusterState:
        return self._require_brokers().state

    @property
    def _is_running(self) -> bool:
        return self._resources is not None and self._resources.brokers is not None

    @property
    def _is_forked(self) -> bool:
        """Whether this process was forked from the one that started the cluster."""
        return self._resources is not None and not self._resources.owner.is_here

    def _require_brokers(self) -> Brokers:
        if self._resources is None:
            raise ClusterClosed(NOT_RUNNING)
        return self._resources.require_brokers()


def _largest(sides: Sequence[Collection[int]]) -> Collection[int]:
    by_size = sorted(sides, key=len, reverse=True)
    if not by_size:
        raise EmbedKafkaError("a partition needs sides")
    if len(by_size) > 1 and len(by_size[0]) == len(by_size[1]):
        raise EmbedKafkaError("the sides are equal: say with `zookeeper=` who keeps ZooKeeper")
    return by_size[0]
