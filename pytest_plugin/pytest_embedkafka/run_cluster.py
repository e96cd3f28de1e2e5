"""`RunCluster`: the `kafka` of a run on a cluster outside this process.

It is a `Cluster` that remembers what the run has created, to delete it. A test that uses what only
the owner of a cluster has is skipped with the reason.

Imported only when a fixture needs it.
Owner: pytest's thread.
Not here: a cluster that the workers of pytest-xdist share (`worker_cluster`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from embedkafka import (
    Cluster,
    EmbeddedKafka,
    OwnedBroker,
    OwnedBrokers,
    OwnedGroup,
    OwnedTopic,
    Topic,
)
from embedkafka.cluster.client_reach import ClientReach
from embedkafka.cluster.clients.client_admin import ClientAdmin, TopicExistsError
from embedkafka.cluster.config import TopicShape
from embedkafka.spark.producers import close_producers
from pytest_embedkafka.skips import skip_external
from pytest_embedkafka.sweeping import Sweeper

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import TopicRequests
    from embedkafka.spark.client_settings import ClientSettings

_LOG = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""How often a topic that clients bring back is deleted before it is created."""
_OWNED: Final[Mapping[str, type]] = {
    "kafka": EmbeddedKafka,
    "kafka.brokers": OwnedBrokers,
    "broker": OwnedBroker,
    "topic": OwnedTopic,
    "group": OwnedGroup,
}
"""What an owner has instead of a cluster and its handles."""


class RunReach(ClientReach):
    """Reaches the cluster of a run; it is the `TopicRequests` too, and notes what it does."""

    is_shared = False
    """Whether it belongs to all workers of the run."""

    def __init__(self, bootstrap_servers: str, settings: "ClientSettings | None" = None) -> None:
        """Raises `EmbedKafkaError` at once if the cluster does not answer."""
        super().__init__(bootstrap_servers, settings)
        self._topics = ClientAdmin(self.client)
        self.created: set[str] = set()
        self.deleted: set[str] = set()

    @property
    def admin(self) -> "TopicRequests":
        return self

    def create_topic(self, name: str, shape: TopicShape) -> None:
        """Creates a topic, also one that a client of an earlier test has brought back.

        A client that outlives its test asks for the test's topics, and a cluster may create what
        clients ask for.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._topics.create_topic(name, shape)
                break
            except TopicExistsError:
                if attempt == _ATTEMPTS - 1 or not self.has_returned(name):
                    raise
                Topic(name, self).delete()
        self.created.add(name)
        self.deleted.discard(name)

    def create_partitions(self, topic: str, count: int) -> None:
        self._topics.create_partitions(topic, count)

    def delete_topic(self, name: str, *, timeout_ms: int) -> bool:
        is_over = self._topics.delete_topic(name, timeout_ms=timeout_ms)
        self.on_deleted(name)
        return is_over

    def on_deleted(self, name: str) -> None:
        self.created.discard(name)
        self.deleted.add(name)
        self.clients.decoders.set(name, None)

    def has_returned(self, name: str) -> bool:
        """Whether a client has brought back a topic of this run: one with records is another's."""
        return name in self.deleted and not any(Topic(name, self).end_offsets().values())

    def on_missing(self, noun: str, name: str) -> None:
        """Skips the test if the owner of a cluster has the name."""
        __tracebackhide__ = True
        if hasattr(_OWNED[noun], name):
            skip_external(f"{noun}.{name}", self.bootstrap_servers, is_shared=self.is_shared)


class RunCluster(Cluster):
    """The `kafka` fixture under `--kafka-bootstrap`."""

    _reach: RunReach

    def __init__(self, reach: RunReach) -> None:
        super().__init__(reach)

    def isolated(self) -> Sweeper:
        """Deletes the topics that a test creates through this object, and their new groups."""
        return Sweeper(self._reach, self.sweep)

    def sweep(self, topics: Sequence[str]) -> None:
        """Deletes topics of a test that is over, and warns of those that cannot be deleted.

        Spark's idle producers would have them created again.
        """
        if topics:
            close_producers(self.bootstrap_servers.split(","))
            self._delete(topics)

    def _delete(self, topics: Sequence[str]) -> None:
        for name in topics:
            quietly(Topic(name, self._reach).delete, name)

    def _remove_topics(self, names: Sequence[str]) -> None:
        """As for `EmbeddedKafka`."""
        self.sweep(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.sweep(sorted(self._reach.created))  # of fixtures that did not delete them
        self._sweep_returned()
        self._reach.close()

    def _sweep_returned(self) -> None:
        """Deletes the topics of this run that clients have brought back."""
        try:
            there = sorted(self._reach.deleted & self._reach.polled.topics())
            returned = [name for name in there if self._reach.has_returned(name)]
        except Exception as error:  # the client's own kinds; the run is over
            _LOG.warning("topics that clients may have brought back are left: %s", error)
            return
        self.sweep(returned)


def quietly(delete: Callable[[], None], topics: str) -> None:
    """Deletes, or warns of what cannot be deleted."""
    try:
        delete()
    except Exception as error:  # the client's own kinds; the next test must run
        _LOG.warning("%s of a test could not be deleted: %s", topics, error)
