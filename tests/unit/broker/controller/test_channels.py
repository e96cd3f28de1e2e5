"""Channels to brokers: order, retries, and threads that end by themselves."""

import threading
from collections.abc import Callable, Iterator

import pytest

from embedkafka.broker.controller.channels import RETRY_BACKOFF_MS, ControllerChannels
from embedkafka.broker.controller.request_batch import Outgoing
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net import broker_channel
from embedkafka.wire.net.broker_channel import IDLE_MS
from embedkafka.wire.protocol.messages.brokers import UpdateMetadataRequest, UpdateMetadataResponse
from embedkafka.zk.payloads import BrokerEndpoint
from tests.doubles.own_threads import OwnThreads
from tests.unit.broker.controller.harness import broker_info


class FakeConnection:
    """Calls `answer` for every request, which may block or raise."""

    def __init__(self, answer: Callable[[UpdateMetadataRequest], None]) -> None:
        self._answer = answer
        self.closed = threading.Event()

    def call(self, request: UpdateMetadataRequest, version: int) -> UpdateMetadataResponse:
        assert not self.closed.is_set()
        self._answer(request)
        return UpdateMetadataResponse()

    def close(self) -> None:
        self.closed.set()


class Fixture:
    """The channels of controller 1, to brokers that answer with `answer`."""

    def __init__(self) -> None:
        self._own_threads = OwnThreads()
        self.clock = ManualClock()
        self.failures = Failures()
        self.connections: list[FakeConnection] = []
        self.received: list[int] = []
        self.answer: Callable[[UpdateMetadataRequest], None] = lambda request: None
        self.answered = threading.Semaphore(0)
        self.channels = ControllerChannels(
            1,
            connect=self._connect,
            listener="PLAINTEXT",
            on_response=self._on_response,
            clock=self.clock,
            failures=self.failures,
        )
        self.channels.add_broker(broker_info(2))

    def _connect(self, endpoint: BrokerEndpoint) -> FakeConnection:
        assert endpoint.port == 9002
        self.connections.append(FakeConnection(lambda request: self.answer(request)))
        return self.connections[-1]

    def _on_response(self, sent: Outgoing, response: object) -> None:
        self.received.append(sent.request.controller_epoch)
        self.answered.release()

    def send(self, number: int, broker: int = 2) -> None:
        request = UpdateMetadataRequest(controller_id=1, controller_epoch=number, live_brokers=[])
        self.channels.send(Outgoing(broker=broker, request=request, version=8))

    def await_answers(self, count: int) -> None:
        for _ in range(count):
            assert self.answered.acquire(timeout=10)

    def threads(self) -> list[threading.Thread]:
        return self._own_threads.alive("ek-b1-channel-2")


@pytest.fixture
def fixture() -> Iterator[Fixture]:
    fixture = Fixture()
    yield fixture
    fixture.channels.close()
    assert fixture.threads() == []
    fixture.failures.check()


def test_there_is_no_thread_before_the_first_request(fixture: Fixture) -> None:
    assert fixture.threads() == []
    fixture.send(1)
    fixture.await_answers(1)
    assert len(fixture.threads()) == 1


def test_requests_arrive_in_order_on_one_connection(fixture: Fixture) -> None:
    for number in range(50):
        fixture.send(number)
    fixture.await_answers(50)
    assert fixture.received == list(range(50))
    assert len(fixture.connections) == 1


def test_an_idle_thread_ends_and_the_next_request_starts_another(fixture: Fixture) -> None:
    fixture.send(1)
    fixture.await_answers(1)
    (thread,) = fixture.threads()
    while thread.is_alive():  # it may not be waiting yet when the clock jumps
        fixture.clock.advance(IDLE_MS)
        thread.join(0.01)
    fixture.send(2)
    fixture.await_answers(1)
    assert len(fixture.connections) == 1, "the connection was not kept"


def test_a_request_is_sent_again_until_it_arrives(fixture: Fixture) -> None:
    failures_left = [3]

    def flaky(request: UpdateMetadataRequest) -> None:
        if failures_left[0]:
            failures_left[0] -= 1
            raise ConnectionRefusedError

    fixture.answer = flaky
    fixture.send(1)
    fixture.send(2)
    while not fixture.answered.acquire(timeout=0.01):
        fixture.clock.advance(RETRY_BACKOFF_MS)
    fixture.await_answers(1)
    assert fixture.received == [1, 2]
    assert len(fixture.connections) == 4
    assert all(connection.closed.is_set() for connection in fixture.connections[:3])


def test_a_removed_broker_ends_the_call_in_progress(fixture: Fixture) -> None:
    calling = threading.Event()

    def hang(request: UpdateMetadataRequest) -> None:
        calling.set()
        assert fixture.connections[0].closed.wait(10)
        raise ConnectionAbortedError

    fixture.answer = hang
    fixture.send(1)
    fixture.send(2)
    assert calling.wait(10)
    fixture.channels.remove_broker(2)
    fixture.channels.close()
    assert fixture.received == []


def test_nothing_is_sent_to_a_broker_without_a_channel(fixture: Fixture) -> None:
    fixture.send(1, broker=9)
    fixture.channels.remove_broker(9)
    fixture.channels.add_broker(broker_info(2))
    assert fixture.connections == []


def test_the_queue_is_bounded(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_channel, "MAX_QUEUED", 2)
    calling, go_on = threading.Event(), threading.Event()

    def slow(request: UpdateMetadataRequest) -> None:
        calling.set()
        assert go_on.wait(10)

    fixture.answer = slow
    fixture.send(1)
    assert calling.wait(10)
    fixture.send(2)
    fixture.send(3)
    with pytest.raises(RuntimeError, match="requests waiting"):
        fixture.send(4)
    go_on.set()
    fixture.await_answers(3)
