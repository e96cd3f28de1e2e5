"""Deletes what a test created on a cluster that others use too, and nothing else.

Owner: pytest's thread.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_embedkafka.external import ExternalKafka

_LOG = logging.getLogger(__name__)


class Sweeper:
    """The isolation of an external cluster: `names` are the topics that this run has created."""

    def __init__(self, kafka: "ExternalKafka", names: Callable[[], set[str]]) -> None:
        self._kafka = kafka
        self._names = names
        self._before: set[str] | None = None

    def begin(self) -> None:
        self._before = self._names()

    def end(self, *, finds_clients: bool) -> list[str]:
        """Deletes the test's topics; warns of those that cannot be deleted.

        It does not see who is connected.
        """
        before, self._before = self._before, None
        for name in sorted(self._names() - before) if before is not None else ():
            delete_quietly(self._kafka, name)
        return []

    def look(self) -> set[str]:
        return self._names()

    def adopt(self, earlier: set[str]) -> None:
        if self._before is not None:
            self._before |= self._names() - earlier


def delete_quietly(kafka: "ExternalKafka", topic: str) -> None:
    """Deletes a topic, or warns that it cannot be deleted."""
    try:
        kafka.delete_topic(topic)
    except Exception as error:  # the client's own kinds; the next test must run
        _LOG.warning("topic %s of a test could not be deleted: %s", topic, error)
