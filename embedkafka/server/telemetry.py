"""Which metrics clients should send, and whether they may send them now (KIP-714).

Owner: `ClientTelemetry._lock` (leaf) guards the known clients.
Invariants: a client is known as long as its connection; at most `_MOST_CLIENTS` are.
Not here: what to do with metrics. As in Kafka without a plug-in that receives them, they are
inflated and dropped, and ApiVersions does not offer the requests.
"""

import random
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.telemetry import PushTelemetryRequest
from embedkafka.records.checksum import crc32c
from embedkafka.records.compression import Compression, decompress_pieces
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

_MOST_CLIENTS: Final = 16_384
_LONGEST_INTERVAL_MS: Final = 300_000
_ALL_METRICS: Final = "*"
_RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))
_COMPRESSION_TYPES: Final = frozenset(Compression)

ACCEPTED_COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip and snappy, in Kafka's order of preference."""


class Subscriber:
    """What a client should send, and when it last asked or sent."""

    __slots__ = (
        "interval_ms",
        "last_get_ms",
        "last_push_ms",
        "metrics",
        "subscription_id",
        "terminating",
    )

    def __init__(self, instance_id: UUID, metrics: Sequence[str], interval_ms: int) -> None:
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.subscription_id = _subscription_id(instance_id, metrics, interval_ms)
        self.last_get_ms = self.last_push_ms = float("-inf")
        self.terminating = False


class ClientTelemetry:
    """The clients of one broker that have asked for subscriptions."""

    def __init__(self, clock: Clock, rng: random.Random, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._clock = clock
        self._rng = rng
        self._lock = ranked_lock("telemetry", LEAF_RANK)
        self._clients: OrderedDict[tuple[str, UUID], Subscriber] = OrderedDict()

    def new_id(self) -> UUID:
        """An id for a client that has none."""
        return UUID(int=self._rng.getrandbits(128), version=4)

    def subscribe(
        self,
        connection_id: str,
        instance_id: UUID,
        attributes: Mapping[str, str],
        subscriptions: Sequence[Mapping[str, str]],
    ) -> Subscriber:
        """The client's subscription; raises ApiError if it asks more often than it should send."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            client = self._client(connection_id, instance_id, attributes, subscriptions)
            if now_ms - max(client.last_get_ms, client.last_push_ms) < client.interval_ms:
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            client.last_get_ms = now_ms
            return client

    def push(
        self,
        connection_id: str,
        request: PushTelemetryRequest,
        attributes: Mapping[str, str],
        subscriptions: Sequence[Mapping[str, str]],
    ) -> None:
        """Accepts metrics, or raises ApiError."""
        if request.client_instance_id in _RESERVED_IDS:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            client = self._client(
                connection_id, request.client_instance_id, attributes, subscriptions
            )
            try:
                self._check(client, request, now_ms)
            finally:
                client.terminating = request.terminating
        if request.metrics:
            self._inflate(request)

    def _inflate(self, request: PushTelemetryRequest) -> None:
        """Refuses metrics that cannot be read, or that are too large when they are inflated."""
        codec = Compression(request.compression_type)
        try:
            for _ in decompress_pieces(codec, request.metrics, limit=self.max_bytes):
                pass
        except ApiError as error:
            raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error

    def _check(self, client: Subscriber, request: PushTelemetryRequest, now_ms: float) -> None:
        if client.terminating:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        in_time = client.last_get_ms > client.last_push_ms
        if in_time or now_ms - client.last_push_ms >= client.interval_ms:
            client.last_push_ms = now_ms
        elif not request.terminating:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if request.subscription_id != client.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if request.compression_type not in _COMPRESSION_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(request.metrics) > self.max_bytes:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _client(
        self,
        connection_id: str,
        instance_id: UUID,
        attributes: Mapping[str, str],
        subscriptions: Sequence[Mapping[str, str]],
    ) -> Subscriber:
        """The client as before, unless its subscription has changed."""
        metrics, interval_ms = _subscribed(attributes, subscriptions)
        key = (connection_id, instance_id)
        client = self._clients.get(key)
        if client is None or (client.metrics, client.interval_ms) != (metrics, interval_ms):
            client = self._clients[key] = Subscriber(instance_id, metrics, interval_ms)
        self._clients.move_to_end(key)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return client


def _subscribed(
    attributes: Mapping[str, str], subscriptions: Sequence[Mapping[str, str]]
) -> tuple[list[str], int]:
    """The metrics of all subscriptions that match, and the shortest interval."""
    matching = [one for one in subscriptions if _matches(attributes, one.get("match", ""))]
    metrics = [
        name.strip()
        for subscription in matching
        for name in subscription.get("metrics", "").split(",")
        if name.strip()
    ]
    intervals = [int(one.get("interval.ms", _LONGEST_INTERVAL_MS)) for one in matching]
    unique = [_ALL_METRICS] if _ALL_METRICS in metrics else list(dict.fromkeys(metrics))
    return unique, min([*intervals, _LONGEST_INTERVAL_MS])


def _matches(attributes: Mapping[str, str], patterns: str) -> bool:
    pairs = [text.partition("=") for text in patterns.split(",") if text.strip()]
    return all(
        re.fullmatch(pattern.strip(), attributes.get(name.strip(), ""))
        for name, _, pattern in pairs
    )


def _subscription_id(instance_id: UUID, metrics: Sequence[str], interval_ms: int) -> int:
    """Changes with the subscription; computed as Kafka does, with Java's hash of the id."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    high, low = divmod(instance_id.int, 1 << 64)
    folded = high ^ low
    unsigned = checksum ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
