from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.broker.coordinator.early_requests import WAIT_MS, EarlyRequests


class OneTimer:
    """Keeps the timers for the test to fire."""

    def __init__(self) -> None:
        self.tasks = []

    def add(self, delay_ms: float, callback: Callable[[], object]) -> "Task":
        task = Task(delay_ms, callback)
        self.tasks.append(task)
        return task


class Task:
    def __init__(self, delay_ms: float, callback: Callable[[], object]) -> None:
        self.delay_ms = self.deadline_ms = delay_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.fixture
def timer() -> OneTimer:
    return OneTimer()


@pytest.fixture
def posted() -> Any:
    return deque()


@pytest.fixture
def arrivals(timer: OneTimer, posted: Any) -> EarlyRequests:
    return EarlyRequests(timer, posted.append)


def test_an_action_runs_when_the_last_of_its_partitions_is_settled(
    arrivals: EarlyRequests, timer: OneTimer
) -> None:
    done = []
    arrivals.wait({1, 2}, lambda: done.append("both"))
    arrivals.settle(1)
    assert not done
    assert arrivals.partitions == [2]
    arrivals.settle(2)
    assert done == ["both"]
    assert timer.tasks[0].is_cancelled
    assert not arrivals.partitions


def test_an_action_that_waits_too_long_runs_all_the_same(
    arrivals: EarlyRequests, timer: OneTimer, posted: Any
) -> None:
    done = []
    arrivals.wait({1}, lambda: done.append(1))
    arrivals.wait({1}, lambda: done.append(2))
    assert timer.tasks[0].delay_ms == WAIT_MS
    timer.tasks[0].callback()
    assert not done, "a timer must only post"
    posted.popleft()()
    assert done == [1]
    arrivals.settle(1)
    assert done == [1, 2]


def test_a_timeout_that_was_queued_when_the_partition_settled_does_nothing(
    arrivals: EarlyRequests, timer: OneTimer, posted: Any
) -> None:
    done = []
    arrivals.wait({1}, lambda: done.append(1))
    timer.tasks[0].callback()
    arrivals.settle_all()
    posted.popleft()()
    assert done == [1]
