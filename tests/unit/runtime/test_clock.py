import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import freezegun
import pytest
import time_machine

from embedkafka.runtime.clock import ManualClock, SystemClock, real_age_ms
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.real_time import RealTime
from tests.presence import present


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request: pytest.FixtureRequest) -> SystemClock | ManualClock:
    return request.param()


def test_advance_moves_both_kinds_of_time(clock: SystemClock | ManualClock) -> None:
    wall, monotonic = clock.now_ms(), clock.monotonic_ms()
    clock.advance(8 * 86_400_000)
    assert clock.now_ms() - wall >= 8 * 86_400_000
    assert clock.monotonic_ms() - monotonic >= 8 * 86_400_000


def test_time_cannot_go_back(clock: SystemClock | ManualClock) -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


@pytest.mark.parametrize(
    "by", [{"days": 1e12}, {"ms": 10**400}, {"days": 1e308}, {"hours": 10**5000}, {"minutes": 1e13}]
)
def test_the_clock_ends_with_the_year_9999(by: dict[str, float]) -> None:
    """Commits beyond a certain time cannot be stored."""
    clock = SystemClock()
    with pytest.raises(InvalidArgument, match="year 9999"):
        clock.advance(**by)
    assert clock.shift_ms() is None, "it should not have moved"
    clock.travel(to=datetime.max.replace(tzinfo=UTC) - timedelta(days=1))
    with pytest.raises(InvalidArgument, match="year 9999"):
        clock.advance(days=1)


def test_the_clock_begins_in_1970() -> None:
    with pytest.raises(InvalidArgument, match="begins in 1970"):
        SystemClock().travel(to=datetime(1969, 12, 31, tzinfo=UTC))


def test_timers_that_were_moved_too_often_say_so() -> None:
    clock = SystemClock()
    with pytest.raises(InvalidArgument, match="timers never go back, and were moved by"):
        for _ in range(100):
            clock.travel(to=datetime(9999, 1, 1, tzinfo=UTC))
            clock.reset()


def test_real_ages_leave_out_jumps() -> None:
    clock = SystemClock()
    moments = []
    for hours in (1, 2):
        moments.append(clock.monotonic_ms())
        clock.advance(hours=hours)
    moments.append(clock.monotonic_ms())
    ages = [real_age_ms(clock, moment) for moment in moments]
    assert ages == sorted(ages, reverse=True)
    assert 0 <= ages[2] <= ages[0] < 3_600_000


def test_a_jump_ends_a_long_wait(clock: SystemClock | ManualClock) -> None:
    condition = threading.Condition()
    has_begun = threading.Event()
    outcomes = []

    def wait_a_day() -> None:
        with condition:
            deadline = clock.monotonic_ms() + 86_400_000
            has_begun.set()
            while clock.wait_until(condition, deadline):
                pass
            outcomes.append("deadline passed")

    thread = threading.Thread(target=wait_a_day)
    thread.start()
    assert has_begun.wait(10)
    clock.advance(86_400_001)
    thread.join(10)
    assert outcomes == ["deadline passed"]


def test_a_jump_between_reading_and_waiting_is_not_missed(clock: SystemClock | ManualClock) -> None:
    condition = threading.Condition()
    deadline = clock.monotonic_ms() + 1000
    clock.advance(2000)
    with condition:
        assert clock.wait_until(condition, deadline) is False


def test_notify_ends_a_wait_before_its_deadline(clock: SystemClock | ManualClock) -> None:
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


def test_listeners_hear_of_jumps_until_they_unsubscribe(clock: SystemClock | ManualClock) -> None:
    heard = []
    unsubscribe = clock.subscribe(lambda: heard.append(1))
    clock.advance(1)
    unsubscribe()
    clock.advance(1)
    assert heard == [1]


# -- the two hands of a cluster's clock


DAY_MS = 86_400_000


