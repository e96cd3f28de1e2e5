"""Clients' metrics: a stock broker does not offer these requests, but answers them."""

import gzip
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from embedkafka.protocol.wire_types import ZERO_UUID
from tests.wire.clients import Cluster, eventually
from tests.wire.plain_messages import ask
from tests.wire.raw_client import RawClient

INSTANCE = UUID("c0ffee00-1234-4abc-8def-0123456789ab")
NO_SUBSCRIPTION_ID = -830179350
"""What Kafka computes for this instance while nothing is subscribed."""
MAX_BYTES = 1_048_576
GZIP = 1


@pytest.fixture
def instance() -> UUID:
    """A client for this test alone: a broker may notice late that an earlier one has left."""
    return uuid4()


def get(raw: RawClient, instance: UUID) -> Any:  # Any: the response
    return raw.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0)


def push(raw: RawClient, instance: UUID, *, subscription: int, **more: Any) -> ErrorCode:
    fields: Any = {"terminating": False, "compression_type": 0, "metrics": b"", **more}
    request = PushTelemetryRequest(
        client_instance_id=instance, subscription_id=subscription, **fields
    )
    return ErrorCode(raw.call(request, 0).error_code)


def subscribe(raw: RawClient, name: str, **settings: str | None) -> None:
    keys = {"interval": "interval.ms"}
    changes = [
        {"name": keys.get(key, key), "config_operation": int(value is None), "value": value}
        for key, value in settings.items()
    ]
    resource = {"resource_type": 16, "resource_name": name, "configs": changes}
    answer = ask(raw, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)
    assert answer["responses"][0]["error_code"] == "NONE"


def test_the_requests_are_not_offered(raw: RawClient) -> None:
    assert not raw.supported_versions(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
    assert not raw.supported_versions(ApiKey.PUSH_TELEMETRY)


def test_a_client_without_subscriptions_sends_nothing_every_five_minutes(raw: RawClient) -> None:
    answer = get(raw, INSTANCE)
    assert answer.error_code == ErrorCode.NONE
    assert answer.client_instance_id == INSTANCE
    assert list(answer.accepted_compression_types) == [4, 3, 1, 2]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, MAX_BYTES)
    assert answer.delta_temporality
    assert not answer.requested_metrics
    assert answer.subscription_id == NO_SUBSCRIPTION_ID


def test_a_client_without_an_id_gets_one(raw: RawClient) -> None:
    first, second = get(raw, ZERO_UUID), get(raw, ZERO_UUID)
    assert first.error_code == second.error_code == ErrorCode.NONE
    assert len({first.client_instance_id, second.client_instance_id, ZERO_UUID}) == 3


def test_a_client_may_not_ask_or_send_again_before_the_interval_is_over(
    raw: RawClient, instance: UUID
) -> None:
    subscription = get(raw, instance).subscription_id
    again = get(raw, instance)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (again.client_instance_id, again.push_interval_ms) == (ZERO_UUID, 0)
    assert push(raw, instance, subscription=subscription) == ErrorCode.NONE
    assert push(raw, instance, subscription=subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_that_ends_sends_once_more(raw: RawClient, instance: UUID) -> None:
    subscription = get(raw, instance).subscription_id
    assert push(raw, instance, subscription=subscription) == ErrorCode.NONE
    assert push(raw, instance, subscription=subscription, terminating=True) == ErrorCode.NONE
    last = push(raw, instance, subscription=subscription, terminating=True)
    assert last == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("difference", "fields", "error"),
    [
        (1, {}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (0, {"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0, {"compression_type": GZIP, "metrics": gzip.compress(b"metrics")}, ErrorCode.NONE),
        (0, {"compression_type": GZIP, "metrics": b"\x00"}, ErrorCode.INVALID_RECORD),
        (
            0,
            {"compression_type": GZIP, "metrics": gzip.compress(bytes(2 * MAX_BYTES))},
            ErrorCode.INVALID_RECORD,
        ),
        (0, {"metrics": bytes(MAX_BYTES)}, ErrorCode.NONE),
        (0, {"metrics": bytes(MAX_BYTES + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_metrics_are_checked(
    raw: RawClient, instance: UUID, difference: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    subscription = get(raw, instance).subscription_id
    assert push(raw, instance, subscription=subscription + difference, **fields) == error


@pytest.mark.parametrize("reserved", [ZERO_UUID, UUID(int=1)])
def test_a_reserved_id_sends_nothing(raw: RawClient, reserved: UUID) -> None:
    assert push(raw, reserved, subscription=0) == ErrorCode.INVALID_REQUEST


def test_subscriptions_are_for_clients_that_match(
    cluster: Cluster, raw: RawClient, instance: UUID
) -> None:
    subscribe(raw, "mine", interval="5000", match="client_id=ra.", metrics="org.a,org.b")
    subscribe(raw, "others", interval="100", match="client_id=raw,client_source_port=1")
    try:

        def is_known() -> bool:
            with cluster.connect() as fresh:
                return bool(get(fresh, uuid4()).push_interval_ms == 5000)

        eventually(is_known, "the subscription is in force")
        answer = get(raw, instance)
        assert sorted(answer.requested_metrics) == ["org.a", "org.b"]
        assert (
            push(raw, instance, subscription=NO_SUBSCRIPTION_ID)
            == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        )
        subscribe(raw, "mine", metrics="org.a,*")
        eventually(lambda: _metrics(cluster) == ["*"], "all metrics are subscribed")
    finally:
        subscribe(raw, "mine", interval=None, match=None, metrics=None)
        subscribe(raw, "others", interval=None, match=None)
        eventually(lambda: _metrics(cluster) == [], "nothing is subscribed")


@pytest.mark.parametrize(
    ("named", "interval_ms"),
    [
        ([("librdkafka", "2.9")], 5000),
        ([("librdkafka", "3.0")], 300_000),
        ([("kafkajs", "2.9")], 300_000),
        ([("kafkajs", "2.9"), ("librdkafka", "2.9")], 5000),
        ([("librdkafka", "2.9"), ("-not a word", "2.9")], 5000),
        ([], 300_000),
    ],
)
def test_subscriptions_know_the_software_that_a_client_has_named(
    cluster: Cluster, raw: RawClient, named: list[tuple[str, str]], interval_ms: int
) -> None:
    patterns = "client_software_name=librd.*,client_software_version=2\\..*"
    subscribe(raw, "software", interval="5000", match=patterns, metrics="org.a")

    def interval(named: Sequence[tuple[str, str]]) -> int:
        with cluster.connect() as fresh:
            for name, version in named:
                ask(
                    fresh,
                    ApiKey.API_VERSIONS,
                    client_software_name=name,
                    client_software_version=version,
                )
            return int(get(fresh, uuid4()).push_interval_ms)

    try:
        eventually(lambda: interval([("librdkafka", "2.1")]) == 5000, "the subscription is known")
        assert interval(named) == interval_ms
    finally:
        subscribe(raw, "software", interval=None, match=None, metrics=None)
        eventually(lambda: interval([("librdkafka", "2.1")]) == 300_000, "it is gone")


def _metrics(cluster: Cluster) -> list[str]:
    with cluster.connect() as fresh:
        return list(get(fresh, uuid4()).requested_metrics)
