"""`EmbeddedKafka`: a whole cluster in this process.

Owner: the thread that starts and closes it, one at a time (`_changing`); any thread may use it in
between. A forked child may read `bootstrap_servers`; everything else belongs to the parent.
Invariants: after `close()` no thread, port or (without `data_dir`) file is left. A failure on one
of the cluster's threads is raised by `check()` or on leaving the `with`.
Not here: the brokers (`brokers`, `lifecycle`), closing a cluster that was never closed
(`resources`), topic handles (`topic`).
"""

import random
import sys
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.decoding import Decoder, shown_as
from embedkafka.cluster.cluster import Cluster
from embedkafka.cluster.cluster_state import ClusterState
from embedkafka.cluster.config import (
    ClusterConfig,
    TopicSpec,
    placement_of,
)
from embedkafka.cluster.embedded_reach import EmbeddedReach
from embedkafka.cluster.request_log import Mark, SeenRequest
from embedkafka.cluster.resources import ClusterResources
from embedkafka.runtime.arguments import (
    require_int,
    require_known,
    require_path,
    require_text,
    shown,
)
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import (
    ConfigError,
    EmbedKafkaError,
    Failures,
    InvalidArgument,
)
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.locks import outermost_lock
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.threads import run_whole

if TYPE_CHECKING:
    from embedkafka.broker.controller.event_log import ControllerEvent
    from embedkafka.broker.controller.state_change_log import StateChange
    from embedkafka.cluster.access.acls import Acls
    from embedkafka.cluster.access.logins import Logins
    from embedkafka.cluster.access.quotas import Quotas
    from embedkafka.cluster.access.security import PreparedSecurity, Security
    from embedkafka.cluster.owned.brokers import OwnedBroker, OwnedBrokers
    from embedkafka.cluster.owned.groups import OwnedGroup
    from embedkafka.cluster.owned.topics import OwnedTopic
    from embedkafka.cluster.reports.metrics import Metrics
    from embedkafka.cluster.reports.waits import WaitingRequest
    from embedkafka.cluster.restoring.isolation import Isolation
    from embedkafka.cluster.restoring.snapshot import Snapshot, Snapshots
    from embedkafka.faults.injection import Faults
    from embedkafka.faults.plans import Choose
    from embedkafka.page.server import PageServer
    from embedkafka.wire.net.socket_server import Connection


