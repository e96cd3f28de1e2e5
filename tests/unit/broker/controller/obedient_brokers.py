"""Brokers that do what the controller says."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from embedkafka.broker.controller.controller import Controller
from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.wire.protocol.messages.brokers import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from embedkafka.zk import paths
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerEndpoint
from embedkafka.zk.store import EventType, ZkStore
from tests.doubles.own_threads import OwnThreads
from tests.unit.broker.controller.harness import broker_info, tp
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
