"""The wheel, compared with a sorted list of deadlines."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.runtime.purgatory.timing_wheel import Bucket, TimingWheel

START_MS = 1_000_003


class Task:
    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.bucket: Bucket[Task] | None = None


def a_wheel(*delays_ms: int) -> tuple[TimingWheel[Task], list[Task]]:
    wheel: TimingWheel[Task] = TimingWheel(START_MS)
    tasks = [Task(START_MS + delay) for delay in delays_ms]
    for task in tasks:
        assert wheel.add(task, START_MS)
    return wheel, tasks


def test_an_empty_wheel_has_nothing_to_wait_for() -> None:
    wheel, _ = a_wheel()
    assert wheel.next_expiration_ms() is None
    assert wheel.expire(START_MS + 10**9) == []


@pytest.mark.parametrize("delay_ms", [1, 19, 20, 21, 399, 400, 8_000, 160_000, 86_400_000])
def test_a_task_expires_at_its_deadline_and_not_before(delay_ms: int) -> None:
    wheel, [task] = a_wheel(delay_ms)
    assert wheel.expire(START_MS + delay_ms - 1) == []
    assert wheel.expire(START_MS + delay_ms) == [task]
    assert len(wheel) == 0


def test_a_task_that_is_due_already_is_not_taken() -> None:
    wheel, _ = a_wheel()
    assert not wheel.add(Task(START_MS), START_MS)
    assert len(wheel) == 0


def test_tasks_expire_in_the_order_of_their_deadlines_even_after_a_jump() -> None:
    wheel, tasks = a_wheel(30_000, 5, 700, 21, 6)
    expired = wheel.expire(START_MS + 10**6)
    assert expired == sorted(tasks, key=lambda task: task.deadline_ms)


def test_tasks_with_one_deadline_expire_in_the_order_of_adding() -> None:
    wheel, tasks = a_wheel(7, 7, 7)
    assert wheel.expire(START_MS + 7) == tasks


def test_a_cancelled_task_does_not_expire_and_cancels_once() -> None:
    wheel, [kept, cancelled] = a_wheel(10, 10)
    assert wheel.cancel(cancelled)
    assert not wheel.cancel(cancelled)
    assert wheel.expire(START_MS + 10) == [kept]
    assert not wheel.cancel(kept)


def test_a_wheel_whose_tasks_are_all_cancelled_has_nothing_to_wait_for() -> None:
    wheel, tasks = a_wheel(5, 50, 5_000)
    for task in tasks:
        wheel.cancel(task)
    assert wheel.next_expiration_ms() is None


def test_a_bucket_emptied_by_cancelling_can_be_used_again() -> None:
    wheel, [first] = a_wheel(5)
    wheel.cancel(first)
    assert wheel.next_expiration_ms() is None
    again = Task(START_MS + 5)
    wheel.add(again, START_MS)
    assert wheel.expire(START_MS + 5) == [again]


def test_a_wheel_that_idled_for_days_places_short_delays_exactly() -> None:
    wheel, _ = a_wheel()
    now_ms = START_MS + 8 * 86_400_000
    wheel.add(Task(now_ms + 3), now_ms)
    assert wheel.next_expiration_ms() == now_ms + 3


def test_a_short_delay_is_not_late_behind_a_long_one() -> None:
    """The long task keeps the wheel from skipping ahead; the short one starts on a high level."""
    wheel, _ = a_wheel(10_000)
    now_ms = START_MS + 9_000
    short = Task(now_ms + 2)
    wheel.add(short, now_ms)
    assert wheel.expire(now_ms + 1) == []
    assert wheel.expire(now_ms + 2) == [short]


DELAYS = st.one_of(
    st.integers(min_value=1, max_value=45),
    st.integers(min_value=1, max_value=10_000),
    st.sampled_from([20, 400, 8_000, 160_000, 10**7]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), DELAYS),
        st.tuples(st.just("cancel"), st.integers(min_value=0, max_value=50)),
        st.tuples(st.just("pass"), st.integers(min_value=0, max_value=12_000)),
        st.tuples(st.just("sleep"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=300)
def test_the_wheel_agrees_with_a_list_of_deadlines(steps: Any) -> None:
    wheel, now_ms, waiting = TimingWheel[Task](START_MS), START_MS, list[Task]()
    for step, value in steps:
        if step == "add":
            waiting.append(Task(now_ms + value))
            assert wheel.add(waiting[-1], now_ms)
        elif step == "cancel" and waiting:
            assert wheel.cancel(waiting.pop(value % len(waiting)))
        else:
            now_ms = now_ms + value if step == "pass" else wheel.next_expiration_ms() or now_ms
            expired = wheel.expire(now_ms)
            due = [task for task in waiting if task.deadline_ms <= now_ms]
            assert set(expired) == set(due)
            assert [task.deadline_ms for task in expired] == sorted(
                task.deadline_ms for task in due
            )
            waiting = [task for task in waiting if task.deadline_ms > now_ms]
        assert len(wheel) == len(waiting)
        next_ms = wheel.next_expiration_ms()
        assert (next_ms is None) == (not waiting)
        assert next_ms is None or next_ms <= min(task.deadline_ms for task in waiting)


@given(st.lists(DELAYS, min_size=1, max_size=30))
def test_sleeping_from_bucket_to_bucket_meets_every_deadline_exactly(delays_ms: Any) -> None:
    wheel, tasks = a_wheel(*delays_ms)
    met = []
    while (now_ms := wheel.next_expiration_ms()) is not None:
        for task in wheel.expire(now_ms):
            assert task.deadline_ms == now_ms
            met.append(task)
    assert len(met) == len(tasks)
