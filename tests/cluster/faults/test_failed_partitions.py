"""A bug stops a follower on one partition; producers and the other partitions go on."""

from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka import EmbeddedKafka, OwnedBroker
from embedkafka.broker.log.log import Log
from embedkafka.faults.network import Network
from embedkafka.runtime.failures import BackgroundFailure
from tests.cluster.traffic import make_producer, send


@pytest.fixture(params=["in the process", "by wire"])
def kafka(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmbeddedKafka]:
    if request.param == "by wire":
        monkeypatch.setattr(Network, "peers", lambda network, broker, find: None)
    with EmbeddedKafka(brokers=3, config={"replica.lag.time.max.ms": 1_000}) as kafka:
        yield kafka


@pytest.fixture
def stumble(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes one broker's replicas raise when they append to a topic."""
    real = Log.append_as_follower
    bad = set()

    def append(log: Any, records: Any) -> Any:
        if (log.directory.parent, log.topic_partition.topic) in bad:
            raise ValueError("a bug in one partition")
        return real(log, records)

    monkeypatch.setattr(Log, "append_as_follower", append)

    def begin(handle: OwnedBroker, topic: str) -> Any:
        for directory in handle._lifecycle.require_broker().logs.directories:
            bad.add((directory, topic))
        return bad

    return begin


def test_one_bad_partition_leaves_producers_and_others_alone(
    kafka: EmbeddedKafka, stumble: Any
) -> None:
    for topic in ("bad", "good"):
        kafka.topic(topic, replication=3).send("before")
    follower = kafka.existing_topic("bad").partition().replicas[-1]
    bad = stumble(kafka.broker(follower), "bad")
    producer = make_producer(kafka, **{"request.timeout.ms": 20_000, "socket.timeout.ms": 30_000})

    error, _ = send(producer, "bad", "after")

    assert error is None, "the follower should have left the ISR"
    assert follower not in kafka.existing_topic("bad").await_isr(size=2)
    assert send(producer, "good", "after")[0] is None
    assert follower in kafka.existing_topic("good").partition().isr
    with pytest.raises(BackgroundFailure, match=rf"ek-b{follower}-fetcher.* following bad-0"):
        kafka.check()
    bad.clear()
    kafka.broker(follower).restart()
    kafka.await_no_under_replicated()