class EmbeddedKafka(Cluster):
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
        durability: what acknowledged data in `data_dir` survives. `"kill"`: the end of the process,
            even by SIGKILL. `"power"`: also a loss of power; every write waits for the disk.
        host: the address that brokers listen on; by default that of the setting `listeners`, or
            else 127.0.0.1. With `0.0.0.0` or `::`, clients are given this machine's own address.
        port: the first broker's port for clients; the others take the following ones. 0 takes those
            of the setting `listeners`, or else free ports.
        advertise: the host that clients are given, with the ports that brokers listen on; by
            default what the setting `advertised.listeners` says, or else where brokers listen. An
            address in that setting moves with `host` and `port` if it is that of the listener.
        racks: the rack of each broker, Kafka's `broker.rack`.
        zookeeper: a real ZooKeeper at `host:port,...[/chroot]`, which no other cluster uses.
        log_dirs: how many log directories each broker has.
        seed: repeats the cluster's random choices: cluster and topic ids, generated topic names,
            the placement of replicas. By default every cluster chooses differently.
        security: how clients log in and what they may do; by default what the settings say, and
            otherwise nothing: clients are anonymous and may do everything.
        defaults: what settings are by default. `"tests"`: tuned for clusters that live for seconds.
            `"kafka"`: as in Apache Kafka, for suites that rely on its values.

    Raises:
        ConfigError: settings do not exist or have invalid values; it names all of them.
    """

    _reach: EmbeddedReach

    def __init__(
        self,
        *,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        topics: Mapping[str, int | TopicSpec] | None = None,
        data_dir: str | Path | None = None,
        durability: Literal["kill", "power"] = "kill",
        host: str | None = None,
        port: int = 0,
        advertise: str | None = None,
        racks: Sequence[str] | None = None,
        zookeeper: str | None = None,
        log_dirs: int = 1,
        seed: int | None = None,
        security: "Security | None" = None,
        defaults: Literal["tests", "kafka"] = "tests",
    ) -> None:
        problems = Problems()
        if seed is not None:
            problems.check(lambda: require_int("seed", seed, refusal=ConfigError))
        directory = (
            None
            if data_dir is None
            else problems.attempt(lambda: require_path("data_dir", data_dir, refusal=ConfigError))
        )
        checked = problems.attempt(
            lambda: ClusterConfig(
                brokers=brokers,
                config={} if config is None else config,
                topics={} if topics is None else topics,
                data_dir=directory,
                durability=durability,
                host=host,
                port=port,
                advertise=advertise,
                racks=racks,
                zookeeper=zookeeper,
                log_dirs=log_dirs,
                security=security,
                defaults=defaults,
            )
        )
        problems.raise_all()
        assert checked is not None
        self._config = checked
        self._clock = SystemClock()
        self._failures = Failures()
        self._rng = random.Random(seed)
        self._changing = outermost_lock()
        self._snapshots: Snapshots | None = None
        super().__init__(EmbeddedReach(self))
        self._kept_open: str | None = None
        """Why `close` is refused, and what to do instead: other tests use the cluster."""

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
            if self._reach.resources is not None:
                raise EmbedKafkaError(
                    "this cluster has been started before: make another EmbeddedKafka, with the "
                    "same `data_dir` if it should go on where this one ended"
                )
            try:
                run_whole("ek-start", self._start, hurry=self._hurry)
            except BaseException as failure:
                try:
                    self._close()
                except OSError as error:
                    failure.add_note(f"Its state could not be saved either: {error}")
                raise
        return self

    def _start(self) -> None:
        keep = self._config.data_dir is not None
        self._reach.resources = resources = ClusterResources(keep=keep, failures=self._failures)
        weakref.finalize(self, resources.abandon).atexit = False
        directory = resources.directory.path
        prepared = self._prepare_security(directory / "security")
        secured = {} if prepared is None else dict(prepared.settings)
        brokers = resources.brokers = Brokers(
            self._config,
            self._config.data_dir or directory / "data",
            clock=self._clock,
            failures=self._failures,
            rng=self._rng,
            describe=_describe_in_place,
            fault_choices=_fault_choices,
            decoders=self._reach.decoders,
            secured=secured | self._control_plane_settings({**self._config.config, **secured}),
        )
        if prepared is not None:
            prepared.store_users(brokers.zk, self._rng)
        brokers.boot_all()
        if self._config.security is not None and self._config.security.acls is not None:
            self.acls.replace(self._config.security.acls)
        self._await_leaders()
        kept = {status.topic for status in self._state.partitions()}
        new = [name for name in self._config.topics if name not in kept]
        self._create({name: self._config.topic_spec(name) for name in new})

    def _prepare_security(self, directory: Path) -> "PreparedSecurity | None":
        security = self._config.security
        if security is not None:
            from embedkafka.cluster.access.security import prepare  # most clusters need none

            self._reach.prepared = prepare(
                security,
                self._config.config,
                directory,
                placement=placement_of(self._config),
                files=SystemFiles(),
            )
        return self._reach.prepared

    def _control_plane_settings(self, settings: Mapping[str, object]) -> dict[str, object]:
        if not settings.get("authorizer.class.name"):
            return {}
        from embedkafka.cluster.access.control_plane import control_plane_settings  # as above

        return control_plane_settings(settings)

    def _hurry(self) -> None:
        if self._reach.is_running:
            self._require_brokers().give_up()

    def close(self) -> None:
        """Stops the brokers and removes their temporary files. A second call does nothing.

        If another thread is in `start`, this waits for it. In a forked child it does nothing.

        Raises:
            EmbedKafkaError: later tests use the cluster, because it is that of the `kafka` fixture
                or of an `EmbeddedKafkaTestCase`.
        """
        if self._kept_open is not None and not self._reach.is_forked:
            raise EmbedKafkaError(self._kept_open)
        self._close()

    def _close(self) -> None:
        if self._reach.is_forked:
            return
        with self._changing:
            self._reach.close_clients()
            if self._reach.resources is not None and self._reach.resources.brokers is not None:
                handles = self._reach.resources.brokers.all()
                if "pyspark" in sys.modules:
                    from embedkafka.spark.producers import close_producers  # only Spark keeps any

                    close_producers([one for it in handles for one in it.last_addresses.values()])
            if self._reach.resources is not None:
                run_whole("ek-close", self._reach.resources.close, hurry=self._hurry)

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
        self._close()
        if exc is None and not self._reach.is_forked:
            self.check()

    # -- the cluster

    def __repr__(self) -> str:
        """Where it is and how it fares."""
        if not self._reach.is_running or self._reach.is_forked:
            return "<EmbeddedKafka, not running>"
        from embedkafka.cluster.reports.troubles import fares  # most clusters need none

        brokers = self._require_brokers()
        addresses = ",".join(broker.address for broker in brokers.live()) or "no address"
        return f"<EmbeddedKafka at {addresses}: {fares(brokers)}>"

    @property
    def config(self) -> ClusterConfig:
        """The settings that the cluster was made with."""
        return self._config

    @property
    def clock(self) -> SystemClock:
        """The clock of all brokers; `kafka.clock.advance(days=8)` moves it forward."""
        return self._clock

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses of the running brokers by listener, in the order of `listeners`.

        The first one's are `bootstrap_servers`. A cluster has one listener for clients, unless its
        settings name more.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._reach.listeners

    @property
    def advertised(self) -> dict[str, str]:
        """The addresses that clients of each listener are given when they have connected.

        They are those of `listeners`, unless `advertise` or the setting `advertised.listeners` says
        otherwise. A listener that advertises nothing is left out.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._reach.addresses(lambda broker: broker.bound.advertised)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._reach.running_broker().cluster_id

    def describe(self) -> str:
        """What is wrong now, then a table of brokers and partitions with leaders and offsets.

        Lines that begin with `!` say what is wrong: partitions without a leader or with too few
        replicas, brokers that are down, faults, a clock that was moved, open transactions, groups
        that lag. Returns a sentence instead if the cluster is not running.
        """
        from embedkafka.cluster.reports.report import describe  # most clusters need none

        return describe(self._require_brokers()) if self._reach.is_running else _DOWN

    def report(self, *, since: Mark | None = None, listener: str | None = None) -> str:
        """`describe`, plus groups, transactions, the last records, errors, requests and warnings.

        pytest shows this below a failed test. It sends a few requests to the brokers.

        Args:
            since: shows only requests after this mark, and only the topics that they name.
            listener: shows only requests that came in through this listener, one of
                `kafka.listeners`, and only the topics, groups and transactions that they name.

        Raises:
            InvalidArgument: there is no such listener.
        """
        from embedkafka.cluster.reports.report import report  # most clusters need none

        if not self._reach.is_running:
            return _DOWN
        return report(self._require_brokers(), _require_mark(since), listener)

    def open_ui(self, *, port: int = 0, browser: bool = True) -> "PageServer":
        """Serves a live page of the cluster on this machine, and shows it in a browser.

        It has topics, records as they come, groups, requests and a timeline, and buttons that kill,
        pause and cut off brokers and move the clock. The server ends with the cluster, with the
        test or `isolated` block that opened it, or with `close()` of what this returns.

        Args:
            port: the port on 127.0.0.1; a free one by default.
            browser: whether to open a browser; the address is `url` of what this returns.
        """
        from embedkafka.page.ui import open_page  # most clusters need none

        return open_page(
            self, port=require_int("port", port, least=0, most=65_535), browser=browser
        )

    def requests(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        broker: int | None = None,
        listener: str | None = None,
        error: str | None = None,
        since: Mark | None = None,
    ) -> list[SeenRequest]:
        """The last requests from clients, ten thousand for each listener at most, oldest first.

            mark = kafka.mark()
            run_the_job()
            assert kafka.requests("Fetch", topic="orders", since=mark)

        Args:
            api: only requests of this API, in any of Kafka's spellings.
            client_id: only requests with this client id.
            topic: only requests that name this topic.
            group: only requests that name this consumer group.
            broker: only requests to this broker.
            listener: only requests that came in through this listener, one of `kafka.listeners`.
            error: only requests that were answered with this error.
            since: only requests that came after this mark.

        Raises:
            InvalidArgument: there is no such API, error, broker or listener.
            EmbedKafkaError: not all requests since the mark, or not all their bodies, are kept.
        """
        from embedkafka.faults.names import parse_api, parse_error  # on first use

        brokers = self._require_brokers()
        wanted = None if api is None else parse_api(api).name
        code = None if error is None else parse_error(error).name
        for name, value in (("client_id", client_id), ("topic", topic), ("group", group)):
            if value is not None:
                require_text(name, value)
        if broker is not None:
            brokers.require(broker)
        return brokers.requests_at(listener).find(
            lambda seen: (
                wanted in (None, seen.api)
                and client_id in (None, seen.client_id)
                and broker in (None, seen.broker)
                and (topic is None or topic in seen.topics)
                and (group is None or group in seen.groups)
                and (code is None or code in seen.errors)
            ),
            _require_mark(since),
        )

    def metrics(self) -> "Metrics":
        """Numbers about brokers, topics, requests, groups and transactions, by Kafka's names.

            before = kafka.metrics()
            run_the_job()
            assert kafka.metrics().total("MessagesInPerSec", topic="orders") == 3

        The first call switches on the counters of requests, records and bytes: they count from then
        on, and cost nothing before. It sends a few requests to the brokers.

        Raises:
            ClusterClosed: the cluster is not running.
        """
        from embedkafka.cluster.reports.metric_collection import collect  # most need none

        return collect(self._require_brokers())

    def state_changes(
        self,
        topic: str | None = None,
        *,
        partition: int | None = None,
        replicas: bool = False,
        since: Mark | None = None,
    ) -> "list[StateChange]":
        """What controllers did to partitions, and what they refused to do, oldest first.

            mark = kafka.mark()
            kafka.broker(orders.leader()).kill()
            orders.await_leader()
            election = kafka.state_changes("orders", since=mark)[-1]
            assert (election.before, election.after) == ("OfflinePartition", "OnlinePartition")

        These are the moves of Kafka's state machines, by Kafka's names. The last 50,000 are kept.

        Args:
            topic: only changes of this topic, which need not exist any more.
            partition: only changes of this partition.
            replicas: whether the moves of replicas are there as well.
            since: only changes after this mark.

        Raises:
            ClusterClosed: the cluster is not running.
        """
        if topic is not None:
            require_text("topic", topic)
        if partition is not None:
            require_int("partition", partition, least=0)
        mark = _require_mark(since)
        log = self._require_brokers().state_change_log
        return [
            change
            for change in log.since(0 if mark is None else mark.number)
            if topic in (None, change.topic)
            and partition in (None, change.partition)
            and (replicas or change.replica is None)
        ]

    def controller_events(
        self, kind: str | None = None, *, since: Mark | None = None
    ) -> "list[ControllerEvent]":
        """What controllers did, event by event, with the wait in the queue and the time it took.

            kafka.controller_events()
            mark = kafka.mark()
            kafka.topic("orders")
            (created,) = kafka.controller_events("TopicChange", since=mark)

        Events are recorded from the first call on, and cost nothing before. The last 50,000 are
        kept, those of candidates for controller too.

        Args:
            kind: only events of this kind, by Kafka's name, such as "BrokerChange".
            since: only events that ended after this mark.

        Raises:
            InvalidArgument: there is no such kind of event.
            ClusterClosed: the cluster is not running.
        """
        from embedkafka.broker.controller.controller_state import KINDS  # on first use

        if kind is not None:
            require_known("kind of event", kind, KINDS)
        mark = _require_mark(since)
        brokers = self._require_brokers()
        log = brokers.controller_event_log
        log.start()
        brokers.settle_controllers()
        return [
            event
            for event in log.since(0 if mark is None else mark.number)
            if kind in (None, event.kind)
        ]

    def waiting(self) -> "list[WaitingRequest]":
        """The requests that brokers have not answered yet, what each waits for, and how long.

            for request in kafka.waiting():
                print(request)

        They wait where Kafka's brokers let them wait: for replicas, for records, for leaders or for
        other members of a group.

        Raises:
            ClusterClosed: the cluster is not running.
        """
        from embedkafka.cluster.reports.waits import find_waiting  # most clusters need none

        return find_waiting(self._require_brokers())

    def mark(self) -> Mark:
        """The present moment, for `requests(since=mark)` and others that take it."""
        return self._require_brokers().request_log.mark()

    @property
    def certificates_dir(self) -> str | None:
        """The directory of the certificates that the cluster made for itself; None if it made none.

        `ca.pem` is what clients trust. With `Security(protocol="SSL")` each user has a key and its
        certificate in `users`; `client_config` names the file. `close` removes the directory.
        """
        prepared = self._reach.prepared
        made = prepared is not None and prepared.certificates is not None
        return str(prepared.directory) if prepared is not None and made else None

    # -- brokers

    def broker(self, broker_id: int) -> "OwnedBroker":
        """A broker, running or not, to stop, kill, pause and start it.

        Args:
            broker_id: its id; ids count from 1, unless configured.

        Raises:
            InvalidArgument: there is no broker with this id.
        """
        from embedkafka.cluster.owned.brokers import OwnedBroker  # on first use

        brokers = self._require_brokers()
        return OwnedBroker(brokers.require(broker_id), brokers, self._reach)

    @property
    def brokers(self) -> "OwnedBrokers":
        """All brokers by id, running or not; more can be added, and cut off from each other."""
        from embedkafka.cluster.owned.brokers import OwnedBrokers  # on first use

        return OwnedBrokers(self._require_brokers(), self._reach, self._reach.brokers)

    @property
    def faults(self) -> "Faults":
        """Makes requests and disks fail."""
        return self._require_brokers().faults

    @property
    def acls(self) -> "Acls":
        """Adds and removes ACLs, for a cluster with an authorizer."""
        from embedkafka.cluster.access.acls import Acls  # only a secured cluster needs it

        return Acls(self._require_brokers())

    @property
    def logins(self) -> "Logins":
        """Takes credentials, tokens and valid certificates from clients of a secured cluster."""
        from embedkafka.cluster.access.logins import Logins  # only a secured cluster needs it

        certificates = None if self._reach.prepared is None else self._reach.prepared.certificates
        return Logins(self._require_brokers(), self._rng, certificates)

    @property
    def quotas(self) -> "Quotas":
        """Limits what users, client ids and addresses may use."""
        from embedkafka.cluster.access.quotas import Quotas  # most clusters need none

        return Quotas(self._reach.admin, self._require_brokers())

    # -- earlier states

    def snapshot(self, name: str | None = None) -> "Snapshot":
        """Remembers the whole cluster: topics, records, offsets, transactions, settings.

        Clients notice a short pause at most. Files that cannot change are linked, not copied, so
        this takes milliseconds and little space. `close` removes snapshots.

        Args:
            name: a name for `restore`, and for `@pytest.mark.kafka(snapshot=name)`.

        Raises:
            EmbedKafkaError: the cluster runs on a real ZooKeeper, or does not come to rest.
        """
        if name is not None:
            require_text("name", name)
        return self._require_snapshots().take(name)

    def restore(self, snapshot: "Snapshot | str") -> None:
        """Puts the cluster back to a snapshot. One snapshot can be restored many times.

        The brokers that ran then run again, on the same ports; brokers added since are gone, and a
        `partition` ends. Clients reconnect; whatever they wrote or committed since is gone. The
        clock does not go back, and producer ids are not given out twice.

        Args:
            snapshot: what `snapshot` returned, or its name.

        Raises:
            InvalidArgument: `snapshot` is not a snapshot of this cluster.
        """
        from embedkafka.cluster.restoring.removal import removing_topics  # on first use
        from embedkafka.cluster.restoring.snapshot import Snapshot

        snapshots = self._require_snapshots()
        if isinstance(snapshot, str):
            snapshot = snapshots.find(snapshot)
        if not isinstance(snapshot, Snapshot):
            raise InvalidArgument(
                f"snapshot must be what `kafka.snapshot()` returned, got {shown(snapshot)}"
            )
        with removing_topics(self._require_brokers()):
            snapshots.restore(snapshot)
        self._reach.forget_producer()  # brokers no longer know its sequence numbers
        self._await_leaders()

    def reset(self) -> None:
        """Empties the cluster, without restarting it: much faster than a new one.

        Topics, groups, offsets, transactions, changed settings, credentials and ACLs are gone. The
        `topics`, users and ACLs that the cluster was made with are there again, the topics empty.
        Brokers keep running on their ports and clients stay connected. Brokers that were down are
        started, and all faults end. The clock does not go back.

        Raises:
            EmbedKafkaError: topics cannot be deleted because of `delete.topic.enable=false`.
        """
        from embedkafka.cluster.restoring.removal import removing_topics  # on first use

        with removing_topics(self._require_brokers()):
            self._reset()

    def _reset(self) -> None:
        from embedkafka.cluster.restoring.reset import reset_cluster  # as above

        brokers = self._require_brokers()
        prepared = self._reach.prepared
        reset_cluster(brokers, kept=() if prepared is None else prepared.stored_settings())
        if prepared is not None:
            prepared.store_users(brokers.zk, self._rng)
        if brokers.running()[0].require_broker().authorizer is not None:
            security = self._config.security
            self.acls.replace((security.acls if security is not None else None) or ())
        self._reach.forget_producer()  # it remembers topics that are gone
        self._reach.decoders.restore({})
        self._create_again(self._config.topics)

    def isolated(self) -> AbstractContextManager[object]:
        """Undoes what the block does to the cluster; the pytest fixtures do this for each test.

            with kafka.isolated():
                kafka.topic("orders")
                kafka.broker(2).kill()

        Afterwards the topics, groups, transactions and settings of the block are gone, its faults
        are over, and the brokers, logins, the network and the clock are as they were. What was
        there before stays, with the records and partitions that the block has added to it; the
        `topics` that the cluster was made with are empty again, if they were.
        """
        return self._isolation()

    def _connections(self, listener: str) -> "dict[str, Connection]":
        """The connections of clients through a listener, by their ids."""
        from embedkafka.cluster.restoring.connections import find_connections

        return find_connections(self._require_brokers(), listener)

    def _remove_topics(self, names: Collection[str], listener: str | None = None) -> None:
        """Deletes topics, so that clients that stay, of this listener, do not bring them back."""
        from embedkafka.cluster.restoring.removal import removing_topics  # on first use
        from embedkafka.cluster.restoring.reset import delete_topics

        brokers = self._require_brokers()
        for name in names:
            self._reach.on_deletion(name)
        with removing_topics(brokers, names, listener=listener):
            delete_topics(brokers, names)
        for name in names:
            self._reach.decoders.set(name, None)

    def _last_values(self, topic: str) -> list[bytes]:
        """The values that reports and pages show, for another process that can decode them."""
        from embedkafka.cluster.reports.report import last_values  # as above

        return last_values(self._require_brokers(), topic)

    def _show_values(self, topic: str, texts: Mapping[bytes, str]) -> None:
        """From now on reports and pages show these values like this."""
        self._reach.decoders.set(topic, shown_as(texts))

    def _isolation(self) -> "Isolation":
        from embedkafka.cluster.restoring.isolation import Isolation  # most clusters need none

        brokers, resources = self._require_brokers(), self._reach.resources
        assert resources is not None
        return Isolation(
            brokers,
            self._require_snapshots(),
            own_topics=self._config.topics,
            create=self._create_again,
            forget=self._reach.on_deletion,
            scratch=self._reach.scratch,
        )

    # -- groups

    def group(self, name: str) -> "OwnedGroup":
        """The handle of a consumer group, which need not exist.

            kafka.group("billing").await_lag(0)

        Args:
            name: the group's id.
        """
        from embedkafka.cluster.owned.groups import OwnedGroup  # loads clients, on first use

        return OwnedGroup(name, self._reach)

    # -- internals

    def _topic(self, name: str) -> "OwnedTopic":
        from embedkafka.cluster.owned.topics import OwnedTopic  # loads clients, on first use

        self._reach.make_clients()
        return OwnedTopic(name, self._reach)

    def _find_topic(self, name: str, decode: Decoder | None, timeout_s: float) -> str:
        if self._reach.is_forked and decode is None:
            return require_text("name", name)  # a child may write and read what it cannot look for
        return super()._find_topic(name, decode, timeout_s)

    def _create(self, topics: Mapping[str, TopicSpec]) -> None:
        if topics:
            self._reach.admin.create_topics(topics)
            self._await_topics({name: spec.partitions for name, spec in topics.items()})

    def _create_again(self, names: Collection[str]) -> None:
        """Creates topics that the cluster was made with."""
        specs = {name: self._config.topic_spec(name) for name in names}
        self._create(specs)
        if (clients := self._reach.made_clients) is not None:
            for name, spec in specs.items():
                clients.on_partitions(name, spec.partitions)

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

    def _require_snapshots(self) -> "Snapshots":
        brokers, resources = self._require_brokers(), self._reach.resources
        assert resources is not None
        with self._changing:
            if self._snapshots is None:
                from embedkafka.cluster.restoring.snapshot import Snapshots  # on first use

                self._snapshots = Snapshots(brokers, resources.directory.path / "snapshots")
            return self._snapshots

    @property
    def _state(self) -> ClusterState:
        return self._require_brokers().state

    def _require_brokers(self) -> Brokers:
        return self._reach.require_brokers()


_DOWN = "the cluster is not running"


def _describe_in_place(brokers: Brokers) -> str:
    from embedkafka.cluster.reports.description import describe_in_place  # for waits that give up

    return describe_in_place(brokers)


def _fault_choices(brokers: Brokers) -> "Mapping[str, Choose]":
    from embedkafka.cluster.fault_steps import fault_choices  # for random plans

    return fault_choices(brokers)


def _require_mark(since: Mark | None) -> Mark | None:
    if since is not None and not isinstance(since, Mark):
        raise InvalidArgument(f"since must be what `kafka.mark()` returned, got {shown(since)}")
    return since
