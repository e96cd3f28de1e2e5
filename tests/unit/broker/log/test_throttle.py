"""Work is held to a rate, measured now and then."""

from hypothesis import given
from hypothesis import strategies as st

from embedkafka.broker.log.cleaning.throttle import Throttle


def test_slow_work_is_never_held_up() -> None:
    throttle = Throttle(1000, now_ms=0)
    assert [throttle.observe(100, now_ms) for now_ms in range(200, 4000, 200)] == [0] * 19


def test_quick_work_waits_until_its_rate_is_right() -> None:
    throttle = Throttle(1000, now_ms=0)
    assert throttle.observe(900, 100) == 0  # too early to tell
    assert throttle.observe(100, 400) == 600


def test_without_a_limit_nothing_waits() -> None:
    throttle = Throttle(1.7976931348623157e308, now_ms=0)
    assert throttle.observe(10**12, 1000) == 0


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 500)), min_size=1))
def test_the_rate_is_kept_but_for_what_was_not_looked_at_yet(
    steps: list[tuple[int, int]],
) -> None:
    throttle, now_ms, moved = Throttle(5000, now_ms=0), 0.0, 0
    for count, taken_ms in steps:
        now_ms += taken_ms
        moved += count
        pause_ms = throttle.observe(count, now_ms)
        now_ms += pause_ms
        if pause_ms:
            assert moved <= 5 * now_ms + 1
