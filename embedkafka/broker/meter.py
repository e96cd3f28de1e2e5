"""Counts a broker's requests, and the records and bytes that they carry, once it is switched on.

Owner: `_lock` (leaf) guards the totals; any thread may answer a request.
Invariants: a broker without a meter pays one comparison per request and per answer.
Not here: what can be read off the broker's parts at any time (`cluster.reports.metrics`).
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final
from uuid import UUID

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import FetchRequest, ProduceRequest
from embedkafka.wire.protocol.wire_types import Array, Part, Struct

_MAGIC_POSITION: Final = 16
_LENGTH: Final = struct.Struct(">8xi")
_RECORD_COUNT: Final = struct.Struct(">57xi")
_LENGTH_END: Final = 12


class ApiTotals:
    """All requests of one API so far; times are sums in milliseconds."""

    __slots__ = (
        "errors",
        "local_ms",
        "queue_ms",
        "remote_ms",
        "request_bytes",
        "requests",
        "response_queue_ms",
        "send_ms",
        "throttle_ms",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.queue_ms = self.local_ms = self.remote_ms = 0.0
        self.throttle_ms = self.response_queue_ms = self.send_ms = 0.0
        self.errors: Counter[str] = Counter()

    @property
    def total_ms(self) -> float:
        """From the arrival of requests until the kernel has their answers."""
        waits_ms = self.queue_ms + self.remote_ms + self.response_queue_ms
        return waits_ms + self.local_ms + self.send_ms


class TopicTotals:
    """What clients have written to and read from one topic of this broker so far."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0
        self.produces = self.failed_produces = self.fetches = self.failed_fetches = 0


class Meter:
    """The totals of one broker since this was made. `ignored` are client ids not to count."""

    def __init__(self, clock: Clock, *, ignored: Collection[str] = ()) -> None:
        self._clock = clock
        self._ignored = frozenset(ignored)
        self._lock = ranked_lock("meter", LEAF_RANK)
        self._apis: dict[ApiKey, ApiTotals] = {}
        self._topics: dict[str, TopicTotals] = {}

    def apis(self) -> dict[ApiKey, ApiTotals]:
        with self._lock:
            return dict(self._apis)

    def topics(self) -> dict[str, TopicTotals]:
        with self._lock:
            return dict(self._topics)

    def begin(
        self,
        api_key: ApiKey,
        client_id: str,
        message: object,
        request: Request,
        topic_names: Mapping[UUID, str],
    ) -> "Metered | None":
        """Starts to watch a request, just before its handler runs."""
        if client_id in self._ignored:
            return None
        return Metered(self, self._clock, api_key, message, request, topic_names)

    def end(self, metered: "Metered", response: object | None) -> None:
        """Adds an answered request; without a response, one that needs none."""
        errors = _errors_in(response) if response is not None else (ErrorCode.NONE,)
        with self._lock:
            totals = self._apis.setdefault(metered.api_key, ApiTotals())
            totals.requests += 1
            totals.request_bytes += metered.size
            totals.queue_ms += metered.queue_ms
            totals.local_ms += metered.local_ms
            totals.remote_ms += metered.remote_ms
            totals.throttle_ms += metered.throttle_ms
            totals.errors.update(ErrorCode(error).name for error in errors)
            if isinstance(metered.message, ProduceRequest):
                self._add_produced(metered.message, response, metered.topic_names)
            elif isinstance(metered.message, FetchRequest) and response is not None:
                self._add_fetched(response, metered.topic_names)

    def add_sending(self, api_key: ApiKey, *, queued_ms: float, send_ms: float) -> None:
        """Adds what it took to send an answer that was counted before."""
        with self._lock:
            totals = self._apis[api_key]
            totals.response_queue_ms += queued_ms
            totals.send_ms += send_ms

    def _add_produced(
        self,
        request: ProduceRequest,
        response: Any,  # Any: a ProduceResponse or None
        topic_names: Mapping[UUID, str],
    ) -> None:
        failed = {
            (topic.name or topic.topic_id, partition.index)
            for topic in (response.responses if response is not None else ())
            for partition in topic.partition_responses
            if partition.error_code
        }
        for topic in request.topic_data:
            totals = self._find_topic(topic.name or topic_names.get(topic.topic_id))
            if totals is None:
                continue
            for partition in topic.partition_data:
                totals.produces += 1
                if (topic.name or topic.topic_id, partition.index) in failed:
                    totals.failed_produces += 1
                elif partition.records is not None:
                    totals.bytes_in += partition.records.nbytes
                    totals.messages_in += _count_records(partition.records)

    def _add_fetched(self, response: Any, topic_names: Mapping[UUID, str]) -> None:  # Any: as above
        for topic in response.responses:
            totals = self._find_topic(topic.topic or topic_names.get(topic.topic_id))
            if totals is None:
                continue
            for partition in topic.partitions:
                totals.fetches += 1
                totals.failed_fetches += bool(partition.error_code)
                totals.bytes_out += _size(partition.records)

    def _find_topic(self, name: str | None) -> TopicTotals | None:
        return self._topics.setdefault(name, TopicTotals()) if name else None


