"""The stock client, confluent-kafka, as the workloads use it."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.rivals.rival import Rival

VALUE: Final = b"x" * 100
DEADLINE_SECONDS: Final = 120
_QUIET: Final = {"log_level": 0}


def admin(rival: Rival) -> AdminClient:
    """A client that must stay alive until its requests have completed."""
    return AdminClient({"bootstrap.servers": rival.bootstrap_servers, **_QUIET})


def create_topic(
    rival: Rival,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> str:
    """Creates a topic with three replicas, or as many as there are brokers."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    replicas = min(3, rival.bootstrap_servers.count(",") + 1)
    wanted = NewTopic(name, partitions, replicas, config=dict(config or {}))
    client = admin(rival)
    created = client.create_topics([wanted], operation_timeout=60, request_timeout=DEADLINE_SECONDS)
    created[name].result(DEADLINE_SECONDS)
    return name


def await_true(is_so: Callable[[], bool], what: str, *, pause_s: float = 0.01) -> None:
    """Polls for a fact that clients are not notified of."""
    began = time.perf_counter()
    while not is_so():
        check_deadline(began, what)
        time.sleep(pause_s)


def check_deadline(began: float, what: str) -> None:
    if time.perf_counter() - began > DEADLINE_SECONDS:
        raise TimeoutError(f"no {what} in {DEADLINE_SECONDS} s")


def new_consumer(
    rival: Rival, group: str | None = None, *, settings: Mapping[str, object] | None = None
) -> Consumer:
    """A consumer that starts at the beginning of its partitions, by default in a new group."""
    return Consumer(
        {
            "bootstrap.servers": rival.bootstrap_servers,
            "group.id": group or new_name(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **_QUIET,
            **(settings or {}),
        }
    )


def new_name() -> str:
    return uuid.uuid4().hex


def consume_many(consumer: Consumer, count: int) -> None:
    """Takes `count` records from an assigned consumer."""
    began = time.perf_counter()
    seen = 0
    while seen < count:
        seen += len(consumer.consume(10_000, timeout=1.0))
        check_deadline(began, f"record {seen} of {count}")


def produce_many(
    rival: Rival,
    topic: str,
    count: int,
    *,
    value: bytes = VALUE,
    keys: int = 0,
    partitions: int = 1,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Sends `count` records and waits for them; partitions and `keys` take turns."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": rival.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 128 * 1024,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            **_QUIET,
            **(settings or {}),
        }
    )
    send: Any = producer.produce  # bound once for speed; Any: the stub demands all arguments
    for number in range(count):
        key = b"%d" % (number % keys) if keys else None
        while True:
            try:
                send(topic, value, key, number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(DEADLINE_SECONDS) == 0, "some records were neither acked nor refused"
    assert not failures, failures[0]


class OneByOne:
    """A producer that waits for the acknowledgement of every record by all replicas."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 0,
                "acks": "all",
                "socket.nagle.disable": True,
                **_QUIET,
            }
        )

        self._outcomes: list[KafkaError | None] = []

    def send(self, topic: str) -> None:
        """Sends one record to partition 0 and waits until it is acknowledged."""
        self.begin(topic)
        self.wait()

    def begin(self, topic: str) -> None:
        """Sends one record without waiting."""
        self._producer.produce(topic, VALUE, partition=0, on_delivery=self._note)

    def wait(self) -> None:
        """Waits for the acknowledgement of the last record."""
        began = time.perf_counter()
        while not self._outcomes:
            self._producer.poll(1.0)
            check_deadline(began, "acknowledgement")
        error = self._outcomes.pop()
        assert error is None, error

    def _note(self, error: KafkaError | None, _: Message) -> None:
        self._outcomes.append(error)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
