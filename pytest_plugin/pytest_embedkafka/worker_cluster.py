"""`WorkerCluster`: the cluster that all workers of pytest-xdist share, as one of them sees it.

It is that of a run with names of its own, and with the handles of an owner: the cluster is in the
process that distributes the tests, which does what is asked. Each worker has a listener of its own
there, so the requests of its clients can be told from those of others.

Owner: pytest's thread, in a worker.
Not here: the cluster (`sharing`).
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from embedkafka import EmbedKafkaError, InvalidArgument, OwnedGroup, OwnedTopic
from embedkafka.cluster.clients.client_admin import require_admin
from embedkafka.cluster.clients.polled_state import PolledState
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from pytest_embedkafka.calls import Place, call
from pytest_embedkafka.run_cluster import RunCluster, RunReach, quietly
from pytest_embedkafka.skips import skip_for_listeners
from pytest_embedkafka.sweeping import Sweeper

if TYPE_CHECKING:
    from embedkafka import FollowerStatus, Mark, SeenRequest, StateChange
    from embedkafka.cluster.waiting import Probe
    from embedkafka.wire.net.socket_server import Connection
    from pytest_embedkafka.sharing import Shared

_LOG = logging.getLogger(__name__)

_JOINING: Final = ("JOIN_GROUP", "CONSUMER_GROUP_HEARTBEAT")


class Question(NamedTuple):
    """A method of the cluster and its arguments. Any: of any method."""

    method: str
    arguments: dict[str, Any]


KEEP_TOPICS: Final = "keep_topics"
"""A question for the page of the run."""
ON_DEMAND: Final = frozenset(
    {"apply_retention", "compact", "expire", "explain", "followers", "move_leader", "roll"}
)
"""Methods of `OnDemand`, which handles have checked for whose topics and groups they are."""
ALLOWED: Final = frozenset(
    {
        "_await_topics",
        "_connections",
        "_last_values",
        "_remove_topics",
        "_show_values",
        "mark",
        "report",
        "requests",
        "state_changes",
    }
)
"""Methods of `EmbeddedKafka` that concern the topics or requests of who calls them."""


class Asked:
    """`owned.reach.OnDemand` in the process that has the brokers."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def move_leader(self, topic: str, partition: int, *, to: int, timeout_s: float) -> None:
        self.ask("move_leader", topic=topic, partition=partition, to=to, timeout_s=timeout_s)

    def roll(self, topic: str) -> None:
        self.ask("roll", topic=topic)

    def compact(self, topic: str) -> None:
        self.ask("compact", topic=topic)

    def apply_retention(self, topic: str) -> None:
        self.ask("apply_retention", topic=topic)

    def expire(self, group: str, *, timeout_s: float) -> None:
        self.ask("expire", group=group, timeout_s=timeout_s)

    def followers(self, topic: str, partition: int) -> "list[FollowerStatus]":
        found: list[FollowerStatus] = self.ask("followers", topic=topic, partition=partition)
        return found

    def explain(self, topic: str, partition: int) -> str:
        return str(self.ask("explain", topic=topic, partition=partition))

    def ask(self, method: str, **arguments: Any) -> Any:
        """Any: the arguments and the value of any method."""
        return call(self._place, Question(method, arguments))


class WorkerState(PolledState):
    """Lets the process that has the brokers wait for them."""

    def __init__(self, reach: "WorkerReach") -> None:
        super().__init__(reach.client, lambda address: require_admin(address, None))
        self._asked = reach.on_demand

    def leaders_known(self, counts: Mapping[str, int]) -> "Probe":
        def probe() -> None:
            self._asked.ask("_await_topics", counts=counts)

        return probe


class WorkerReach(RunReach):
    """Reaches the shared cluster; its topics have the worker's name at their end."""

    is_shared = True

    def __init__(self, shared: "Shared") -> None:
        super().__init__(shared.bootstrap_servers)
        self._suffix = f"-{shared.worker}"
        self.on_demand = Asked(shared.place)

    @cached_property
    def polled(self) -> PolledState:
        return WorkerState(self)

    def new_name(self, name: str) -> str:
        return f"{name}{self._suffix}"

    def known_name(self, name: str) -> str:
        """That of this worker's own topic, if it created one under that name."""
        own = f"{super().known_name(name)}{self._suffix}"
        return own if own in self.created else name