class Metered:
    """One request on its way: how long it waited, and how long its handler took.

    Local time ends with the answer or when the handler returns, whichever is first. Remote time is
    the rest: for other replicas, for records, for a coordinator.
    """

    __slots__ = (
        "_answered_ms",
        "_began_ms",
        "_clock",
        "_handed_over_ms",
        "_meter",
        "_returned_ms",
        "_taken_ms",
        "api_key",
        "local_ms",
        "message",
        "queue_ms",
        "remote_ms",
        "size",
        "throttle_ms",
        "topic_names",
    )

    def __init__(
        self,
        meter: Meter,
        clock: Clock,
        api_key: ApiKey,
        message: object,
        request: Request,
        topic_names: Mapping[UUID, str],
    ) -> None:
        self._meter = meter
        self._clock = clock
        self._began_ms = self._answered_ms = clock.monotonic_ms()
        self._returned_ms: float | None = None
        self.api_key = api_key
        self.message = message
        self.topic_names = topic_names
        self.size = len(request.frame)
        self.queue_ms = max(0.0, self._began_ms - request.received_ms)
        self.local_ms = self.remote_ms = self.throttle_ms = 0.0
        self._handed_over_ms = self._taken_ms = self._began_ms

    def returned(self) -> None:
        """The handler has returned; the answer comes later, or has come from another thread."""
        self._returned_ms = self._clock.monotonic_ms()

    def answered(self, response: object | None) -> None:
        """The answer is ready; None if the protocol has none."""
        self._answered_ms = self._clock.monotonic_ms()
        local_end_ms = self._answered_ms if self._returned_ms is None else self._returned_ms
        self.local_ms = local_end_ms - self._began_ms
        self.remote_ms = max(0.0, self._answered_ms - local_end_ms)
        self._meter.end(self, response)

    def handed_over(self) -> None:
        """The answer is in bytes, and goes to the thread that sends it."""
        self._handed_over_ms = self._clock.monotonic_ms()

    def taken(self) -> None:
        """That thread has the answer."""
        self._taken_ms = self._clock.monotonic_ms()

    def sent(self) -> None:
        """The kernel has all of the answer."""
        encoded_ms = self._handed_over_ms - self._answered_ms
        self._meter.add_sending(
            self.api_key,
            queued_ms=self._taken_ms - self._handed_over_ms,
            send_ms=encoded_ms + self._clock.monotonic_ms() - self._taken_ms,
        )


def _size(records: Part | None) -> int:
    if records is None:
        return 0
    return memoryview(records).nbytes if isinstance(records, BytesLike) else records.size


def _count_records(records: memoryview) -> int:
    """The records of a batch; of an old message set, its entries."""
    if records.nbytes > _MAGIC_POSITION and records[_MAGIC_POSITION] >= 2:
        (count,) = _RECORD_COUNT.unpack_from(records)
        return int(count)
    count = position = 0
    while position + _LENGTH_END <= records.nbytes:
        (length,) = _LENGTH.unpack_from(records, position)
        position += _LENGTH_END + length
        count += 1
    return count


def _errors_in(response: object) -> Sequence[int]:
    """The error codes anywhere in a response, as Kafka counts them."""
    return list(_walk(response, type(response)))


def _walk(value: object, cls: type[Any]) -> Iterator[int]:
    for name, is_array, inner in _places(cls):  # type: ignore[arg-type]  # classes are hashable
        found = getattr(value, name)
        if inner is None:
            yield found
        elif is_array:
            for item in found or ():
                yield from _walk(item, inner)
        elif found is not None:
            yield from _walk(found, inner)


@cache
def _places(cls: type[Any]) -> Sequence[tuple[str, bool, type[Any] | None]]:
    """The fields of a message that are or contain error codes."""
    places: list[tuple[str, bool, type[Any] | None]] = []
    for field in schema_of(cls).fields:
        if field.name == "error_code":
            places.append((field.name, False, None))
            continue
        element = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(element, Struct) and _places(element.cls):  # type: ignore[arg-type]  # as above
            places.append((field.name, isinstance(field.type, Array), element.cls))
    return places
