"""Links that are slow, cut or stalled, replies that break off, and disks that rot."""

import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError

from embedkafka import EmbeddedKafka, SeenRequest
from embedkafka.broker.log.log import Log
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.cluster.traffic import make_consumer, make_producer, send
from tests.presence import present
from tests.wire.clients import eventually

HOUR_MS = 3_600_000


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        yield kafka


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def client(kafka: EmbeddedKafka, broker: int) -> BrokerClient:
    host, port = parse_address(kafka.broker(broker).address)
    return BrokerClient(host, port, SystemClock(), "asking", request_timeout_ms=60_000)


def ask(kafka: EmbeddedKafka, broker: int) -> int:
    """The throttle time in the answer to a Metadata request."""
    asking = client(kafka, broker)
    try:
        return int(asking.call(MetadataRequest(topics=[]), 9).throttle_time_ms)
    finally:
        asking.close()


def await_request(kafka: EmbeddedKafka, api: str) -> SeenRequest:
    """The request of `ask` to broker 1, or of a producer, that has come and not been answered."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := kafka.requests(api, client_id="asking", broker=1):
            return found[-1]
    raise AssertionError(f"no {api} came")


def finish(kafka: EmbeddedKafka, future: "Future[int]") -> int:
    """The result, for which the clock must move."""
    for _ in range(300):
        kafka.clock.advance(hours=1)
        try:
            return future.result(0.1)
        except TimeoutError:
            continue
    raise AssertionError("no answer came")


def test_a_slow_link_delays_clients(kafka: EmbeddedKafka, pool: ThreadPoolExecutor) -> None:
    with kafka.faults.slow_link("clients", 1, latency_ms=HOUR_MS) as fault:
        assert str(fault) == "slow link, 3.6e+06 ms: clients to broker 1"
        assert ask(kafka, 2) == 0, "the other broker is as quick as ever"
        late = pool.submit(ask, kafka, 1)
        seen = await_request(kafka, "Metadata")
        assert seen.answer is None
        assert finish(kafka, late) == 0
    assert ask(kafka, 1) == 0


def await_end(log: Log, offset: int, *, timeout_s: float = 30) -> None:
    is_there = lambda: log.log_end_offset >= offset  # noqa: E731
    eventually(is_there, f"{log} ends at {offset}", timeout_s=timeout_s)


def test_a_slow_link_delays_replication(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    follower = 3 - orders.leader()
    log = kafka.broker(follower)._lifecycle.require_broker().logs.find(TopicPartition("orders", 0))
    assert send(make_producer(kafka), "orders", "a")[0] is None
    assert present(log).log_end_offset == 1
    careless = make_producer(kafka, acks=1, **{"enable.idempotence": False})
    with kafka.faults.slow_link(1, 2, latency_ms=20_000):
        assert send(careless, "orders", "b")[0] is None
        assert present(log).log_end_offset == 1
        while present(log).log_end_offset < 2:
            kafka.clock.advance(seconds=21)
            with suppress(AssertionError):  # the follower had not yet asked, so it waits for 20 s
                await_end(present(log), 2, timeout_s=0.5)
        assert send(careless, "orders", "c")[0] is None
        assert present(log).log_end_offset == 2
    await_end(present(log), 3)
    assert send(make_producer(kafka), "orders", "d")[0] is None
    assert present(log).log_end_offset == 4, "the mended link is quick again"


def test_a_cut_is_one_way(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    leader = orders.leader()
    kafka.broker(3 - leader).become_controller()  # it must reach both
    with kafka.faults.cut_link(leader, 3 - leader):
        assert send(make_producer(kafka), "orders", "a")[0] is None, "the follower fetches"
        orders.await_isr(size=2)
    kafka.broker(leader).become_controller()
    with kafka.faults.cut_link(3 - leader, leader):
        careless = make_producer(kafka, acks=1, **{"enable.idempotence": False})
        assert send(careless, "orders", "b")[0] is None
        kafka.clock.advance(minutes=1)
        orders.await_isr(size=1)
    orders.await_isr(size=2)


def test_clients_are_cut_off_from_one_broker(kafka: EmbeddedKafka) -> None:
    kafka.broker(2).become_controller()  # which `move_leader` asks, as a client
    host, port = kafka.broker(1).address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connected:
        ask(kafka, 1)  # after this the broker has accepted the connection before it
        with kafka.faults.cut_link("clients", 1):
            assert connected.recv(1) == b""
            with pytest.raises(OSError, match=r"."):
                ask(kafka, 1)
            assert ask(kafka, 2) == 0
            kafka.topic("orders", replication=2)  # brokers still reach each other
            kafka.existing_topic("orders").move_leader(to=2)
            assert send(make_producer(kafka), "orders", "a")[0] is None
    assert ask(kafka, 1) == 0


def test_a_stalled_link_keeps_connections_and_swallows_requests(
    kafka: EmbeddedKafka, pool: ThreadPoolExecutor
) -> None:
    with kafka.faults.stall_link("clients", 1):
        held = pool.submit(ask, kafka, 1)
        seen = await_request(kafka, "Metadata")
        assert seen.answer is None
        assert ask(kafka, 2) == 0
        assert not held.done()
    assert held.result(30) == 0, "what was swallowed arrives when the link is mended"


def test_a_reply_breaks_off(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    api_versions = struct.pack(">hhih", 18, 0, 7, -1)
    with kafka.faults.break_reply("ApiVersions", after_bytes=5) as fault:
        host, port = kafka.broker(1).address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(struct.pack(">i", len(api_versions)) + api_versions)
            received = b""
            while chunk := raw.recv(1000):
                received += chunk
        assert len(received) == 4 + 5
        assert struct.unpack(">i", received[:4])[0] > 5
        assert fault.hits == 1
    with kafka.faults.break_reply("Produce", after_bytes=3) as fault:
        assert send(make_producer(kafka), "orders", "once")[0] is None
        assert fault.hits == 1
    assert [message.text for message in orders.read()] == ["once"]


def test_an_answer_asks_the_client_to_wait(kafka: EmbeddedKafka) -> None:
    with kafka.faults.throttle("Metadata", 700) as fault:
        assert ask(kafka, 1) == 700
        assert ask(kafka, 1) == 0
        assert fault.hits == 1
    orders = kafka.topic("orders")
    orders.send("a")
    with kafka.faults.throttle("any", 5, times=None):
        assert [message.text for message in orders.read()] == ["a"]


def test_a_flipped_bit_is_found_by_the_checksum(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    for value in ("a", "b"):
        orders.send(value)
    leader = orders.leader()
    kafka.faults.disk(leader).flip_bit("orders", offset=0)
    consumer = make_consumer(kafka, **{"check.crcs": True, "enable.partition.eof": False})
    consumer.subscribe(["orders"])
    message = present(consumer.poll(30))
    assert message.error() is not None
    assert present(message.error()).code() == KafkaError._BAD_MSG
    consumer.close()
    orders.move_leader(to=3 - leader)
    assert [message.text for message in orders.read()] == ["a", "b"], "the other replica is whole"


def test_a_torn_batch_is_dropped_and_fetched_again(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    for value in ("a", "b"):
        orders.send(value)
    follower = 3 - orders.leader()
    kafka.broker(follower).kill()
    kafka.faults.disk(follower).tear("orders")
    kafka.broker(follower).start()
    orders.await_isr(size=2)
    orders.move_leader(to=follower)
    assert [message.text for message in orders.read()] == ["a", "b"]


def test_a_slow_disk_holds_up_writes(kafka: EmbeddedKafka, pool: ThreadPoolExecutor) -> None:
    orders = kafka.topic("orders", replication=2)
    orders.move_leader(to=1)
    disk = kafka.faults.disk(1)
    disk.slow(HOUR_MS)
    producer = make_producer(kafka, **{"client.id": "asking", "socket.timeout.ms": 60_000})
    written = pool.submit(send, producer, "orders", "a")
    seen = await_request(kafka, "Produce")
    assert not written.done()
    assert seen.answer is None
    disk.heal()
    assert written.result(30)[0] is None


def test_everything_that_is_set_is_listed_and_cleared(kafka: EmbeddedKafka) -> None:
    assert kafka.faults.active == []
    kafka.faults.error("Produce", "INVALID_RECORD", topic="orders", times=3)
    kafka.faults.slow_link("clients", latency_ms=5)
    kafka.faults.cut_link(1, 2)
    kafka.faults.disk(1).fill()
    kafka.faults.disk(2).slow(1)
    assert kafka.faults.active == [
        "error INVALID_RECORD: PRODUCE with topic='orders', 3 times (0 hits)",
        "slow link, 5 ms: clients to all brokers",
        "cut link: broker 1 to broker 2",
        "disk: broker-1: no space left on device",
        "disk: broker-2: writes take 1 ms",
    ]
    assert kafka.describe().startswith("! fault: error INVALID_RECORD: PRODUCE")
    assert "! fault: cut link: broker 1 to broker 2\n" in kafka.report()
    kafka.faults.clear()
    assert kafka.faults.active == []
    kafka.clock.advance(days=8)  # after the full disk, which the next checkpoint would find
    assert kafka.describe().startswith("! clock: 8 days ahead of real time\n")
    kafka.clock.reset()
    assert kafka.describe().startswith("broker 1 ")
    kafka.brokers.await_all()


def test_a_partition_is_described(kafka: EmbeddedKafka) -> None:
    kafka.brokers.partition({1}, {2}, zookeeper={1, 2})
    assert kafka.describe().startswith("! network: 1 | 2\nbroker 1 ")
    kafka.brokers.heal()
    assert kafka.describe().startswith("broker 1 ")


def test_a_fault_that_has_hit_all_is_not_active(kafka: EmbeddedKafka) -> None:
    with kafka.faults.throttle("Metadata", 1, broker=1):
        assert len(kafka.faults.active) == 1
        ask(kafka, 1)
        assert kafka.faults.active == []


def test_every_partition_is_replicated_while_a_link_is_slow_and_after(
    kafka: EmbeddedKafka,
) -> None:
    """Each broker leads several, and its followers find another link between two fetches."""
    orders = kafka.topic("orders", partitions=6, replication=2)

    def send_to_all() -> None:
        for number in range(6):
            orders.send("x", partition=number)
            assert len(kafka.existing_topic("orders").partition(number).isr) == 2

    send_to_all()
    with kafka.faults.slow_link(1, latency_ms=1):
        send_to_all()
    send_to_all()
