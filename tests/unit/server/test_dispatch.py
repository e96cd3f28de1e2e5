"""How a request's failure is told, whichever thread it happens on."""

from types import SimpleNamespace

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.headers import RequestHeader
from embedkafka.protocol.messages.groups import HeartbeatResponse
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.server.dispatch import RequestContext, _find_error_response
from embedkafka.zk.store import ConnectionLoss


class Request:
    """Notes how it was answered."""

    connection_id = "client"

    def __init__(self):
        self.replies = []
        self.closed_for = []

    def reply(self, parts):
        self.replies.append(parts)

    def close_connection(self, reason):
        self.closed_for.append(reason)


@pytest.fixture
def failures():
    failures = Failures()
    yield failures
    failures.check()


@pytest.fixture
def request_():
    return Request()


@pytest.fixture
def context(request_, failures):
    return RequestContext(request_, RequestHeader(ApiKey.HEARTBEAT, 4, 1, None), failures)


def raising(error):
    def answer():
        raise error

    return answer


def test_an_error_that_a_handler_lets_through_is_answered_where_there_is_a_place_for_it():
    error = ApiError(ErrorCode.INVALID_REQUEST)
    heartbeat = SimpleNamespace(api_key=ApiKey.HEARTBEAT)
    assert _find_error_response(heartbeat, error) == HeartbeatResponse(error_code=42)
    assert _find_error_response(SimpleNamespace(api_key=ApiKey.FETCH), error) is None


def test_a_late_answer_that_fails_costs_its_own_client_only(context, request_, failures):
    context.answering(raising(ValueError("a bug")))()
    assert (request_.replies, len(request_.closed_for)) == ([], 1)
    with pytest.raises(BackgroundFailure, match=r"HEARTBEAT v4 of client(?s:.*)a bug"):
        failures.check()


def test_a_response_that_cannot_be_encoded_costs_its_own_client_only(context, request_, failures):
    context.reply(HeartbeatResponse(error_code="none"))
    assert (request_.replies, len(request_.closed_for)) == ([], 1)
    with pytest.raises(BackgroundFailure, match="HEARTBEAT v4 of client"):
        failures.check()


def test_a_late_answer_may_fail_as_the_protocol_foresees(context, request_):
    context.answering(raising(ApiError(ErrorCode.NOT_COORDINATOR)))()
    assert (len(request_.replies), request_.closed_for) == (1, [])


def test_a_late_answer_that_needs_a_lost_zookeeper_is_no_bug(context, request_):
    context.answering(raising(ConnectionLoss("gone")))()
    assert (request_.replies, len(request_.closed_for)) == ([], 1)
