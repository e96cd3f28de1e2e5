"""The followers and requests that a change of a partition wakes."""

from collections.abc import Callable

import pytest

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from tests.doubles.scheduling import ManualScheduler

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.fixture
def waiters() -> PartitionNotifier:
    return PartitionNotifier(ReplicaConfig(), ManualScheduler(ManualClock()), Failures())


def test_follower_that_has_left_is_not_woken_and_the_others_are(waiters: PartitionNotifier) -> None:
    left: list[TopicPartition] = []
    stays: list[TopicPartition] = []
    for listener in (left.append, stays.append):
        waiters.listen(TP, listener)
    waiters.forget(TP, left.append)
    waiters.on_append(TP, high_watermark_advanced=False)
    assert (left, stays) == ([], [TP])
    waiters.forget(TP, stays.append)
    waiters.on_append(TP, high_watermark_advanced=False)
    assert stays == [TP]


def test_follower_that_listens_twice_is_woken_once(waiters: PartitionNotifier) -> None:
    woken: list[TopicPartition] = []
    for _ in range(2):
        waiters.listen(TP, woken.append)
    waiters.on_append(TP, high_watermark_advanced=False)
    assert woken == [TP]


@pytest.mark.parametrize(
    "change",
    [
        lambda waiters: waiters.on_append(TP, high_watermark_advanced=True),
        lambda waiters: waiters.on_log_start(TP),
        lambda waiters: waiters.on_unheard_follower(TP),
        lambda waiters: waiters.on_leadership_change(TP),
        lambda waiters: waiters.shutdown(complete=True),
    ],
    ids=["append", "log start", "unheard follower", "leadership", "shutdown"],
)
def test_follower_is_woken_for_its_own_partition_only(
    waiters: PartitionNotifier, change: Callable[[PartitionNotifier], None]
) -> None:
    woken: list[TopicPartition] = []
    waiters.listen(TP, woken.append)
    change(waiters)
    waiters.on_append(OTHER, high_watermark_advanced=True)
    assert woken == [TP]