def test_a_frozen_clock_stands_still_while_timers_go_on() -> None:
    clock = SystemClock()
    with clock.freeze():
        now_ms, timer_ms = clock.now_ms(), clock.monotonic_ms()
        await_real_time(20)
        assert clock.now_ms() == now_ms
        assert clock.monotonic_ms() - timer_ms >= 20
    await_real_time(20)
    assert clock.now_ms() >= now_ms + 20
    assert present(clock.shift_ms()) <= -20, "it goes on from where it stood"


def test_a_frozen_clock_can_be_moved() -> None:
    clock = SystemClock()
    clock.freeze()
    before_ms = clock.now_ms()
    clock.advance(days=1)
    assert clock.now_ms() == before_ms + DAY_MS
    clock.travel(to=datetime(2031, 5, 1, tzinfo=UTC))
    assert clock.now_ms() == 1_935_360_000_000
    clock.resume()
    clock.resume()
    assert 0 <= clock.now_ms() - 1_935_360_000_000 < DAY_MS


def test_timers_never_travel_back() -> None:
    clock = SystemClock()
    timer_ms = clock.monotonic_ms()
    clock.travel(to=datetime(2020, 1, 1, tzinfo=UTC))
    assert clock.now_ms() < 1_577_923_200_000
    assert 0 <= clock.monotonic_ms() - timer_ms < DAY_MS
    clock.travel(to=datetime.now(UTC) + timedelta(days=1))
    assert clock.monotonic_ms() - timer_ms > 365 * DAY_MS, "the way forward counts"


@pytest.mark.parametrize("to", [datetime(2030, 1, 1), 1_900_000_000, "2030-01-01"])
def test_a_journey_needs_a_time_and_a_zone(to: Any) -> None:
    with pytest.raises(ValueError, match="time zone"):
        SystemClock().travel(to=to)


def test_reset_returns_to_real_time() -> None:
    clock = SystemClock()
    clock.advance(days=8)
    clock.freeze()
    timer_ms = clock.monotonic_ms()
    clock.reset()
    assert abs(clock.now_ms() - time.time() * 1000) < DAY_MS / 2
    assert clock.monotonic_ms() >= timer_ms
    assert clock.shift_ms() == 0


def test_a_clock_says_how_it_was_moved() -> None:
    clock = SystemClock()
    assert (clock.describe(), clock.shift_ms()) == (None, None)
    clock.advance(days=8)
    assert (clock.describe(), clock.shift_ms()) == ("8 days ahead of real time", 8 * DAY_MS)
    clock.freeze()
    assert clock.describe() == "frozen, 8 days ahead of real time"
    clock.reset()
    assert clock.describe() is None
    clock.advance(minutes=1, seconds=30)
    assert repr(clock) == "<SystemClock 90 s ahead of real time>"


# -- libraries that replace Python's time


def test_a_frozen_python_does_not_stop_the_clock() -> None:
    clock = SystemClock()
    now_ms, timer_ms = clock.now_ms(), clock.monotonic_ms()
    with freezegun.freeze_time("2020-01-01"):
        assert time.time() < 1_600_000_000
        await_real_time(5)
        assert clock.now_ms() >= now_ms
        assert clock.monotonic_ms() >= timer_ms + 5


def test_a_python_that_travels_does_not_take_the_clock_along() -> None:
    clock = SystemClock()
    now_ms, timer_ms = clock.now_ms(), clock.monotonic_ms()
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC), tick=False):
        assert time.time() < 1_600_000_000
        await_real_time(5)
        assert clock.now_ms() >= now_ms
        assert clock.monotonic_ms() >= timer_ms + 5
    assert clock.now_ms() >= now_ms


def await_real_time(ms: float) -> None:
    """Waits for real milliseconds, which no library replaces in a condition."""
    until_s = RealTime.monotonic() + ms / 1000
    condition = threading.Condition()
    with condition:
        while (left_s := until_s - RealTime.monotonic()) > 0:
            condition.wait(left_s)
