import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from embedkafka.broker.broker_channels import BrokerChannels
from embedkafka.broker.metadata_cache import Endpoint, MetadataCache
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.wire.net.transport import Listener, Stream
from embedkafka.wire.protocol.messages.transactions import WriteTxnMarkersRequest

REQUEST = WriteTxnMarkersRequest(markers=[])
AWAIT_S = 10


class Network:
    """A transport to brokers that refuse connections or keep callers waiting."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.attempted = threading.Event()
        self.answer = threading.Event()

    def listen(self, host: str, port: int, *, backlog: int) -> Listener:
        raise NotImplementedError

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        self.attempts.append((host, port))
        self.attempted.set()
        self.answer.wait(AWAIT_S)
        raise ConnectionRefusedError(f"no broker at {host}:{port}")


class Replies:
    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self.all: list[object] = []

    def __call__(self, response: object) -> None:
        self.all.append(response)
        self._arrived.release()

    def await_one(self) -> None:
        assert self._arrived.acquire(timeout=AWAIT_S), "no answer"


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def endpoints() -> dict[int, Endpoint]:
    return {2: Endpoint(host="b2", port=9092)}


@pytest.fixture
def channels(network: Network, endpoints: dict[int, Endpoint]) -> Iterator[BrokerChannels]:
    find = SimpleNamespace(find_endpoint=lambda broker, listener: endpoints.get(broker))
    failures = Failures()
    metadata = cast(MetadataCache, SimpleNamespace(snapshot=find))  # all that channels use
    channels = BrokerChannels("ek-b1-test", metadata, "PLAINTEXT", SystemClock(), failures, network)
    yield channels
    network.answer.set()
    channels.close()
    failures.check()
    assert not [t for t in threading.enumerate() if t.name.startswith("ek-b1-test")]


def test_a_broker_that_refuses_is_as_good_as_none(
    channels: BrokerChannels, network: Network
) -> None:
    network.answer.set()
    replies = Replies()
    for _ in range(2):
        channels.send(BrokerId(2), REQUEST, 2, replies)
        replies.await_one()
    assert replies.all == [None, None]
    assert network.attempts == [("b2", 9092)] * 2, "each request should try again"


def test_a_broker_that_nobody_knows_needs_no_thread(channels: BrokerChannels) -> None:
    replies = Replies()
    channels.send(BrokerId(3), REQUEST, 2, replies)
    assert replies.all == [None]
    assert not [t for t in threading.enumerate() if t.name == "ek-b1-test-3"]


def test_a_broker_that_has_moved_is_found(
    channels: BrokerChannels, network: Network, endpoints: dict[int, Endpoint]
) -> None:
    network.answer.set()
    replies = Replies()
    for port in (9092, 9093):
        endpoints[2] = Endpoint(host="b2", port=port)
        channels.send(BrokerId(2), REQUEST, 2, replies)
        replies.await_one()
    assert [port for _, port in network.attempts] == [9092, 9093]


def test_whoever_waits_is_answered_when_the_channels_close(
    channels: BrokerChannels, network: Network
) -> None:
    replies = Replies()
    for _ in range(3):
        channels.send(BrokerId(2), REQUEST, 2, replies)
    assert network.attempted.wait(AWAIT_S)
    closing = threading.Thread(target=channels.close)
    closing.start()
    network.answer.set()
    closing.join(AWAIT_S)
    assert replies.all == [None] * 3
    channels.send(BrokerId(2), REQUEST, 2, replies)
    assert replies.all == [None] * 4
    assert len(network.attempts) <= 2
