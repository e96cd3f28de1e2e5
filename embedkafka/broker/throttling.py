"""Slows clients down to their quotas: counts what requests cost, and mutes connections.

As in Kafka, the answer is sent at once with the time to wait in it, and the broker reads the next
request of that connection when the time is over. A fetch that would exceed its quota is answered
empty. Brokers with no quotas in the store do not load this module.

Not here: the rules (`security.quotas`).
"""

from typing import TYPE_CHECKING, Any, Final

from embedkafka.broker.api_table import Api, Message, PartitionChange, Quota
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import Clock
from embedkafka.security.quotas.client_quotas import ClientQuotas
from embedkafka.security.quotas.limits import QuotaType
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.entities import find_list
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.refusals import joined, refusal
from embedkafka.wire.protocol.wire_types import Entity

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_MESSAGE: Final = "The throttling quota has been exceeded."


def charge(
    quotas: ClientQuotas,
    broker: "BrokerParts",
    api: Api,
    request: Message,
    context: "RequestContext",
) -> Message:
    """Begins to count a request against `quotas`; what of it they let pass."""
    if context.is_control_plane or api.quota is Quota.NONE:
        return request
    context.throttle = throttle = ClientThrottle(quotas, context, broker.clock)
    if api.quota is Quota.PRODUCED:
        throttle.used(QuotaType.PRODUCE, context.request_bytes)
    elif api.quota is Quota.FETCHED:
        throttle.is_consumers = _is_consumers(request, context.version)
        return throttle.within_quota(request)
    elif isinstance(api.quota, PartitionChange):
        return _within_changes(broker, api.quota, request, context, throttle)
    return request


class ClientThrottle:
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


def _within_changes(
    broker: "BrokerParts",
    change: PartitionChange,
    request: Message,
    context: "RequestContext",
    throttle: ClientThrottle,
) -> Message:
    """The request without the topics for which the client has to wait; the answer names them."""
    strict = context.version >= change.strict_since
    name = find_list(request, context.version, {Entity.TOPIC_NAME, Entity.TOPIC_ID})
    assert name is not None
    kept: list[Message] = []
    refused: list[Message] = []
    for item in getattr(request, name):
        partitions = change.partitions(broker, item)
        may = not partitions or throttle.mutate(partitions, strict=strict)
        (kept if may else refused).append(item)
    if not refused:
        return request
    failed = refusal(
        replace(request, **{name: refused}),
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        context.version,
        _MESSAGE,
        in_part=True,
    )
    before = context.amend

    def amend(response: Message) -> Message:
        complete = joined(response, failed)
        return complete if before is None else before(complete)

    context.amend = amend
    return replace(request, **{name: kept})