class WorkerCluster(RunCluster):
    """The `kafka` fixture under `--kafka-xdist=shared`."""

    _reach: WorkerReach

    def __init__(self, shared: "Shared") -> None:
        super().__init__(WorkerReach(shared))
        self._listener = shared.listener
        self._ask = self._reach.on_demand.ask
        self._begun: Mark | None = None

    def _topic(self, name: str) -> OwnedTopic:
        return OwnedTopic(name, self._reach)

    def group(self, name: str) -> OwnedGroup:
        """The handle of a consumer group, which need not exist.

        Args:
            name: the group's id.
        """
        return OwnedGroup(name, self._reach)

    def isolated(self) -> Sweeper:
        """Deletes the topics and groups that the test's clients make."""
        return Sweeper(self._reach, self.sweep, self)

    def begin(self) -> None:
        """From here on, requests belong to the next test."""
        if self._listener is not None:
            self._begun = self.mark()

    def requests(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        broker: int | None = None,
        error: str | None = None,
        since: "Mark | None" = None,
    ) -> "list[SeenRequest]":
        """The requests of this worker's clients since the test began, as they are now."""
        if self._listener is None:
            skip_for_listeners("requests")
        if since is not None and self._begun is not None and since < self._begun:
            raise EmbedKafkaError(
                "the mark is older than this test: set it in the test, or give the test "
                "`@pytest.mark.kafka(keep=True)`"
            )
        found: list[SeenRequest] = self._ask(
            "requests",
            api=api,
            client_id=client_id,
            topic=self._reach.known_name(topic) if isinstance(topic, str) else topic,
            group=group,
            broker=broker,
            error=error,
            since=self._begun if since is None else since,
            listener=self._listener,
        )
        return found

    def made(self, topics: Collection[str]) -> frozenset[str]:
        """Those of the topics that requests of this worker have created since the test began."""
        if self._listener is None:
            return frozenset()
        try:
            seen = [*self.requests("CREATE_TOPICS"), *self.requests("METADATA")]
            asked = {topic for each in seen if _may_create(each) for topic in each.topics}
        except EmbedKafkaError as error:
            _LOG.warning("topics that clients of a test may have created are left: %s", error)
            return frozenset()
        return frozenset(asked.intersection(topics) - INTERNAL_TOPICS)

    def joined(self, groups: Collection[str]) -> frozenset[str]:
        """Those of the groups that clients of this worker have joined since the test began."""
        if self._listener is None:
            return frozenset()
        try:
            seen = frozenset(
                group for api in _JOINING for each in self.requests(api) for group in each.groups
            )
        except EmbedKafkaError as error:
            _LOG.warning("groups that clients of a test may have joined are left: %s", error)
            return frozenset()
        return seen.intersection(groups)

    def mark(self) -> "Mark":
        mark: Mark = self._ask("mark")
        return mark

    def report(self) -> str:
        """The cluster as far as it concerns the test, if the worker has a listener."""
        if self._listener is None:
            return self.describe()
        self._show_values()
        return str(self._ask("report", since=self._begun, listener=self._listener))

    def connections(self) -> "dict[str, Connection]":
        """Those of this worker's clients, by their ids."""
        if self._listener is None:
            return {}
        found: dict[str, Connection] = self._ask("_connections", listener=self._listener)
        return found

    def _delete(self, topics: Sequence[str]) -> None:
        """Clients that outlive the test cannot bring them back by asking."""

        def delete() -> None:
            self._ask("_remove_topics", names=topics, listener=self._listener)
            for name in topics:
                self._reach.on_deletion(name)
                self._reach.on_deleted(name)

        quietly(delete, ", ".join(topics))

    def keep_topics(self, owner: str) -> None:
        """Keeps the test's topics for the page of the run, before they are deleted."""
        if self._listener is not None:
            self._show_values()
            self._ask(KEEP_TOPICS, owner=owner, since=self._begun, listener=self._listener)

    def state_changes(
        self,
        topic: str | None = None,
        *,
        partition: int | None = None,
        replicas: bool = False,
        since: "Mark | None" = None,
    ) -> "list[StateChange]":
        """What controllers did to a topic since the test began."""
        if topic is None:
            raise InvalidArgument("name the topic: the cluster has those of other workers, too")
        found: list[StateChange] = self._ask(
            "state_changes",
            topic=self._reach.known_name(topic),
            partition=partition,
            replicas=replicas,
            since=self._begun if since is None else since,
        )
        return found

    def _show_values(self) -> None:
        """Decodes the last values of topics: their decoders are functions of this process."""
        from embedkafka.cluster.clients.decoding import show_data

        for topic, decode in self._reach.clients.decoders.all().items():
            values: list[bytes] = self._ask("_last_values", topic=topic)
            texts = {value: show_data(value, decode) for value in values}
            self._ask("_show_values", topic=topic, texts=texts)


def _may_create(seen: "SeenRequest") -> bool:
    """Whether it is CreateTopics, or Metadata that has missing topics created."""
    return bool(getattr(seen.request, "allow_auto_topic_creation", True))
