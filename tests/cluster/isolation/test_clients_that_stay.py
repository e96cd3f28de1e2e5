"""Clients that outlive a move which empties their cluster: they join again and go on."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from embedkafka import EmbeddedKafka
from tests.cluster.traffic import make_producer, next_text, send


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.snapshot("empty")
        yield kafka


def restore_after_kills(kafka: EmbeddedKafka) -> None:
    for handle in kafka.brokers:
        handle.kill()
    kafka.restore("empty")


MOVES: dict[str, Callable[[EmbeddedKafka], object]] = {
    "reset": lambda kafka: kafka.reset(),
    "restore": lambda kafka: kafka.restore("empty"),
    "restore after kills": restore_after_kills,
}


def reader(kafka: EmbeddedKafka, protocol: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "readers",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("move", MOVES)
def test_clients_go_on(kafka: EmbeddedKafka, move: str, protocol: str) -> None:
    kafka.topic("orders", replication=3)
    producer = make_producer(kafka)
    consumer = reader(kafka, protocol)
    send(producer, "orders", "before")
    assert next_text(consumer) == "before"

    MOVES[move](kafka)
    kafka.topic("orders", replication=3)
    send(producer, "orders", "after")

    assert next_text(consumer) == "after"
    consumer.close()
    kafka.reset()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("does_damage", [False, True])
def test_a_consumer_goes_on_after_the_test_that_made_it(
    kafka: EmbeddedKafka, does_damage: bool, protocol: str
) -> None:
    orders = kafka.topic("orders", replication=3)
    with kafka.isolated():
        consumer = reader(kafka, protocol)
        orders.send("before")
        assert next_text(consumer) == "before"
        if does_damage:
            for handle in kafka.brokers:
                handle.kill()
    orders.send("after")

    assert {next_text(consumer), next_text(consumer)} == {"before", "after"}  # nothing is committed
    consumer.close()
    kafka.reset()
