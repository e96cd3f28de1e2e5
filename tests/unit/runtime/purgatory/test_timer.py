"""The timer's thread, on a clock that only the test moves."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka.runtime.clock import ManualClock, SystemClock
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.runtime.purgatory.timer import SystemTimer

WAIT_S = 10
NAME = "ek-b7-timer"


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failures = Failures()
        self.timer = SystemTimer(self.clock, self.failures, NAME)
        self.ran: list[str] = []

    def add(self, delay_ms: float, name: str) -> threading.Event:
        """Adds a callback; returns an event that is set when it has run."""
        ran = threading.Event()

        def callback() -> None:
            self.ran.append(name)
            ran.set()

        self.timer.add(delay_ms, callback)
        return ran

    def settle(self) -> None:
        """Waits until the thread has seen the clock, by a callback on the next tick."""
        ran = self.add(1, "settle")
        self.clock.advance(1)
        assert ran.wait(WAIT_S)
        self.ran.remove("settle")


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.timer.shutdown()


def timer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def test_a_callback_runs_when_its_time_has_come(bench: Bench) -> None:
    ran = bench.add(500, "callback")
    bench.clock.advance(400)
    bench.settle()
    assert bench.ran == []
    bench.clock.advance(99)
    assert ran.wait(WAIT_S)


def test_callbacks_run_in_the_order_of_their_deadlines(bench: Bench) -> None:
    last = bench.add(86_400_000, "tomorrow")
    bench.add(10, "soon")
    bench.add(3_000, "later")
    bench.clock.advance(86_400_000)
    assert last.wait(WAIT_S)
    assert bench.ran == ["soon", "later", "tomorrow"]


def test_an_earlier_callback_wakes_a_timer_that_sleeps_for_a_later_one(bench: Bench) -> None:
    bench.add(60_000, "later")
    bench.settle()
    ran = bench.add(5, "soon")
    bench.clock.advance(5)
    assert ran.wait(WAIT_S)
    assert bench.ran == ["soon"]


def test_a_cancelled_callback_does_not_run(bench: Bench) -> None:
    task = bench.timer.add(10, lambda: bench.ran.append("cancelled"))
    assert task.cancel()
    assert not task.cancel()
    assert bench.timer.pending == 0
    bench.clock.advance(10)
    bench.settle()
    assert bench.ran == []


def test_a_callback_cannot_be_cancelled_after_it_ran(bench: Bench) -> None:
    ran = threading.Event()
    task = bench.timer.add(10, ran.set)
    bench.clock.advance(10)
    assert ran.wait(WAIT_S)
    assert not task.cancel()


@pytest.mark.parametrize("delay_ms", [0, -5, 0.2])
def test_a_delay_of_nothing_still_runs_on_the_timers_thread(bench: Bench, delay_ms: float) -> None:
    threads = []
    ran = threading.Event()
    bench.timer.add(delay_ms, lambda: (threads.append(threading.current_thread().name), ran.set()))
    assert not ran.is_set()
    bench.clock.advance(1)
    assert ran.wait(WAIT_S)
    assert threads == [NAME]


def test_a_callback_may_add_another(bench: Bench) -> None:
    second = threading.Event()
    first = threading.Event()
    bench.timer.add(5, lambda: (bench.timer.add(5, second.set), first.set()))
    bench.clock.advance(5)
    assert first.wait(WAIT_S)
    bench.clock.advance(5)
    assert second.wait(WAIT_S)


def test_a_failing_callback_is_recorded_and_the_timer_goes_on(bench: Bench) -> None:
    def fail() -> None:
        raise RuntimeError("broken callback")

    bench.timer.add(5, fail)
    ran = bench.add(6, "next")
    bench.clock.advance(6)
    assert ran.wait(WAIT_S)
    with pytest.raises(BackgroundFailure, match="broken callback"):
        bench.failures.check()


def test_a_timer_without_work_has_no_thread() -> None:
    timer = SystemTimer(ManualClock(), Failures(), NAME)
    assert timer_threads() == []
    timer.shutdown()


def test_after_shutdown_the_thread_is_gone_and_nothing_runs(bench: Bench) -> None:
    bench.add(5, "never")
    bench.timer.shutdown()
    assert timer_threads() == []
    bench.clock.advance(5)
    bench.timer.add(1, lambda: bench.ran.append("never"))
    bench.clock.advance(5)
    assert bench.ran == []
    assert timer_threads() == []


def test_a_callback_may_shut_its_timer_down(bench: Bench) -> None:
    done = threading.Event()
    bench.timer.add(1, lambda: (bench.timer.shutdown(), done.set()))
    bench.clock.advance(1)
    assert done.wait(WAIT_S)
    bench.timer.shutdown()
    assert timer_threads() == []


class SleepRecorder(SystemClock):
    """Records the deadline each time the timer goes to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps_until_ms: list[float] = []
        self.idle = threading.Event()
        self.asleep = threading.Event()

    def wait_until(self, condition: Any, deadline_ms: Any) -> Any:
        self.asleep.set()
        if deadline_ms is None:
            self.idle.set()
        else:
            self.sleeps_until_ms.append(deadline_ms)
        return super().wait_until(condition, deadline_ms)


def test_a_timer_wakes_for_its_buckets_only_and_then_sleeps_without_limit() -> None:
    clock = SleepRecorder()
    timer = SystemTimer(clock, Failures(), NAME)
    ran = threading.Event()
    task = timer.add(30, ran.set)
    assert ran.wait(WAIT_S)
    assert clock.idle.wait(WAIT_S)
    timer.shutdown()
    # The task's first bucket of 20 ms and the bucket of 1 ms it moved to; on a busy machine the
    # timer may oversleep either.
    assert len(set(clock.sleeps_until_ms)) <= 2
    assert all(until_ms <= task.deadline_ms for until_ms in clock.sleeps_until_ms)


def test_an_earlier_callback_wakes_a_timer_in_real_time() -> None:
    clock = SleepRecorder()
    timer = SystemTimer(clock, Failures(), NAME)
    timer.add(3_600_000, lambda: None)
    assert clock.asleep.wait(WAIT_S)
    ran = threading.Event()
    timer.add(5, ran.set)
    assert ran.wait(WAIT_S)
    timer.shutdown()


def test_advancing_real_time_wakes_the_timer() -> None:
    clock = SystemClock()
    timer = SystemTimer(clock, Failures(), NAME)
    ran = threading.Event()
    timer.add(3_600_000, ran.set)
    clock.advance(3_600_000)
    assert ran.wait(WAIT_S)
    timer.shutdown()
