"""The controller with its thread, its channels and its session."""

from collections.abc import Iterator

import pytest

from embedkafka.broker.controller.events import ElectionType
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk import paths
from embedkafka.zk.memory import MemorySession, MemoryZk
from tests.unit.broker.controller.harness import tp
from tests.unit.broker.controller.obedient_brokers import (
    Answer,
    Brokers,
)


@pytest.fixture
def server() -> Iterator[MemoryZk]:
    server = MemoryZk(SystemClock(), Failures())
    yield server
    server.close()


@pytest.fixture
def brokers(server: MemoryZk) -> Iterator[Brokers]:
    brokers = Brokers(server.connect)
    yield brokers
    brokers.close()


def test_three_brokers_elect_one_and_create_a_topic(brokers: Brokers) -> None:
    for broker_id in (1, 2, 3):
        brokers.start(broker_id)
    brokers.create_topic("orders", {0: [1, 2, 3]})
    assert brokers.controllers[1].is_active
    assert brokers.controllers[1].epoch == 1
    assert brokers.admin.partition_states([tp("orders")])[tp("orders")].isr == (1, 2, 3)


def test_another_broker_takes_over(brokers: Brokers) -> None:
    for broker_id in (1, 2):
        brokers.start(broker_id)
    brokers.create_topic("orders", {0: [1, 2]})
    brokers.stop(1)
    brokers.create_topic("next", {0: [2]})
    assert brokers.controllers[2].is_active
    assert brokers.controllers[2].active_id == 2
    assert brokers.admin.controller_epoch()[0] == 2


def test_requests_of_admins_are_answered(brokers: Brokers) -> None:
    controller = brokers.start(1)
    brokers.create_topic("orders", {0: [1]})
    elected, moved, listed, stopped = Answer(), Answer(), Answer(), Answer()
    controller.elect_leaders([tp("orders")], ElectionType.PREFERRED, elected)
    controller.alter_partition_reassignments({tp("orders"): [1, 9]}, moved)
    controller.list_partition_reassignments(None, listed)
    controller.controlled_shutdown(1, controller.broker_epoch, stopped)
    assert elected.get()[tp("orders")].code is ErrorCode.ELECTION_NOT_NEEDED
    assert moved.get()[tp("orders")].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert listed.get() == {}
    assert stopped.get() == []
    controller.enable_unclean_election("orders")


def test_a_stopped_controller_answers_that_it_is_none(brokers: Brokers) -> None:
    controller = brokers.start(1)
    brokers.stop(1)
    elected, moved = Answer(), Answer()
    controller.elect_leaders([tp("orders")], ElectionType.UNCLEAN, elected)
    controller.alter_partition_reassignments({}, moved)
    assert elected.get()[tp("orders")].code is ErrorCode.NOT_CONTROLLER
    assert isinstance(moved.get(), ApiError)
    assert not controller.is_active


def test_an_expired_session_is_renewed_and_the_broker_registers_again(
    brokers: Brokers, server: MemoryZk
) -> None:
    controller = brokers.start(1)
    brokers.create_topic("orders", {0: [1]})
    before = controller.broker_epoch
    session = brokers.stores[1]
    assert isinstance(session, MemorySession)
    session.expire()
    brokers.create_topic("after", {0: [1]})
    assert controller.is_active
    assert controller.broker_epoch > before
    assert brokers.admin.controller_epoch()[0] == 2


def test_a_paused_session_delays_the_controller_and_loses_nothing(brokers: Brokers) -> None:
    brokers.start(1)
    brokers.create_topic("orders", {0: [1]})
    session = brokers.stores[1]
    assert isinstance(session, MemorySession)
    session.pause()
    brokers.admin.create_topic("later", {0: [1]}, topic_id=None, config={})
    session.resume()
    brokers.await_znode(paths.partition_state(tp("later")))
    assert brokers.admin.controller_epoch()[0] == 1


def test_a_broker_with_a_paused_session_can_be_stopped(brokers: Brokers) -> None:
    controller = brokers.start(1)
    brokers.create_topic("orders", {0: [1]})
    session = brokers.stores[1]
    assert isinstance(session, MemorySession)
    session.pause()
    answer = Answer()
    controller.alter_partition_reassignments({tp("orders"): [1]}, answer)
    brokers.stop(1)
    assert isinstance(answer.get(), ApiError)
