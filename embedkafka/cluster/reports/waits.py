"""`kafka.waiting()`: the requests that wait, what for, and until when.

Requests of data and topics wait in purgatories, which it reads in place. Members of groups wait at
the coordinator, on whose loop it looks.

Owner: none; it only reads.
Invariants: brokers keep nothing for it. What waits is found through what they hold anyway.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.broker.answered_request import find_request
from embedkafka.cluster.reports.request_lines import span
from embedkafka.cluster.request_log import OWN_CLIENTS
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.purgatory.operation import DelayedOperation
from embedkafka.runtime.purgatory.purgatory import Purgatory
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from embedkafka.runtime.values import dataclass

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker
    from embedkafka.cluster.brokers import Brokers

_LINES: Final = 20
_FETCH: Final = "Fetch"
_REBALANCE: Final = "Rebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A request that a broker has taken and not answered yet."""

    broker: int
    """The id of the broker that it waits at."""
    operation: str
    """Kafka's name of the purgatory: "Produce", "Fetch", "DeleteRecords", "topic", "ElectLeader"
    or "Rebalance"."""
    api: str | None
    """Kafka's name of the API, such as "PRODUCE"; None for what a broker writes by itself."""
    client_id: str
    """The client's id; empty if it sent none."""
    topics: tuple[str, ...]
    """The topics that it waits for, also those of `partitions`."""
    partitions: tuple[TopicPartition, ...]
    """The partitions that it waits for."""
    group: str | None
    """The group whose member waits."""
    replicas: tuple[int, ...]
    """The brokers whose replicas it waits for."""
    waits_for: str
    """What it waits for, in words."""
    left_ms: int | None
    """How long it goes on waiting at most, on the cluster's clock; None without a limit."""

    def __str__(self) -> str:
        who = f"{self.client_id or '-'}  {self.api}" if self.api else "a write of the coordinator"
        left = "" if self.left_ms is None else f", for {span(self.left_ms)} more at most"
        return f"broker {self.broker}  {who}  waits for {self.waits_for}{left}"


def find_waiting(brokers: "Brokers") -> list[WaitingRequest]:
    """Those of clients and of brokers, but for our own, by broker."""
    found = [
        waiting
        for broker in brokers.live()
        for waiting in (*_delayed(broker), *_rebalancing(broker))
    ]
    return [waiting for waiting in found if waiting.client_id not in OWN_CLIENTS]


def waiting_lines(waiting: Sequence[WaitingRequest], named: frozenset[str] | None) -> Iterator[str]:
    """A line for each, fetches last; not for topics and groups that are not among the `named`."""
    shown = [
        one
        for one in waiting
        if named is None
        or one.group in named
        or any(topic in named or topic in INTERNAL_TOPICS for topic in one.topics)
    ]
    yield from map(str, sorted(shown, key=lambda one: one.operation == _FETCH)[:_LINES])


def purgatories(broker: "Broker") -> "dict[str, Purgatory[Any]]":  # Any: operations of all kinds
    """A broker's purgatories, by Kafka's names."""
    waiters = broker.replicas.waiters
    return {
        "Produce": waiters.produce,
        _FETCH: waiters.fetch,
        "DeleteRecords": waiters.delete_records,
        "topic": broker.parts.topic_purgatory,
        "ElectLeader": broker.parts.election_purgatory,
    }


def _delayed(broker: "Broker") -> Iterator[WaitingRequest]:
    for name, purgatory in purgatories(broker).items():
        for operation in purgatory.waiting():
            yield _of_operation(broker, name, operation)


def _of_operation(broker: "Broker", name: str, operation: DelayedOperation) -> WaitingRequest:
    request = find_request(operation.find_answer())
    awaited = list(operation.awaited())
    return WaitingRequest(
        broker=broker.id,
        operation=name,
        api=None if request is None else request.api_key.name,
        client_id="" if request is None else request.client_id,
        topics=tuple(dict.fromkeys(one.topic for one in awaited)),
        partitions=tuple(
            TopicPartition(one.topic, one.partition) for one in awaited if one.partition is not None
        ),
        group=None,
        replicas=tuple(dict.fromkeys(replica for one in awaited for replica in one.brokers)),
        waits_for="; ".join(
            f"{one.topic}{'' if one.partition is None else f'-{one.partition}'}: {one.what}"
            for one in awaited
        ),
        left_ms=_left_ms(broker, operation.deadline_ms),
    )


def _rebalancing(broker: "Broker") -> Iterator[WaitingRequest]:
    for wait, deadline_ms in broker.groups.waiting():
        request = find_request(wait.reply)
        yield WaitingRequest(
            broker=broker.id,
            operation=_REBALANCE,
            api=None if request is None else request.api_key.name,
            client_id="" if request is None else request.client_id,
            topics=(),
            partitions=(),
            group=wait.timer.group_id,
            replicas=(),
            waits_for=f"group {wait.timer.group_id}: {wait.what}",
            left_ms=_left_ms(broker, deadline_ms),
        )


def _left_ms(broker: "Broker", deadline_ms: float | None) -> int | None:
    if deadline_ms is None:
        return None
    return max(0, int(deadline_ms - broker.clock.monotonic_ms()))
