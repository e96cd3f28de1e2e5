"""A leader that dies, and how long its clients have to wait."""

import statistics
from collections.abc import Iterator

from benchmarks.clients import OneByOne, admin, await_true, create_topic
from benchmarks.rivals.rival import Meter, Rival
from benchmarks.rows import Row, Scale


def failover(rival: Rival, scale: Scale) -> Iterator[Row]:
    """From the death of a leader to the next record that all replicas have acknowledged."""
    topic = create_topic(rival)
    producer = OneByOne(rival.bootstrap_servers)
    took, used = [], []
    for _ in range(scale.kills):
        producer.send(topic)
        leader = _leader(rival, topic)
        rival.kill_broker(leader)
        with Meter(rival) as spent:  # of the survivors: a dead process tells no CPU time
            producer.send(topic)
        took.append(spent.ms)
        used.append(spent.cpu_seconds)
        rival.start_broker(leader)
        await_true(lambda: _in_sync(rival, topic) == 3, "three replicas in sync", pause_s=0.1)
    yield Row(name="leader killed to next ack ms (median)", value=statistics.median(took))
    yield Row(name="leader killed to next ack broker CPU s", value=statistics.median(used))


def _leader(rival: Rival, topic: str) -> int:
    return int(admin(rival).list_topics(topic, timeout=30).topics[topic].partitions[0].leader)


def _in_sync(rival: Rival, topic: str) -> int:
    return len(admin(rival).list_topics(topic, timeout=30).topics[topic].partitions[0].isrs)
