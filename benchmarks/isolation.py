"""What it costs to put the session-wide cluster right after a test, by what the test did.

    python -m benchmarks.isolation

Each row is the time of `Isolation.end` in milliseconds: the quickest and the median of the rounds.
"A new cluster" is the alternative: close it and start another one.
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka


def _client(kafka: EmbeddedKafka, **settings: object) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named}


def _nothing(kafka: EmbeddedKafka) -> None:
    pass


def _topic(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=3).send("x")


def _group(kafka: EmbeddedKafka) -> None:
    _topic(kafka)
    consumer = Consumer(_client(kafka, group_id="readers", enable_auto_commit=False))
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


def _transaction(kafka: EmbeddedKafka) -> None:
    _topic(kafka)
    producer = Producer(_client(kafka, transactional_id="t"))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "x")
    producer.commit_transaction(20)


def _fault(kafka: EmbeddedKafka) -> None:
    kafka.faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS", times=None)


def _clock(kafka: EmbeddedKafka) -> None:
    kafka.clock.advance(days=8)


def _partition(kafka: EmbeddedKafka) -> None:
    kafka.brokers.partition({1}, {2, 3})


def _pause(kafka: EmbeddedKafka) -> None:
    kafka.broker(2).pause()


def _kill(kafka: EmbeddedKafka) -> None:
    kafka.broker(2).kill()


def _stop(kafka: EmbeddedKafka) -> None:
    kafka.broker(2).stop()


DEEDS: dict[str, Callable[[EmbeddedKafka], None]] = {
    "nothing": _nothing,
    "a topic": _topic,
    "a topic and a group": _group,
    "a topic and a transaction": _transaction,
    "a fault": _fault,
    "the clock": _clock,
    "a network partition": _partition,
    "a paused broker": _pause,
    "a stopped broker": _stop,
    "a killed broker": _kill,
}


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds by deed."""
    times: dict[str, list[float]] = {}

    def note(what: str, act: Callable[[], object]) -> None:
        start = perf_counter()
        act()
        times.setdefault(what, []).append((perf_counter() - start) * 1000)

    with EmbeddedKafka(brokers=3) as kafka:
        for _ in range(rounds):
            for name, do in DEEDS.items():
                isolation = kafka._isolation()
                note(f"(before {name})", isolation.begin)
                do(kafka)
                note(name, partial(isolation.end, finds_clients=True))
            topic = kafka.topic("orders", partitions=3)
            note("delete_topic alone", lambda name=topic.name: kafka.existing_topic(name).delete())  # type: ignore[misc]
    for _ in range(rounds):
        cluster = EmbeddedKafka(brokers=3)
        note("a new cluster", cluster.start)
        note("a new cluster", cluster.close)
    starts = times["a new cluster"]
    times["a new cluster"] = [a + b for a, b in zip(starts[::2], starts[1::2], strict=True)]
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    for name, found in measure(parser.parse_args().rounds).items():
        print(f"{name:32} {min(found):8.2f} {median(found):8.2f}")


if __name__ == "__main__":
    main()
