"""A bug in the answer to one client, on another client's thread."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from embedkafka import BackgroundFailure, EmbeddedKafka
from embedkafka.broker.apis import fetch as handler
from tests.wire.clients import eventually
from tests.wire.one_partition import FETCH_BY_NAME, fetch_request
from tests.wire.raw_client import RawClient

BROKEN = "broken"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedKafka]:
    make_response = handler._response

    def make_or_raise(broker: Any, answer: Any, context: Any) -> Any:
        if context.client_id == BROKEN:
            raise ValueError("a bug in one answer")
        return make_response(broker, answer, context)

    monkeypatch.setattr(handler, "_response", make_or_raise)
    with EmbeddedKafka() as kafka:
        yield kafka


def test_an_answer_that_fails_costs_neither_the_producer_nor_other_consumers(
    kafka: EmbeddedKafka,
) -> None:
    orders = kafka.topic("orders")
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    request = fetch_request("orders", 0, max_wait_ms=30_000, min_bytes=1)
    clients = [RawClient(host, int(port), client_id=name) for name in ("one", BROKEN, "two")]
    waiting = kafka.broker(1)._lifecycle.require_broker().replicas.waiters.fetch

    def waits(number: int) -> bool:
        return waiting.delayed == number

    sent = []
    for number, client in enumerate(clients, 1):
        sent.append(client.send(request, FETCH_BY_NAME))
        eventually(partial(waits, number), "the fetch waits")
    orders.send("written")
    for client, correlation_id in zip(clients, sent, strict=True):
        if client is clients[1]:
            with pytest.raises(ConnectionError):
                client.receive(request, FETCH_BY_NAME, correlation_id)
        else:
            answer = client.receive(request, FETCH_BY_NAME, correlation_id)
            assert answer.responses[0].partitions[0].records
        client.close()
    with pytest.raises(
        BackgroundFailure, match=r"^1 background failure\n(?s:.*)a bug in one answer"
    ):
        kafka.check()
