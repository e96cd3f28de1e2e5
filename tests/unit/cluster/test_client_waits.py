"""Lags and ends, compared with what a test waits for."""

from embedkafka.cluster.clients.client_waits import find_behind, find_lag
from embedkafka.runtime.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_the_lag_is_summed_over_all_partitions() -> None:
    ends = {ZERO: 5, ONE: 4}
    assert find_lag(ends, {ZERO: 5, ONE: 4}, 0) is None
    assert find_lag(ends, {ZERO: 3}, 6) is None
    assert find_lag(ends, {ZERO: 3}, 5) == "6 behind: orders-0 2, orders-1 4"


def test_a_group_ahead_of_a_topic_made_again_is_not_behind() -> None:
    assert find_lag({ZERO: 1, ONE: 2}, {ZERO: 9, ONE: 2}, 0) is None


def test_ends_are_compared_in_sum_or_by_partition() -> None:
    ends = {ZERO: 5, ONE: 4}
    assert find_behind(ends, 9) is None
    assert find_behind(ends, 10) == "ends {0: 5, 1: 4}"
    assert find_behind(ends, {1: 4}) is None
    assert find_behind(ends, {1: 5}) == "ends {0: 5, 1: 4}"
    assert find_behind(ends, {2: 0}) == "ends {0: 5, 1: 4}"
