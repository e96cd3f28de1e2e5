"""A leader dies: how long its clients wait."""

import statistics
import time
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient

from benchmarks.clients import OneByOne, admin, await_true, create_topic
from benchmarks.rivals.rival import Meter, Rival
from benchmarks.rows import Row, Scale

REPLICAS = 3


def failover(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From a leader's death to a new leader, and to the next record acknowledged by all.

    The second takes longer: librdkafka looks only once a second for partitions without a leader.
    """
    topic = create_topic(rival)
    producer = OneByOne(rival.bootstrap_servers)
    elected, acked, used = [], [], []
    for _ in range(scale.kills):
        client = admin(rival)
        producer.send(topic)
        dead = _leader(client, topic)
        began = time.perf_counter()
        rival.kill_broker(dead)
        with Meter(rival) as spent:  # of the survivors: a dead process has no CPU time
            producer.begin(topic)
            _await_other_leader(client, topic, dead)
            elected.append(time.perf_counter() - began)
            producer.wait()
            acked.append(time.perf_counter() - began)
        used.append(spent.cpu_seconds)
        rival.start_broker(dead)
        _await_replicas(rival, topic)
    yield Row(name="leader killed to new leader ms (median)", value=_median_ms(elected))
    yield Row(name="leader killed to next ack ms (median)", value=_median_ms(acked))
    yield Row(name="leader killed to next ack broker CPU s", value=statistics.median(used))


def _await_other_leader(client: AdminClient, topic: str, dead: int) -> None:
    await_true(lambda: _leader(client, topic) not in (dead, -1), "new leader")


def _leader(client: AdminClient, topic: str) -> int:
    """The leader according to the brokers; -1 while there is none."""
    return int(client.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)


def _await_replicas(rival: Rival, topic: str) -> None:
    client = admin(rival)

    def are_in_sync() -> bool:
        partition = client.list_topics(topic, timeout=30).topics[topic].partitions[0]
        return len(partition.isrs) == REPLICAS

    await_true(are_in_sync, f"{REPLICAS} replicas in sync", pause_s=0.1)


def _median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000
