"""Forked children use the parent's cluster by its address and own none of it."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from embedkafka import ClusterClosed, EmbeddedKafka
from tests.cluster.footprint import refuses
from tests.cluster.traffic import send
from tests.presence import present

#: Python warns of every fork in a process with threads, and a cluster is one.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

PATIENCE_S = 60

#: A child that leaves the `with` and exits as programs do.
UNWINDS = """
import os, sys
from embedkafka import EmbeddedKafka

with EmbeddedKafka(brokers=2) as kafka:
    orders = kafka.topic("orders", replication=2)
    orders.send("before")
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert os.path.isdir(kafka.scratch_dir())
    orders.send("after")
    kafka.topic("more", partitions=2, replication=2).send("x")
    assert [message.text for message in orders.read()] == ["before", "after"]
"""


def produce(servers: Any, topic: str, value: Any) -> None:
    """The work of a user's child."""
    error, _ = send(Producer({"bootstrap.servers": servers, "log_level": 0}), topic, value.encode())
    assert error is None, error


def run_forked(act: Any, *arguments: Any) -> Any:
    """Runs `act` in a forked child and returns its result, or what it raised."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def run() -> None:
        try:
            there.send(act(*arguments))
        except Exception as error:
            there.send(error)

    child = context.Process(target=run, daemon=True)
    child.start()
    there.close()
    assert here.poll(PATIENCE_S), "the child hangs"
    result = here.recv()
    child.join(PATIENCE_S)
    return result


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_produce_to_the_cluster(method: str) -> None:
    context: Any = multiprocessing.get_context(method)  # typeshed: some have no Process
    with EmbeddedKafka() as kafka:
        orders = kafka.topic("orders")
        orders.send("parent")
        child = context.Process(target=produce, args=(kafka.bootstrap_servers, "orders", "child"))
        child.start()
        child.join(PATIENCE_S)
        assert child.exitcode == 0
        with context.Pool(2) as pool:
            work = [(kafka.bootstrap_servers, "orders", f"pool {number}") for number in range(4)]
            pool.starmap_async(produce, work).get(PATIENCE_S)
        orders.send("parent again")
        found = [present(message.text) for message in orders.read()]
    assert found[:2] == ["parent", "child"]
    assert sorted(found[2:]) == ["parent again", *(f"pool {number}" for number in range(4))]


def test_a_child_that_leaves_the_with_ends_nothing() -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UNWINDS], check=True, timeout=2 * PATIENCE_S
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda kafka: kafka.topic("more"),
        lambda kafka: kafka.describe(),
        lambda kafka: kafka.report(),
        lambda kafka: kafka.broker(1),
        lambda kafka: kafka.snapshot(),
        lambda kafka: kafka.reset(),
        lambda kafka: kafka.existing_topic("orders").await_leader(),
    ],
)
def test_a_childs_calls_say_where_the_cluster_is(forking: EmbeddedKafka, call: Any) -> None:
    error = run_forked(call, forking)
    assert isinstance(error, ClusterClosed)
    assert f"runs in process {os.getpid()}" in str(error)
    assert "bootstrap_servers" in str(error)


@pytest.fixture(scope="module")
def forking() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        yield kafka


@pytest.mark.parametrize("verb", ["stop", "kill", "pause", "restart", "start", "resume"])
def test_a_child_does_nothing_to_a_broker_that_it_inherits(
    forking: EmbeddedKafka, verb: str
) -> None:
    handle = forking.broker(1)
    assert isinstance(run_forked(getattr(handle, verb)), ClusterClosed)
    assert forking.existing_topic("orders").send("still there") is not None


def test_a_child_may_close_and_read_the_address(forking: Any) -> None:
    assert run_forked(forking.close) is None
    assert run_forked(lambda: forking.bootstrap_servers) == forking.bootstrap_servers
    assert forking.existing_topic("orders").send("still there") is not None


def test_a_topic_handle_works_in_a_child(forking: EmbeddedKafka) -> None:
    topic = forking.topic("from-both")
    topic.send("parent")
    assert run_forked(lambda: topic.send("child").offset) == 1
    assert [message.text for message in topic.read()] == ["parent", "child"]


def test_ports_and_connections_do_not_outlive_the_cluster_in_a_child() -> None:
    context = multiprocessing.get_context("fork")
    ended, end = context.Event(), context.Event()

    def wait() -> None:
        end.wait(PATIENCE_S)
        ended.set()

    kafka = EmbeddedKafka().start()
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    kafka.topic("orders").send("through a connection that is open")
    child = context.Process(target=wait, daemon=True)
    child.start()
    try:
        kafka.close()
        assert refuses(f"127.0.0.1:{port}")
        with EmbeddedKafka(port=port) as other:
            other.topic("orders").send("the port is free")
    finally:
        end.set()
        child.join(PATIENCE_S)
    assert ended.is_set()
