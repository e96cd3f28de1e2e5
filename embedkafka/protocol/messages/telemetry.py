"""Messages with which clients send their metrics (KIP-714)."""

from collections.abc import Sequence
from uuid import UUID

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.message import message
from embedkafka.protocol.wire_types import ZERO_UUID, Int8, Int16, Int32


@message(api=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest:
    """A client, which has an id or wants one, asks which metrics to send."""

    client_instance_id: UUID


@message(api=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsResponse:
    """What to send, how often, and under which id."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: UUID = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Sequence[Int8] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: Sequence[str] = ()


@message(api=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible=0)
class PushTelemetryRequest:
    """Metrics of a client."""

    client_instance_id: UUID
    subscription_id: Int32
    terminating: bool
    compression_type: Int8
    metrics: bytes


@message(api=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible=0)
class PushTelemetryResponse:
    """Whether the metrics were accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
