"""The controller with its thread, its channels and its session."""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from embedkafka.controller.controller import Controller
from embedkafka.controller.core import ControllerConfig
from embedkafka.controller.events import ElectionType
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.brokers import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.zk import paths
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemorySession, MemoryZk
from embedkafka.zk.payloads import BrokerEndpoint
from embedkafka.zk.store import EventType, ZkStore
from tests.doubles.own_threads import OwnThreads
from tests.unit.controller.harness import broker_info, tp
from tests.unit.zk.contract import Seen


class ObedientBroker:
    """A connection to a broker that accepts every request."""

    def __init__(self, endpoint: BrokerEndpoint) -> None:
        self.endpoint = endpoint

    def call(self, request: Any, version: int) -> Any:
        if isinstance(request, LeaderAndIsrRequest):
            return LeaderAndIsrResponse(topics=[])
        if isinstance(request, StopReplicaRequest):
            return StopReplicaResponse(partition_errors=[])
        return UpdateMetadataResponse()

    def close(self) -> None:
        pass


class Brokers:
    """Controllers with threads, each on a session of `server`."""

    def __init__(self, connect_store: Any) -> None:
        self._own_threads = OwnThreads()
        self.clock = SystemClock()
        self.failures = Failures()
        self.scheduler = ThreadScheduler("ek-b0-background", self.clock, self.failures)
        self._connect_store = connect_store
        self.stores: dict[int, ZkStore] = {}
        self.controllers: dict[int, Controller] = {}
        self.admin = KafkaZk(connect_store(), self.clock)
        self.admin.make_persistent_paths()

    def start(self, broker_id: int) -> Controller:
        store = self._connect_store()
        zk = KafkaZk(store, self.clock)
        info = broker_info(broker_id)
        controller = Controller(
            info,
            zk.register_broker(info),
            zk,
            clock=self.clock,
            failures=self.failures,
            config=ControllerConfig(),
            scheduler=self.scheduler,
            connect=ObedientBroker,
        )
        self.stores[broker_id] = store
        self.controllers[broker_id] = controller
        controller.start()
        self.await_znode(paths.CONTROLLER)  # so the first one started is elected
        return controller

    def stop(self, broker_id: int) -> None:
        self.controllers.pop(broker_id).stop()
        self.stores.pop(broker_id).close()

    def await_znode(self, path: str) -> None:
        seen = Seen()
        if self.admin.store.exists(path, seen) is None:
            assert seen.await_events(1)[0].type is EventType.CREATED

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        self.admin.create_topic(name, assignment, topic_id=uuid.uuid4(), config={})
        self.await_znode(paths.partition_state(tp(name)))

    def close(self) -> None:
        for broker_id in list(self.controllers):
            self.stop(broker_id)
        self.admin.store.close()
        self.scheduler.shutdown()
        self.failures.check()
        assert self._own_threads.names("ek-b") == []


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


class Answer:
    """A reply that arrives on another thread."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._value: Any = None

    def __call__(self, value: Any) -> None:
        assert not self._came.is_set(), "answered twice"
        self._value = value
        self._came.set()

    def get(self) -> Any:
        assert self._came.wait(10), "no answer"
        return self._value


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
