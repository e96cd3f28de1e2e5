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
