"""A handler never blocks: a processor may run it, and all its connections would wait.

A handler that cannot answer at once answers later (`LATER`). Two waits are allowed: for a new
thread to start, and for a write to ZooKeeper, which takes no round trip in memory.
"""

import ast
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka
from tests.presence import present
from tests.tidy.sources import MODULES, Module, references

HANDLERS = "broker/apis/"

WAITS = {"wait", "wait_for", "wait_until", "acquire", "result", "sleep", "select", "recv", "call"}
"""Methods, ours and the standard library's, that wait for another thread, a peer or time."""


def test_no_handler_names_anything_that_waits() -> None:
    found = {
        module.name: waits
        for module in MODULES
        if module.name.startswith(HANDLERS)
        if (waits := _waits(module))
    }
    assert found == {}


def _waits(module: Module) -> list[str]:
    called = [
        f"{node.func.attr} (line {node.lineno})"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in WAITS or node.func.attr.startswith("await_")
    ]
    return called + [
        f"{reference.name} (line {reference.line})"
        for reference in references(module.tree)
        if reference.name.partition(".")[0] in {"threading", "queue", "concurrent"}
    ]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places in handlers that wait from now on, on any thread."""
    found: list[str] = []

    def watched(wait: Callable[..., Any]) -> Callable[..., Any]:
        def wait_and_tell(self: object, *args: Any, **kwargs: Any) -> Any:
            if (place := _place_in_a_handler()) is not None:
                found.append(place)
            return wait(self, *args, **kwargs)

        return wait_and_tell

    monkeypatch.setattr(threading.Condition, "wait", watched(threading.Condition.wait))
    monkeypatch.setattr(threading.Thread, "join", watched(threading.Thread.join))
    return found


def test_no_handler_waits_while_clients_work(waits: list[str]) -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        _work(kafka)

    assert waits == []


def test_a_handler_that_waits_is_seen(waits: list[str]) -> None:
    planted = "import threading\ndef handle(): threading.Event().wait(0)\nhandle()"

    exec(compile(planted, f"/embedkafka/{HANDLERS}planted.py", "exec"), {})

    assert waits == [f"/embedkafka/{HANDLERS}planted.py:2"]


def _place_in_a_handler() -> str | None:
    """The handler's line on this thread's stack, unless it waits for a thread to start."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is threading.Thread.start.__code__:
            return None
        if HANDLERS in frame.f_code.co_filename:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _work(kafka: EmbeddedKafka) -> None:
    """Writes to replicas, uses a group and a transaction, creates and deletes topics."""
    orders = kafka.topic("orders", partitions=3, replication=3)
    orders.send("one")
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert present(consumer.poll(30)).value() == b"one"
    consumer.commit(asynchronous=False)
    producer = Producer({**settings, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"two")
    position = [TopicPartition("orders", 0, 0)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()
    orders.delete()
