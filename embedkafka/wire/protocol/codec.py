"""Encodes and decodes messages in any version.

    encode(HeartbeatRequest(...), 4) -> bytes
    decode(HeartbeatRequest, 4, buffer) -> HeartbeatRequest

The first use of a class in a version compiles its encoder or decoder from the declaration and keeps
it.  Two threads may compile the same one twice; either result is right.

`encode_versioned` and `decode_versioned` are for messages inside records, whose version no header
gives.

Not here: frame lengths (`net`), headers (`headers`), and record batches (`records`).
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeVar

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.protocol.decoder import decoder_source
from embedkafka.wire.protocol.encoder import encoder_source
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.wire_types import Part

__all__ = [
    "ProtocolError",
    "decode",
    "decode_versioned",
    "encode",
    "encode_parts",
    "encode_versioned",
    "leading_version",
]

M = TypeVar("M")


_VERSION: Final = Struct(">h")
_ENCODE_FAILURES: Final = (StructError, TypeError, AttributeError, UnicodeEncodeError)


def encode(message: object, version: int) -> bytes:
    """The message as one byte string; refuses records that are not in memory."""
    try:
        parts = _encoders[type(message), version](message)
        return b"".join(parts)  # type: ignore[arg-type]  # a part not in memory is a TypeError
    except _ENCODE_FAILURES as failure:
        raise _not_encodable(message, version, failure) from failure


def encode_parts(message: object, version: int) -> list[Part]:
    """The message as pieces to send in turn; records are passed on, not copied.

    A records value may be any object with an int `size`; the list then holds the object itself.
    """
    try:
        return _encoders[type(message), version](message)
    except _ENCODE_FAILURES as failure:
        raise _not_encodable(message, version, failure) from failure


def decode(
    cls: type[M],
    version: int,
    buffer: BytesLike,
    *,
    surplus_allowed: bool = False,
) -> M:
    """The message in `buffer`; raises `ProtocolError` unless `buffer` holds exactly that.

    Records are views of `buffer`; everything else is copied. A broker allows surplus bytes at the
    end of a request, as Kafka does: librdkafka 2.16 sends some after a Metadata request.
    """
    message: M = _decoders[cls, version](buffer, surplus_allowed)
    return message


def encode_versioned(message: object, version: int) -> bytes:
    """The version as an int16, then the message: the form of messages in internal topics."""
    return _VERSION.pack(version) + encode(message, version)


def decode_versioned(cls: type[M], buffer: BytesLike) -> M:
    """The message after its version; raises `ProtocolError` for an unknown version."""
    return decode(cls, leading_version(buffer), memoryview(buffer)[_VERSION.size :])


def leading_version(buffer: BytesLike) -> int:
    """The int16 before a versioned message; in keys it is the kind of record."""
    try:
        version: int = _VERSION.unpack_from(buffer)[0]
    except StructError:
        raise ProtocolError(f"no version in {len(buffer)} bytes") from None
    return version


class _Encoders(dict[tuple[type[Any], int], Callable[[object], list[Part]]]):
    """Encoders by class and version; compiles a missing one."""

    def __missing__(self, key: tuple[type[Any], int]) -> Callable[[object], list[Part]]:
        self[key] = encoder = _compile("encode", *key)
        return encoder


class _Decoders(dict[tuple[type[Any], int], Callable[[BytesLike, bool], Any]]):
    """Decoders by class and version; compiles a missing one."""

    def __missing__(self, key: tuple[type[Any], int]) -> Callable[[BytesLike, bool], Any]:
        self[key] = decoder = _compile("decode", *key)
        return decoder


_encoders: Final = _Encoders()
_decoders: Final = _Decoders()


def _compile(what: str, cls: type[Any], version: int) -> Callable[..., Any]:
    schema = schema_of(cls)
    first, last = schema.versions
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__qualname__} has versions {first} to {last}, not {version}")
    write = encoder_source if what == "encode" else decoder_source
    function: Callable[..., Any] = write(schema, version).compile(
        what, f"{what} {cls.__qualname__} v{version}"
    )
    return function


def _not_encodable(message: object, version: int, failure: Exception) -> ProtocolError:
    name = type(message).__qualname__
    return ProtocolError(f"{name} v{version} cannot be encoded: {failure}")
