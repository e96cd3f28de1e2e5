"""Subscriptions to clients' metrics (KIP-714): their settings.

As in Kafka without a plug-in that receives metrics, the broker does not offer the requests with
which clients send them.
"""

import re
from collections.abc import Mapping
from typing import Final

from embedkafka.broker.settings.definition import ConfigKey, by_name, int_key, list_key
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

CLIENT_METRICS: Final = "client-metrics"
"""The kind of entity in the store."""

# fmt: off
CLIENT_METRICS_KEYS: Final[Mapping[str, ConfigKey]] = by_name((
    int_key("interval.ms", 300_000, doc="How often a subscribed client would send its metrics."),
    list_key("match", (),
        doc="The clients that the subscription is for, as attribute=pattern pairs."),
    list_key("metrics", (), doc="The prefixes of the names of the metrics that it asks for."),
))
# fmt: on

_SHORTEST_MS, _LONGEST_MS = 100, 3_600_000
_ATTRIBUTES: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_client_metrics(settings: Mapping[str, str]) -> None:
    """Refuses what no subscription can have, in Kafka's words."""
    for name, text in settings.items():
        if name not in CLIENT_METRICS_KEYS:
            message = f"Unknown client metrics configuration: {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        value = CLIENT_METRICS_KEYS[name].parse(text)
        if isinstance(value, int) and not _SHORTEST_MS <= value <= _LONGEST_MS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {name}, interval must be between {_SHORTEST_MS} and "
                f"{_LONGEST_MS} (1 hour)",
            )
        if name == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(text: str) -> None:
    attribute, is_pair, pattern = text.partition("=")
    try:
        re.compile(pattern)
    except re.error:
        is_pair = ""
    if not is_pair or attribute.strip() not in _ATTRIBUTES:
        message = f"Illegal client matching pattern: {text}"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)
