"""A cluster that somebody else runs, behind the face of `EmbeddedKafka` as far as topics go.

Imported only when a fixture needs it. Faults, clocks and brokers belong to their owner: a test
that asks for those gets an `AttributeError`.

A `worker` of pytest-xdist has the cluster in common with others: `topic("orders")` makes
`orders-gw0` there, and a test that goes by the handle's name does not notice.
"""

import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from embedkafka.cluster.clients import Clients
from embedkafka.cluster.topic import Topic
from embedkafka.runtime.temporary import TemporaryDirectory

_TIMEOUT_S = 30


class ExternalKafka:
    """What `--kafka-bootstrap` makes of `kafka`."""

    def __init__(self, bootstrap_servers: str, *, worker: str | None = None) -> None:
        from confluent_kafka.admin import AdminClient

        self.bootstrap_servers = bootstrap_servers
        self._suffix = f"-{worker}" if worker else ""
        self._scratch = TemporaryDirectory()
        self._clients = Clients(bootstrap_servers)
        self._admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers})  # has no types
        self._created: set[str] = set()

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Creates a topic, with a name that no other test has when none is given."""
        from confluent_kafka.cimpl import NewTopic

        name = (name or f"topic-{uuid.uuid4().hex[:12]}") + self._suffix
        new = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=-1 if replication is None else replication,
            config={key: str(value) for key, value in (config or {}).items()},
        )
        self._admin.create_topics([new])[name].result(_TIMEOUT_S)
        self._created.add(name)
        return self.existing_topic(name)

    def existing_topic(self, name: str) -> Topic:
        """A handle on a topic that is there already."""
        return Topic(self._own(name), self.bootstrap_servers, self._clients)

    def add_partitions(self, topic: str, count: int) -> None:
        """Grows `topic` to `count` partitions."""
        topic = self._own(topic)
        from confluent_kafka.cimpl import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(_TIMEOUT_S)
        self._clients.forget_producer()  # it may go on for minutes without the new partitions

    def scratch_dir(self, name: str | None = None) -> str:
        """A directory that is removed at the end, for checkpoints and the like."""
        path = self._scratch.path / (name or uuid.uuid4().hex)
        path.mkdir(exist_ok=True)
        return str(path)

    def created_topics(self) -> set[str]:
        """Those made here; the others on a shared cluster are none of our business."""
        return set(self._created)

    def delete_topic(self, name: str) -> None:
        """Deletes it, or raises what the cluster answered."""
        name = self._own(name)
        self._admin.delete_topics([name])[name].result(_TIMEOUT_S)
        self._created.discard(name)

    def describe(self) -> str:
        """Brokers, and the leaders and in-sync replicas of every partition."""
        metadata = self._admin.list_topics(timeout=_TIMEOUT_S)
        lines = [f"brokers: {', '.join(map(str, metadata.brokers.values()))}"]
        lines += [
            f"{name}-{number}: leader {partition.leader}, isr {partition.isrs}"
            for name, topic in sorted(metadata.topics.items())
            for number, partition in sorted(topic.partitions.items())
        ]
        return "\n".join(lines)

    def report(self) -> str:
        """What can be told of somebody else's cluster without asking too much."""
        return self.describe()

    def check(self) -> None:
        """Nothing of an external cluster runs in this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._clients.close()
        self._scratch.remove()

    def _own(self, name: str) -> str:
        """The topic that this worker made under that name, if it did."""
        own = name + self._suffix
        return own if own in self._created else name
