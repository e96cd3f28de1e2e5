"""Decoders: how the values of a topic are read by people and assertions, `decode=` of a handle.

A decoder is a function of the bytes. An Avro schema stands for one; a registry would be another.

Owner: the threads of a test change `Decoders` and read it; each operation is one of a dictionary's.
Not here: Avro itself (`avro`).
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from embedkafka.runtime.arguments import shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.shown_values import find_text, show_hex, show_value

Decode = Callable[[bytes], Any]  # Any: what it makes of them is the user's
Decoder = Decode | Mapping[str, object] | str | Path
"""What `decode=` takes: a function, or an Avro schema, its JSON text or its file."""
_REASON: Final = 100  # characters


class Decoders:
    """The decoders of a cluster's topics, by name."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Decode] = {}

    def find(self, topic: str) -> Decode | None:
        return self._by_topic.get(topic)

    def all(self) -> dict[str, Decode]:
        return self._by_topic.copy()

    def set(self, topic: str, decode: Decode | None) -> None:
        """None removes it."""
        if decode is None:
            self._by_topic.pop(topic, None)
        else:
            self._by_topic[topic] = decode

    def restore(self, earlier: Mapping[str, Decode]) -> None:
        """Puts back what `all` has returned."""
        self._by_topic = dict(earlier)


def decoders_since(earlier: Mapping[str, Decode], now: Mapping[str, Decode]) -> dict[str, Decode]:
    """Those added or replaced since."""
    return {topic: decode for topic, decode in now.items() if earlier.get(topic) is not decode}


def require_decoder(decode: object) -> Decode | None:
    """The function that `decode=` stands for, if any.

    Raises:
        ConfigError: it is neither a function nor an Avro schema.
    """
    if decode is None or callable(decode):
        return decode
    schema: object = decode
    if isinstance(decode, Path):
        try:
            schema = json.loads(decode.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"cannot read the Avro schema {decode}: {reason_of(error)}"
            ) from error
    elif isinstance(decode, str):
        try:
            schema = json.loads(decode)
        except (ValueError, RecursionError):
            schema = None  # the name of something
    if isinstance(schema, str | Mapping | list):
        from embedkafka.cluster.clients.avro import AvroError, avro_decoder  # few have a schema

        try:
            return avro_decoder(schema)
        except AvroError as error:
            raise ConfigError(f"decode is not an Avro schema: {error}: {shown(decode)}") from error
    raise ConfigError(
        "decode must be a function of the value's bytes, or an Avro schema as a mapping, as JSON "
        f"text or as the Path of a file, got {shown(decode)}"
    )


def show_data(
    data: bytes | None, decode: Decode | None = None, *, longest: int | None = None
) -> str:
    """A key or value for people: decoded if possible, else as text, else in hex.

    If the decoder fails, the text says why.
    """
    if data is None:
        return "none"
    data = bytes(data)
    why = ""
    if decode is not None:
        try:
            return _cut(show_value(decode(data)), longest)
        except Exception as error:  # of the user's function, or of the repr of what it returned
            why = f", cannot be decoded: {reason_of(error)}"
    text = find_text(data)
    if text is not None:
        return repr(_cut(text, longest)) + why
    return (show_hex(data) if longest is None else show_hex(data, longest)) + why


def shown_as(texts: Mapping[bytes, str]) -> Decode:
    """A decoder for values that another process has decoded, and shown like this."""

    def decode(data: bytes) -> object:
        return _Shown(texts[data] if data in texts else show_data(data))

    return decode


class _Shown:
    """A decoded value of which only its text is known."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def reason_of(error: Exception) -> str:
    """An error in a few words."""
    first = f"{type(error).__name__}: {error}".removesuffix(": ").split("\n")[0]
    return _cut(first, _REASON)


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[:longest]}..."
