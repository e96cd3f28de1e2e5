"""Deletes the topics that a test body created, so that the next test may use the same names.

Topics that fixtures created stay: their fixtures delete them.
Owner: pytest's thread.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 5


class Sweeper:
    """Marks before a test body, collects after it, and sweeps after the fixtures' teardown."""

    def __init__(self, kafka: "EmbeddedKafka", names: Callable[[], set[str]]) -> None:
        self._kafka = kafka
        self._names = names
        self._before: set[str] = set()
        self._made: set[str] = set()

    def mark(self) -> None:
        self._before = self._names()
        self._made = set()

    def collect(self) -> None:
        self._made = self._names() - self._before

    def sweep(self) -> None:
        """Deletes the collected topics; warns of those that cannot be deleted."""
        from embedkafka import EmbedKafkaError

        made, self._made = self._made, set()
        for name in sorted(made & self._names()):
            try:
                self._kafka.delete_topic(name)
            except EmbedKafkaError as error:
                _LOG.warning("topic %s of the last test could not be deleted: %s", name, error)


def listed_topics(bootstrap_servers: str) -> Callable[[], set[str]]:
    """A function that lists a cluster's topics; it returns none if no broker answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Silent, because it outlives the cluster for a moment. Any: it has no types.
    admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def names() -> set[str]:
        try:
            topics = admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            _LOG.warning("cannot list topics: %s", error)
            return set()
        return {name for name in topics if not name.startswith("__")}

    return names
