"""Records for the page: decoded keys, values and headers.

Text stays text, JSON is recognised, Avro is decoded with a schema (`avro`), and the rest is shown
in hex.
Owner: none.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.reports.report import fetch_last
from embedkafka.page.avro import AvroError, decode_avro
from embedkafka.protocol.errors import ApiError
from embedkafka.replica.partition.values import PartitionView

_TIMEOUT_MS: Final = 2_000
_LONGEST: Final = 4_096
"""Characters of a key or value that the page shows."""


def last_records(
    brokers: Brokers, views: Sequence[PartitionView], count: int
) -> list[dict[str, Any]]:
    """The last records of partitions, in the order of their time. Any: JSON."""
    reachable = {one.id: one.require_broker() for one in brokers.all() if one.is_reachable}
    found: list[dict[str, Any]] = []
    for view in views:
        if view.leader not in reachable or view.log_end_offset <= view.log_start_offset:
            continue
        client = reachable[view.leader].make_client(
            "embedkafka-report", request_timeout_ms=_TIMEOUT_MS
        )
        try:
            for record in fetch_last(client, view, count):
                found.append(
                    shown_record(
                        partition=view.topic_partition.partition,
                        offset=record.offset,
                        timestamp_ms=record.timestamp,
                        key=record.key,
                        value=record.value,
                        headers=record.headers,
                    )
                )
        except (OSError, ApiError):
            continue  # its partition has no records then
        finally:
            client.close()
    return sorted(found, key=lambda record: (record["time"], record["offset"]))


def shown_record(
    *,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    schema: object = None,
) -> dict[str, Any]:
    """A record as JSON. Any: JSON."""
    return {
        "partition": partition,
        "offset": offset,
        "time": timestamp_ms,
        "key": decoded(key)["text"],
        "value": decoded(value, schema),
        "headers": [[name, decoded(held)["text"]] for name, held in headers],
    }


def decoded(data: bytes | None, schema: object = None) -> dict[str, Any]:
    """Text and format of a key or value: "json", "avro", "text", "hex" or "none". Any: JSON."""
    if data is None:
        return {"text": None, "format": "none"}
    data = bytes(data)
    if schema is not None:
        try:
            return _cut(json.dumps(decode_avro(schema, data), default=repr), "avro")
        except (AvroError, TypeError, ValueError):
            pass  # another kind of value in the same topic
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _cut(data.hex(" "), "hex")
    if text[:1] in ("{", "[") and _is_json(text):
        return _cut(text, "json")
    return _cut(text, "text" if text.isprintable() or "\n" in text else "hex")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _cut(text: str, kind: str) -> dict[str, Any]:
    if len(text) <= _LONGEST:
        return {"text": text, "format": kind}
    return {"text": f"{text[:_LONGEST]}… ({len(text)} characters)", "format": "text"}
