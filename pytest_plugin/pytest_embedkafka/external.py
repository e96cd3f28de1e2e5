"""`ExternalKafka`: a cluster outside this process, with the topic methods of `EmbeddedKafka`.

Imported only when a fixture needs it. Faults, clock and brokers of an external cluster are out of
reach, and so are the requests of one among many users: a test that asks for them is skipped with
the reason.

Workers of pytest-xdist may share a cluster: `topic("orders")` then creates `orders-gw0`, and tests
use `topic.name`. `worker_view` offers what else concerns nothing but one worker.
"""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embedkafka import EmbeddedKafka, EmbedKafkaError, InvalidArgument, PartitionStatus
from embedkafka.cluster.clients.client_waits import ClientWaits
from embedkafka.cluster.clients.clients import Clients
from embedkafka.cluster.clients.decoding import Decoders, require_decoder
from embedkafka.cluster.clients.topic import Topic
from embedkafka.cluster.coordinators import partition_that_coordinates
from embedkafka.runtime.properties import format_properties
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark.client_settings import ClientSettings
from embedkafka.spark.producers import close_producers
from pytest_embedkafka.external_state import ExternalState
from pytest_embedkafka.skips import skip_external
from pytest_embedkafka.sweeping import Sweeper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from embedkafka.cluster.clients.group_status import GroupStatus
    from embedkafka.runtime.ids import TopicPartition
    from pytest_embedkafka.sharing import Shared
    from pytest_embedkafka.worker_view import WorkerView

_LOG = logging.getLogger(__name__)

_CLIENT_ID = "embedkafka-admin"
_ATTEMPTS = 5
"""How often a topic that clients bring back is deleted before it is created."""
_TIMEOUT_S = 30
_ANSWER_TIMEOUT_S = 10


