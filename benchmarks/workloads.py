"""What is done to each cluster, with confluent-kafka, and what is measured while doing it.

A workload takes a running cluster and gives rows: a name, a value and whether more is better. Every
run uses topics and groups of its own.
"""

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rivals import Rival, cpu_seconds, memory_mib, threads

VALUE: Final = b"x" * 100
DEADLINE_SECONDS: Final = 120
IDLE_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured value of one cluster."""

    name: str
    value: float
    more_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is done: `--quick` does less of everything."""

    records: int
    acks: int
    groups: int
    topics: int
    replication: int


Workload = Callable[[Rival, Scale], Iterator[Row]]


def idle(rival: Rival, scale: Scale) -> Iterator[Row]:
    """What a cluster costs that nobody uses."""
    before = cpu_seconds(rival)
    time.sleep(IDLE_SECONDS)
    yield Row(name="idle CPU %", value=(cpu_seconds(rival) - before) / IDLE_SECONDS * 100)
    yield Row(name="idle threads", value=threads(rival))
    yield Row(name="memory MiB", value=memory_mib(rival))


def create_topics(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From the request to a topic that every broker leads or follows."""
    took = []
    for _ in range(scale.topics):
        began = time.perf_counter()
        _create_topic(rival, scale)
        took.append((time.perf_counter() - began) * 1000)
    yield Row(name="create topic ms (median)", value=statistics.median(took))


def produce(acks: str, compression: str) -> Workload:
    """Many small records through one producer: throughput at the client, CPU at the brokers."""

    def run(rival: Rival, scale: Scale) -> Iterator[Row]:
        name = f"produce acks={acks} {compression}"
        topic = _create_topic(rival, scale)
        used = cpu_seconds(rival)
        took = _produce_many(rival, topic, scale.records, acks=acks, compression=compression)
        used = cpu_seconds(rival) - used
        yield Row(name=f"{name} records/s", value=scale.records / took, more_is_better=True)
        yield Row(name=f"{name} broker CPU s/M", value=used / scale.records * 1e6)

    return run


def consume(rival: Rival, scale: Scale) -> Iterator[Row]:
    """All records of one partition, from the start, without a group."""
    topic = _create_topic(rival, scale)
    _produce_many(rival, topic, scale.records, acks="all", compression="none")
    used = cpu_seconds(rival)
    began = time.perf_counter()
    consumer = _consumer(rival, group=uuid.uuid4().hex)
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < scale.records:
        seen += len(consumer.consume(10_000, timeout=1.0))
        _check_deadline(began, f"{seen} of {scale.records} records")
    took = time.perf_counter() - began
    used = cpu_seconds(rival) - used
    consumer.close()
    yield Row(name="consume records/s", value=scale.records / took, more_is_better=True)
    yield Row(name="consume broker CPU s/M", value=used / scale.records * 1e6)


def ack_latency(rival: Rival, scale: Scale) -> Iterator[Row]:
    """One record at a time: produced, acked by all replicas, then the next."""
    took = measure_acks(rival.bootstrap_servers, _create_topic(rival, scale), scale.acks)
    yield Row(name="one record acked ms p50", value=percentile(took, 50))
    yield Row(name="one record acked ms p99", value=percentile(took, 99))


def first_record_of_new_group(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From `subscribe` of a group nobody has seen to its first record."""
    topic = _create_topic(rival, scale)
    _produce_many(rival, topic, 1, acks="all", compression="none")
    took = []
    for _ in range(scale.groups):
        consumer = _consumer(rival, group=uuid.uuid4().hex)
        began = time.perf_counter()
        consumer.subscribe([topic])
        while not consumer.consume(1, timeout=0.5):
            _check_deadline(began, "the first record of a new group")
        took.append((time.perf_counter() - began) * 1000)
        consumer.close()
    yield Row(name="first group ever ms", value=took[0])
    yield Row(name="new group to first record ms (median)", value=statistics.median(took[1:]))


#: Run once per cluster, right after its start: they depend on nothing having happened before.
FRESH: Final[tuple[Workload, ...]] = (idle, first_record_of_new_group)
#: Run in rounds, alternating between the clusters.
REPEATED: Final[tuple[Workload, ...]] = (
    create_topics,
    produce("1", "none"),
    produce("1", "lz4"),
    produce("all", "none"),
    produce("all", "lz4"),
    consume,
    ack_latency,
)


def measure_acks(
    bootstrap_servers: str, topic: str, count: int, *, pause_s: float = 0.0
) -> list[float]:
    """Milliseconds from `produce` to the acknowledgement, one record at a time, after a warm-up.

    The pause before each record is not counted.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 0,
            "acks": "all",
            "socket.nagle.disable": True,
        }
    )
    took: list[float] = []
    for _ in range(count + count // 5):
        outcome: list[KafkaError | None] = []
        time.sleep(pause_s)
        began = time.perf_counter()
        producer.produce(topic, VALUE, partition=0, on_delivery=partial(_note, outcome))
        while not outcome:
            producer.poll(1.0)
            _check_deadline(began, "an acknowledgement")
        took.append((time.perf_counter() - began) * 1000)
        assert outcome[0] is None, outcome[0]
    return took[-count:]


def _note(outcome: list[KafkaError | None], error: KafkaError | None, _: Message) -> None:
    outcome.append(error)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def _produce_many(rival: Rival, topic: str, count: int, *, acks: str, compression: str) -> float:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": rival.bootstrap_servers,
            "acks": acks,
            "compression.type": compression,
            "linger.ms": 5,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    began = time.perf_counter()
    send: Any = producer.produce
    for _ in range(count):
        try:
            send(topic, VALUE, partition=0)
        except BufferError:
            producer.poll(0.05)
            send(topic, VALUE, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0, "records were neither acked nor refused"
    assert not failures, failures[0]
    return time.perf_counter() - began


def _create_topic(rival: Rival, scale: Scale) -> str:
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": rival.bootstrap_servers, "log_level": 3})
    wanted = NewTopic(name, 1, scale.replication)
    admin.create_topics([wanted], operation_timeout=30)[name].result(DEADLINE_SECONDS)
    return name


def _consumer(rival: Rival, *, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": rival.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def _check_deadline(began: float, what: str) -> None:
    if time.perf_counter() - began > DEADLINE_SECONDS:
        raise TimeoutError(f"no {what} in {DEADLINE_SECONDS} s")
