"""Consumers from before Kafka 0.11, whose answers take a broker long to make."""

import threading

from embedkafka import EmbeddedKafka
from embedkafka.server import fetch_conversion
from tests.wire.one_partition import describe, fetch_request
from tests.wire.raw_client import RawClient


def test_others_are_served_while_records_are_converted(monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    convert = fetch_conversion.down_convert_fetched

    def convert_slowly(*args, **how):
        begun.set()
        assert may_end.wait(60)
        return convert(*args, **how)

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
