"""`EmbeddedKafka`: a whole cluster in this process.

Owner: the thread that starts and closes it, one at a time (`_changing`); any thread may use it in
between. A forked child may read `bootstrap_servers`; everything else belongs to the parent.
Invariants: after `close()` no thread, port or (without `data_dir`) file is left. A failure on one
of the cluster's threads is raised by `check()` or on leaving the `with`.
Not here: the brokers (`brokers`, `lifecycle`), closing a cluster that was never closed
(`resources`), topic handles (`topic`).
"""

import random
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from embedkafka.cluster.admin import Admin
from embedkafka.cluster.broker_handle import BrokerHandle
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients import Clients
from embedkafka.cluster.cluster_state import ClusterState, PartitionStatus
from embedkafka.cluster.config import ClusterConfig, TopicSpec, require_topic_name
from embedkafka.cluster.request_log import Mark, SeenRequest
from embedkafka.cluster.reset import reset_cluster
from embedkafka.cluster.resources import NOT_RUNNING, ClusterResources
from embedkafka.cluster.snapshot import Snapshot, Snapshots
from embedkafka.cluster.topic import Topic
from embedkafka.cluster.waiting import PATIENCE_S, Probe
from embedkafka.faults.injection import Faults
from embedkafka.faults.names import parse_api, parse_error
from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.arguments import require_int, require_number, require_text
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import (
    ClusterClosed,
    ConfigError,
    EmbedKafkaError,
    Failures,
    InvalidArgument,
)
from embedkafka.runtime.locks import outermost_lock
from embedkafka.runtime.threads import run_whole
from embedkafka.spark.producers import close_producers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from embedkafka.cluster.client_waits import ClientWaits


