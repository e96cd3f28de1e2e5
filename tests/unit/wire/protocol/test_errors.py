"""Error codes and the exceptions that carry them."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from embedkafka.wire.protocol.errors import ApiError, ErrorCode


def test_a_message_that_repeats_a_long_name_fits_a_response() -> None:
    error = ApiError(ErrorCode.INVALID_REQUEST, "ü" * 40_000)
    assert len(error.message.encode()) < 2**15


def test_codes_are_without_gaps() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


@pytest.mark.parametrize("theirs", list(KioErrorCode), ids=lambda code: code.name)
def test_codes_are_those_of_kio(theirs: KioErrorCode) -> None:
    ours = ErrorCode[theirs.name.upper()]
    assert (int(ours), ours.retriable) == (int(theirs), theirs.retriable)


def test_codes_can_be_made_from_the_wire() -> None:
    code = ErrorCode(6)
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code.retriable
    assert int(code) == 6


def test_every_error_has_a_message() -> None:
    assert all(code.message for code in ErrorCode if code != ErrorCode.NONE)


def test_an_api_error_says_more_than_its_code() -> None:
    plain = ApiError(ErrorCode.REQUEST_TIMED_OUT)
    assert plain.code is ErrorCode.REQUEST_TIMED_OUT
    assert str(plain) == "REQUEST_TIMED_OUT: the request did not complete in time"
    assert str(ApiError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
