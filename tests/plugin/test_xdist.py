"""Many workers, of which one crashes: with one cluster for all, or one for each."""

from typing import Any

import pytest

WORKERS = 4


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """A user's pytest run, in a process of its own."""
    pytester.plugins = []
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:timeout -p no:asyncio\n")
    return lambda *arguments: pytester.runpytest_subprocess(*arguments)


CRASHING = """
import os
import pytest

@pytest.mark.parametrize("number", range(8))
def test_orders(kafka, kafka_group, number):
    orders = kafka.topic("orders")
    if number == 3:
        os._exit(1)
    orders.send(str(number))
    assert [message.text for message in orders.read()] == [str(number)]
    kafka.await_offsets("orders", 1)
    assert kafka.leader_of("orders") == 1
"""


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_a_worker_that_crashes_costs_its_test_and_no_other(
    pytester: pytest.Pytester, run: Any, mode: str
) -> None:
    pytester.makepyfile(CRASHING)
    result = run(f"--kafka-xdist={mode}", "--kafka-brokers=1", f"-n{WORKERS}")
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running *test_orders?3?*"])


GROUPED = """
import pytest

seen = []

@pytest.mark.xdist_group("orders")
@pytest.mark.parametrize("number", range(4))
def test_in_a_group(kafka, request, number):
    orders = kafka.topic("orders")
    orders.send(str(number))
    assert [message.text for message in orders.read()] == [str(number)]
    seen.append(number)
    if "@" in request.node.nodeid:
        assert seen == list(range(number + 1))

@pytest.mark.xdist_group("shapes")
@pytest.mark.kafka(brokers=[1, 2])
def test_of_two_shapes(kafka, kafka_topic):
    kafka_topic.send("x")
    assert len(kafka.brokers) in (1, 2)

@pytest.mark.parametrize("number", range(4))
def test_alone(kafka, kafka_topic, kafka_group, kafka_consumer, number):
    kafka_topic.send_many(["a", "b"])
    consumer = kafka_consumer(kafka_topic)
    assert [consumer.poll(20).value() for _ in range(2)] == [b"a", b"b"]
    consumer.commit(asynchronous=False)
    kafka.await_group_stable(kafka_group)
    kafka.await_lag(kafka_group, 0, topic=kafka_topic.name)
    assert sum(kafka.lag(kafka_group, kafka_topic.name).values()) == 0
    assert kafka_group in {each.group for each in kafka.groups()}
"""


@pytest.mark.parametrize("mode", [pytest.param("own", marks=pytest.mark.slow), "shared"])
def test_tests_may_be_handed_out_by_group(pytester: pytest.Pytester, run: Any, mode: str) -> None:
    """xdist 3.8 ignores the groups on pytest 9.2; the node's id shows whether it saw them."""
    pytester.makepyfile(GROUPED)
    result = run(f"--kafka-xdist={mode}", "--kafka-brokers=1", "-n3", "--dist=loadgroup")
    result.assert_outcomes(passed=10)
