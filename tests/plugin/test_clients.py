"""The clients that the fixtures make, without a cluster: what becomes of their settings."""

import asyncio
import logging
import sys
from typing import Any

import pytest
from confluent_kafka import KafkaException

from embedkafka import Cluster, EmbedKafkaError, InvalidArgument
from embedkafka.cluster.client_reach import ClientReach
from pytest_embedkafka.clients import TestClients


@pytest.fixture
def clients() -> Any:
    """Any: they get arguments of wrong types."""
    return TestClients(Cluster(ClientReach("127.0.0.1:1")), "group")


def test_callbacks_keep_their_names(clients: Any) -> None:
    def callback(*arguments: object) -> None:
        """Is never called here."""

    common = {"error_cb": callback, "stats_cb": callback, "throttle_cb": callback}
    clients.producer(linger_ms=5, log_level=0, on_delivery=callback, **common)
    clients.consumer(session_timeout_ms=6000, on_commit=callback, **common)
    clients.admin(logger=logging.getLogger("clients"), **common)
    with pytest.raises(KafkaException, match="No such configuration property"):
        clients.producer(lingers_ms=5)


def test_an_old_client_without_asyncio_is_an_error_with_the_way_out(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.aio", None)
    for make in (clients.aio_producer, clients.aio_consumer):
        with pytest.raises(EmbedKafkaError, match="pip install --upgrade confluent-kafka"):
            asyncio.run(entered(make()))


async def entered(client: Any) -> None:
    async with client:
        """Is closed at once."""


def test_what_would_crash_a_client_is_refused(clients: Any) -> None:
    for call, match in [
        (lambda: clients.producer({"\ud800": 1}), "the name of a setting cannot be written"),
        (lambda: clients.producer(client_id="\ud800"), "client.id cannot be written as UTF-8"),
        (lambda: clients.producer(client_id="a\0b"), "client.id cannot contain NUL"),
        (lambda: clients.producer(5), "settings must be a mapping such as"),
        (lambda: clients.consumer("\ud800"), "a topic cannot be written as UTF-8"),
        (lambda: asyncio.run(entered(clients.aio_producer(5))), "settings must be a mapping such"),
        (lambda: asyncio.run(entered(clients.aio_consumer(5))), "a topic must be text that is"),
        (lambda: clients.consumer(5), "a topic must be text that is not empty, got 5"),
    ]:
        with pytest.raises(InvalidArgument, match=match):
            call()
