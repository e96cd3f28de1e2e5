"""How the failure of a request is reported, on whichever thread it happens."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from embedkafka.broker.dispatch import RequestContext
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.security.principals import ANONYMOUS, KafkaPrincipal
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.headers import RequestHeader
from embedkafka.wire.protocol.messages.core import ProduceRequest
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from embedkafka.wire.protocol.wire_types import Part
from embedkafka.zk.store import ConnectionLoss


class NotedRequest:
    """Records how it was answered."""

    connection_id = "client"
    principal: KafkaPrincipal | None = None

    def __init__(self) -> None:
        self.replies: list[Sequence[Part]] = []
        self.closed_for: list[str] = []

    def reply(self, parts: Sequence[Part]) -> None:
        self.replies.append(parts)

    def close_connection(self, reason: str) -> None:
        self.closed_for.append(reason)


def a_context(request: NotedRequest, api_key: ApiKey, failures: Failures) -> RequestContext:
    header = RequestHeader(api_key, 4, 1, None)
    return RequestContext(cast(Request, request), header, failures)  # all it uses of a request


@pytest.fixture
def failures() -> Iterator[Failures]:
    failures = Failures()
    yield failures
    failures.check()


@pytest.fixture
def request_() -> NotedRequest:
    return NotedRequest()


@pytest.fixture
def context(request_: NotedRequest, failures: Failures) -> RequestContext:
    context = a_context(request_, ApiKey.HEARTBEAT, failures)
    context.message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return context


def raising(error: Exception) -> Callable[[], None]:
    def answer() -> None:
        raise error

    return answer


def test_a_client_that_expects_no_answer_is_sent_away(
    request_: NotedRequest, failures: Failures
) -> None:
    context = a_context(request_, ApiKey.PRODUCE, failures)
    context.message = ProduceRequest(acks=0, timeout_ms=0, topic_data=[])
    context.fail(ApiError(ErrorCode.INVALID_REQUEST))
    assert (request_.replies, len(request_.closed_for)) == ([], 1)


def test_a_late_answer_that_fails_costs_its_own_client_only(
    context: RequestContext, request_: NotedRequest, failures: Failures
) -> None:
    context.answering(raising(ValueError("a bug")))()
    assert (request_.replies, len(request_.closed_for)) == ([], 1)
    with pytest.raises(BackgroundFailure, match=r"HEARTBEAT v4 of client(?s:.*)a bug"):
        failures.check()


def test_a_response_that_cannot_be_encoded_costs_its_own_client_only(
    context: RequestContext, request_: NotedRequest, failures: Failures
) -> None:
    context.reply(HeartbeatResponse(error_code="none"))  # type: ignore[arg-type]  # no number
    assert (request_.replies, len(request_.closed_for)) == ([], 1)
    with pytest.raises(BackgroundFailure, match="HEARTBEAT v4 of client"):
        failures.check()


def test_a_late_answer_may_fail_as_the_protocol_foresees(
    context: RequestContext, request_: NotedRequest
) -> None:
    context.answering(raising(ApiError(ErrorCode.NOT_COORDINATOR)))()
    assert (len(request_.replies), request_.closed_for) == (1, [])


def test_a_late_answer_that_needs_a_lost_zookeeper_is_no_bug(
    context: RequestContext, request_: NotedRequest
) -> None:
    context.answering(raising(ConnectionLoss("gone")))()
    assert (request_.replies, len(request_.closed_for)) == ([], 1)


def test_a_client_is_anonymous_until_it_has_authenticated(
    context: RequestContext, request_: NotedRequest
) -> None:
    assert context.principal is ANONYMOUS
    alice = KafkaPrincipal("User", "alice")
    context.principal = alice
    assert context.principal is alice
    assert request_.principal is alice, "the connection does not know who has logged in"
