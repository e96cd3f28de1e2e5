"""Our cluster and Apache Kafka, which get the same requests step by step."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.clients import Cluster
from tests.wire.differential.answers import Comparison, Difference, Ids, shown
from tests.wire.differential.steps import MARK, STRANGERS, Id, Step, resolved
from tests.wire.plain_messages import Plain, request
from tests.wire.raw_client import RawClient

CLOSED: Final = "closes the connection"
SILENT: Final = "does not answer"
#: Answers that may wait for other requests.
_BLOCKING: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
#: Requests that change nothing: they are repeated until KRaft's brokers know what was changed.
_READS: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_CONFIG_RESOURCES,
    }
)
#: A broker answers these until something that goes on beside the request is done.
_TRANSIENT: Final = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
)
#: Requests that end transactions; their markers are written after the answer.
_ENDS: Final = frozenset({ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID})
_BLOCKED_SECONDS: Final = 0.15
_ANSWER_SECONDS: Final = 8.0


class Differs(AssertionError):
    """The clusters answered differently to a step."""

    def __init__(self, step: Step, differences: list[Difference]) -> None:
        super().__init__("\n".join(f"    {each}" for each in differences))
        self.step = step
        self.differences = differences

    @property
    def what(self) -> tuple[ApiKey, frozenset[str]]:
        """What must stay when the sequence is shortened."""
        return self.step.api, frozenset(_without_indexes(d.path) for d in self.differences)


@dataclass(slots=True)
class Side:
    """One cluster during one sequence."""

    cluster: Cluster
    prefix: str
    connections: dict[int, RawClient] = field(default_factory=dict)

    def send(self, step: Step, asked: object) -> int | None:
        """Sends a request; returns its correlation id, or None if the connection is gone."""
        try:
            return self._connected(step.connection).send(asked, step.version)
        except OSError:
            return None

    def answer(self, step: Step, asked: object, sent: int | None) -> Plain:
        """The plain answer to a request, or `CLOSED` or `SILENT`, which end its connection."""
        raw = self._connected(step.connection)
        try:
            if sent is None:
                raise ConnectionError
            if not raw.is_answered(_ANSWER_SECONDS):
                raise TimeoutError
            return shown(raw.receive(asked, step.version, sent), self.prefix)
        except ConnectionError:
            self._drop(step.connection)
            return CLOSED
        except TimeoutError:
            self._drop(step.connection)
            return SILENT

    def is_answered(self, connection: int, seconds: float) -> bool:
        return self._connected(connection).is_answered(seconds)

    def close(self) -> None:
        for connection in list(self.connections):
            self._drop(connection)

    def _connected(self, connection: int) -> RawClient:
        if connection not in self.connections:
            self.connections[connection] = self.cluster.connect(
                connection % self.cluster.broker_count
            )
        return self.connections[connection]

    def _drop(self, connection: int) -> None:
        with suppress(KeyError):
            self.connections.pop(connection).close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request on its way to both clusters."""

    step: Step
    requests: tuple[object, object]
    ids: tuple[int | None, int | None]


class Conversation:
    """One sequence: sends each step to both clusters and compares what they answer.

    Its names begin with a prefix that no other sequence has.
    """

    def __init__(
        self,
        clusters: tuple[Cluster, Cluster],
        prefix: str,
        *,
        settle_s: float = 3.0,
    ) -> None:
        self.sides = (Side(clusters[0], prefix), Side(clusters[1], prefix))
        self.ids = Ids()
        self._settle_s = settle_s
        self._waiting: dict[int, Sent] = {}

    def close(self) -> None:
        for side in self.sides:
            side.close()

    def is_busy(self, connection: int) -> bool:
        """Whether a request on this connection waits for its answer."""
        return connection in self._waiting

    def take(self, step: Step) -> Iterator[tuple[Step, Plain]]:
        """Sends a step, and yields the answers that came: its own and those that waited for it."""
        if not self.is_busy(step.connection):
            sent = self._send(step)
            if _has_no_answer(step):
                yield step, None
            elif step.api not in _BLOCKING or self._either(step.connection, _BLOCKED_SECONDS):
                yield step, self._compared(sent)
            else:
                self._waiting[step.connection] = sent
        yield from self._late()

    def _late(self) -> Iterator[tuple[Step, Plain]]:
        """The answers that came in the meantime to requests that had to wait."""
        while True:
            ready = next((c for c in self._waiting if self._either(c, 0.01)), None)
            if ready is None:
                return
            sent = self._waiting.pop(ready)
            yield sent.step, self._compared(sent)

    def _either(self, connection: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not any(side.is_answered(connection, 0.005) for side in self.sides):
            if time.monotonic() > deadline:
                return False
        return True

    def _send(self, step: Step) -> Sent:
        asked = tuple(
            request(step.api, **resolved(step.fields, partial(self._real, index)))
            for index in range(2)
        )
        sent = tuple(side.send(step, each) for side, each in zip(self.sides, asked, strict=True))
        return Sent(step=step, requests=(asked[0], asked[1]), ids=(sent[0], sent[1]))

    def _real(self, side: int, value: Plain) -> Plain:
        if isinstance(value, Id):
            pair = self.ids.values.get(value)
            return STRANGERS[value.kind] if pair is None else pair[side]
        return value.replace(MARK, self.sides[side].prefix) if isinstance(value, str) else value

    def _compared(self, sent: Sent) -> Plain:
        answers = [
            side.answer(sent.step, asked, number)
            for side, asked, number in zip(self.sides, sent.requests, sent.ids, strict=True)
        ]
        deadline = time.monotonic() + self._settle_s
        while True:
            comparison = Comparison(self.ids.copy(), sent.step.number)
            merged = comparison.of(*answers)
            if not comparison.differences:
                self.ids = comparison.ids
                if sent.step.api in _ENDS:
                    self._await_markers(sent.step)
                return merged
            again = _to_repeat(sent.step, answers)
            if not again or time.monotonic() > deadline:
                raise Differs(sent.step, comparison.differences)
            time.sleep(0.02)
            for index in again:
                side, asked = self.sides[index], sent.requests[index]
                answers[index] = side.answer(sent.step, asked, side.send(sent.step, asked))

    def _await_markers(self, step: Step) -> None:
        """Waits until both coordinators have completed the transaction that a step ended."""
        named = [step.fields["transactional_id"] or ""]
        asking = replace(step, api=ApiKey.DESCRIBE_TRANSACTIONS, version=0)
        for index, side in enumerate(self.sides):
            names = resolved(named, partial(self._real, index))
            asked = request(asking.api, transactional_ids=names)
            deadline = time.monotonic() + _ANSWER_SECONDS
            while "Prepare" in repr(side.answer(asking, asked, side.send(asking, asked))):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)


def _to_repeat(step: Step, answers: list[Plain]) -> list[int]:
    """The sides to ask again, because time may make the answers equal."""
    if step.api in _READS or (step.api == ApiKey.FETCH and step.fields["session_epoch"] == -1):
        return [0, 1]
    is_transient = [any(code in repr(answer) for code in _TRANSIENT) for answer in answers]
    return [index for index in range(2) if is_transient[index] and not is_transient[1 - index]]


def _has_no_answer(step: Step) -> bool:
    return step.api == ApiKey.PRODUCE and step.fields["acks"] == 0


def _without_indexes(path: str) -> str:
    return re.sub(r"\[\d+\]", "", path)
