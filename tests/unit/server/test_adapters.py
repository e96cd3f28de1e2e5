"""The broker's parts as its other parts see them."""

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.server.adapters import DiskFailures
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk


class Later:
    """A scheduler whose work is done when the test says so."""

    def __init__(self):
        self.tasks = []

    def once(self, name, delay_ms, run):
        self.tasks.append(run)


def test_a_lost_directory_is_told_in_the_background_once_the_session_is_back():
    clock = ManualClock()
    zookeeper = MemoryZk(clock, Failures())
    session = zookeeper.connect()
    zk, later = KafkaZk(session, clock), Later()
    zk.make_persistent_paths()
    events = DiskFailures(BrokerId(7), zk, later)
    session.pause()
    events.on_log_dir_failure("/disk", [])
    session.resume()  # whose thread may be ZooKeeper's own
    assert zk.log_dir_events() == {}
    for task in later.tasks:
        task()
    assert list(zk.log_dir_events().values()) == [7]
    session.pause()
    session.resume()
    assert len(later.tasks) == 1
    zookeeper.close()
