"""What clients use, and how long they wait: Kafka's windows and token buckets."""

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.security.quotas.client_quotas import ClientQuotas, QuotaWindows
from embedkafka.security.quotas.limits import QuotaType
from embedkafka.security.quotas.meters import TokenBucket, WindowedRate

PRODUCE, FETCH, REQUEST = QuotaType.PRODUCE, QuotaType.FETCH, QuotaType.REQUEST


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quotas(clock: ManualClock) -> ClientQuotas:
    return ClientQuotas(clock, QuotaWindows())


def test_a_burst_is_spread_over_the_windows() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(10_000, 0)
    assert rate.excess_ms(1000, 0) == 0, "ten seconds' worth fits into ten windows"
    rate.record(1_000, 0)
    assert rate.excess_ms(1000, 0) == 1000
    assert rate.excess_ms(1000, 10_500) == 500, "time that passes counts"
    assert rate.excess_ms(1000, 11_000) == 0, "old samples are forgotten"


def test_samples_of_one_window_are_one() -> None:
    rate = WindowedRate(2, 1000)
    rate.record(600, 0)
    rate.record(600, 999)
    rate.record(600, 1000)
    assert rate.excess_ms(1000, 1000) == 800
    assert rate.excess_ms(1000, 2000) == 0, "the first window is over two windows ago"


def test_a_bucket_starts_full_and_fills_again() -> None:
    bucket = TokenBucket(11, 1000)
    bucket.take(22, 2, 0)
    assert bucket.excess_ms(2, 0) == 0
    bucket.take(4, 2, 0)
    assert bucket.excess_ms(2, 0) == 2000
    assert bucket.excess_ms(2, 2000) == 0
    bucket.take(23, 2, 1_000_000)
    assert bucket.excess_ms(2, 1_000_000) == 500, "it holds no more than all windows allow"


def test_a_client_waits_for_what_it_used_too_much(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.set_limits([({"user": "a"}, {PRODUCE.value: 100.0})])
    assert quotas.is_active
    assert quotas.record(PRODUCE, "a", "x", 1000) == 0
    assert quotas.record(PRODUCE, "a", "y", 100) == 1000, "client ids of a user share its quota"
    assert quotas.record(PRODUCE, "b", "x", 10_000) == 0
    assert quotas.record(FETCH, "a", "x", 10_000) == 0
    clock.advance(20_000)
    assert quotas.record(PRODUCE, "a", "x", 1000) == 0


def test_what_is_taken_back_does_not_count(quotas: ClientQuotas) -> None:
    quotas.set_limits([({"client-id": "x"}, {FETCH.value: 100.0})])
    assert quotas.record(FETCH, "a", "x", 2000) == 10_000
    quotas.take_back(FETCH, "a", "x", 2000)
    assert quotas.record(FETCH, "a", "x", 1000) == 0
    assert quotas.largest_fetch("a", "x") == 1000
    assert quotas.largest_fetch("a", "y") is None


def test_time_on_the_brokers_threads_throttles_for_a_window_at_most(quotas: ClientQuotas) -> None:
    quotas.set_limits([({"user": None}, {REQUEST.value: 1.0})])
    assert quotas.record(REQUEST, "a", "x", 100_000) == 1000


def test_a_changed_limit_counts_at_once(quotas: ClientQuotas) -> None:
    quotas.set_limits([({"user": "a"}, {PRODUCE.value: 100.0})])
    quotas.record(PRODUCE, "a", "x", 1000)
    quotas.set_limits([({"user": "a"}, {PRODUCE.value: 50.0})])
    assert quotas.record(PRODUCE, "a", "x", 0) == 10_000
    quotas.set_limits([])
    assert not quotas.is_active
    assert quotas.record(PRODUCE, "a", "x", 10_000) == 0


def test_a_strict_client_is_refused_until_its_tokens_are_back(
    quotas: ClientQuotas, clock: ManualClock
) -> None:
    quotas.set_limits([({"user": "a"}, {QuotaType.CONTROLLER_MUTATION.value: 1.0})])
    assert quotas.mutate("a", "x", 13, strict=True) == 0, "the last one may take too many"
    assert quotas.mutate("a", "x", 1, strict=True) == 2000
    clock.advance(2000)
    assert quotas.mutate("a", "x", 1, strict=True) == 0
    assert quotas.mutate("a", "x", 1, strict=False) == 2000, "an old client has to wait later"
