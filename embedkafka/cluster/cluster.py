"""`Cluster`: what any client can do on any Kafka, embedded or not.

How a kind of cluster is reached, and how exactly its state is known, is behind `reach`; what is
here and in the handles is written once for all of them.

Owner: the caller's thread.
Not here: what only the owner of a cluster can do (`embedded`, `owned`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from embedkafka.cluster.clients.decoding import Decoder, require_decoder
from embedkafka.cluster.config import TopicShape, require_topic_name
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_int, require_number, require_text, shown
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.properties import format_properties
from embedkafka.runtime.temporary import replace_private

if TYPE_CHECKING:
    from embedkafka.cluster.clients.group_status import GroupStatus
    from embedkafka.cluster.handles.brokers import BrokerHandle, BrokerHandles
    from embedkafka.cluster.handles.group import GroupHandle
    from embedkafka.cluster.handles.reach import ClusterReach
    from embedkafka.cluster.handles.topic import Topic

T = TypeVar("T", covariant=True)


class MakesTopics(Protocol[T]):
    """A cluster whose topics have handles of the kind `T`."""

    def _create_topic(self, name: str | None, shape: TopicShape, decode: Decoder | None) -> str: ...

    def _find_topic(self, name: str, decode: Decoder | None, timeout_s: float) -> str: ...

    def _topic(self, name: str) -> T: ...


class Cluster:
    """A Kafka cluster, as far as any client can use it: the fixture `kafka` is one.

        orders = kafka.topic("orders", partitions=3)
        kafka.group("billing").await_lag(0, topic=orders.name)
        assert kafka.brokers.controller == 1

    An `EmbeddedKafka` is a cluster that can do more. On any other, a test that uses more is skipped
    with the reason.
    """

    def __init__(self, reach: "ClusterReach") -> None:
        self._reach = reach

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.bootstrap_servers}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            __tracebackhide__ = True
            from embedkafka.cluster.handles.moved import refuse_missing, refuse_moved

            refuse_moved(self, name)
            refuse_missing(self, name, "kafka")

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the running brokers, `host:port,...`, as clients take them.

        A forked child may read it too, for its own clients.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._reach.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it.

        Raises:
            ClusterClosed: no broker is running.
        """
        return str(self._reach.clients.view().metadata().cluster_id)

    def describe(self) -> str:
        """The brokers, and each partition's leader and in-sync replicas."""
        brokers = ", ".join(f"{each.id} at {each._address}" for each in self._reach.brokers())
        partitions = [
            f"{each.topic}-{each.partition}: leader {each.leader}, isr {list(each.isr)}"
            for each in self._reach.clients.view().statuses()
        ]
        return "\n".join([f"brokers: {brokers}", *partitions])

    def report(self) -> str:
        """`describe`, and what else is visible; pytest shows it below a failed test."""
        return self.describe()

    def check(self) -> None:
        """Raises what has failed in this process on the cluster's threads, if it has any."""

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
        settings, servers = self._reach.settings_for(user, mechanism)
        return {**settings.librdkafka, "bootstrap.servers": servers}

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
        from embedkafka.cluster.access.user_names import file_name  # most tests need none

        settings, servers = self._reach.settings_for(user, mechanism)
        options = settings.spark_options.items()
        properties = {name.removeprefix("kafka."): value for name, value in options}
        name = "cluster.properties" if user is None else file_name(user, "properties")
        folder = "" if user is None else f"users/{(mechanism or '').lower()}"
        file = Path(self.scratch_dir("client-properties")) / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = format_properties({"bootstrap.servers": servers, **properties})
        replace_private(file, text.encode())
        return str(file)

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory for a test's own files, such as checkpoints; `close` removes it.

        Args:
            name: a relative path. The same name gives the same directory; None makes a new one.
        """
        scratch = self._reach.scratch
        if name is None:
            name = f"{self._reach.rng.getrandbits(64):016x}"
        relative = Path(require_text("name", name))
        if relative.is_absolute() or ".." in relative.parts:
            raise InvalidArgument(
                f"name must be a path below the scratch directory, got {shown(name)}"
            )
        path = scratch / relative
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"no directory can have the name {shown(name)}: {error.strerror}"
            ) from error
        return str(path)

    # -- brokers

    def broker(self, broker_id: int) -> "BrokerHandle":
        """A broker, running or not.

        Args:
            broker_id: its id; ids count from 1, unless configured.

        Raises:
            InvalidArgument: there is no broker with this id.
        """
        handles = self._reach.brokers()
        wanted = require_int("a broker's id", broker_id)
        found = next((handle for handle in handles if handle.id == wanted), None)
        if found is None:
            known = ", ".join(str(handle.id) for handle in handles)
            raise InvalidArgument(f"there is no broker {shown(broker_id)}; there are {known}")
        return found

    @property
    def brokers(self) -> "BrokerHandles[BrokerHandle]":
        """All brokers by id, running or not, and their controller."""
        from embedkafka.cluster.handles.brokers import BrokerHandles  # on first use

        return BrokerHandles(self._reach, self._reach.brokers)

    def await_no_under_replicated(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until every partition has a leader and all its replicas in sync.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message names the partitions.
        """
        what = "every partition to have a leader and all replicas in sync"
        self._reach.await_state(what, self._reach.state.nothing_under_replicated(), timeout_s)

    # -- groups and transactions

    def group(self, name: str) -> "GroupHandle":
        """The handle of a consumer group, which need not exist.

            kafka.group("billing").await_lag(0)

        Args:
            name: the group's id.
        """
        from embedkafka.cluster.handles.group import GroupHandle  # on first use

        return GroupHandle(name, self._reach)

    def groups(self) -> "list[GroupStatus]":
        """All consumer groups with their members, committed offsets and lag, by name."""
        return self._reach.clients.view().groups()

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The id of the broker that coordinates a producer's transactions.

        Args:
            transactional_id: the producer's transactional id.

        Raises:
            InvalidArgument: no client has used transactions yet.
            EmbedKafkaError: there is no coordinator now.
        """
        from embedkafka.cluster.handles.coordinators import transaction_coordinator  # on first use

        return transaction_coordinator(self._reach.state, transactional_id)

    # -- topics

    def topic(
        self: MakesTopics[T],
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
        decode: Decoder | None = None,
    ) -> T:
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
            ConfigError: a setting does not exist, or has an invalid value.
            EmbedKafkaError: the brokers refused it. The topic exists already (`existing_topic`
                returns its handle), or there are fewer brokers than replicas.
        """
        shape = TopicShape(partitions, replication, {} if config is None else config)
        return self._topic(self._create_topic(name, shape, decode))

    def existing_topic(
        self: MakesTopics[T], name: str, *, decode: Decoder | None = None, timeout_s: float = 0
    ) -> T:
        """The handle of a topic that exists.

        Args:
            name: the topic's name.
            decode: as for `topic`; by default the decoder that the topic has, if any.
            timeout_s: how long to wait for a topic that a client is about to create, in seconds of
                real time.

        Raises:
            InvalidArgument: there is no such topic.
            AwaitTimeout: there was none in `timeout_s`.
            ConfigError: `decode` is neither a function nor an Avro schema.
        """
        return self._topic(self._find_topic(name, decode, timeout_s))

    def _create_topic(self, name: str | None, shape: TopicShape, decode: Decoder | None) -> str:
        """Creates it, and returns the name it has in the cluster."""
        reach = self._reach
        if name is None:
            name = f"topic-{reach.rng.getrandbits(48):012x}"
        own = reach.new_name(require_topic_name(name))
        decoder = require_decoder(decode)
        reach.admin.create_topic(own, shape)
        self._await_topics({own: shape.partitions})
        reach.clients.on_partitions(own, shape.partitions)
        reach.clients.decoders.set(own, decoder)
        return own

    def _find_topic(self, name: str, decode: Decoder | None, timeout_s: float) -> str:
        """Looks for it, and returns the name it has in the cluster."""
        own = self._reach.known_name(require_text("name", name))
        decoder, state = require_decoder(decode), self._reach.state
        if require_number("timeout_s", timeout_s):
            lacking = f"there is no topic {own}"
            probe = lambda: None if state.partitions_of(own) else lacking  # noqa: E731
            self._reach.await_state(f"topic {own} to be there", probe, timeout_s)
        state.require_topic(own)
        if decoder is not None:
            self._reach.clients.decoders.set(own, decoder)
        return own

    def _await_topics(self, counts: Mapping[str, int]) -> None:
        """Waits until every broker knows the leaders of topics with so many partitions."""
        what = f"every broker to know the leaders of {', '.join(counts)}"
        self._reach.await_state(what, self._reach.state.leaders_known(counts), PATIENCE_S)

    def _topic(self, name: str) -> "Topic":
        from embedkafka.cluster.handles.topic import Topic  # loads clients, on first use

        return Topic(name, self._reach)
