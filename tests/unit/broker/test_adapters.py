"""The adapters between a broker's parts."""

from embedkafka.broker.adapters import CachedCoordinatorLeaders, DiskFailures
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import NO_BROKER_EPOCH, BrokerId
from embedkafka.wire.protocol.messages.brokers import FULL, INCREMENTAL, UpdateMetadataRequest
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk
from tests.doubles.scheduling import TaskList


def update(kind: int, *, broker_epoch: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        type=kind,
        broker_epoch=broker_epoch,
        topic_states=[],
        live_brokers=[],
    )


def test_a_broker_is_informed_when_it_was_told_everything_in_this_registration() -> None:
    cache, registered_in = MetadataCache(), [7]
    leaders = CachedCoordinatorLeaders(
        BrokerId(1), cache, "__consumer_offsets", broker_epoch=lambda: registered_in[-1]
    )
    assert not leaders.is_informed
    cache.update(update(INCREMENTAL, broker_epoch=7))
    assert not leaders.is_informed
    cache.update(update(FULL, broker_epoch=7))
    assert leaders.is_informed
    registered_in.append(9)  # its session expired, and it registered again
    assert not leaders.is_informed
    cache.update(update(INCREMENTAL, broker_epoch=9))
    assert not leaders.is_informed
    cache.update(update(FULL, broker_epoch=9))
    assert leaders.is_informed


def test_a_broker_that_has_yet_to_register_is_not_informed() -> None:
    leaders = CachedCoordinatorLeaders(
        BrokerId(1), MetadataCache(), "__consumer_offsets", broker_epoch=lambda: NO_BROKER_EPOCH
    )
    assert not leaders.is_informed


def test_the_controller_orders_postponed_partitions_again_a_moment_later() -> None:
    clock = ManualClock()
    zookeeper = MemoryZk(clock, Failures())
    zk, later = KafkaZk(zookeeper.connect(), clock), TaskList()
    zk.make_persistent_paths()
    events = DiskFailures(BrokerId(7), zk, later)
    for _ in range(2):
        events.on_postponed()
        events.on_postponed()  # one report is enough for both
        (task,) = later.pending
        assert task.delay_ms == 1000
        later.run_pending()
    assert list(zk.log_dir_events().values()) == [7, 7]
    zookeeper.close()


def test_a_partition_that_is_postponed_during_a_report_gets_another_one() -> None:
    clock = ManualClock()
    zookeeper = MemoryZk(clock, Failures())
    zk, later = KafkaZk(zookeeper.connect(), clock), TaskList()
    zk.make_persistent_paths()
    events = DiskFailures(BrokerId(7), zk, later)
    # The controller may be so quick that its order is refused before the report has returned.
    zk.log_dir_events(lambda _: events.on_postponed())
    events.on_postponed()
    later.run_pending()
    (task,) = later.pending
    assert task.delay_ms == 1000
    task.run()
    assert list(zk.log_dir_events().values()) == [7, 7]
    zookeeper.close()


def test_a_lost_directory_is_told_in_the_background_once_the_session_is_back() -> None:
    clock = ManualClock()
    zookeeper = MemoryZk(clock, Failures())
    session = zookeeper.connect()
    zk, later = KafkaZk(session, clock), TaskList()
    zk.make_persistent_paths()
    events = DiskFailures(BrokerId(7), zk, later)
    session.pause()
    events.on_log_dir_failure("/disk", [])
    session.resume()  # on a thread that may be ZooKeeper's
    assert zk.log_dir_events() == {}
    (task,) = later.pending
    task.run()
    assert list(zk.log_dir_events().values()) == [7]
    session.pause()
    session.resume()
    assert later.pending == [task]
    zookeeper.close()
