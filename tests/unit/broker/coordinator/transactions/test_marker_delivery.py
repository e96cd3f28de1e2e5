from typing import Any

import pytest

from embedkafka.broker.coordinator.transactions.marker_delivery import MarkerDelivery
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from tests.presence import present
from tests.unit.broker.coordinator.transactions.conftest import Coordinator

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def ending(coordinator: Coordinator, *partitions: Any, name: str = "tx") -> Any:
    """Ends a transaction over `partitions`; returns its producer."""
    producer = coordinator.init(name).producer
    coordinator.add(producer, *partitions, transactional_id=name)
    assert coordinator.end(producer, transactional_id=name).error is ErrorCode.NONE
    return producer


def test_a_partition_that_fails_for_now_is_asked_again(coordinator: Coordinator) -> None:
    coordinator.leaders.errors[T1] = [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ]
    ending(coordinator, T0, T1)
    assert coordinator.state() == "PrepareCommit"
    coordinator.advance(1_000)
    assert [marker[4] for marker in coordinator.leaders.markers()] == [{T0, T1}, {T1}, {T1}]
    assert coordinator.state() == "CompleteCommit"


def test_a_partition_that_an_answer_does_not_mention_is_asked_again(
    coordinator: Coordinator,
) -> None:
    coordinator.leaders.silent.add(T1)
    ending(coordinator, T0, T1)
    assert coordinator.state() == "PrepareCommit"
    coordinator.leaders.silent.clear()
    coordinator.advance(1_000)
    assert [marker[4] for marker in coordinator.leaders.markers()] == [{T0, T1}, {T1}]
    assert coordinator.state() == "CompleteCommit"


def test_markers_follow_the_leader(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T0] = 2
    coordinator.leaders.unreachable.add(2)
    ending(coordinator, T0)
    coordinator.leaders.leaders[T0] = 3
    coordinator.advance(1_000)
    assert [marker[0] for marker in coordinator.leaders.markers()] == [2, 3]
    assert coordinator.state() == "CompleteCommit"


def test_broker_0_is_a_leader_like_any_other(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T0] = 0
    ending(coordinator, T0)
    assert [marker[0] for marker in coordinator.leaders.markers()] == [0]
    assert coordinator.state() == "CompleteCommit"


def test_markers_wait_for_a_leader(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T0] = coordinator.NO_LEADER
    ending(coordinator, T0)
    coordinator.advance(1_000)
    assert coordinator.leaders.markers() == []
    coordinator.leaders.leaders[T0] = 1
    coordinator.advance(1_000)
    assert coordinator.state() == "CompleteCommit"


def test_deleted_partitions_need_no_marker(coordinator: Coordinator) -> None:
    coordinator.leaders.deleted.add(T0)
    ending(coordinator, T0)
    assert coordinator.leaders.markers() == []
    assert coordinator.state() == "CompleteCommit"


def test_a_partition_deleted_meanwhile_holds_nothing_up(coordinator: Coordinator) -> None:
    coordinator.leaders.errors[T0] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    ending(coordinator, T0, T1)
    coordinator.leaders.deleted.add(T0)
    coordinator.advance(1_000)
    assert coordinator.state() == "CompleteCommit"


@pytest.mark.parametrize(
    "error", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION]
)
def test_a_partition_that_takes_no_markers_holds_nothing_up(
    coordinator: Coordinator, error: Any
) -> None:
    coordinator.leaders.errors[T0] = [error]
    ending(coordinator, T0, T1)
    assert coordinator.state() == "CompleteCommit"


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_a_fenced_coordinator_stops(coordinator: Coordinator, error: Any) -> None:
    coordinator.leaders.errors[T0] = [error]
    ending(coordinator, T0, T1)
    coordinator.advance(10_000)
    assert len(coordinator.leaders.markers()) == 1
    assert coordinator.state() == "PrepareCommit"


def test_a_fenced_coordinator_gives_up_its_other_partitions_too(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T1] = 2
    coordinator.leaders.unreachable.add(2)
    coordinator.leaders.errors[T0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    ending(coordinator, T0, T1)
    coordinator.advance(10_000)
    assert sorted(marker[0] for marker in coordinator.leaders.markers()) == [1, 2]


def test_transactions_share_a_request_to_a_busy_broker(coordinator: Coordinator) -> None:
    coordinator.leaders.hold()
    for name in "abc":
        ending(coordinator, T0, name=name)
    assert len(coordinator.leaders.requests) == 1
    coordinator.leaders.release()
    coordinator.loop.run()
    assert [len(request.markers) for _, request in coordinator.leaders.requests] == [1, 2]
    assert {coordinator.state(name) for name in "abc"} == {"CompleteCommit"}


def test_the_last_step_is_stored_in_the_end(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    coordinator.add(producer, T0)
    coordinator.leaders.hold()
    coordinator.end(producer)
    coordinator.log.errors.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
    coordinator.leaders.release()
    coordinator.loop.run()
    assert coordinator.state() == "PrepareCommit"
    coordinator.advance(1_000)
    assert coordinator.state() == "CompleteCommit"


def test_delivered_markers_are_forgotten(coordinator: Coordinator) -> None:
    ending(coordinator, T0)
    assert coordinator.state() == "CompleteCommit"
    delivery = coordinator.service.coordinator._host._effects
    assert isinstance(delivery, MarkerDelivery)
    assert not delivery._orders


def test_a_broker_that_resigned_sends_no_more_markers(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T0] = coordinator.NO_LEADER
    ending(coordinator, T0)
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    coordinator.leaders.leaders[T0] = 1
    coordinator.advance(1_000)
    assert coordinator.leaders.markers() == []


def test_a_broker_that_resigned_looks_for_no_more_leaders(coordinator: Coordinator) -> None:
    coordinator.leaders.leaders[T0] = coordinator.NO_LEADER
    ending(coordinator, T0)
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    coordinator.advance(1_000)
    assert coordinator.timer.next_due() is None


def test_a_successor_sends_the_markers_of_prepared_transactions(coordinator: Coordinator) -> None:
    coordinator.leaders.hold()
    producer = ending(coordinator, T0, T1)
    successor = coordinator.successor(epoch=4)
    assert successor.leaders.markers() == [(1, *producer, True, {T0, T1})]
    assert successor.leaders.requests[0][1].markers[0].coordinator_epoch == 4
    assert successor.state() == "CompleteCommit"


def test_a_transaction_that_a_successor_completes_takes_no_requests(
    coordinator: Coordinator,
) -> None:
    coordinator.leaders.hold()
    producer = ending(coordinator, T0)
    leaders = type(coordinator.leaders)()
    leaders.hold()
    successor = type(coordinator)(coordinator.config, log=coordinator.log, leaders=leaders).lead(1)
    assert successor.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert successor.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    for version in (4, 5):
        end = successor.end(producer, version=version)
        assert end.error is ErrorCode.CONCURRENT_TRANSACTIONS
    leaders.release()
    successor.loop.run()
    assert successor.end(producer).error is ErrorCode.NONE


def test_answers_to_a_former_life_are_ignored(coordinator: Coordinator) -> None:
    coordinator.leaders.hold()
    ending(coordinator, T0)
    coordinator.service.coordinator.on_leading(0, 7)
    coordinator.loop.run()
    assert (
        len(present(coordinator.leaders.held)) == 1
    )  # the second term waits for the broker's answer
    coordinator.leaders.release()
    coordinator.loop.run()
    epochs = [r.markers[0].coordinator_epoch for _, r in coordinator.leaders.requests]
    assert epochs == [0, 7]
    assert coordinator.state() == "CompleteCommit"
