"""Zigzag varints, compared with their definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.varint import decode_varint, encode_varint

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_values_have_their_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@given(INT64)
def test_every_value_is_read_back(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff"])
def test_a_cut_varint_is_an_invalid_record(data: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decode_varint(data, 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_varint_of_eleven_bytes_is_an_invalid_record() -> None:
    with pytest.raises(ApiError) as caught:
        decode_varint(b"\x80" * 10 + b"\x01", 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD
