"""Which request a callback will answer."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from embedkafka.broker.answered_request import find_request
from embedkafka.broker.coordinator.groups.calls import AnswerWhenStored, HeartbeatCall
from embedkafka.broker.dispatch import RequestContext
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol.headers import RequestHeader
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest


@pytest.fixture
def context() -> RequestContext:
    return RequestContext(cast(Request, None), RequestHeader(12, 4, 1, "me"), Failures())


def wrapped(answer: Callable[..., None]) -> Callable[[], None]:
    def run() -> None:
        answer(later)

    if answer is print:
        later = None
    return run


def test_a_callback_names_its_request_through_whatever_wraps_it(context: RequestContext) -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    stored = AnswerWhenStored(
        call=HeartbeatCall(request=heartbeat, reply=context.reply), response=None
    )
    for callback in (
        context.reply,
        context.answering(print),
        wrapped(context.reply),
        partial(wrapped, context.reply),
        stored,
        wrapped(stored),
    ):
        assert find_request(callback) is context


def test_what_answers_nobody_names_no_request() -> None:
    for callback in (None, print, wrapped(print), [].append):
        assert find_request(callback) is None
