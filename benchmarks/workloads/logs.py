"""Data on disk: read warm and cold, recovered, loaded, compacted.

Each workload has a separate cluster of one broker, which keeps its data.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.clients import (
    DEADLINE_SECONDS,
    admin,
    await_true,
    check_deadline,
    consume_many,
    create_topic,
    new_consumer,
    produce_many,
)
from benchmarks.rivals.rival import Meter, Rival, cpu_seconds, memory_mib
from benchmarks.rows import Row, Scale

VALUE: Final = b"x" * 1_000
#: 64 KB: between the defaults of Java's producer (16 KB) and librdkafka's (1 MB).
BATCHES: Final = {"batch.num.messages": 64, "linger.ms": 50}
PARTITIONS_PER_TOPIC: Final = 1_000
COMPACTED_KEYS: Final = 10_000
COMPACTED_VALUE: Final = b"x" * 500
#: Makes the cleaner start soon after it may.
CONFIG: Final = {"log.cleaner.backoff.ms": 100}
_DAY_MS: Final = 86_400_000


def fetch_and_recover(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Reads one partition from disk and from memory, and reopens it after a crash."""
    count = scale.log_mb * 1_000_000 // len(VALUE)
    topic = create_topic(rival)
    produce_many(rival, topic, count, value=VALUE, settings=BATCHES)
    _drop_from_page_cache(rival.log_dir / f"{topic}-0")
    for temperature in ("cold", "hot"):
        with Meter(rival) as spent:
            _read(rival, topic, count)
        name = f"fetch {scale.log_mb} MB {temperature}"
        yield Row(name=f"{name} MB/s", value=scale.log_mb / spent.seconds, more_is_better=True)
        yield Row(name=f"{name} broker CPU s", value=spent.cpu_seconds)
    rival.crash()
    began = time.perf_counter()
    rival.restart()
    _await_end_offset(rival, topic, count)
    name = f"start after a crash with {scale.log_mb} MB"
    yield Row(name=f"{name} ms", value=(time.perf_counter() - began) * 1000)
    yield Row(name=f"{name} CPU s", value=cpu_seconds(rival))


def load_partitions(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Starts, after a clean stop, with many partitions of one record each."""
    wanted = scale.loaded_partitions
    topics: dict[str, int] = {}
    with Meter(rival) as spent:
        for first in range(0, wanted, PARTITIONS_PER_TOPIC):
            partitions = min(PARTITIONS_PER_TOPIC, wanted - first)
            topics[create_topic(rival, partitions=partitions)] = partitions
        for topic, partitions in topics.items():
            produce_many(rival, topic, partitions, partitions=partitions)
    name = f"create {wanted} partitions and write to each"
    yield Row(name=f"{name} ms", value=spent.ms)
    yield Row(name=f"{name} broker CPU s", value=spent.cpu_seconds)
    began = time.perf_counter()
    rival.stop()
    yield Row(name=f"stop with {wanted} partitions ms", value=(time.perf_counter() - began) * 1000)
    began = time.perf_counter()
    rival.restart()
    _await_leaders(rival, topics)
    name = f"start with {wanted} partitions"
    yield Row(name=f"{name} ms", value=(time.perf_counter() - began) * 1000)
    yield Row(name=f"{name} CPU s", value=cpu_seconds(rival))
    yield Row(name=f"{name} memory MiB", value=memory_mib(rival))


def compact(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Compacts all closed segments of a log in which few keys have many values."""
    lag = "min.compaction.lag.ms"
    topic = create_topic(
        rival,
        config={
            "cleanup.policy": "compact",
            "segment.bytes": str(scale.compacted_mb * 1_000_000 // 10),
            "min.cleanable.dirty.ratio": "0.01",
            lag: str(_DAY_MS),
        },
    )
    count = scale.compacted_mb * 1_000_000 // len(COMPACTED_VALUE)
    produce_many(rival, topic, count, value=COMPACTED_VALUE, keys=COMPACTED_KEYS, settings=BATCHES)
    closed = sorted((rival.log_dir / f"{topic}-0").glob("*.log"))
    end_offset, size_mb = int(closed.pop().stem), sum(f.stat().st_size for f in closed) / 1e6
    with Meter(rival) as spent:
        _set_config(rival, topic, lag, "0")
        await_true(lambda: _cleaned_offset(rival, topic) >= end_offset, "end of the compaction")
    yield Row(name="compaction MB/s", value=size_mb / spent.seconds, more_is_better=True)
    yield Row(name="compaction broker CPU s/100 MB", value=spent.cpu_seconds / size_mb * 100)


def _read(rival: Rival, topic: str, count: int) -> None:
    consumer = new_consumer(rival)
    consumer.assign([TopicPartition(topic, 0, 0)])
    consume_many(consumer, count)
    consumer.close()


def _drop_from_page_cache(directory: Path) -> None:
    for path in directory.glob("*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # only pages that are on disk can be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _await_end_offset(rival: Rival, topic: str, expected: int) -> None:
    consumer = new_consumer(rival)
    try:
        await_true(lambda: _end_offset(consumer, topic) == expected, f"end offset {expected}")
    finally:
        consumer.close()


def _end_offset(consumer: Consumer, topic: str) -> int:
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_SECONDS)
    return int(high)


def _await_leaders(rival: Rival, topics: dict[str, int]) -> None:
    """Waits until the brokers report a leader for every partition."""
    client = admin(rival)
    began = time.perf_counter()
    while True:
        known = client.list_topics(timeout=DEADLINE_SECONDS).topics
        led = {
            name: sum(partition.leader > 0 for partition in known[name].partitions.values())
            for name in topics
            if name in known
        }
        if led == topics:
            return
        check_deadline(began, "leader for every partition")


def _set_config(rival: Rival, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(rival)
    client.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)


def _cleaned_offset(rival: Rival, topic: str) -> int:
    """Where the clean part of a log ends, from the checkpoint file of either kind of broker."""
    checkpoint = rival.log_dir / "cleaner-offset-checkpoint"
    if checkpoint.exists():
        for line in checkpoint.read_text().splitlines():
            if line.startswith(f"{topic} "):
                return int(line.rpartition(" ")[2])
    return 0
