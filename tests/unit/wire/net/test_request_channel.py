"""The queue between processors and handlers, and the answers that a request allows."""

import threading

import pytest

from embedkafka.wire.net.request_channel import RequestChannel
from tests.unit.wire.net.requests import (
    Port,
    a_request,
    never,
)

WAIT_S = 10


def test_requests_come_out_in_order() -> None:
    channel = RequestChannel()
    requests = [a_request() for _ in range(3)]
    for request in requests:
        assert channel.offer(request, never)
    assert [channel.receive() for _ in range(3)] == requests


def test_a_full_channel_refuses_and_calls_once_when_there_is_room() -> None:
    channel = RequestChannel(capacity=1)
    calls = []

    def on_room() -> None:
        calls.append(len(channel))

    assert channel.offer(a_request(), on_room)
    assert not channel.offer(a_request(), on_room)
    assert not channel.offer(a_request(), on_room)
    channel.receive()
    assert calls == [0]
    assert channel.offer(a_request(), never)
    channel.receive()
    assert calls == [0]


def test_receiving_waits_for_a_request() -> None:
    channel = RequestChannel()
    received = []
    handler = threading.Thread(target=lambda: received.append(channel.receive()), daemon=True)
    handler.start()
    request = a_request()
    channel.offer(request, never)
    handler.join(WAIT_S)
    assert received == [request]


def test_closing_ends_every_handler_and_drops_what_is_queued() -> None:
    channel = RequestChannel()
    received = []
    handlers = [
        threading.Thread(target=lambda: received.append(channel.receive()), daemon=True)
        for _ in range(3)
    ]
    for handler in handlers:
        handler.start()
    channel.close()
    for handler in handlers:
        handler.join(WAIT_S)
    assert received == [None, None, None]
    assert channel.offer(a_request(), never)
    assert channel.receive() is None


def test_a_request_shows_where_it_came_from() -> None:
    port = Port()
    request = a_request(port)
    assert bytes(request.frame) == b"frame"
    assert request.connection_id == port.id
    assert (request.listener, request.is_control_plane) == ("PLAINTEXT", False)
    assert (request.client_address, request.received_ms) == ("127.0.0.1", 5.0)
    request.principal = "User:alice"
    assert a_request(port).principal == "User:alice"


@pytest.mark.parametrize("first", ["reply", "no_reply"])
@pytest.mark.parametrize("second", ["reply", "no_reply"])
def test_a_request_is_answered_once(first: str, second: str) -> None:
    request = a_request()
    answers = {"reply": lambda: request.reply([b"x"]), "no_reply": request.no_reply}
    answers[first]()
    with pytest.raises(AssertionError, match="answered twice"):
        answers[second]()


def test_closing_a_connection_is_possible_before_and_after_an_answer() -> None:
    port = Port()
    request = a_request(port)
    request.close_connection("reason one")
    request.reply([b"late"])
    request.close_connection("reason two")
    assert port.told == [("close", "reason one"), ("reply", b"late"), ("close", "reason two")]


def test_a_channel_takes_nothing_more_once_its_requests_have_so_many_bytes() -> None:
    channel = RequestChannel(max_bytes=len(b"frame") + 1)
    calls = []
    assert channel.offer(a_request(), never)
    assert channel.offer(a_request(), never)
    assert not channel.offer(a_request(), lambda: calls.append("room"))
    channel.receive()
    assert calls == ["room"]
    assert channel.offer(a_request(), never)


def test_a_dismissal_ends_one_receiver_and_leaves_the_requests_to_others() -> None:
    channel = RequestChannel()
    request = a_request()
    assert channel.offer(request, never)
    channel.dismiss()
    assert channel.receive() is None
    assert channel.receive() is request
