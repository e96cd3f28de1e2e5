"""Leaders and in-sync replicas of a cluster outside this process, as its metadata shows them.

It asks again until a state is reached: an external cluster announces nothing.

Owner: the caller's thread.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from embedkafka import AwaitTimeout, EmbedKafkaError, InvalidArgument, PartitionStatus
from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.arguments import require_int, require_number, require_text
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.locks import leaf_condition

_LOG = logging.getLogger(__name__)

_ASK_AGAIN_MS: Final = 50
_TIMEOUT_S: Final = 30
_ONE_BROKER_S: Final = 5
_CLIENTS_PER_QUESTION: Final = 20
_UNKNOWN_EPOCH: Final = -1
_INTERNAL: Final = "__"

Probe = Callable[[], str | None]
"""Returns None if the cluster is in the wanted state, or else what it found instead."""


class ExternalState:
    """Looks at a cluster through an admin client. Any: it has no types."""

    def __init__(self, admin: Any, admin_of: Callable[[str], Any]) -> None:
        """`admin_of` makes a client that asks one broker, by its address."""
        self._admin = admin
        self._admin_of = admin_of
        self._admins: dict[str, Any] = {}

    @property
    def controller(self) -> int | None:
        found: int = self._metadata().controller_id
        return None if found < 0 else found

    def missing_brokers(self) -> list[int]:
        """Those that have replicas and do not run."""
        metadata = self._metadata()
        used = {
            replica
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
            for replica in partition.replicas
        }
        return sorted(used - set(metadata.brokers))

    def topics(self) -> set[str]:
        return set(self._metadata().topics)

    def known_topics(self) -> set[str]:
        """Those that any broker knows."""
        return {topic for metadata in self._of_each_broker() for topic in metadata.topics}

    def partitions(self) -> list[PartitionStatus]:
        """All partitions of all topics, except Kafka's own."""
        return [
            _status(name, partition)
            for name, topic in sorted(self._metadata().topics.items())
            if not name.startswith(_INTERNAL)
            for _, partition in sorted(topic.partitions.items())
        ]

    def require_partition(self, topic: str, partition: int) -> PartitionStatus:
        require_text("topic", topic)
        require_int("partition", partition, least=0)
        found = self._metadata().topics.get(topic)
        if found is None:
            raise InvalidArgument(f"there is no topic {topic!r} on this cluster")
        if partition not in found.partitions:
            raise InvalidArgument(f"topic {topic} has no partition {partition}")
        return _status(topic, found.partitions[partition])

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        found = self._metadata().topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def leader_of(self, topic: str, partition: int) -> int:
        status = self.require_partition(topic, partition)
        if status.leader is None:
            raise EmbedKafkaError(f"no leader: {status}; `await_leader` waits for one")
        return status.leader

    def await_partition(
        self,
        what: str,
        topic: str,
        partition: int,
        is_wanted: Callable[[PartitionStatus], bool],
        timeout_s: float,
    ) -> PartitionStatus:
        """Waits until the partition is as wanted, and returns it."""
        found = [self.require_partition(topic, partition)]

        def probe() -> str | None:
            found[0] = self.require_partition(topic, partition)
            return None if is_wanted(found[0]) else str(found[0])

        self.wait(what, probe, timeout_s)
        return found[0]

    def await_topic(self, topic: str, partitions: int, timeout_s: float) -> None:
        """Waits until every broker knows a new topic or partition; the controller answers before.

        A client may ask any of them, and gives up if that one does not know the topic.
        """

        def probe() -> str | None:
            for metadata in self._of_each_broker():
                found = metadata.topics.get(topic)
                known = {} if found is None else found.partitions
                leading = [each.id for each in known.values() if each.leader >= 0]
                if not len(leading) == len(known) >= max(partitions, 1):
                    return f"partitions with a leader: {leading}"
            return None

        self.wait(f"leaders of the new topic {topic}", probe, timeout_s)

    def wait(self, what: str, probe: Probe, timeout_s: float) -> None:
        """Returns once `probe` succeeds; raises `AwaitTimeout` with what it found last."""
        deadline_ms = REAL_TIME.monotonic_ms() + require_number("timeout_s", timeout_s) * 1000
        pause = leaf_condition("the next question")
        while (last_seen := probe()) is not None:
            now_ms = REAL_TIME.monotonic_ms()
            if now_ms > deadline_ms:
                raise AwaitTimeout(f"waited {timeout_s:g} s for {what}; last seen: {last_seen}")
            with pause:
                REAL_TIME.wait_until(pause, now_ms + _ASK_AGAIN_MS)

    def _metadata(self) -> Any:
        return self._admin.list_topics(timeout=_TIMEOUT_S)

    def _of_each_broker(self) -> Iterator[Any]:
        """The metadata of all brokers, except those that do not answer."""
        own = self._metadata()
        if len(own.brokers) <= 1:
            yield own
            return
        for broker in own.brokers.values():
            try:
                yield self._of_broker(format_address(broker.host, broker.port))
            except Exception as error:  # the client's own kinds
                _LOG.info("broker %d is not asked: %s", broker.id, error)

    def _of_broker(self, address: str) -> Any:
        """The metadata of one broker.

        A client that has heard of other brokers may ask one of those. So a new one asks, if need
        be several in turn: most begin with the broker that they were given.
        """
        for _ in range(_CLIENTS_PER_QUESTION):
            admin = self._admins.pop(address, None) or self._admin_of(address)
            metadata = admin.list_topics(timeout=_ONE_BROKER_S)
            if metadata.orig_broker_name.partition("/")[0] == address:
                self._admins[address] = admin
                break
        return metadata


def _status(topic: str, partition: Any) -> PartitionStatus:
    return PartitionStatus(
        topic=topic,
        partition=partition.id,
        leader=None if partition.leader < 0 else partition.leader,
        leader_epoch=_UNKNOWN_EPOCH,
        isr=tuple(partition.isrs),
        replicas=tuple(partition.replicas),
    )
