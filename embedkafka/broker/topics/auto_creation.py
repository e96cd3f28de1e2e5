"""Which missing topics clients may have created by asking for their metadata.

With `auto.create.topics.enable`, Kafka creates every topic that a client asks for. A client that
outlives a test goes on asking for the test's topics, which are removed by then, and would bring
them back during later tests. So while such a client is connected, asking is not enough: it brings a
removed topic back only by writing to it. Clients that connect later create as in Kafka.

Owner: the brokers of a cluster share it; the leaf lock of `_changed` guards everything.
Invariants: while creation is suspended for a name, none is under way.
Not here: removing topics, and finding the clients that are connected then (`cluster.restoring`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.locks import leaf_condition

_PATIENCE_MS: Final = 10_000

Clients = Mapping[str, Callable[[], bool]]
"""By client id: whether such a client may still be connected."""


class AutoCreation:
    """Says which topics may be created for whom, and remembers who asked for them."""

    def __init__(self) -> None:
        self._changed = leaf_condition("auto-creation")
        self._suspended: list[Collection[str] | None] = []
        self._under_way = 0
        self._outlived: dict[str, Clients] = {}
        """By removed topic: the clients that were connected when it went."""
        self._names: dict[UUID, str] = {}
        """The removed topics by their ids."""
        self._makers: dict[UUID, str] = {}
        """By the ids of topics that were created: the id of the client that asked for each."""

    @contextmanager
    def creating(self, name: str, client_id: str) -> Iterator[bool]:
        """Around the creation of a topic that a client asks for: says whether it may be."""
        if self.is_refused(name, client_id) or not self._begin(name):
            yield False
            return
        try:
            yield True
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    @contextmanager
    def suspended(self, names: Collection[str] | None = None) -> Iterator[None]:
        """No topic, or none of these, is created for anyone inside."""
        with self._changed:
            self._suspended.append(names)
            deadline_ms = REAL_TIME.monotonic_ms() + _PATIENCE_MS
            while self._under_way and REAL_TIME.wait_until(self._changed, deadline_ms):
                pass
        try:
            yield
        finally:
            with self._changed:
                self._suspended.remove(names)

    def on_removed(
        self, topics: Mapping[str, UUID | None], present: Clients, connected: Collection[str]
    ) -> None:
        """Topics were removed while these clients were `present`.

        All that are `connected` now have these ids. Topics that were removed earlier need the
        others no longer.
        """
        with self._changed:
            left: dict[str, Clients] = {
                name: {one: is_there for one, is_there in clients.items() if one in connected}
                for name, clients in self._outlived.items()
            }
            left.update(dict.fromkeys(topics, present))
            self._outlived = {name: clients for name, clients in left.items() if clients}
            known = {**self._names, **{id_: name for name, id_ in topics.items() if id_}}
            self._names = {id_: name for id_, name in known.items() if name in self._outlived}
            for topic_id in topics.values():
                if topic_id is not None:
                    self._makers.pop(topic_id, None)

    def on_write(self, topic: str | UUID) -> None:
        """A client writes to a topic, by name or id, that does not exist."""
        with self._changed:
            name = self._names.get(topic) if isinstance(topic, UUID) else topic
            self._outlived.pop(name or "", None)

    def is_refused(self, name: str, client_id: str) -> bool:
        """Whether the topic was removed while this client was connected, which it still is."""
        if name not in self._outlived:  # as good as always
            return False
        with self._changed:
            may_be_there = self._outlived.get(name, {}).get(client_id)
        return may_be_there is not None and may_be_there()

    def on_created(self, topic_id: UUID, client_id: str) -> None:
        """A topic was created because a client asked for it."""
        with self._changed:
            self._makers[topic_id] = client_id

    def maker_of(self, topic_id: UUID | None) -> str | None:
        """The id of the client that asked for a topic; None if it was created in another way."""
        with self._changed:
            return None if topic_id is None else self._makers.get(topic_id)

    def _begin(self, name: str) -> bool:
        with self._changed:
            if any(names is None or name in names for names in self._suspended):
                return False
            self._under_way += 1
            return True
