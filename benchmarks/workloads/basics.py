"""What every test does: start, create topics, produce, consume."""

import statistics
import time
from collections.abc import Iterator

from confluent_kafka import TopicPartition

from benchmarks.clients import (
    OneByOne,
    check_deadline,
    consume_many,
    create_topic,
    new_consumer,
    percentile,
    produce_many,
)
from benchmarks.rivals.rival import Meter, Rival, memory_mib, threads
from benchmarks.rows import Row, Scale


def idle(rival: Rival, scale: Scale) -> Iterator[Row]:
    """The cost of an idle cluster."""
    with Meter(rival) as spent:
        time.sleep(scale.idle_seconds)
    yield Row(name="idle CPU %", value=spent.cpu_seconds / spent.seconds * 100)
    yield Row(name="idle threads", value=threads(rival))
    yield Row(name="memory MiB", value=memory_mib(rival))


def memory_after_load(rival: Rival, scale: Scale) -> Iterator[Row]:
    yield Row(name="memory after load MiB", value=memory_mib(rival))


def create_topics(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From the request to a topic that every broker leads or follows."""
    took = []
    for _ in range(scale.topics):
        began = time.perf_counter()
        create_topic(rival)
        took.append((time.perf_counter() - began) * 1000)
    yield Row(name="create topic ms (median)", value=statistics.median(took))


def produce(rival: Rival, scale: Scale, *, acks: str, compression: str) -> Iterator[Row]:
    """Sends many small records through one producer: client throughput, broker CPU."""
    name = f"produce acks={acks} {compression}"
    topic = create_topic(rival)
    with Meter(rival) as spent:
        settings = {"acks": acks, "compression.type": compression}
        produce_many(rival, topic, scale.records, settings=settings)
    yield Row(name=f"{name} records/s", value=scale.records / spent.seconds, more_is_better=True)
    yield Row(name=f"{name} broker CPU s/M", value=spent.cpu_seconds / scale.records * 1e6)


def consume(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Reads one partition from the start, without a group."""
    topic = create_topic(rival)
    produce_many(rival, topic, scale.records)
    with Meter(rival) as spent:
        consumer = new_consumer(rival)
        consumer.assign([TopicPartition(topic, 0, 0)])
        consume_many(consumer, scale.records)
    consumer.close()
    yield Row(name="consume records/s", value=scale.records / spent.seconds, more_is_better=True)
    yield Row(name="consume broker CPU s/M", value=spent.cpu_seconds / scale.records * 1e6)


def ack_latency(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Sends one record at a time and waits until all replicas have acknowledged it."""
    took = measure_acks(rival.bootstrap_servers, create_topic(rival), scale.acks)
    yield Row(name="one record acked ms p50", value=percentile(took, 50))
    yield Row(name="one record acked ms p99", value=percentile(took, 99))


def first_record_of_new_group(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From `subscribe` of a new group to its first record."""
    topic = create_topic(rival)
    produce_many(rival, topic, 1)
    took = []
    for _ in range(scale.new_groups):
        consumer = new_consumer(rival)
        began = time.perf_counter()
        consumer.subscribe([topic])
        while not consumer.consume(1, timeout=0.5):
            check_deadline(began, "first record of a new group")
        took.append((time.perf_counter() - began) * 1000)
        consumer.close()
    yield Row(name="first group ever ms", value=took[0])
    yield Row(name="new group to first record ms (median)", value=statistics.median(took[1:]))


def measure_acks(
    bootstrap_servers: str, topic: str, count: int, *, pause_s: float = 0.0
) -> list[float]:
    """Milliseconds from `produce` to the acknowledgement, one record at a time, after a warm-up.

    The pause before each record does not count.
    """
    producer = OneByOne(bootstrap_servers)
    took: list[float] = []
    for _ in range(count + count // 5):
        time.sleep(pause_s)
        began = time.perf_counter()
        producer.send(topic)
        took.append((time.perf_counter() - began) * 1000)
    return took[-count:]