class EmbeddedKafka:
    """A Kafka cluster in threads of this process.

        with EmbeddedKafka(brokers=3) as kafka:
            orders = kafka.topic("orders", replication=3)
            orders.send("hello")

    Use it in a `with` statement, or call `start` and `close`. Until it is started and after it is
    closed, almost every method raises `ClusterClosed`. Arguments that cannot be used raise
    `InvalidArgument`, which is also a `ValueError`.

    With `data_dir` the cluster keeps everything there: a log directory per broker, and ZooKeeper's
    tree in `zookeeper.json`, with its latest changes in `zookeeper.journal`. A later cluster on the
    same directory has the same id, topics, settings, offsets and records, even if this process was
    killed. One cluster at a time may use a directory.

    With `zookeeper` the tree is in a real ZooKeeper, and outlives the cluster. Its sessions expire
    in real time, whatever `clock` says.

    Args:
        brokers: how many brokers to start. Their ids are 1, 2 and so on, unless `config` sets
            `broker.id`.
        config: broker settings by Kafka's names, such as `{"num.partitions": 3}`. Every broker
            gets them. A setting that has no effect here produces a `ConfigWarning`.
        topics: topics to create at the start, by name: a number of partitions, or a `TopicSpec`.
        data_dir: the directory that keeps the data; by default a temporary one, which `close`
            removes.
        host: the address that brokers listen on.
        port: the first broker's port; the others take the following ones. 0 takes free ports.
        racks: the rack of each broker, Kafka's `broker.rack`.
        zookeeper: a real ZooKeeper at `host:port,...[/chroot]`, which no other cluster uses.
        log_dirs: how many log directories each broker has.
        seed: repeats the cluster's random choices: cluster and topic ids, generated topic names,
            the placement of replicas. By default every cluster chooses differently.

    Raises:
        ConfigError: a setting does not exist, or has a value that cannot be.
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
        self._config = ClusterConfig(
            brokers=brokers,
            config={} if config is None else config,
            topics={} if topics is None else topics,
            data_dir=Path(data_dir) if isinstance(data_dir, str) else data_dir,
            host=host,
            port=port,
            racks=racks,
            zookeeper=zookeeper,
            log_dirs=log_dirs,
        )
        if seed is not None:
            require_int("seed", seed, refusal=ConfigError)
        self._clock = SystemClock()
        self._failures = Failures()
        self._rng = random.Random(seed)
        self._changing = outermost_lock()
        self._resources: ClusterResources | None = None
        self._snapshots: Snapshots | None = None
        self._clients: Clients | None = None
        self._admin = Admin(self._reachable_addresses)

    # -- lifecycle

    def start(self) -> Self:
        """Starts the brokers and creates `topics`; returns when all brokers know each other.

        Topics that `data_dir` has kept are left as they are.

        Returns:
            The cluster itself.

        Raises:
            ConfigError: a broker cannot listen on its port, or `data_dir` cannot be used.
            DirectoryInUse: another cluster uses `data_dir`.
            EmbedKafkaError: the cluster has been started before, a topic cannot be created, or the
                real ZooKeeper cannot be reached.
        """
        with self._changing:
            if self._resources is not None:
                raise EmbedKafkaError(
                    "this cluster has been started before: make another EmbeddedKafka, with the "
                    "same `data_dir` if it should go on where this one ended"
                )
            try:
                run_whole("ek-start", self._start, hurry=self._hurry)
            except BaseException as failure:
                try:
                    self.close()
                except OSError as error:
                    failure.add_note(f"Its state could not be saved either: {error}")
                raise
        return self

    def _start(self) -> None:
        keep = self._config.data_dir is not None
        self._resources = resources = ClusterResources(keep=keep, failures=self._failures)
        weakref.finalize(self, resources.abandon).atexit = False
        directory = resources.directory.path
        brokers = resources.brokers = Brokers(
            self._config,
            self._config.data_dir or directory / "data",
            clock=self._clock,
            failures=self._failures,
            rng=self._rng,
        )
        self._snapshots = Snapshots(brokers, directory / "snapshots")
        brokers.boot_all()
        self._await_leaders()
        kept = {status.topic for status in self._state.partitions()}
        new = [name for name in self._config.topics if name not in kept]
        self._create({name: self._config.topic_spec(name) for name in new})

    def _hurry(self) -> None:
        if self._is_running:
            self._require_brokers().give_up()

    def close(self) -> None:
        """Stops the brokers and removes their temporary files. A second call does nothing.

        If another thread is in `start`, this waits for it. In a forked child it does nothing.
        """
        if self._is_forked:
            return
        with self._changing:
            if self._clients is not None:
                self._clients.close()
                self._clients = None
            if self._resources is not None and self._resources.brokers is not None:
                ports = [handle.last_port for handle in self._resources.brokers.all()]
                close_producers([format_address(self._config.host, port) for port in ports])
            if self._resources is not None:
                run_whole("ek-close", self._resources.close, hurry=self._hurry)

    def check(self) -> None:
        """Raises what has failed on the cluster's own threads since the last check.

        Leaving the `with` block, and the pytest fixtures after each test, do this too.

        Raises:
            BackgroundFailure: with the tracebacks. It is a bug in embedkafka.
        """
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

    # -- the cluster

    @property
    def config(self) -> ClusterConfig:
        """The settings that the cluster was made with."""
        return self._config

    @property
    def clock(self) -> SystemClock:
        """The clock of all brokers; `kafka.clock.advance(days=8)` moves it forward."""
        return self._clock

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the running brokers, `host:port,...`, as clients take them.

        A forked child may read it too, for its own clients.

        Raises:
            ClusterClosed: no broker is running.
        """
        brokers = None if self._resources is None else self._resources.brokers
        if brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        running = brokers.running()
        if not running:
            raise ClusterClosed(_NO_BROKER)
        return ",".join(handle.address for handle in running)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it.

        Raises:
            ClusterClosed: no broker is running.
        """
        running = self._require_brokers().running()
        if not running:
            raise ClusterClosed(_NO_BROKER)
        return running[0].require_broker().cluster_id

    def describe(self) -> str:
        """A table of brokers and partitions with leaders, in-sync replicas and offsets.

        Returns a sentence instead if the cluster is not running.
        """
        return self._require_brokers().describe() if self._is_running else _DOWN

    def report(self) -> str:
        """`describe`, plus groups and their lag, open transactions, the last records and requests.

        pytest shows this below a failed test. It sends a few requests to the brokers.
        """
        from embedkafka.cluster.report import report  # most clusters need none

        return report(self._require_brokers()) if self._is_running else _DOWN

    def requests(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        broker: int | None = None,
        error: str | None = None,
        since: Mark | None = None,
    ) -> list[SeenRequest]:
        """The last requests from clients, ten thousand at most, oldest first.

            mark = kafka.mark()
            run_the_job()
            assert kafka.requests("Fetch", topic="orders", since=mark)

        Args:
            api: only requests of this API, in any of Kafka's spellings.
            client_id: only requests with this client id.
            topic: only requests that name this topic.
            group: only requests that name this consumer group.
            broker: only requests to this broker.
            error: only requests that were answered with this error.
            since: only requests that came after this mark.

        Raises:
            InvalidArgument: there is no such API, error or broker.
            EmbedKafkaError: not all requests since the mark, or not all their bodies, are kept.
        """
        brokers = self._require_brokers()
        wanted = None if api is None else parse_api(api).name
        code = None if error is None else parse_error(error).name
        for name, value in (("client_id", client_id), ("topic", topic), ("group", group)):
            if value is not None:
                require_text(name, value)
        if broker is not None:
            brokers.require(broker)
        if since is not None and not isinstance(since, Mark):
            raise InvalidArgument(f"since must be what `kafka.mark()` returned, got {since!r}")
        return brokers.request_log.find(
            lambda seen: (
                wanted in (None, seen.api)
                and client_id in (None, seen.client_id)
                and broker in (None, seen.broker)
                and (topic is None or topic in seen.topics)
                and (group is None or group in seen.groups)
                and (code is None or code in seen.errors)
            ),
            since,
        )

    def mark(self) -> Mark:
        """The present moment, for `requests(since=mark)`."""
        return self._require_brokers().request_log.mark()

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory for a test's own files, such as checkpoints; `close` removes it.

        Args:
            name: a relative path. The same name gives the same directory; None makes a new one.
        """
        resources = self._resources
        if resources is None or resources.brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        if name is None:
            name = f"{self._rng.getrandbits(64):016x}"
        relative = Path(require_text("name", name))
        if relative.is_absolute() or ".." in relative.parts:
            raise InvalidArgument(f"name must be a path below the scratch directory, got {name!r}")
        path = resources.directory.path / "scratch" / relative
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    # -- brokers

    def broker(self, broker_id: int) -> BrokerHandle:
        """A broker, running or not, to stop, kill, pause and start it.

        Args:
            broker_id: its id; ids count from 1, unless configured.

        Raises:
            InvalidArgument: there is no broker with this id.
        """
        return BrokerHandle(self._require_brokers().require(broker_id))

    @property
    def brokers(self) -> list[BrokerHandle]:
        """All brokers, running or not, by id."""
        return [BrokerHandle(lifecycle) for lifecycle in self._require_brokers().all()]

    def add_broker(self) -> BrokerHandle:
        """Starts one more broker, with the next id. Topics created from now on may use it."""
        return BrokerHandle(self._require_brokers().add())

    def remove_broker(self, broker_id: int) -> None:
        """Stops a broker cleanly and for good.

        Its leaders move away. Its replicas stay assigned to it until they are reassigned, as in
        Kafka.

        Args:
            broker_id: its id.

        Raises:
            InvalidArgument: there is no broker with this id.
        """
        self._require_brokers().remove(broker_id)

    def partition(self, *sides: Collection[int], zookeeper: Collection[int] | None = None) -> None:
        """Cuts the network between brokers on different sides, until `heal`.

            kafka.partition({1}, {2, 3})  # broker 1 loses ZooKeeper too

        Clients still reach every broker, and brokers on no side still reach all others. A second
        call replaces the first.

        Args:
            *sides: sets of broker ids.
            zookeeper: the brokers that keep their ZooKeeper sessions; by default those of the
                largest side.

        Raises:
            InvalidArgument: a broker is unknown or on two sides, or no side is the largest and
                `zookeeper` is missing.
        """
        brokers = self._require_brokers()
        checked = [_require_ids("a side", side, brokers) for side in sides]
        _require_disjoint(checked)
        keepers = _largest(checked) if zookeeper is None else zookeeper
        brokers.split(checked, _require_ids("zookeeper", keepers, brokers))

    def heal(self) -> None:
        """Ends a `partition`. `await_brokers` waits until all brokers know each other again."""
        self._require_brokers().heal()

    @property
    def faults(self) -> Faults:
        """Makes requests and disks fail."""
        return self._require_brokers().faults

    # -- earlier states

    def snapshot(self) -> Snapshot:
        """Remembers the whole cluster: topics, records, offsets, transactions, settings.

        Clients notice a short pause at most. Files that cannot change are linked, not copied, so
        this takes milliseconds and little space. `close` removes snapshots.

        Raises:
            EmbedKafkaError: the cluster runs on a real ZooKeeper, or does not come to rest.
        """
        return self._require_snapshots().take()

    def restore(self, snapshot: Snapshot) -> None:
        """Puts the cluster back to a snapshot. One snapshot can be restored many times.

        The brokers that ran then run again, on the same ports; brokers added since are gone, and a
        `partition` ends. Clients reconnect; whatever they wrote or committed since is gone. The
        clock does not go back, and producer ids are not given out twice.

        Raises:
            InvalidArgument: `snapshot` is not a snapshot of this cluster.
        """
        snapshots = self._require_snapshots()
        if not isinstance(snapshot, Snapshot):
            raise InvalidArgument(
                f"snapshot must be what `kafka.snapshot()` returned, got {snapshot!r}"
            )
        snapshots.restore(snapshot)
        if self._clients is not None:
            self._clients.forget_producer()  # brokers no longer know its sequence numbers
        self._await_leaders()

    def reset(self) -> None:
        """Empties the cluster, without restarting it: much faster than a new one.

        Topics, groups, offsets, transactions and changed settings are gone, and the `topics` that
        the cluster was made with are there again, empty. Brokers keep running on their ports and
        clients stay connected. Brokers that were down are started, and all faults end. The clock
        does not go back.

        Raises:
            EmbedKafkaError: topics cannot be deleted because of `delete.topic.enable=false`.
        """
        reset_cluster(self._require_brokers())
        if self._clients is not None:
            self._clients.forget_producer()  # it remembers topics that are gone
        self._create({name: self._config.topic_spec(name) for name in self._config.topics})

    # -- leaders and replicas

    @property
    def controller(self) -> int | None:
        """The id of the broker that is the controller; None while there is none."""
        return self._state.find_controller()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition.

        Args:
            topic: the topic's name.
            partition: the partition's number, from 0 on.

        Raises:
            InvalidArgument: there is no such partition.
            EmbedKafkaError: it has no leader now; `await_leader` waits for one.
        """
        status = self.describe_partition(topic, partition)
        if status.leader is None:
            raise EmbedKafkaError(f"no leader: {status}; `await_leader` waits for one")
        return status.leader

    def describe_partition(self, topic: str, partition: int = 0) -> PartitionStatus:
        """A partition's leader, epoch, replicas and in-sync replicas, as ZooKeeper has them.

        Args:
            topic: the topic's name.
            partition: the partition's number, from 0 on.

        Raises:
            InvalidArgument: there is no such partition.
        """
        return self._state.require_partition(topic, partition)

    def await_brokers(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until all running brokers know each other and the same controller.

        After `heal` and `resume`, brokers take a moment to register again and to drop replicas
        that were moved or deleted without them.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message says what was missing.
        """
        self._await("all brokers to know each other", self._state.membership(), timeout_s)

    def await_controller(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until a reachable broker is the controller and all brokers know it.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The controller's id.

        Raises:
            AwaitTimeout: it did not happen in that time.
        """
        self._await("a controller", self._state.controller(), timeout_s)
        controller = self.controller
        assert controller is not None, "a controller that was awaited has gone already"
        return controller

    def await_leader(self, topic: str, partition: int = 0, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until the partition has a reachable leader and all brokers know it.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The leader's id.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the partition.
            InvalidArgument: there is no such partition.
        """
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
        """Waits until the controller has found that no replica may lead the partition.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time.
            InvalidArgument: there is no such partition.
        """
        probe = self._state.partition(topic, partition, lambda status: status.leader is None)
        self._await(f"{topic}-{partition} to have no leader", probe, timeout_s)

    def await_isr(
        self, topic: str, partition: int = 0, *, size: int, timeout_s: float = PATIENCE_S
    ) -> tuple[int, ...]:
        """Waits until exactly `size` replicas are in sync and all brokers know it.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            size: the number of in-sync replicas to wait for.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The ids of the in-sync replicas.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the partition.
            InvalidArgument: there is no such partition.
        """
        require_int("size", size, least=0)
        found: list[tuple[int, ...]] = [()]

        def has_size(status: PartitionStatus) -> bool:
            found[0] = status.isr
            return len(status.isr) == size

        probe = self._state.partition(topic, partition, has_size)
        self._await(f"{size} in-sync replicas of {topic}-{partition}", probe, timeout_s)
        return found[0]

    def await_no_under_replicated(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until every partition has a leader and all its replicas in sync.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message names the partitions.
        """
        what = "every partition to have a leader and all replicas in sync"
        self._await(what, self._state.nothing_under_replicated(), timeout_s)

    # -- other clients

    def await_group(
        self,
        group: str,
        *,
        members: int | None = None,
        state: str | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Waits until a consumer group is in a state, with so many members.

            kafka.await_group("billing", members=2)  # both have their partitions

        Args:
            group: the group's id; groups of both protocols.
            members: the number of members; any number by default.
            state: Kafka's name of the state, such as "Stable", "Empty" or "Dead" (there is no such
                group); "Stable" by default, and any state if `members` is 0.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the group.
        """
        waits = self._client_waits()
        waits.await_group(group, members=members, state=state, timeout_s=timeout_s)

    def await_lag(
        self,
        group: str,
        lag: int = 0,
        *,
        topic: str | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Waits until the committed offsets of a group are at most `lag` behind the ends.

        Args:
            group: the group's id.
            lag: how many offsets it may be behind, over all partitions.
            topic: a topic whose partitions count, also where the group has committed nothing yet.
                By default the partitions that it has committed offsets for.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the lag.
        """
        self._client_waits().await_lag(group, lag, topic=topic, timeout_s=timeout_s)

    def await_offsets(
        self,
        topic: str,
        offsets: int | Mapping[int, int],
        *,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Waits until a topic's partitions have these ends, or later ones.

        Args:
            topic: the topic's name; it may not exist yet.
            offsets: the end of each partition, `{0: 5, 1: 3}`, or the sum of all ends. Markers of
                transactions count.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the ends.
        """
        self._client_waits().await_offsets(topic, offsets, timeout_s=timeout_s)

    # -- what Kafka does in its own time

    def move_leader(
        self, topic: str, partition: int = 0, *, to: int, timeout_s: float = PATIENCE_S
    ) -> None:
        """Makes a broker the leader of a partition, and returns when all brokers know it.

        It becomes the preferred replica, and the controller elects the preferred leader, as
        `kafka-reassign-partitions` and `kafka-leader-election` do.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            to: the id of a broker with an in-sync replica.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            InvalidArgument: there is no such partition, or the broker has no replica of it.
            EmbedKafkaError: the replica is not in sync, or the controller refused.
        """
        from embedkafka.cluster.actions import move_leader  # most clusters need none

        require_number("timeout_s", timeout_s)
        move_leader(self._require_brokers(), topic, partition, to, timeout_s)
        self.await_leader(topic, partition, timeout_s=timeout_s)

    def elect_controller(self, broker_id: int, *, timeout_s: float = PATIENCE_S) -> None:
        """Makes a broker the controller, and returns when all brokers know it.

        Args:
            broker_id: its id.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            InvalidArgument: there is no broker with this id.
            EmbedKafkaError: it is not running, paused or cut off from ZooKeeper.
        """
        from embedkafka.cluster.actions import elect_controller  # most clusters need none

        require_number("timeout_s", timeout_s)
        elect_controller(self._require_brokers(), broker_id, timeout_s)

    def roll(self, topic: str) -> None:
        """Starts a new segment in every replica of a topic.

        Args:
            topic: the topic's name.

        Raises:
            InvalidArgument: there is no such topic.
        """
        from embedkafka.cluster.actions import roll  # most clusters need none

        roll(self._require_brokers(), topic)

    def compact(self, topic: str) -> None:
        """Compacts every replica of a topic now, up to its newest records.

        `min.compaction.lag.ms` still protects young records, and `delete.retention.ms` tombstones.

        Args:
            topic: the name of a topic whose `cleanup.policy` has `compact`.

        Raises:
            InvalidArgument: there is no such topic, or it is not compacted.
        """
        from embedkafka.cluster.actions import compact  # most clusters need none

        compact(self._require_brokers(), topic)

    def expire(self, group: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Lets the offsets of a group expire, as if `offsets.retention.minutes` had passed.

        A group without members disappears. Offsets of topics that its members subscribe to stay, as
        in Kafka.

        Args:
            group: the group's id.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            EmbedKafkaError: there is no such group, or nothing that may expire.
        """
        from embedkafka.cluster.actions import expire  # most clusters need none

        require_text("group", group)
        require_number("timeout_s", timeout_s)
        expire(self._require_brokers(), group, timeout_s)

    # -- topics

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Creates a topic; returns when every broker knows its leaders.

        Args:
            name: the topic's name; by default a new one, `topic-` and twelve digits.
            partitions: the number of partitions.
            replication: the number of replicas; by default `default.replication.factor`, which
                is 1.
            config: topic settings by Kafka's names, such as `{"cleanup.policy": "compact"}`.

        Raises:
            InvalidArgument: no topic can have this name.
            ConfigError: a setting does not exist, or has a value that cannot be.
            EmbedKafkaError: the brokers refused it. The topic exists already (`existing_topic`
                returns its handle), or there are fewer brokers than replicas.
        """
        if name is None:
            name = f"topic-{self._require_brokers().rng.getrandbits(48):012x}"
        require_topic_name(name)
        spec = TopicSpec(
            partitions=partitions,
            replication=replication,
            config={} if config is None else config,
        )
        self._create({name: spec})
        self._require_clients().on_partitions(name, partitions)
        return self._topic(name)

    def existing_topic(self, name: str) -> Topic:
        """The handle of a topic that exists.

        Args:
            name: the topic's name.

        Raises:
            InvalidArgument: there is no such topic.
        """
        require_text("name", name)
        if not self._is_forked:  # a child may write and read, and knows nothing of the cluster
            self._state.require_topic(name)
        return self._topic(name)

    def stream(
        self,
        spark: "SparkSession",
        topic: str | Topic,
        *,
        schema: "str | Mapping[str, object] | StructType | None" = None,
        format: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "DataFrame":
        """A topic as a streaming DataFrame, with a column for each field of the value.

        This is `Topic.stream` for a topic by name.

        Args:
            spark: as for `Topic.stream`.
            topic: the topic's name, or its handle.
            schema: as for `Topic.stream`.
            format: as for `Topic.stream`.
            key: as for `Topic.stream`.
            headers: as for `Topic.stream`.
            timestamp: as for `Topic.stream`.
            options: as for `Topic.stream`.

        Raises:
            InvalidArgument: there is no such topic.
            ConfigError: as for `Topic.stream`.
        """
        handle = topic if isinstance(topic, Topic) else self.existing_topic(topic)
        return handle.stream(
            spark,
            schema=schema,
            format=format,
            key=key,
            headers=headers,
            timestamp=timestamp,
            options=options,
        )

    def add_partitions(self, topic: str, count: int) -> None:
        """Grows a topic to `count` partitions; returns when every broker knows their leaders.

        Args:
            topic: the topic's name.
            count: the new number of partitions in all.

        Raises:
            InvalidArgument: there is no such topic.
            EmbedKafkaError: the topic has that many partitions, or more.
        """
        self._state.require_topic(topic)
        require_int("count", count, least=1)
        self._admin.create_partitions(topic, count)
        self._await_topics({topic: count})
        self._require_clients().on_partitions(topic, count)

    def delete_topic(self, name: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Deletes a topic; returns when no broker knows it any more.

        Args:
            name: the topic's name.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            InvalidArgument: there is no such topic.
            AwaitTimeout: it was not gone in that time.
        """
        require_number("timeout_s", timeout_s)
        self._state.require_topic(name)
        if any(status.leader_epoch for status in self._state.partitions() if status.topic == name):
            self._require_clients().forget_leaders(name)
        self._admin.delete_topics(name)
        self.await_topic_gone(name, timeout_s=timeout_s)

    def await_topic_gone(self, name: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until a topic's deletion, by any client, is complete.

        Args:
            name: the topic's name.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it was not gone in that time.
        """
        require_topic_name(name)
        self._await(f"{name} to be gone", self._state.topic_gone(name), timeout_s)

    # -- internals

    def _topic(self, name: str) -> Topic:
        return Topic(name, self.bootstrap_servers, self._require_clients())

    def _require_clients(self) -> Clients:
        if self._clients is None:
            self._clients = Clients(self.bootstrap_servers, cluster=self)
        return self._clients

    def _client_waits(self) -> "ClientWaits":
        from embedkafka.cluster.client_waits import ClientWaits  # most clusters need none

        return ClientWaits(self.bootstrap_servers)

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
        """Waits until all brokers know the leaders of every topic that has all its leaders.

        A leader that lost a disk may have lost the partition with it.
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
        require_number("timeout_s", timeout_s)
        self._require_brokers().waiting.await_state(what, probe, timeout_s)

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


_DOWN = "the cluster is not running"
_NO_BROKER = "no broker is running: start one with `kafka.broker(id).start()`"


def _require_ids(name: str, ids: Collection[int], brokers: Brokers) -> frozenset[int]:
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Collection):
        raise InvalidArgument(f"{name} must be a set of broker ids such as {{1, 2}}, got {ids!r}")
    return frozenset(brokers.require(broker_id).id for broker_id in ids)


def _require_disjoint(sides: Sequence[frozenset[int]]) -> None:
    placed: set[int] = set()
    for side in sides:
        if twice := sorted(placed & side):
            raise InvalidArgument(f"broker {twice[0]} is on two sides of the partition")
        placed |= side


def _largest(sides: Sequence[frozenset[int]]) -> frozenset[int]:
    by_size = sorted(sides, key=len, reverse=True)
    if not by_size:
        raise InvalidArgument("`partition` needs sides, such as `kafka.partition({1}, {2, 3})`")
    if len(by_size) > 1 and len(by_size[0]) == len(by_size[1]):
        raise InvalidArgument(
            f"the sides {set(by_size[0])} and {set(by_size[1])} are equally large: say with "
            "`zookeeper=` which brokers keep ZooKeeper"
        )
    return by_size[0]