class ExternalKafka:
    """The `kafka` fixture under `--kafka-bootstrap` and `--kafka-xdist=shared`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: ClientSettings | None = None,
        shared: "Shared | None" = None,
    ) -> None:
        """Raises `EmbedKafkaError` at once if the cluster does not answer."""
        self._bootstrap_servers = bootstrap_servers
        self._admin = require_admin(bootstrap_servers, settings)
        self._settings = settings
        self._suffix = "" if shared is None else f"-{shared.worker}"
        self._clients = Clients(bootstrap_servers, settings=settings)
        decoders = self._clients.decoders
        self.view = None if shared is None else _view(shared, self._own, decoders)
        """What a worker may ask of the cluster that it shares with others."""
        self._scratch = TemporaryDirectory()
        self._state = ExternalState(self._admin, lambda address: require_admin(address, settings))
        self._created: set[str] = set()
        self._deleted: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.bootstrap_servers}>"

    def __getattr__(self, name: str) -> Any:
        """What any client can do is below. Any: the rest of a worker's view, or a skipped test."""
        __tracebackhide__ = True
        if not name.startswith("_") and hasattr(EmbeddedKafka, name):
            if self.view is not None and hasattr(self.view, name):
                return getattr(self.view, name)
            skip_external(name, self.bootstrap_servers, is_shared=self.view is not None)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, as they were given."""
        return self._bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self._admin.list_topics(timeout=_TIMEOUT_S).cluster_id)

    def client_config(self) -> dict[str, str]:
        """What librdkafka's clients need to connect."""
        connection = {} if self._settings is None else self._settings.librdkafka
        return {**connection, "bootstrap.servers": self.bootstrap_servers}

    def java_properties(self, user: str | None = None) -> str:
        """Writes a properties file for Kafka's own tools and Java clients; returns its path."""
        if user is not None:
            raise InvalidArgument(
                f"the credentials of user {user!r} are not known here, only those of "
                "--kafka-client-config"
            )
        options = {} if self._settings is None else self._settings.spark_options
        properties = {name.removeprefix("kafka."): value for name, value in options.items()}
        file = Path(self.scratch_dir("client-properties")) / "cluster.properties"
        file.write_text(
            format_properties({"bootstrap.servers": self.bootstrap_servers, **properties})
        )
        return str(file)

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
        decode: Any = None,
    ) -> Topic:
        """Creates a topic; without a name it gets a unique one. Any: as for `EmbeddedKafka`."""
        from confluent_kafka.cimpl import NewTopic

        decoder = require_decoder(decode)
        name = (name or f"topic-{uuid.uuid4().hex[:12]}") + self._suffix
        new = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=-1 if replication is None else replication,
            config={key: str(value) for key, value in (config or {}).items()},
        )
        self._create(new, name)
        self._created.add(name)
        self._deleted.discard(name)
        self._await_topic(name, partitions)
        self._clients.on_partitions(name, partitions)
        return self.existing_topic(name, decode=decoder)

    def existing_topic(self, name: str, *, decode: Any = None) -> Topic:
        """The handle of a topic that exists. Any: as for `EmbeddedKafka`."""
        name = self._own(name)
        if (decoder := require_decoder(decode)) is not None:
            self._clients.decoders.set(name, decoder)
        return Topic(name, self.bootstrap_servers, self._clients)

    def stream(self, spark: "SparkSession", topic: str | Topic, **how: Any) -> "DataFrame":
        """A topic as a streaming DataFrame. Any: the arguments of `Topic.stream`."""
        handle = topic if isinstance(topic, Topic) else self.existing_topic(topic)
        return handle.stream(spark, **how)

    def await_group(
        self,
        group: str,
        *,
        members: int | None = None,
        state: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Waits until a consumer group is in a state, with so many members."""
        self._waits().await_group(group, members=members, state=state, timeout_s=timeout_s)

    def await_lag(
        self,
        group: str,
        lag: int = 0,
        *,
        topic: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Waits until the committed offsets of a group are at most `lag` behind the ends."""
        own = None if topic is None else self._own(topic)
        self._waits().await_lag(group, lag, topic=own, timeout_s=timeout_s)

    def await_offsets(
        self, topic: str, offsets: int | Mapping[int, int], *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Waits until a topic's partitions have these ends, or later ones."""
        self._waits().await_offsets(self._own(topic), offsets, timeout_s=timeout_s)

    def await_group_stable(self, group: str, *, timeout_s: float = _TIMEOUT_S) -> "GroupStatus":
        """Waits until a group's members have their partitions, and returns it."""
        self.await_group(group, timeout_s=timeout_s)
        return self._clients.view().group(group)

    def groups(self) -> "list[GroupStatus]":
        """All consumer groups, those of other users too."""
        return self._clients.view().groups()

    def lag(self, group: str, topic: str | None = None) -> "dict[TopicPartition, int]":
        """How many offsets a group is behind, for each partition."""
        return self._clients.view().lag(group, None if topic is None else self._own(topic))

    @property
    def controller(self) -> int | None:
        """The id of the broker that is the controller; None while there is none."""
        return self._state.controller

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition."""
        return self._state.leader_of(self._own(topic), partition)

    def coordinator_of(
        self, group: str | None = None, *, transactional_id: str | None = None
    ) -> int:
        """The id of the broker that coordinates a consumer group, or a producer's transactions."""
        count_of = self._state.partition_count
        found = partition_that_coordinates(group, transactional_id, count_of)
        return self._state.leader_of(found.topic, found.partition)

    def describe_partition(self, topic: str, partition: int = 0) -> PartitionStatus:
        """A partition's leader, replicas and in-sync replicas; its epoch is not visible: -1."""
        return self._state.require_partition(self._own(topic), partition)

    def await_leader(self, topic: str, partition: int = 0, *, timeout_s: float = _TIMEOUT_S) -> int:
        """Waits until the partition has a leader."""
        found = self._state.await_partition(
            f"a leader of {topic}-{partition}",
            self._own(topic),
            partition,
            lambda status: status.leader is not None,
            timeout_s,
        )
        assert found.leader is not None
        return found.leader

    def await_no_leader(
        self, topic: str, partition: int = 0, *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Waits until the partition has no leader."""
        what = f"{topic}-{partition} to have no leader"
        self._state.await_partition(
            what, self._own(topic), partition, lambda status: status.leader is None, timeout_s
        )

    def await_isr(
        self, topic: str, partition: int = 0, *, size: int, timeout_s: float = _TIMEOUT_S
    ) -> tuple[int, ...]:
        """Waits until exactly `size` replicas are in sync."""
        what = f"{size} in-sync replicas of {topic}-{partition}"
        return self._state.await_partition(
            what, self._own(topic), partition, lambda status: len(status.isr) == size, timeout_s
        ).isr

    def await_no_under_replicated(self, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Waits until every partition has a leader and all replicas in sync."""

        def probe() -> str | None:
            lacking = [
                str(status)
                for status in self._state.partitions()
                if status.leader is None or status.is_under_replicated
            ]
            return "; ".join(lacking) or None

        what = "every partition to have a leader and all replicas in sync"
        self._state.wait(what, probe, timeout_s)

    def await_brokers(self, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Waits until there is a controller, and every broker that has a replica runs."""

        def probe() -> str | None:
            missing = self._state.missing_brokers()
            if missing:
                return f"no broker {', '.join(map(str, missing))}"
            return "no controller" if self.controller is None else None

        self._state.wait("all brokers", probe, timeout_s)

    def await_controller(self, *, timeout_s: float = _TIMEOUT_S) -> int:
        """Waits until there is a controller."""

        def probe() -> str | None:
            return "none" if self.controller is None else None

        self._state.wait("a controller", probe, timeout_s)
        controller = self.controller
        assert controller is not None, "a controller that was awaited has gone already"
        return controller

    def await_topic_gone(self, name: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Waits until a topic's deletion is complete."""
        own = self._own(name)

        def probe() -> str | None:
            return "it is there" if own in self._state.known_topics() else None

        self._state.wait(f"{name} to be gone", probe, timeout_s)

    def add_partitions(self, topic: str, count: int) -> None:
        """Grows `topic` to `count` partitions."""
        topic = self._own(topic)
        from confluent_kafka.cimpl import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(_TIMEOUT_S)
        self._await_topic(topic, count)
        self._clients.on_partitions(topic, count)

    def _await_topic(self, name: str, partitions: int) -> None:
        """Waits until every broker knows the leaders of a topic's partitions."""
        if self.view is None:
            self._state.await_topic(name, partitions, _TIMEOUT_S)
        else:
            self.view.await_topic(name, partitions)

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory for a test's own files, such as checkpoints; removed at the end."""
        path = self._scratch.path / (name or uuid.uuid4().hex)
        path.mkdir(exist_ok=True)
        return str(path)

    def isolated(self) -> Sweeper:
        """Deletes the topics that a test creates through this object, and their new groups."""
        clients = self._clients
        return Sweeper(
            self,
            clients.decoders,
            self._created.copy,
            self._state.topics,
            clients.view(),
            self.view,
        )

    def delete_topic(self, name: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Deletes a topic; returns when it is gone, and raises the cluster's refusal."""
        name = self._own(name)
        self._admin.delete_topics([name])[name].result(timeout_s)
        self.await_topic_gone(name, timeout_s=timeout_s)
        self._on_deleted(name)

    def sweep(self, topics: Sequence[str]) -> None:
        """Deletes topics of a test that is over, and warns of those that cannot be deleted.

        Spark's idle producers would have them created again.
        """
        if not topics:
            return
        close_producers(self.bootstrap_servers.split(","))
        if self.view is not None:
            _quietly(lambda: self._remove(topics), ", ".join(topics))
            return
        for name in topics:
            _quietly(lambda name=name: self.delete_topic(name), name)  # type: ignore[misc]  # a default binds it

    def _remove_topics(self, names: Sequence[str]) -> None:
        """As for `EmbeddedKafka`."""
        self.sweep(names)

    def describe(self) -> str:
        """The brokers, and each partition's leader and in-sync replicas."""
        metadata = self._admin.list_topics(timeout=_TIMEOUT_S)
        lines = [f"brokers: {', '.join(map(str, metadata.brokers.values()))}"]
        lines += [
            f"{name}-{number}: leader {partition.leader}, isr {partition.isrs}"
            for name, topic in sorted(metadata.topics.items())
            for number, partition in sorted(topic.partitions.items())
        ]
        return "\n".join(lines)

    def report(self) -> str:
        """The same as `describe`: the rest is not visible from outside, but to a worker."""
        seen = None if self.view is None else self.view.report()
        return self.describe() if seen is None else seen

    def check(self) -> None:
        """Does nothing: no thread of an external cluster runs here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.sweep(sorted(self._created))  # of fixtures that did not delete them
        self._sweep_returned()
        self._clients.close()
        self._scratch.remove()

    def _create(self, new: Any, name: str) -> None:
        """Creates a topic. Any: the client has no types.

        A client that outlives a test may have brought a topic of the test back, on a cluster that
        creates what clients ask for.
        """
        from confluent_kafka import KafkaError, KafkaException

        for attempt in range(_ATTEMPTS):
            try:
                self._admin.create_topics([new])[name].result(_TIMEOUT_S)
                return
            except KafkaException as error:
                exists = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if exists and self._has_returned(name) and attempt < _ATTEMPTS - 1:
                    self.delete_topic(name)
                    continue
                hint = " `existing_topic` returns its handle." if exists else ""
                raise EmbedKafkaError(
                    f"cannot create topic {name}: {error.args[0].str()}{hint}"
                ) from error

    def _remove(self, topics: Sequence[str]) -> None:
        assert self.view is not None
        self.view.remove_topics(topics)
        for name in topics:
            self._on_deleted(name)

    def _on_deleted(self, name: str) -> None:
        self._created.discard(name)
        self._deleted.add(name)
        self._clients.on_deletion(name, had_other_leaders=False)
        self._clients.decoders.set(name, None)

    def _sweep_returned(self) -> None:
        """Deletes the topics of this run that clients have brought back."""
        try:
            there = sorted(self._deleted & self._state.topics())
            returned = [name for name in there if self._has_returned(name)]
        except Exception as error:  # the client's own kinds; the run is over
            _LOG.warning("topics that clients may have brought back are left: %s", error)
            return
        self.sweep(returned)

    def _has_returned(self, name: str) -> bool:
        """Whether a client has brought back a topic of this run: one with records is another's."""
        if name not in self._deleted:
            return False
        handle = Topic(name, self.bootstrap_servers, self._clients)
        return not any(handle.end_offsets().values())

    def _waits(self) -> ClientWaits:
        return ClientWaits(self.bootstrap_servers, self._settings)

    def _own(self, name: str) -> str:
        """The name of this worker's own topic, if it created one under that name."""
        own = f"{name}{self._suffix}"
        return own if own in self._created else name


def _quietly(delete: Callable[[], None], topics: str) -> None:
    try:
        delete()
    except Exception as error:  # the client's own kinds; the next test must run
        _LOG.warning("%s of a test could not be deleted: %s", topics, error)


def _view(shared: "Shared", own: Callable[[str], str], decoders: Decoders) -> "WorkerView":
    from pytest_embedkafka.worker_view import WorkerView  # most runs share no cluster

    return WorkerView(shared.place, shared.listener, own, decoders)


def require_admin(bootstrap_servers: str, settings: ClientSettings | None) -> Any:
    """An admin client that has spoken with a broker. Any: it has no types."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    reported: list[Any] = []  # the client's errors
    connection = {} if settings is None else settings.librdkafka
    config: dict[str, Any] = {
        "client.id": _CLIENT_ID,
        **connection,
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "error_cb": reported.append,
    }
    try:
        admin = AdminClient(config)
    except (KafkaException, ValueError) as error:
        raise EmbedKafkaError(f"the Kafka client refuses its settings: {error}") from error
    for _ in range(_ANSWER_TIMEOUT_S):
        try:
            admin.list_topics(timeout=1)
            return admin
        except KafkaException:
            admin.poll(0)  # fills `reported`
        if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in reported):
            break
    told = [error.str() for error in reported if error.code() != KafkaError._ALL_BROKERS_DOWN]
    reason = next((f": {text.partition(' (after ')[0]}" for text in told), "")
    raise EmbedKafkaError(f"no broker answers at {bootstrap_servers}{reason}")
