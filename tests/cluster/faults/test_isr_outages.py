"""A leader changes its in-sync set while ZooKeeper does not answer."""

import threading
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.runtime.ids import TopicPartition
from embedkafka.zk import paths
from embedkafka.zk.store import ConnectionLoss, SetOp


class DeafLeader:
    """Cuts a broker off from the answers to its ISR writes, or from ZooKeeper entirely."""

    def __init__(self, kafka: EmbeddedKafka, topic: str, *, writes: Any) -> None:
        self.tried = threading.Event()
        self._writes = writes
        self._state = paths.partition_state(TopicPartition(topic, 0))
        self._store = (
            kafka.broker(kafka.existing_topic(topic).leader())._lifecycle.require_broker().zk.store
        )
        self._real = self._store.multi
        self._store.multi = self._multi

    def hear(self) -> None:
        self._store.multi = self._real

    def _multi(self, ops: Any) -> Any:
        if not (isinstance(ops[0], SetOp) and ops[0].path == self._state):
            return self._real(ops)  # a controller's write starts with its epoch
        if self._writes:
            self._real(ops)
        self.tried.set()
        raise ConnectionLoss(self._state)


@pytest.fixture(params=[False, True], ids=["not written", "written, answer lost"])
def deaf(request: pytest.FixtureRequest, kafka: EmbeddedKafka) -> DeafLeader:
    """A replica of `orders` is back, and its leader does not know whether the ISR includes it."""
    orders = kafka.topic("orders", replication=3)
    orders.send("a")
    joiner = orders.partition().replicas[-1]
    kafka.broker(joiner).stop()
    orders.await_isr(size=2)
    leader = DeafLeader(kafka, "orders", writes=request.param)
    kafka.broker(joiner).start()
    assert leader.tried.wait(20)
    return leader


def test_the_isr_is_whole_once_zookeeper_answers_again(
    kafka: EmbeddedKafka, deaf: DeafLeader
) -> None:
    deaf.hear()
    kafka.await_no_under_replicated()
    assert kafka.existing_topic("orders").send("b").offset == 1
    assert len(leader_view(kafka).isr) == 3


def test_a_joiner_that_dies_in_the_outage_holds_up_no_acknowledgement(
    kafka: EmbeddedKafka, deaf: DeafLeader
) -> None:
    joiner = kafka.existing_topic("orders").partition().replicas[-1]
    kafka.broker(joiner).kill()
    deaf.hear()
    assert kafka.existing_topic("orders").send("b").offset == 1
    kafka.broker(joiner).start()
    kafka.await_no_under_replicated()
    assert leader_view(kafka).high_watermark == 2


def leader_view(kafka: EmbeddedKafka) -> Any:
    leader = kafka.broker(kafka.existing_topic("orders").leader())._lifecycle.require_broker()
    return leader.replicas.hosted.require(TopicPartition("orders", 0)).view()
