"""Records for the page: decoded keys, values and headers.

Text stays text, JSON is recognised, topics with a decoder have theirs, and the rest is shown in
hex.
Owner: none.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from embedkafka.cluster.clients.decoding import Decode, reason_of
from embedkafka.runtime.shown_values import find_text, show_hex, show_value

_LONGEST: Final = 4_096
"""Characters of a key or value that the page shows."""


def shown_record(
    *,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    decode: Decode | None = None,
) -> dict[str, Any]:
    """A record as JSON. Any: JSON."""
    return {
        "partition": partition,
        "offset": offset,
        "time": timestamp_ms,
        "key": decoded(key)["text"],
        "value": decoded(value, decode),
        "headers": [[name, decoded(held)["text"]] for name, held in headers],
    }


def decoded(data: bytes | None, decode: Decode | None = None) -> dict[str, Any]:
    """Text and format of a key or value: "decoded", "json", "text", "hex" or "none". Any: JSON."""
    if data is None:
        return {"text": None, "format": "none"}
    data = bytes(data)
    why = ""
    if decode is not None:
        try:
            value = decode(data)
            return _cut(value if isinstance(value, str) else show_value(value), "decoded")
        except Exception as error:  # of a user's function, or another kind of value in the topic
            why = f", cannot be decoded: {reason_of(error)}"
    text = find_text(data)
    if text is None:
        return _cut(show_hex(data, _LONGEST) + why, "hex")
    kind = "json" if text[:1] in ("{", "[") and _is_json(text) else "text"
    return _cut(text + why, kind)


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
