"""The state of a cluster as its metadata shows it to any client.

Waits ask again until a state is reached: such a cluster announces nothing.

Owner: the caller's thread.
Not here: the exact state of an embedded cluster (`cluster_state`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from embedkafka.cluster.clients.client_view import statuses_in
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.waiting import Probe
from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.arguments import require_int, require_number, require_text
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, InvalidArgument
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.patience import patient

_LOG = logging.getLogger(__name__)

_ASK_AGAIN_MS: Final = 50
_TIMEOUT_S: Final = 30
_ONE_BROKER_S: Final = 5
_CLIENTS_PER_QUESTION: Final = 20
_INTERNAL: Final = "__"


class PolledState:
    """`handles.reach.State` of any cluster, through an admin client. Any: it has no types."""

    def __init__(self, admin: Any, admin_of: Callable[[str], Any]) -> None:
        """`admin_of` makes a client that asks one broker, by its address."""
        self._admin = admin
        self._admin_of = admin_of
        self._admins: dict[str, Any] = {}

    # -- looking

    def find_controller(self) -> int | None:
        found: int = self._metadata().controller_id
        return None if found < 0 else found

    def addresses(self) -> dict[int, str | None]:
        """Brokers that run, or have replicas, by id; None for those that do not run."""
        metadata = self._metadata()
        used = {replica for each in statuses_in(metadata.topics) for replica in each.replicas}
        running = {
            each.id: format_address(each.host, each.port) for each in metadata.brokers.values()
        }
        return {broker: running.get(broker) for broker in sorted(used | running.keys())}

    def topics(self) -> set[str]:
        return set(self._metadata().topics)

    def require_topic(self, topic: str) -> None:
        known = self.topics()
        if require_text("topic", topic) not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidArgument(f"there is no topic {topic!r}; there are {listed}")

    def require_partition(self, topic: str, partition: int) -> PartitionStatus:
        require_int("partition", partition, least=0)
        found = self.partitions_of(require_text("topic", topic))
        for status in found:
            if status.partition == partition:
                return status
        if not found:
            self.require_topic(topic)
        raise InvalidArgument(f"topic {topic} has no partition {partition}")

    def partitions_of(self, topic: str) -> list[PartitionStatus]:
        return [each for each in statuses_in(self._metadata().topics) if each.topic == topic]

    def is_led(self, status: PartitionStatus) -> bool:
        return status.leader is not None

    # -- probes

    def partition(
        self, topic: str, partition: int, holds: Callable[[PartitionStatus], bool]
    ) -> Probe:
        self.require_partition(topic, partition)

        def probe() -> str | None:
            status = self.require_partition(topic, partition)
            return None if holds(status) else str(status)

        return probe

    def leaders_known(self, counts: Mapping[str, int]) -> Probe:
        """The controller answers before the brokers have heard of a new topic or partition.

        A client may ask any of them, and gives up if that one does not know the topic.
        """

        def probe() -> str | None:
            for metadata in self._of_each_broker():
                for topic, count in counts.items():
                    found = metadata.topics.get(topic)
                    known = {} if found is None else found.partitions
                    leading = [each.id for each in known.values() if each.leader >= 0]
                    if not len(leading) == len(known) >= max(count, 1):
                        return f"partitions of {topic} with a leader: {leading}"
            return None

        return probe

    def topic_gone(self, topic: str) -> Probe:
        def probe() -> str | None:
            known = any(topic in metadata.topics for metadata in self._of_each_broker())
            return "it is there" if known else None

        return probe

    def nothing_under_replicated(self) -> Probe:
        """Of all topics but Kafka's own."""

        def probe() -> str | None:
            lacking = [
                str(status)
                for status in statuses_in(self._metadata().topics)
                if not status.topic.startswith(_INTERNAL)
                and (status.leader is None or status.is_under_replicated)
            ]
            return "; ".join(lacking) or None

        return probe

    def controller(self) -> Probe:
        return lambda: "none" if self.find_controller() is None else None

    def membership(self) -> Probe:
        """There is a controller, and every broker that has a replica runs."""

        def probe() -> str | None:
            missing = [str(each) for each, address in self.addresses().items() if address is None]
            if missing:
                return f"no broker {', '.join(missing)}"
            return "no controller" if self.find_controller() is None else None

        return probe

    def await_state(self, what: str, probe: Probe, timeout_s: float) -> None:
        """Returns once `probe` succeeds; raises `AwaitTimeout` with what it found last."""
        timeout_s = patient(require_number("timeout_s", timeout_s))
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        pause = leaf_condition("the next question")
        while (last_seen := probe()) is not None:
            now_ms = REAL_TIME.monotonic_ms()
            if now_ms > deadline_ms:
                raise AwaitTimeout(f"waited {timeout_s:g} s for {what}; last seen: {last_seen}")
            with pause:
                REAL_TIME.wait_until(pause, now_ms + _ASK_AGAIN_MS)

    # -- internals

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
