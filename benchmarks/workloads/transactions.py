"""Small transactions, one after the other, with and without consumed offsets."""

import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Producer, TopicPartition

from benchmarks.clients import (
    DEADLINE_SECONDS,
    VALUE,
    check_deadline,
    create_topic,
    new_consumer,
    new_name,
)
from benchmarks.rivals.rival import Meter, Rival
from benchmarks.rows import Row, Scale

RECORDS: Final = 10


def transactions(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Runs transactions of ten records with one producer."""
    topic = create_topic(rival)
    producer = _producer(rival)
    _run(producer, topic)
    with Meter(rival) as spent:
        for _ in range(scale.transactions):
            _run(producer, topic)
    yield from _rows("transactions", scale.transactions, spent)


def transactions_with_offsets(rival: Rival, scale: Scale) -> Iterator[Row]:
    """The same as a group member, each with an offset: read, process, write.

    Only a few: if the last transaction's markers are not written yet when the next one adds an
    offset, librdkafka waits for 100 ms.
    """
    count = scale.transactions // 5
    source, sink = create_topic(rival), create_topic(rival)
    consumer = new_consumer(rival)
    consumer.subscribe([source])
    began = time.perf_counter()
    while not consumer.assignment():
        consumer.poll(0.01)
        check_deadline(began, "assignment")
    producer = _producer(rival)
    with Meter(rival) as spent:
        for number in range(count):
            consumer.poll(0)
            producer.begin_transaction()
            _send(producer, sink)
            producer.send_offsets_to_transaction(
                [TopicPartition(source, 0, number)],
                consumer.consumer_group_metadata(),
                DEADLINE_SECONDS,
            )
            producer.commit_transaction(DEADLINE_SECONDS)
    consumer.close()
    yield from _rows("transactions with offsets", count, spent)


def _producer(rival: Rival) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": rival.bootstrap_servers,
            "transactional.id": new_name(),
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


def _run(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    _send(producer, topic)
    producer.commit_transaction(DEADLINE_SECONDS)


def _send(producer: Producer, topic: str) -> None:
    for _ in range(RECORDS):
        producer.produce(topic, VALUE, partition=0)


def _rows(name: str, count: int, spent: Meter) -> Iterator[Row]:
    yield Row(name=f"{name} /s", value=count / spent.seconds, more_is_better=True)
    yield Row(name=f"{name} broker CPU ms each", value=spent.cpu_seconds / count * 1000)
