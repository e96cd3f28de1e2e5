"""The header before the body of every request and response.

| header      | holds                            | used by                                    |
|-------------|----------------------------------|--------------------------------------------|
| request v0  | api key, version, correlation id | ControlledShutdown v0, nothing else        |
| request v1  | and the client id                | versions that are not flexible             |
| request v2  | and tagged fields                | flexible versions                          |
| response v0 | correlation id                   | versions not flexible, and all ApiVersions |
| response v1 | and tagged fields                | flexible versions                          |

An ApiVersions response never has tagged fields before its body, because a client must be able to
read it before it knows the broker's versions (KIP-511).
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import request_type
from embedkafka.wire.protocol.varint import skip_tagged_fields

_KEY_VERSION_ID: Final = Struct(">hhi")
_LENGTH: Final = Struct(">h")
_CORRELATION_ID: Final = Struct(">i")
_NO_TAGS: Final = b"\0"


class RequestHeader(NamedTuple):
    """The header of a request; its correlation id comes back in the response."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnsupportedApi(ProtocolError):
    """A request for an API or version without a message.

    The header is readable up to here. A broker still answers ApiVersions, and closes the connection
    for anything else.
    """

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(api_key, api_version, correlation_id)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id

    def __str__(self) -> str:
        return (
            f"no request with API key {self.api_key} and version {self.api_version}"
            f" (correlation id {self.correlation_id})"
        )


def request_header_version(api_key: int, api_version: int) -> int:
    """The header version of a request; raises `KeyError` for an unknown request."""
    return _request_header_versions[api_key, api_version]


def response_header_version(api_key: int, api_version: int) -> int:
    """The header version of a response; raises `KeyError` for an unknown response."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if _request_header_versions[api_key, api_version] == 2 else 0


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    fixed = _KEY_VERSION_ID.pack(api_key, api_version, correlation_id)
    header_version = request_header_version(api_key, api_version)
    if header_version == 0:
        return fixed
    if client_id is None:
        client = _LENGTH.pack(-1)
    else:
        name = client_id.encode()
        client = _LENGTH.pack(len(name)) + name
    return fixed + client + (_NO_TAGS if header_version == 2 else b"")


def decode_request_header(buffer: bytes | memoryview) -> tuple[RequestHeader, memoryview]:
    """The header of a request, and a view of the body."""
    view = memoryview(buffer)
    try:
        api_key, api_version, correlation_id = _KEY_VERSION_ID.unpack_from(view)
    except StructError:
        raise ProtocolError(f"a request of {len(view)} bytes has no header") from None
    try:
        header_version = _request_header_versions[api_key, api_version]
    except KeyError:
        raise UnsupportedApi(api_key, api_version, correlation_id) from None
    client_id, position = None, _KEY_VERSION_ID.size
    if header_version > 0:
        client_id, position = _decode_client_id(view, position)
    if header_version == 2:
        position = _skip_tags(view, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id), view[position:]


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    fixed = _CORRELATION_ID.pack(correlation_id)
    return fixed + _NO_TAGS if response_header_version(api_key, api_version) else fixed


def decode_response_header(
    api_key: int, api_version: int, buffer: bytes | memoryview
) -> tuple[int, memoryview]:
    """The correlation id of a response, and a view of the body."""
    view = memoryview(buffer)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
    except StructError:
        raise ProtocolError(f"a response of {len(view)} bytes has no header") from None
    position = _CORRELATION_ID.size
    if response_header_version(api_key, api_version):
        position = _skip_tags(view, position)
    return correlation_id, view[position:]


def _decode_client_id(view: memoryview, position: int) -> tuple[str | None, int]:
    try:
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        if length < 0:
            return None, position
        end = position + length
        if end > len(view):
            raise ProtocolError(f"the client id has {len(view) - position} of {length} bytes")
        return str(view[position:end], "utf-8", "replace"), end
    except StructError:
        raise ProtocolError("a request header ends before the client id") from None


def _skip_tags(view: memoryview, position: int) -> int:
    try:
        position = skip_tagged_fields(view, position)
    except IndexError:
        raise ProtocolError("a header ends within its tagged fields") from None
    if position > len(view):
        raise ProtocolError("a header ends within its tagged fields")
    return position


class _RequestHeaderVersions(dict[tuple[int, int], int]):
    """Header versions by API key and version, computed once."""

    def __missing__(self, key: tuple[int, int]) -> int:
        api_key, api_version = key
        schema = schema_of(request_type(api_key))
        first, last = schema.versions
        if not first <= api_version <= last:
            raise KeyError(key)
        if schema.is_flexible_in(api_version):
            self[key] = 2
        else:
            self[key] = 0 if key == (ApiKey.CONTROLLED_SHUTDOWN, 0) else 1
        return self[key]


_request_header_versions: Final = _RequestHeaderVersions()
