"""A compacted topic, as a user sees it."""

import threading
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.broker.log.cleaning.compaction import Compaction
from tests.doubles.own_threads import OwnThreads


def test_a_compacted_topic_keeps_the_newest_value_of_each_key() -> None:
    with EmbeddedKafka(config={"log.cleaner.backoff.ms": 10}) as kafka:
        topic = kafka.topic(
            config={
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": 0.01,
                "segment.bytes": 100,  # holds one record
            }
        )
        for round_ in range(3):
            for key in ("a", "b", "c"):
                topic.send(f"{key}{round_}", key=key)
        topic.send("open", key="last")  # the active segment is never compacted
        kept = topic.read()
        while len(kept) > 4:  # each read sees the log at that moment, and compaction shrinks it
            kept = topic.read()
        assert [(m.key, m.value) for m in kept] == [
            (b"a", b"a2"),
            (b"b", b"b2"),
            (b"c", b"c2"),
            (b"last", b"open"),
        ]
        assert [m.offset for m in kept] == [6, 7, 8, 9]


def test_a_long_compaction_holds_up_no_in_sync_set(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, own_threads = threading.Event(), threading.Event(), OwnThreads()
    clean = Compaction.clean

    def clean_slowly(self: Any, batch: Any, transactions: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return clean(self, batch, transactions)

    monkeypatch.setattr(Compaction, "clean", clean_slowly)
    config = {"log.cleaner.backoff.ms": 10, "replica.lag.time.max.ms": 500}
    with EmbeddedKafka(brokers=2, config=config) as kafka:
        settings = {"cleanup.policy": "compact", "segment.bytes": 100}
        topic = kafka.topic(config={**settings, "min.cleanable.dirty.ratio": 0.01})
        cleaners = {"ek-b1-cleaner", "ek-b2-cleaner"}
        assert cleaners.isdisjoint(own_threads.names())
        for value in ("a", "b", "c"):
            topic.send(value, key="k")
        try:
            assert begun.wait(60)
            assert not cleaners.isdisjoint(own_threads.names())
            kafka.brokers.partition({1}, {2}, zookeeper={1, 2})  # the controller does not notice
            topic.await_isr(0, size=1)
        finally:
            may_end.set()
