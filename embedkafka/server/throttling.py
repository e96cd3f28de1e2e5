"""Slows clients down to their quotas: counts what requests cost, and mutes connections.

As in Kafka, the answer is sent at once with the time to wait in it, and the broker reads the next
request of that connection when the time is over. A fetch that would exceed its quota is answered
empty. Brokers with no quotas in the store do not load this module.

Not here: the rules (`security.quotas`).
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.protocol import codec
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import Clock
from embedkafka.security.quotas.client_quotas import ClientQuotas
from embedkafka.security.quotas.limits import QuotaType
from embedkafka.server.topics.rules import check_topic_name

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

Handler = Callable[..., Any]  # Any: each handler has its own message types

_STRICT_SINCE: Final = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""From this version on, clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

_FROM_BROKERS: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
_DEFAULT_COUNT: Final = -1
_MESSAGE: Final = "The throttling quota has been exceeded."


def throttled_loader(
    load: Callable[[ApiKey], Handler], quotas: ClientQuotas
) -> Callable[[ApiKey], Handler]:
    """A `load` whose handlers count against `quotas`."""

    @functools.cache
    def load_throttled(key: ApiKey) -> Handler:
        handler = load(key)

        def run(broker: "Broker", request: Any, context: "RequestContext") -> object:  # Any: above
            if context.is_control_plane or context.api_key in _FROM_BROKERS:
                return handler(broker, request, context)
            throttle = _Throttle(quotas, context, broker.clock)
            context.throttle = throttle
            if context.api_key is ApiKey.PRODUCE:
                throttle.used(QuotaType.PRODUCE, context.request_bytes)
            elif context.api_key is ApiKey.FETCH:
                throttle.is_consumers = _is_consumers(request, context.version)
                request = throttle.within_quota(request)
            elif context.api_key in _STRICT_SINCE:
                request = _within_mutations(broker, request, context, throttle)
            answer = handler(broker, request, context)
            throttle.worked()
            return answer

        return run

    return load_throttled


class _Throttle:
    """How long one request's client has to wait."""

    def __init__(self, quotas: ClientQuotas, context: "RequestContext", clock: Clock) -> None:
        self._quotas = quotas
        self._context = context
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._user = context.principal.name
        self._client = context.client_id
        self._wait_ms = 0.0
        self._is_counted = False
        self.is_consumers = False

    def used(self, quota: QuotaType, amount: float) -> None:
        self.wait(self._quotas.record(quota, self._user, self._client, amount))

    def wait(self, wait_ms: float) -> None:
        self._wait_ms = max(self._wait_ms, wait_ms)

    def mutate(self, partitions: int, *, strict: bool) -> bool:
        """Counts partitions; False if the client has to wait before it may change them."""
        wait_ms = self._quotas.mutate(self._user, self._client, partitions, strict=strict)
        self.wait(wait_ms)
        return not (strict and wait_ms)

    def worked(self) -> None:
        """Counts the handler's time, in percent of a thread, unless the answer has done so."""
        if not self._is_counted:
            self._is_counted = True
            spent_ms = self._clock.monotonic_ms() - self._began_ms
            self.used(QuotaType.REQUEST, spent_ms / 10)

    def within_quota(self, request: Any) -> Any:  # Any: a FetchRequest
        """A fetch that may ask for no more than its quota ever allows at once."""
        largest = self._quotas.largest_fetch(self._user, self._client)
        if largest is None or not self.is_consumers:
            return request
        return replace(request, max_bytes=int(min(request.max_bytes, max(largest, 1))))

    def __call__(self, response: Any) -> Any:  # Any: the handler's response, or None
        """The response as it is sent, with the time to wait; mutes the connection for it."""
        self.worked()
        if self.is_consumers:
            response = self._fetched(response)
        wait_ms = int(self._wait_ms)
        if not wait_ms:
            return response
        self._context.mute(wait_ms)
        if response is None or not hasattr(response, "throttle_time_ms"):
            return response
        return replace(response, throttle_time_ms=wait_ms)

    def _fetched(self, response: Any) -> Any:  # Any: a FetchResponse
        """An empty answer if the client has to wait; then its bytes do not count."""
        size = sum(map(_size, codec.encode_parts(response, self._context.version)))
        self.used(QuotaType.FETCH, size)
        if int(self._wait_ms) and response.responses:
            self._quotas.take_back(QuotaType.FETCH, self._user, self._client, size)
            return replace(response, responses=[], node_endpoints=[])
        return response


