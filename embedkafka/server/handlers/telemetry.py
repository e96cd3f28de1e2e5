"""Clients' metrics (KIP-714): who should send which, and their arrival."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from embedkafka.protocol.wire_types import ZERO_UUID
from embedkafka.runtime.ids import format_uuid
from embedkafka.server.api_table import Api
from embedkafka.server.config.client_metrics import CLIENT_METRICS
from embedkafka.server.telemetry import ACCEPTED_COMPRESSION_TYPES
from embedkafka.zk.payloads import sanitize

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext


def get_telemetry_subscriptions(
    broker: "Broker", request: GetTelemetrySubscriptionsRequest, context: "RequestContext"
) -> GetTelemetrySubscriptionsResponse:
    """The metrics that a client should send; not offered to clients, as in a stock broker.

    Behaviour: asking again before the interval is over answers THROTTLING_QUOTA_EXCEEDED.
    """
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = broker.telemetry.new_id()
    client = broker.telemetry.subscribe(
        context.connection_id,
        instance_id,
        _attributes(context, instance_id),
        _subscriptions(broker),
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=ACCEPTED_COMPRESSION_TYPES,
        push_interval_ms=client.interval_ms,
        telemetry_max_bytes=broker.telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=client.metrics,
    )


def push_telemetry(
    broker: "Broker", request: PushTelemetryRequest, context: "RequestContext"
) -> PushTelemetryResponse:
    """Accepts metrics of a client and drops them, as a stock broker does."""
    broker.telemetry.push(
        context.connection_id,
        request,
        _attributes(context, request.client_instance_id),
        _subscriptions(broker),
    )
    return PushTelemetryResponse()


def _subscriptions(broker: "Broker") -> Sequence[Mapping[str, str]]:
    names = broker.config.configured_client_metrics()
    return [broker.config.overrides(CLIENT_METRICS, sanitize(name)) for name in names]


def _attributes(context: "RequestContext", instance_id: UUID) -> Mapping[str, str]:
    return {
        "client_id": context.client_id,
        "client_instance_id": format_uuid(instance_id),
        "client_software_name": context.software.name,
        "client_software_version": context.software.version,
        "client_source_address": context.client_address,
        "client_source_port": context.connection_id.rpartition("-")[0].rpartition(":")[2],
    }


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Api(get_telemetry_subscriptions),
    ApiKey.PUSH_TELEMETRY: Api(push_telemetry),
}
