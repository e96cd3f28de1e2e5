"""A channel to one broker: its thread, its queue and its connection, for any kind of request."""

import threading
from collections.abc import Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.broker_channel import IDLE_MS, BrokerChannel

NAME = "ek-b1-test-2"
AWAIT_S = 10


class Connection:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.closed = threading.Event()

    def call(self, request: object, version: int) -> object:
        raise NotImplementedError

    def close(self) -> None:
        self.closed.set()


class Kit:
    """A channel whose requests name the endpoints to connect to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failures = Failures()
        self.seen: list[Connection | None] = []
        self.handled = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()
        self.channel = BrokerChannel[str, str](
            NAME, self._handle, connect=Connection, clock=self.clock, failures=self.failures
        )

    def _handle(self, channel: BrokerChannel[str, str], request: str) -> None:
        assert self.go_on.wait(AWAIT_S)
        try:
            if request == "bad":
                raise ValueError(request)
            connection = channel.connect(request)
            assert connection is None or isinstance(connection, Connection)
            self.seen.append(connection)
        finally:
            self.handled.release()

    def post(self, *requests: str) -> None:
        for request in requests:
            assert self.channel.post(request)
        for _ in requests:
            assert self.handled.acquire(timeout=AWAIT_S)


@pytest.fixture
def kit() -> Iterator[Kit]:
    kit = Kit()
    yield kit
    kit.go_on.set()
    kit.channel.end()
    kit.channel.join()
    assert not [thread for thread in threading.enumerate() if thread.name == NAME]


def test_a_connection_is_kept_while_its_endpoint_is_the_same(kit: Kit) -> None:
    kit.post("b2:1", "b2:1", "b2:2")
    first, second, third = kit.seen
    assert first is second
    assert first is not None
    assert first.closed.is_set()
    assert third is not None
    assert third.endpoint == "b2:2"
    assert not third.closed.is_set()


def test_the_connection_outlives_an_idle_thread(kit: Kit) -> None:
    kit.post("b2:1")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == NAME]
    while thread.is_alive():  # it may not be waiting yet when the clock jumps
        kit.clock.advance(IDLE_MS)
        thread.join(0.01)
    assert not kit.channel.is_running
    kit.post("b2:1")
    assert kit.seen[0] is kit.seen[1]


def test_a_request_that_fails_is_recorded_and_the_next_is_handled(kit: Kit) -> None:
    kit.post("bad", "b2:1")
    assert len(kit.seen) == 1
    with pytest.raises(Exception, match="bad"):
        kit.failures.check()


def test_what_is_queued_at_the_end_is_handled_without_a_connection(kit: Kit) -> None:
    kit.go_on.clear()
    for _ in range(3):
        assert kit.channel.post("b2:1")
    kit.channel.end()
    assert not kit.channel.post("b2:1")
    kit.go_on.set()
    kit.channel.join()
    assert kit.seen == [None] * 3
