"""Request and response headers, byte for byte."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.headers import (
    RequestHeader,
    UnsupportedApi,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from embedkafka.wire.protocol.messages.registry import FAMILIES, request_type
from tests.unit.wire.protocol.values import versions_of

EVERY_VERSION = [
    (api, version)
    for apis in FAMILIES.values()
    for api in apis
    for version in versions_of(request_type(api))
]


@given(
    st.sampled_from(EVERY_VERSION),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=10),
)
def test_request_headers_survive(
    api_and_version: tuple[ApiKey, int], correlation_id: int, client_id: str | None
) -> None:
    api, version = api_and_version
    encoded = encode_request_header(api, version, correlation_id, client_id)
    header, body = decode_request_header(encoded + b"body")
    if request_header_version(api, version) == 0:
        client_id = None
    assert header == RequestHeader(api, version, correlation_id, client_id)
    assert bytes(body) == b"body"


@given(st.sampled_from(EVERY_VERSION), st.integers(-(2**31), 2**31 - 1))
def test_response_headers_survive(api_and_version: tuple[ApiKey, int], correlation_id: int) -> None:
    encoded = encode_response_header(*api_and_version, correlation_id)
    found, body = decode_response_header(*api_and_version, encoded + b"body")
    assert (found, bytes(body)) == (correlation_id, b"body")


@pytest.mark.parametrize("client_id", [None, "", "consumer-1"])
def test_request_headers_are_those_of_kio(client_id: str | None) -> None:
    for entity, version in ((KioHeaderV1, 8), (KioHeaderV2, 9)):
        buffer = io.BytesIO()
        theirs = entity(
            request_api_key=ApiKey.METADATA,  # type: ignore[arg-type]  # any int will do
            request_api_version=version,  # type: ignore[arg-type]
            correlation_id=77,  # type: ignore[arg-type]
            client_id=client_id,
        )
        entity_writer(entity)(buffer, theirs)
        assert encode_request_header(ApiKey.METADATA, version, 77, client_id) == buffer.getvalue()


def test_flexible_versions_have_tagged_fields_in_both_headers() -> None:
    assert encode_request_header(ApiKey.HEARTBEAT, 3, 1, "c") == b"\0\x0c\0\3\0\0\0\1\0\1c"
    assert encode_request_header(ApiKey.HEARTBEAT, 4, 1, "c") == b"\0\x0c\0\4\0\0\0\1\0\1c\0"
    assert encode_response_header(ApiKey.HEARTBEAT, 3, 1) == b"\0\0\0\1"
    assert encode_response_header(ApiKey.HEARTBEAT, 4, 1) == b"\0\0\0\1\0"


def test_api_versions_responses_never_have_tagged_fields_in_the_header() -> None:
    for version in range(5):
        assert response_header_version(ApiKey.API_VERSIONS, version) == 0
        assert encode_response_header(ApiKey.API_VERSIONS, version, 5) == b"\0\0\0\5"
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2


def test_the_answer_to_an_unknown_api_versions_version_has_a_header_too() -> None:
    assert encode_response_header(ApiKey.API_VERSIONS, 99, 5) == b"\0\0\0\5"


def test_the_oldest_controlled_shutdown_has_no_client_id() -> None:
    encoded = encode_request_header(ApiKey.CONTROLLED_SHUTDOWN, 0, 9, "ignored")
    assert encoded == b"\0\7\0\0\0\0\0\x09"
    header, body = decode_request_header(encoded + b"\0\0\0\1")
    assert header == RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 9, None)
    assert bytes(body) == b"\0\0\0\1"
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 1) == 1
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 3) == 2


def test_unknown_tagged_fields_in_headers_are_skipped() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 9, 1, "c")[:-1] + b"\1\7\2zz"
    header, body = decode_request_header(encoded + b"body")
    assert (header.client_id, bytes(body)) == ("c", b"body")
    correlation_id, body = decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\1\1\7\2zzbody")
    assert (correlation_id, bytes(body)) == (1, b"body")


@pytest.mark.parametrize(("key", "version"), [(3, 99), (3, -1), (999, 0), (52, 0), (-1, 0)])
def test_unsupported_requests_tell_what_was_asked(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    with pytest.raises(UnsupportedApi) as caught:
        decode_request_header(frame + b"\0\0\0\x2a" + b"\0\1c\0rest")
    asked = caught.value
    assert (asked.api_key, asked.api_version, asked.correlation_id) == (key, version, 42)
    assert str(asked) == (
        f"no request with API key {key} and version {version} (correlation id 42)"
    )


def test_truncated_headers_are_refused() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 9, 1, "client")
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode_request_header(encoded[:size])
    with pytest.raises(ProtocolError, match="3 bytes has no header"):
        decode_response_header(ApiKey.METADATA, 0, b"\0\0\0")
    with pytest.raises(ProtocolError, match="within its tagged fields"):
        decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\1")
    with pytest.raises(ProtocolError, match="within its tagged fields"):
        decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\1\1\7\x09z")


def test_bytes_of_client_ids_that_are_not_utf8_are_replaced() -> None:
    header, _ = decode_request_header(b"\0\3\0\0\0\0\0\1\0\1\xff")
    assert header.client_id == "\ufffd"
