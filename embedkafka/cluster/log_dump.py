"""The lines that `embedkafka dump-log` prints, as text or as JSON.

Records of `__consumer_offsets` and `__transaction_state` are decoded.
Owner: none; the functions only read.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from embedkafka.broker.coordinator.transactions.states import STATES_BY_NUMBER
from embedkafka.broker.log.dump import Finding, Meaning, dump
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.shown_values import find_text, show_hex
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.wire.protocol.codec import decode_versioned, leading_version
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.internal import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.wire.records.record import Record

#: The types of a record's key and value, by topic and version of the key.
_INTERNAL_TOPICS: Final[Mapping[str, Mapping[int, tuple[type[object], type[object]]]]] = {
    GROUP_METADATA_TOPIC: {
        0: (OffsetCommitKey, OffsetCommitValue),
        1: (OffsetCommitKey, OffsetCommitValue),
        2: (GroupMetadataKey, GroupMetadataValue),
        3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    },
    TRANSACTION_STATE_TOPIC: {0: (TransactionLogKey, TransactionLogValue)},
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def dump_log(path: Path) -> Iterator[Finding]:
    """Everything in a log file, or in the directory of a log, a broker or a whole cluster."""
    return dump(SystemFiles(), path, explain)


def as_json(finding: Finding) -> str:
    """One JSON object; bytes become text if they are printable, or else `{"base64": ...}`."""
    return json.dumps({"kind": finding.kind, **_plain_mapping(finding.fields)})


def as_text(finding: Finding) -> str:
    """One line, indented by depth."""
    fields = finding.fields
    match finding.kind:
        case "log_dir":
            return "{path}: broker {broker_id} of cluster {cluster_id}".format_map(fields)
        case "partition":
            topic_id = f", topic id {fields['topic_id']}" if fields["topic_id"] else ""
            return "{topic}-{partition} in {path}".format_map(fields) + topic_id
        case "file":
            return "  {name}: {size} bytes".format_map(fields)
        case "entry":
            return "    " + ", ".join(f"{name} {value}" for name, value in fields.items())
        case "batch":
            return "    " + _batch_text(**fields)
        case "record":
            return "      " + _record_text(**fields)
        case _:
            return "! {path}: {reason}".format_map(fields)


def explain(topic: str, record: Record) -> Meaning | None:
    """A record of an internal topic, decoded; None for other topics and unknown records."""
    kinds = _INTERNAL_TOPICS.get(topic)
    if kinds is None or record.key is None:
        return None
    try:
        kind = kinds.get(leading_version(record.key))
        return None if kind is None else _meaning(*kind, record)
    except ProtocolError:
        return None


def _meaning(key_type: type[object], value_type: type[object], record: Record) -> Meaning:
    assert record.key is not None
    value = None if record.value is None else decode_versioned(value_type, record.value)
    plain = _plain(value)
    if isinstance(value, TransactionLogValue) and isinstance(plain, dict):
        state = STATES_BY_NUMBER.get(value.transaction_status)
        plain["transaction_status"] = value.transaction_status if state is None else state.name
    return {
        "type": key_type.__name__.removesuffix("Key"),
        "key": _plain(decode_versioned(key_type, record.key)),
        "value": plain,
    }


def _plain(value: object) -> object:
    """The value in terms that JSON has."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes | memoryview):
        return _plain_bytes(bytes(value))
    if isinstance(value, UUID):
        return str(value) if value != ZERO_UUID else None
    if isinstance(value, Mapping):
        return _plain_mapping(value)
    if isinstance(value, Sequence):
        return [_plain(element) for element in value]
    fields = schema_of(type(value)).fields
    return {field.name: _plain(getattr(value, field.name)) for field in fields}


def _plain_mapping(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in fields.items()}


def _plain_bytes(value: bytes) -> object:
    text = find_text(value)
    return {"base64": base64.b64encode(value).decode()} if text is None else text


def _batch_text(
    *,
    leader_epoch: int,
    max_timestamp: int,
    delete_horizon: int | None,
    **fields: Any,  # Any: the rest is shown as it is
) -> str:
    parts = [
        "batch {base_offset} to {last_offset}, {size} bytes at {position}, magic {magic}",
        "{compression}" if fields["compression"] != "none" else "",
        f"epoch {leader_epoch}" if leader_epoch >= 0 else "",
        _time_text(max_timestamp),
        "{timestamp_type}" if fields["timestamp_type"] != "create_time" else "",
        "producer {producer_id}/{producer_epoch} from {base_sequence}"
        if fields["producer_id"] >= 0
        else "",
        "transactional" if fields["is_transactional"] else "",
        "control" if fields["is_control"] else "",
        "" if delete_horizon is None else f"gone by {_time_text(delete_horizon)}",
        "" if fields["is_valid"] else "INVALID",
    ]
    return ", ".join(part for part in parts if part).format_map(fields)


def _record_text(
    *,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    meaning: Meaning | None,
) -> str:
    head = f"{offset}  {_time_text(timestamp)}"
    if meaning is not None:
        return f"{head}  {_meaning_text(meaning)}"
    parts = [head, f"key={_bytes_text(key)}", f"value={_bytes_text(value)}"]
    parts += [f"{name}: {_bytes_text(content)}" for name, content in headers]
    return "  ".join(parts)


def _meaning_text(meaning: Meaning) -> str:
    if "key" not in meaning:
        return _fields_text(meaning)
    key, value = meaning["key"], meaning["value"]
    shown = "deleted" if value is None else _fields_text(value)
    return f"{meaning['type']} {_fields_text(key)}: {shown}"


def _fields_text(value: object) -> str:
    """`name value, name value`, without fields that are not set."""
    if isinstance(value, Mapping):
        named = ((name, field) for name, field in value.items() if field not in (None, "", -1))
        return ", ".join(f"{name} {_fields_text(field)}" for name, field in named)
    if isinstance(value, list):
        return "[" + "; ".join(_fields_text(element) for element in value) + "]"
    return str(value)


def _bytes_text(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = find_text(value)
    if text is None:
        return show_hex(value, None)
    return text if text.isprintable() and text else repr(text)


def _time_text(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "no time"
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
