"""When a cluster counts as emptied."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from embedkafka.cluster.restoring.reset import _gone
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk


def test_a_topic_is_gone_when_its_name_can_be_used_again() -> None:
    clock = ManualClock()
    server = MemoryZk(clock, Failures())
    zk = KafkaZk(server.connect(), clock)
    zk.make_persistent_paths()
    _, version = zk.register_controller_and_increment_epoch(1)
    old, new = UUID(int=1), UUID(int=2)
    brokers: Any = SimpleNamespace(
        zk=zk,
        on_watch=lambda event: None,
        state=SimpleNamespace(everywhere=lambda holds: lambda: None),
    )
    probe = _gone(brokers, {"orders": old})
    zk.create_topic("orders", {0: [1]}, topic_id=old, config={})
    zk.request_topic_deletion("orders")
    assert probe() == "ZooKeeper has orders"
    zk.store.delete("/config/topics/orders")
    zk.store.delete("/brokers/topics/orders")
    assert probe() == "ZooKeeper has orders", "the deletion mark is still there"
    zk.delete_topic_requests(["orders"], epoch_version=version)
    assert probe() is None
    zk.create_topic("orders", {0: [1]}, topic_id=new, config={})
    assert probe() is None, "this is another topic of the same name"
    server.close()