def _size(part: Any) -> int:  # Any: bytes, or a region of a file
    return len(part) if isinstance(part, BytesLike) else int(part.size)


def _is_consumers(request: Any, version: int) -> bool:  # Any: a FetchRequest
    replica = request.replica_state.replica_id if version >= 15 else request.replica_id
    return bool(replica < 0)


# --- topic changes


def _within_mutations(
    broker: "Broker",
    request: Any,  # Any: of one of three APIs, likewise the results
    context: "RequestContext",
    throttle: _Throttle,
) -> Any:
    """The request without the topics for which the client has to wait; the answer names them."""
    strict = context.version >= _STRICT_SINCE[context.api_key]
    kept: list[Any] = []
    refused: list[Any] = []
    items: Sequence[Any] = request.topics
    by_name = context.api_key is ApiKey.DELETE_TOPICS and not items
    if by_name:
        items = request.topic_names
    for item in items:
        partitions = _count(broker, context.api_key, item)
        may = not partitions or throttle.mutate(partitions, strict=strict)
        (kept if may else refused).append(item)
    if not refused:
        return request
    _add_refusals(context, [_refusal(context.api_key, item) for item in refused])
    return replace(request, **{"topic_names" if by_name else "topics": kept})


def _count(broker: "Broker", api: ApiKey, item: Any) -> int:
    """How many partitions a change creates or deletes; 0 if it fails whatever the quota is."""
    topics = broker.metadata.snapshot.topics
    if api is ApiKey.CREATE_TOPICS:
        if item.name in topics or not _is_topic_name(item.name):
            return 0
        if not item.assignments and item.num_partitions == _DEFAULT_COUNT:
            return broker.config.broker.integer("num.partitions")
        return len(item.assignments) or max(0, int(item.num_partitions))
    if api is ApiKey.CREATE_PARTITIONS:
        known = topics.get(item.name)
        return 0 if known is None else int(max(0, item.count - len(known)))
    name = item if isinstance(item, str) else item.name
    if name is None:
        name = broker.metadata.snapshot.topic_names.get(item.topic_id, "")
    return len(topics.get(name, ()))


def _is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def _add_refusals(context: "RequestContext", failed: Sequence[Any]) -> None:
    before = context.amend
    field = {
        ApiKey.CREATE_TOPICS: "topics",
        ApiKey.DELETE_TOPICS: "responses",
        ApiKey.CREATE_PARTITIONS: "results",
    }[context.api_key]

    def amend(response: Any) -> object:
        complete = replace(response, **{field: [*getattr(response, field), *failed]})
        return complete if before is None else before(complete)

    context.amend = amend


def _refusal(api: ApiKey, item: Any) -> object:
    from embedkafka.protocol.messages import topics  # loaded by the handler anyway

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if api is ApiKey.CREATE_TOPICS:
        return topics.CreateTopicsResponse.Topic(
            name=item.name, error_code=code, error_message=_MESSAGE
        )
    if api is ApiKey.CREATE_PARTITIONS:
        return topics.CreatePartitionsResponse.Topic(
            name=item.name, error_code=code, error_message=_MESSAGE
        )
    if isinstance(item, str):
        return topics.DeleteTopicsResponse.Topic(name=item, error_code=code, error_message=_MESSAGE)
    return topics.DeleteTopicsResponse.Topic(
        name=item.name, topic_id=item.topic_id, error_code=code, error_message=_MESSAGE
    )
