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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from embedkafka.cluster.admin import Admin
from embedkafka.cluster.broker_handle import BrokerHandle
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.decoding import Decoder, Decoders, require_decoder, shown_as
from embedkafka.cluster.cluster_state import ClusterState, PartitionStatus
from embedkafka.cluster.config import (
    ClusterConfig,
    TopicSpec,
    placement_of,
    require_topic_name,
)
from embedkafka.cluster.request_log import Mark, SeenRequest
from embedkafka.cluster.resources import NOT_RUNNING, ClusterResources
from embedkafka.cluster.waiting import PATIENCE_S, Probe
from embedkafka.runtime.arguments import (
    MAX_INT32,
    require_int,
    require_known,
    require_number,
    require_path,
    require_text,
    shown,
)
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import (
    ClusterClosed,
    ConfigError,
    EmbedKafkaError,
    Failures,
    InvalidArgument,
)
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.locks import outermost_lock
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.properties import format_properties
from embedkafka.runtime.temporary import replace_private
from embedkafka.runtime.threads import run_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from embedkafka.cluster.access.acls import Acls
    from embedkafka.cluster.access.logins import Logins
    from embedkafka.cluster.access.security import PreparedSecurity, Security
    from embedkafka.cluster.clients.client_view import ClientView
    from embedkafka.cluster.clients.client_waits import ClientWaits
    from embedkafka.cluster.clients.clients import Clients
    from embedkafka.cluster.clients.group_status import GroupStatus
    from embedkafka.cluster.clients.topic import Topic
    from embedkafka.cluster.reports.followers import FollowerStatus
    from embedkafka.cluster.reports.metrics import Metrics
    from embedkafka.cluster.reports.waits import WaitingRequest
    from embedkafka.cluster.restoring.isolation import Isolation
    from embedkafka.cluster.restoring.snapshot import Snapshot, Snapshots
    from embedkafka.controller.event_log import ControllerEvent
    from embedkafka.controller.state_change_log import StateChange
    from embedkafka.faults.injection import Faults
    from embedkafka.faults.plans import Choose
    from embedkafka.net.client import BrokerClient
    from embedkafka.net.socket_server import Connection
    from embedkafka.page.server import PageServer
    from embedkafka.runtime.ids import TopicPartition
    from embedkafka.server.broker import Broker
    from embedkafka.spark.client_settings import ClientSettings


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

    Raises:
        ConfigError: settings do not exist or have invalid values; it names all of them.
    """

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
            )
        )
        problems.raise_all()
        assert checked is not None
        self._config = checked
        self._clock = SystemClock()
        self._failures = Failures()
        self._rng = random.Random(seed)
        self._changing = outermost_lock()
        self._resources: ClusterResources | None = None
        self._snapshots: Snapshots | None = None
        self._prepared: PreparedSecurity | None = None
        self._clients: Clients | None = None
        self._decoders = Decoders()
        self._admin = Admin(self._admin_clients, self._maker_of)
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
            if self._resources is not None:
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
        self._resources = resources = ClusterResources(keep=keep, failures=self._failures)
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
            decoders=self._decoders,
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

            self._prepared = prepare(
                security,
                self._config.config,
                directory,
                placement=placement_of(self._config),
                files=SystemFiles(),
            )
        return self._prepared

    def _control_plane_settings(self, settings: Mapping[str, object]) -> dict[str, object]:
        if not settings.get("authorizer.class.name"):
            return {}
        from embedkafka.cluster.access.control_plane import control_plane_settings  # as above

        return control_plane_settings(settings)

    def _hurry(self) -> None:
        if self._is_running:
            self._require_brokers().give_up()

    def close(self) -> None:
        """Stops the brokers and removes their temporary files. A second call does nothing.

        If another thread is in `start`, this waits for it. In a forked child it does nothing.

        Raises:
            EmbedKafkaError: later tests use the cluster, because it is that of the `kafka` fixture
                or of an `EmbeddedKafkaTestCase`.
        """
        if self._kept_open is not None and not self._is_forked:
            raise EmbedKafkaError(self._kept_open)
        self._close()

    def _close(self) -> None:
        if self._is_forked:
            return
        with self._changing:
            if self._clients is not None:
                self._clients.close()
                self._clients = None
            if self._resources is not None and self._resources.brokers is not None:
                handles = self._resources.brokers.all()
                if "pyspark" in sys.modules:
                    from embedkafka.spark.producers import close_producers  # only Spark keeps any

                    close_producers([one for it in handles for one in it.last_addresses.values()])
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
        self._close()
        if exc is None and not self._is_forked:
            self.check()

    # -- the cluster

    def __repr__(self) -> str:
        """Where it is and how it fares."""
        if not self._is_running or self._is_forked:
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
    def bootstrap_servers(self) -> str:
        """The addresses of the running brokers, `host:port,...`, as clients take them.

        A forked child may read it too, for its own clients.

        Raises:
            ClusterClosed: no broker is running.
        """
        return next(iter(self.listeners.values()))

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses of the running brokers by listener, in the order of `listeners`.

        The first one's are `bootstrap_servers`. A cluster has one listener for clients, unless its
        settings name more.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._addresses(lambda broker: broker.bound.addresses)

    @property
    def advertised(self) -> dict[str, str]:
        """The addresses that clients of each listener are given when they have connected.

        They are those of `listeners`, unless `advertise` or the setting `advertised.listeners` says
        otherwise. A listener that advertises nothing is left out.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._addresses(lambda broker: broker.bound.advertised)

    def _addresses(self, of: "Callable[[Broker], dict[str, str]]") -> dict[str, str]:
        brokers = None if self._resources is None else self._resources.brokers
        if brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        running = [of(broker) for broker in brokers.live()]
        if not running:
            raise ClusterClosed(_NO_BROKER)
        return {name: ",".join(one[name] for one in running) for name in running[0]}

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._running_broker().cluster_id

    def describe(self) -> str:
        """What is wrong now, then a table of brokers and partitions with leaders and offsets.

        Lines that begin with `!` say what is wrong: partitions without a leader or with too few
        replicas, brokers that are down, faults, a clock that was moved, open transactions, groups
        that lag. Returns a sentence instead if the cluster is not running.
        """
        from embedkafka.cluster.reports.report import describe  # most clusters need none

        return describe(self._require_brokers()) if self._is_running else _DOWN

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

        if not self._is_running:
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
            kafka.broker(kafka.leader_of("orders")).kill()
            kafka.await_leader("orders")
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
        from embedkafka.controller.controller_state import KINDS  # on first use

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

    def followers(self, topic: str, partition: int = 0) -> "list[FollowerStatus]":
        """How far each follower of a partition is, when it last had all, and what it does.

            slowest = max(kafka.followers("orders"), key=lambda each: each.lag or 0)
            assert slowest.state == "fetching"

        The list is empty while no broker leads the partition.

        Args:
            topic: the topic's name.
            partition: the partition's number, from 0 on.

        Raises:
            ClusterClosed: the cluster is not running.
            InvalidArgument: there is no such partition.
        """
        from embedkafka.cluster.reports.followers import find_followers  # seldom asked for

        return find_followers(self._require_brokers(), topic, partition)

    def explain(self, topic: str, partition: int = 0) -> str:
        """Why a partition is as it is, in a paragraph.

            print(kafka.explain("orders"))

        It says who leads since which epoch and why, who is in sync and why others are not, what
        keeps the high watermark and the last stable offset back, and which requests wait.

        Args:
            topic: the topic's name.
            partition: the partition's number, from 0 on.

        Raises:
            ClusterClosed: the cluster is not running.
            InvalidArgument: there is no such partition.
        """
        from embedkafka.cluster.reports.explanation import explain_partition  # seldom asked for

        return explain_partition(self._require_brokers(), topic, partition)

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

    def client_config(
        self, user: str | None = None, *, mechanism: str | None = None
    ) -> dict[str, str]:
        """Settings for a client of librdkafka, such as those of confluent-kafka.

            Consumer({**kafka.client_config("job"), "group.id": "readers"})

        Args:
            user: whom to log in as. Default: as the cluster itself does, with all rights.
            mechanism: how the user logs in, one of those in `Security`. Default: the first.

        Raises:
            ClusterClosed: no broker is running.
            InvalidArgument: the credentials of this user are not known, or not for this mechanism.
        """
        settings, servers = self._settings_for(user, mechanism)
        return {**settings.librdkafka, "bootstrap.servers": servers}

    @property
    def certificates_dir(self) -> str | None:
        """The directory of the certificates that the cluster made for itself; None if it made none.

        `ca.pem` is what clients trust. With `Security(protocol="SSL")` each user has a key and its
        certificate in `users`; `client_config` names the file. `close` removes the directory.
        """
        prepared = self._prepared
        made = prepared is not None and prepared.certificates is not None
        return str(prepared.directory) if prepared is not None and made else None

    def java_properties(self, user: str | None = None, *, mechanism: str | None = None) -> str:
        """Writes a properties file for Kafka's own tools and Java clients; returns its path.

            kafka-topics.sh --command-config FILE --bootstrap-server ...

        `close` removes it.

        Args:
            user: whom to log in as. Default: as the cluster itself does, with all rights.
            mechanism: how the user logs in, one of those in `Security`. Default: the first.

        Raises:
            ClusterClosed: no broker is running.
            InvalidArgument: the credentials of this user are not known, or not for this mechanism.
        """
        from embedkafka.cluster.access.user_names import file_name  # most clusters need none

        settings, servers = self._settings_for(user, mechanism)
        options = settings.spark_options.items()
        properties = {name.removeprefix("kafka."): value for name, value in options}
        name = "cluster.properties" if user is None else file_name(user, "properties")
        folder = "" if user is None else f"users/{(mechanism or '').lower()}"
        file = Path(self.scratch_dir("client-properties")) / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = format_properties({"bootstrap.servers": servers, **properties})
        replace_private(file, text.encode())
        return str(file)

    def _settings_for(
        self, user: str | None, mechanism: str | None = None
    ) -> "tuple[ClientSettings, str]":
        """What a user's clients need, and the addresses they connect to."""
        from embedkafka.spark.client_settings import ClientSettings, translate_properties

        broker = self._running_broker()
        if user is None and mechanism is not None:
            raise InvalidArgument("mechanism is for a user's clients: name the user too")
        if user is None and not broker.is_secured:
            return ClientSettings(), self.bootstrap_servers
        from embedkafka.cluster.access.client_access import ClientAccess

        assert self._resources is not None
        directory = self._resources.directory.path / "security"
        access = ClientAccess(self._prepared, directory, SystemFiles())
        if user is None:
            listener, properties = access.own(broker)
        else:
            require_text("user", user)
            listener, properties = access.of_user(user, broker, mechanism)
        return translate_properties(properties), self.listeners[listener]

    def _running_broker(self) -> "Broker":
        live = self._require_brokers().live()
        if not live:
            raise ClusterClosed(_NO_BROKER)
        return live[0]

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
            raise InvalidArgument(
                f"name must be a path below the scratch directory, got {shown(name)}"
            )
        path = resources.directory.path / _SCRATCH / relative
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"no directory can have the name {shown(name)}: {error.strerror}"
            ) from error
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

        certificates = None if self._prepared is None else self._prepared.certificates
        return Logins(self._require_brokers(), self._rng, certificates)

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
        if self._clients is not None:
            self._clients.forget_producer()  # brokers no longer know its sequence numbers
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
        prepared = self._prepared
        reset_cluster(brokers, kept=() if prepared is None else prepared.stored_settings())
        if prepared is not None:
            prepared.store_users(brokers.zk, self._rng)
        if brokers.running()[0].require_broker().authorizer is not None:
            security = self._config.security
            self.acls.replace((security.acls if security is not None else None) or ())
        if self._clients is not None:
            self._clients.forget_producer()  # it remembers topics that are gone
        self._decoders.restore({})
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
            self._on_deletion(name)
        with removing_topics(brokers, names, listener=listener):
            delete_topics(brokers, names)
        for name in names:
            self._decoders.set(name, None)

    def _last_values(self, topic: str) -> list[bytes]:
        """The values that reports and pages show, for another process that can decode them."""
        from embedkafka.cluster.reports.report import last_values  # as above

        return last_values(self._require_brokers(), topic)

    def _show_values(self, topic: str, texts: Mapping[bytes, str]) -> None:
        """From now on reports and pages show these values like this."""
        self._decoders.set(topic, shown_as(texts))

    def _isolation(self) -> "Isolation":
        from embedkafka.cluster.restoring.isolation import Isolation  # most clusters need none

        brokers, resources = self._require_brokers(), self._resources
        assert resources is not None
        return Isolation(
            brokers,
            self._require_snapshots(),
            own_topics=self._config.topics,
            create=self._create_again,
            forget=self._on_deletion,
            scratch=resources.directory.path / _SCRATCH,
        )

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

    def coordinator_of(
        self, group: str | None = None, *, transactional_id: str | None = None
    ) -> int:
        """The id of the broker that coordinates a consumer group, or a producer's transactions.

            kafka.broker(kafka.coordinator_of("readers")).kill()

        Args:
            group: the group's id; or else
            transactional_id: the producer's transactional id.

        Raises:
            InvalidArgument: not one of the two is given, or no client has used groups or
                transactions yet.
            EmbedKafkaError: there is no coordinator now.
        """
        from embedkafka.cluster.coordinators import partition_that_coordinates  # on first use

        found = partition_that_coordinates(group, transactional_id, self._state.partition_count)
        return self.leader_of(found.topic, found.partition)

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

    def await_group_stable(self, group: str, *, timeout_s: float = PATIENCE_S) -> "GroupStatus":
        """Waits until a group has members and none of them awaits a rebalance.

        Args:
            group: the group's id.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The group, with its members and what each of them has.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the group.
        """
        self.await_group(group, timeout_s=timeout_s)
        return self._client_view().group(group)

    def groups(self) -> "list[GroupStatus]":
        """All consumer groups with their members, committed offsets and lag, by name."""
        return self._client_view().groups()

    def lag(self, group: str, topic: str | None = None) -> "dict[TopicPartition, int]":
        """How many offsets a group is behind, for each partition.

            assert sum(kafka.lag("billing").values()) == 0

        Args:
            group: the group's id.
            topic: a topic whose partitions count, also where the group has committed nothing yet.
                By default the partitions that it has committed offsets for.

        Raises:
            InvalidArgument: there is no such topic.
            EmbedKafkaError: the coordinator refused, as it does for an id that is too long.
        """
        return self._client_view().lag(group, topic)

    def await_retention(self, topic: str) -> None:
        """Waits until retention has deleted what it may, and lets it look now, not in minutes.

            kafka.clock.advance(days=8)
            kafka.await_retention("orders")

        Segments that are too old, too many or below the log's start are then gone from every
        reachable replica.

        Args:
            topic: the topic's name.

        Raises:
            InvalidArgument: there is no such topic.
        """
        from embedkafka.cluster.actions import apply_retention  # most clusters need none

        apply_retention(self._require_brokers(), topic)

    def await_compaction(self, topic: str) -> None:
        """Waits until a topic is compacted up to its newest records, which it asks for: `compact`.

        Args:
            topic: the name of a topic whose `cleanup.policy` has `compact`.

        Raises:
            InvalidArgument: there is no such topic, or it is not compacted.
        """
        self.compact(topic)

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
            EmbedKafkaError: a replica is moving between log directories, which pauses compaction.
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
        decode: Decoder | None = None,
    ) -> "Topic":
        """Creates a topic; returns when every broker knows its leaders.

        Args:
            name: the topic's name; by default a new one, `topic-` and twelve digits.
            partitions: the number of partitions.
            replication: the number of replicas; by default `default.replication.factor`, which
                is 1.
            config: topic settings by Kafka's names, such as `{"cleanup.policy": "compact"}`.
            decode: how values that are neither text nor JSON are read, by assertions, reports and
                `Message.decoded`: a function of a value's bytes, or an Avro schema as a mapping,
                as JSON text or as the `Path` of a file.

        Raises:
            InvalidArgument: no topic can have this name.
            ConfigError: a setting does not exist, or has a value that cannot be.
            EmbedKafkaError: the brokers refused it. The topic exists already (`existing_topic`
                returns its handle), or there are fewer brokers than replicas.
        """
        if name is None:
            name = f"topic-{self._require_brokers().rng.getrandbits(48):012x}"
        require_topic_name(name)
        decoder = require_decoder(decode)
        spec = TopicSpec(
            partitions=partitions,
            replication=replication,
            config={} if config is None else config,
        )
        self._create({name: spec})
        self._require_clients().on_partitions(name, partitions)
        self._decoders.set(name, decoder)
        return self._topic(name)

    def existing_topic(self, name: str, *, decode: Decoder | None = None) -> "Topic":
        """The handle of a topic that exists.

        Args:
            name: the topic's name.
            decode: as for `topic`; by default the decoder that the topic has, if any.

        Raises:
            InvalidArgument: there is no such topic.
            ConfigError: `decode` is neither a function nor an Avro schema.
        """
        require_text("name", name)
        decoder = require_decoder(decode)
        if not self._is_forked:  # a child may write and read, and knows nothing of the cluster
            self._state.require_topic(name)
        if decoder is not None:
            self._decoders.set(name, decoder)
        return self._topic(name)

    def stream(
        self,
        spark: "SparkSession",
        topic: "str | Topic",
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
        from embedkafka.cluster.clients.topic import Topic  # loads clients, on first use

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
        require_int("count", count, least=1, most=MAX_INT32)
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
            ClusterClosed: no broker answered; each of them was asked for that time.
        """
        require_number("timeout_s", timeout_s)
        self._state.require_topic(name)
        self._on_deletion(name)
        is_over = self._admin.delete_topic(name, timeout_ms=max(1, int(timeout_s * 1000)))
        self.await_topic_gone(name, timeout_s=timeout_s if is_over else 0)

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

    def _topic(self, name: str) -> "Topic":
        from embedkafka.cluster.clients.topic import Topic  # loads clients, on first use

        return Topic(name, self.bootstrap_servers, self._require_clients())

    def _require_clients(self) -> "Clients":
        if self._clients is None:
            from embedkafka.cluster.clients.clients import Clients  # as above

            settings, servers = self._settings_for(None)
            self._clients = Clients(
                servers,
                cluster=self,
                settings=settings,
                for_user=self._settings_for,
                explain=self._explain,
                exists=self._has_topic,
                decoders=self._decoders,
            )
        return self._clients

    def _has_topic(self, name: str) -> bool:
        """Whether there is such a topic; a forked child takes it for granted."""
        return self._is_forked or self._require_brokers().zk.topic_exists(name)

    def _explain(self, seconds: float) -> str:
        """What is wrong now, and the errors that clients got in the last seconds."""
        if self._is_forked or not self._is_running:
            return ""
        from embedkafka.cluster.reports.report import explain  # most clusters need none

        return explain(self._require_brokers(), seconds)

    def _client_view(self) -> "ClientView":
        return self._require_clients().view()

    def _client_waits(self) -> "ClientWaits":
        from embedkafka.cluster.clients.client_waits import ClientWaits  # most clusters need none

        settings, servers = self._settings_for(None)
        return ClientWaits(servers, settings)

    def _create(self, topics: Mapping[str, TopicSpec]) -> None:
        if topics:
            self._admin.create_topics(topics)
            self._await_topics({name: spec.partitions for name, spec in topics.items()})

    def _create_again(self, names: Collection[str]) -> None:
        """Creates topics that the cluster was made with."""
        specs = {name: self._config.topic_spec(name) for name in names}
        self._create(specs)
        if self._clients is not None:
            for name, spec in specs.items():
                self._clients.on_partitions(name, spec.partitions)

    def _on_deletion(self, topic: str) -> None:
        """The topic is about to go."""
        if self._clients is None:
            return
        found = [status for status in self._state.partitions() if status.topic == topic]
        had_other_leaders = any(status.leader_epoch for status in found)
        self._clients.on_deletion(topic, had_other_leaders=had_other_leaders)

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

    def _require_snapshots(self) -> "Snapshots":
        brokers, resources = self._require_brokers(), self._resources
        assert resources is not None
        with self._changing:
            if self._snapshots is None:
                from embedkafka.cluster.restoring.snapshot import Snapshots  # on first use

                self._snapshots = Snapshots(brokers, resources.directory.path / "snapshots")
            return self._snapshots

    def _await(self, what: str, probe: Probe, timeout_s: float = PATIENCE_S) -> None:
        require_number("timeout_s", timeout_s)
        self._require_brokers().waiting.await_state(what, probe, timeout_s)

    def _admin_clients(self) -> "Iterator[BrokerClient]":
        for handle in self._require_brokers().all():
            if handle.is_reachable:
                yield handle.require_broker().make_client("embedkafka-admin")

    def _maker_of(self, topic: str) -> str | None:
        """The id of the client that had a topic created by asking for it."""
        brokers = self._require_brokers()
        return brokers.auto_creation.maker_of(brokers.zk.topic_ids().get(topic))

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


_SCRATCH = "scratch"
_DOWN = "the cluster is not running"
_NO_BROKER = "no broker is running: start one with `kafka.broker(id).start()`"


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


def _require_ids(name: str, ids: Collection[int], brokers: Brokers) -> frozenset[int]:
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Collection):
        raise InvalidArgument(
            f"{name} must be a set of broker ids such as {{1, 2}}, got {shown(ids)}"
        )
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
