"""What one worker of pytest-xdist may ask of the cluster that all workers share.

The cluster is in the process that distributes the tests, which does what is asked. Each worker has
a listener of its own there, so the requests of its clients can be told from those of others.

Owner: pytest's thread, in a worker.
Not here: what any client can do (`external`), the cluster (`sharing`).
"""

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from embedkafka import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from pytest_embedkafka.calls import Place, call
from pytest_embedkafka.skips import skip_for_listeners

if TYPE_CHECKING:
    from embedkafka import FollowerStatus, Mark, SeenRequest, StateChange
    from embedkafka.cluster.clients.decoding import Decoders
    from embedkafka.net.socket_server import Connection

_LOG = logging.getLogger(__name__)

_TIMEOUT_S: Final = 30
_JOINING: Final = ("JOIN_GROUP", "CONSUMER_GROUP_HEARTBEAT")


class Question(NamedTuple):
    """A method of the cluster and its arguments. Any: of any method."""

    method: str
    arguments: dict[str, Any]


KEEP_TOPICS: Final = "keep_topics"
"""A question for the page of the run."""
ALLOWED: Final = frozenset(
    {
        "_await_topics",
        "_connections",
        "_last_values",
        "_remove_topics",
        "_show_values",
        "await_compaction",
        "await_retention",
        "compact",
        "expire",
        "explain",
        "followers",
        "mark",
        "move_leader",
        "report",
        "requests",
        "roll",
        "state_changes",
    }
)
"""Methods that concern the topics, groups or requests of who calls them."""


class WorkerView:
    """Methods of `EmbeddedKafka` that concern nothing but what this worker made."""

    def __init__(
        self,
        place: Place,
        listener: str | None,
        own: Callable[[str], str],
        decoders: "Decoders",
    ) -> None:
        """`listener` is the worker's, if it has one; `own` finds the name of its topics.

        `decoders` are those of its topics.
        """
        self._place = place
        self._listener = listener
        self._own = own
        self._decoders = decoders
        self._begun: Mark | None = None

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
            topic=self._own(topic) if isinstance(topic, str) else topic,
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

    def await_topic(self, name: str, partitions: int) -> None:
        """Waits until every broker knows the leaders of a topic's partitions."""
        self._ask("_await_topics", counts={name: partitions})

    def mark(self) -> "Mark":
        mark: Mark = self._ask("mark")
        return mark

    def report(self) -> str | None:
        """The cluster as far as it concerns the test; None without a listener for the worker."""
        if self._listener is None:
            return None
        self._show_values()
        return str(self._ask("report", since=self._begun, listener=self._listener))

    def connections(self) -> "dict[str, Connection]":
        """Those of this worker's clients, by their ids."""
        if self._listener is None:
            return {}
        found: dict[str, Connection] = self._ask("_connections", listener=self._listener)
        return found

    def remove_topics(self, names: Collection[str]) -> None:
        """Deletes topics, which clients that outlive the test cannot bring back by asking."""
        self._ask("_remove_topics", names=names, listener=self._listener)

    def keep_topics(self, owner: str) -> None:
        """Keeps the test's topics for the page of the run, before they are deleted."""
        if self._listener is not None:
            self._show_values()
            self._ask(KEEP_TOPICS, owner=owner, since=self._begun, listener=self._listener)

    def await_retention(self, topic: str) -> None:
        self._ask("await_retention", topic=self._own(topic))

    def await_compaction(self, topic: str) -> None:
        self._ask("await_compaction", topic=self._own(topic))

    def compact(self, topic: str) -> None:
        self._ask("compact", topic=self._own(topic))

    def roll(self, topic: str) -> None:
        self._ask("roll", topic=self._own(topic))

    def expire(self, group: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._ask("expire", group=group, timeout_s=timeout_s)

    def move_leader(
        self, topic: str, partition: int = 0, *, to: int, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._ask(
            "move_leader",
            topic=self._own(topic),
            partition=partition,
            to=to,
            timeout_s=timeout_s,
        )

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
            topic=self._own(topic),
            partition=partition,
            replicas=replicas,
            since=self._begun if since is None else since,
        )
        return found

    def followers(self, topic: str, partition: int = 0) -> "list[FollowerStatus]":
        found: list[FollowerStatus] = self._ask(
            "followers", topic=self._own(topic), partition=partition
        )
        return found

    def explain(self, topic: str, partition: int = 0) -> str:
        return str(self._ask("explain", topic=self._own(topic), partition=partition))

    def _show_values(self) -> None:
        """Decodes the last values of topics: their decoders are functions of this process."""
        from embedkafka.cluster.clients.decoding import show_data

        for topic, decode in self._decoders.all().items():
            values: list[bytes] = self._ask("_last_values", topic=topic)
            texts = {value: show_data(value, decode) for value in values}
            self._ask("_show_values", topic=topic, texts=texts)

    def _ask(self, method: str, **arguments: Any) -> Any:
        """Any: the arguments and the value of any method."""
        return call(self._place, Question(method, arguments))


def _may_create(seen: "SeenRequest") -> bool:
    """Whether it is CreateTopics, or Metadata that has missing topics created."""
    return bool(getattr(seen.request, "allow_auto_topic_creation", True))
