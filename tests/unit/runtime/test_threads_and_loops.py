import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from embedkafka.runtime import event_loop
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.runtime.locks import LEAF_RANK, RankedLock
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.runtime.threads import start_thread
from tests.doubles.own_threads import OwnThreads


def test_a_dying_thread_is_reported_with_its_name_and_traceback() -> None:
    failures = Failures()

    def die() -> None:
        raise RuntimeError("boom")

    start_thread("ek-b1-test", die, failures).join()
    with pytest.raises(BackgroundFailure, match=r"ek-b1-test[\s\S]*boom"):
        failures.check()
    failures.check()  # reported once


def test_a_loop_handles_events_in_order_and_survives_a_bad_one() -> None:
    failures, handled = Failures(), []

    def handle(event: Any) -> None:
        if event == "bad":
            raise ValueError("bad event")
        handled.append(event)

    loop = EventLoop("ek-b1-loop", handle, failures)
    loop.start()
    for event in (1, 2, "bad", 3):
        assert loop.post(event)
    loop.stop()
    assert handled == [1, 2, 3]
    assert not loop.post(4)
    with pytest.raises(BackgroundFailure, match="bad event"):
        failures.check()


def test_a_loops_state_is_out_of_bounds_for_other_threads() -> None:
    loop = EventLoop("ek-b1-loop", lambda event: event(), Failures())
    loop.start()
    seen = []
    loop.post(lambda: seen.append(loop.inside))
    loop.stop()
    assert seen == [True]
    with pytest.raises(AssertionError, match="post an event"):
        loop.assert_inside()


def test_a_loop_is_its_own_from_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event may wait before the loop starts, and be handled before `start` goes on."""
    handled = threading.Event()
    seen = []

    def look(event: None) -> None:
        seen.append(loop.inside)
        handled.set()

    def start_and_wait(*arguments: Any) -> threading.Thread:
        thread = start_thread(*arguments)
        assert handled.wait(10)
        return thread

    monkeypatch.setattr(event_loop, "start_thread", start_and_wait)
    loop = EventLoop("ek-b1-loop", look, Failures())
    loop.post(None)
    loop.start()
    loop.stop()
    assert seen == [True]


def test_the_scheduler_runs_what_is_due_when_time_jumps() -> None:
    clock, failures, own_threads = ManualClock(), Failures(), OwnThreads()
    scheduler = ThreadScheduler("ek-b1-background", clock, failures)
    runs = threading.Semaphore(0)
    scheduler.every("tick", 1000, runs.release)
    never = scheduler.once("never", 1500, lambda: pytest.fail("was cancelled"))
    never.cancel()
    clock.advance(1000)
    assert runs.acquire(timeout=10)
    clock.advance(1000)
    assert runs.acquire(timeout=10)
    scheduler.shutdown()
    failures.check()
    assert own_threads.names() == []


def test_a_failing_task_is_recorded_and_runs_again() -> None:
    clock, failures = ManualClock(), Failures()
    scheduler = ThreadScheduler("ek-b1-background", clock, failures)
    runs = threading.Semaphore(0)

    def fail() -> None:
        runs.release()
        raise OSError("disk")

    scheduler.every("flush", 10, fail)
    for _ in range(2):
        clock.advance(10)
        assert runs.acquire(timeout=10)
    scheduler.shutdown()
    with pytest.raises(BackgroundFailure, match="2 background failures"):
        failures.check()


def test_locks_are_taken_in_rising_rank() -> None:
    partition, log = RankedLock("Partition._lock", 20), RankedLock("Log._lock", 30)
    with partition, log, partition:
        pass
    with log, pytest.raises(AssertionError, match="rising rank"), partition:
        pass
    with partition:  # the failed attempt left nothing behind
        pass


def test_a_lock_tells_every_thread_whether_it_is_taken() -> None:
    lock = RankedLock("queue", LEAF_RANK)

    def is_locked_elsewhere() -> bool:
        with ThreadPoolExecutor(1) as other:
            return other.submit(lock.locked).result()

    assert not lock.locked()
    with lock, lock:
        assert lock.locked()
        assert is_locked_elsewhere()
    assert not lock.locked()
    assert not is_locked_elsewhere()
