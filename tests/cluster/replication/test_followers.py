"""`topic.followers()`, and the metrics of replication and of brokers."""

from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka import EmbeddedKafka, FollowerStatus
from embedkafka.broker import controlled_shutdown
from embedkafka.broker.log.log import Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.broker.replica.partition.partition import Partition
from tests.cluster.traffic import make_producer
from tests.wire.clients import eventually


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, config={"replica.lag.time.max.ms": 600_000}) as kafka:
        yield kafka


def awaited(kafka: EmbeddedKafka, topic: str, broker: int, **expected: object) -> FollowerStatus:
    def find() -> list[FollowerStatus]:
        return [
            one
            for one in kafka.existing_topic(topic).followers()
            if one.broker == broker
            and all(getattr(one, name) == value for name, value in expected.items())
        ]

    return eventually(find, f"broker {broker} has {expected}")[0]


def test_a_follower_that_is_cut_off_lags_and_one_that_is_not_does_not(
    kafka: EmbeddedKafka,
) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send_many(["a", "b"])
    leader = orders.leader()
    lost, other = (each for each in orders.partition().replicas if each != leader)
    for broker in (lost, other):
        at_end = awaited(kafka, "orders", broker, log_end_offset=2, state="fetching")
        assert (at_end.is_in_sync, at_end.lag, at_end.caught_up_ms) == (True, 0, 0)
    before = kafka.metrics()
    assert before.total("MaxLag") == 0
    producer = make_producer(kafka, **{"acks": 1, "enable.idempotence": False})
    with kafka.faults.cut_link(lost, leader):
        producer.produce("orders", b"c")
        assert producer.flush(30) == 0
        behind = awaited(kafka, "orders", lost, lag=1, state="delayed")
        assert (behind.log_end_offset, behind.is_in_sync) == (2, True)
        assert behind.caught_up_ms is not None
        assert "in sync  at 2, lag 1  delayed" in str(behind)
        awaited(kafka, "orders", other, lag=0)
        metrics = kafka.metrics()
        assert metrics.total("ConsumerLag", topic="orders", broker=lost) == 1
        thread = f"ReplicaFetcherThread-0-{leader}"
        assert metrics.total("ConsumerLag", topic="orders", clientId=thread) == 1
        assert metrics.total("MaxLag", broker=lost) == 1
        assert metrics.total("MaxLag", broker=other) == 0
    awaited(kafka, "orders", lost, lag=0, state="fetching")

    def is_all_fetched() -> bool:  # a round is counted once it has ended
        now = kafka.metrics()
        size = now.total("Size", topic="orders", broker=leader)
        fetched = now.total("ReplicationBytesInPerSec", broker=lost)
        sent = now.total("ReplicationBytesOutPerSec", broker=leader)
        return 0 < size <= fetched and sent >= 2 * size

    eventually(is_all_fetched, "the bytes of both followers are counted")


def test_a_follower_that_hits_a_bug_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match="a bug"), EmbeddedKafka(brokers=2) as kafka:
        topic = kafka.topic("broken", replication=2)
        leader = topic.leader()

        def fail(self: Partition, *arguments: Any, **named: Any) -> Any:
            raise RuntimeError("a bug")

        monkeypatch.setattr(Partition, "append_as_follower", fail)
        producer = make_producer(kafka, **{"acks": 1, "enable.idempotence": False})
        producer.produce(topic.name, b"a")
        assert producer.flush(30) == 0
        failed = awaited(kafka, "broken", 3 - leader, state="failed")
        assert failed.lag == 1
        assert kafka.metrics().total("FailedPartitionsCount", broker=3 - leader) == 1


def test_a_partition_without_a_leader_has_no_followers() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        alone = kafka.topic("alone", replication=2)
        leader = alone.leader()
        kafka.broker(3 - leader).kill()
        gone = awaited(kafka, "alone", 3 - leader, state=None)
        assert gone.broker == 3 - leader
        alone.await_isr(size=1)
        kafka.broker(leader).pause()
        assert alone.followers() == []
        kafka.broker(leader).kill()
        assert alone.followers() == []


def test_segments_are_counted(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("rolled", config={"segment.bytes": 300})
    assert kafka.metrics().total("NumLogSegments", topic="rolled") == 1
    for text in ("a" * 150, "b" * 150, "c" * 150):
        topic.send(text)
    assert kafka.metrics().total("NumLogSegments", topic="rolled") == 3


def test_the_state_of_a_broker_is_seen_while_it_starts_and_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    seen: dict[str, list[float]] = {"load": [], "leave": [], "shutdown": []}

    def watch(kafka: EmbeddedKafka, owner: Any, name: str, what: str) -> None:
        real = getattr(owner, name)

        def look(*arguments: Any, **named: Any) -> Any:
            seen[what].append(kafka.metrics().total("BrokerState", broker=1))
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, look)

    with EmbeddedKafka(brokers=2, data_dir=tmp_path) as kafka:
        kafka.topic("orders", replication=2)
        assert kafka.metrics().total("BrokerState", broker=1) == 3
        watch(kafka, Log, "load", "load")
        watch(kafka, controlled_shutdown, "leave_cluster", "leave")
        watch(kafka, LogManager, "shutdown", "shutdown")
        kafka.broker(1).kill()
        assert kafka.metrics().total("BrokerState", broker=1) == 0
        kafka.broker(1).start()
        assert set(seen["load"]) == {2}  # recovery
        seen["load"].clear()
        kafka.broker(1).restart()
        assert set(seen["leave"]) == {6}
        assert set(seen["shutdown"]) == {7}
        assert set(seen["load"]) == {1}
        assert kafka.metrics().total("BrokerState", broker=1) == 3
        monkeypatch.undo()
