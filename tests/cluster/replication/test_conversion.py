"""While a broker works on a slow answer, the same thread serves other clients."""

import random
import threading
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.broker import fetch_conversion
from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.records.batch import RecordBatch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.conversion import down_convert_fetched
from tests.wire.one_partition import (
    T0,
    batch,
    describe,
    fetch_request,
    list_offset,
    produce,
)
from tests.wire.raw_client import RawClient


def test_others_are_served_while_records_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def convert_slowly(records: BytesLike, *, magic: int, first_offset: int) -> bytes:
        begun.set()
        assert may_end.wait(60)
        return down_convert_fetched(records, magic=magic, first_offset=first_offset)

    monkeypatch.setattr(fetch_conversion, "down_convert_fetched", convert_slowly)
    with EmbeddedKafka() as kafka:
        topic = kafka.topic("orders")
        topic.send("first")
        host, port = kafka.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as old, RawClient(host, int(port)) as other:
            answers = []
            request = fetch_request("orders", 0)
            asking = threading.Thread(target=lambda: answers.append(old.call(request, 2)))
            asking.start()
            try:
                assert begun.wait(60)
                assert describe(other, "orders").name == "orders"
                assert not answers
            finally:
                may_end.set()
                asking.join(60)
            assert b"first" in bytes(answers[0].responses[0].partitions[0].records)


def test_others_are_served_while_a_batch_is_searched_by_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    heads = RecordBatch.heads

    def heads_in_the_end(batch: Any) -> Any:
        if not begun.is_set():
            begun.set()
            assert may_end.wait(60)
        return heads(batch)

    with EmbeddedKafka() as kafka:
        kafka.topic("orders")
        host, port = kafka.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as asking, RawClient(host, int(port)) as other:
            noise = random.Random(0).randbytes(20_000)
            produce(asking, "orders", batch(b"", noise, compression=Compression.GZIP))
            monkeypatch.setattr(RecordBatch, "heads", heads_in_the_end)
            answers = []
            search = threading.Thread(
                target=lambda: answers.append(list_offset(asking, "orders", T0))
            )
            search.start()
            try:
                assert begun.wait(60)
                assert describe(other, "orders").name == "orders"
                written = produce(other, "orders", batch(b"to the same partition"))
                assert written.base_offset == 2
                assert not answers
            finally:
                may_end.set()
                search.join(60)
            assert (answers[0].offset, answers[0].timestamp) == (0, T0)
