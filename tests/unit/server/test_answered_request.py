"""Which request a callback will answer."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from embedkafka.group.calls import AnswerWhenStored, HeartbeatCall
from embedkafka.net.request_channel import Request
from embedkafka.protocol.headers import RequestHeader
from embedkafka.protocol.messages.groups import HeartbeatRequest
from embedkafka.runtime.failures import Failures
from embedkafka.server.answered_request import find_request
from embedkafka.server.dispatch import RequestContext


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
