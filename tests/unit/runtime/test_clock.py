import threading
from typing import Any

import pytest

from embedkafka.runtime.clock import ManualClock, SystemClock


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_advance_moves_both_kinds_of_time(clock: Any) -> None:
    wall, monotonic = clock.now_ms(), clock.monotonic_ms()
    clock.advance(8 * 86_400_000)
    assert clock.now_ms() - wall >= 8 * 86_400_000
    assert clock.monotonic_ms() - monotonic >= 8 * 86_400_000


def test_time_cannot_go_back(clock: Any) -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_a_jump_ends_a_long_wait(clock: Any) -> None:
    condition = threading.Condition()
    outcomes = []

    def wait_a_day() -> None:
        with condition:
            deadline = clock.monotonic_ms() + 86_400_000
            while clock.wait_until(condition, deadline):
                pass
            outcomes.append("deadline passed")

    thread = threading.Thread(target=wait_a_day)
    thread.start()
    clock.advance(86_400_001)
    clock.advance(86_400_001)  # the first may come before the thread has read the clock
    thread.join(10)
    assert outcomes == ["deadline passed"]


def test_a_jump_between_reading_and_waiting_is_not_missed(clock: Any) -> None:
    condition = threading.Condition()
    deadline = clock.monotonic_ms() + 1000
    clock.advance(2000)
    with condition:
        assert clock.wait_until(condition, deadline) is False


def test_notify_ends_a_wait_before_its_deadline(clock: Any) -> None:
    condition = threading.Condition()
    ready = []

    def wait() -> None:
        with condition:
            while not ready:
                assert clock.wait_until(condition, clock.monotonic_ms() + 60_000)

    thread = threading.Thread(target=wait)
    thread.start()
    with condition:
        ready.append(True)
        condition.notify_all()
    thread.join(10)
    assert not thread.is_alive()


def test_listeners_hear_of_jumps_until_they_unsubscribe(clock: Any) -> None:
    heard = []
    unsubscribe = clock.subscribe(lambda: heard.append(1))
    clock.advance(1)
    unsubscribe()
    clock.advance(1)
    assert heard == [1]
