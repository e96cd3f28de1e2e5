"""Settings that change while a broker runs, and the notifications of it."""

from collections.abc import Callable, Iterator

import pytest

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.dynamic import DynamicConfig
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk import paths
from embedkafka.zk.change_feed import CHANGE_EXPIRATION_MS
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk


class Background:
    """Keeps tasks until a test runs them."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def once(self, name: str, delay_ms: float, run: Callable[[], None]) -> None:
        self.tasks.append(run)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[MemoryZk]:
    server = MemoryZk(clock, Failures())
    KafkaZk(server.connect(), clock).make_persistent_paths()
    yield server
    server.close()


@pytest.fixture
def admin(server: MemoryZk, clock: ManualClock) -> KafkaZk:
    return KafkaZk(server.connect(), clock)


class Follower:
    """One broker's settings; it learns of changes when its background runs."""

    def __init__(self, server: MemoryZk, clock: ManualClock, broker_id: int) -> None:
        self.background = Background()
        zk = KafkaZk(server.connect(), clock)
        self.config = DynamicConfig(broker_id, BrokerConfig({}), zk, self.background)  # type: ignore[arg-type]  # all it uses
        self.config.start(lambda topic, config: None, lambda config: None)
        self.config.log_config("orders")

    @property
    def segment_bytes(self) -> int:
        return self.config.log_config("orders").segment_bytes


def notifications(admin: KafkaZk) -> list[int]:
    names = admin.store.children(paths.CONFIG_CHANGES)
    return sorted(int(name.rpartition("_")[2]) for name in names)


def set_segment_bytes(admin: KafkaZk, size: int) -> None:
    admin.set_config("topics", "orders", {"segment.bytes": str(size)})


def test_old_notifications_go_when_the_next_is_read(
    server: MemoryZk, admin: KafkaZk, clock: ManualClock
) -> None:
    broker = Follower(server, clock, 1)
    for size in (20_000_000, 30_000_000):
        set_segment_bytes(admin, size)
    broker.background.run()
    assert notifications(admin) == [0, 1]
    clock.advance(CHANGE_EXPIRATION_MS + 1)
    set_segment_bytes(admin, 40_000_000)
    broker.background.run()
    assert notifications(admin) == [2]
    assert broker.segment_bytes == 40_000_000


def test_a_broker_that_missed_a_notification_reads_everything(
    server: MemoryZk, admin: KafkaZk, clock: ManualClock
) -> None:
    quick, slow = Follower(server, clock, 1), Follower(server, clock, 2)
    set_segment_bytes(admin, 20_000_000)
    clock.advance(CHANGE_EXPIRATION_MS + 1)
    quick.background.run()
    admin.set_config("topics", "payments", {})
    quick.background.run()
    assert notifications(admin) == [1], (
        "the notification about orders is purged before `slow` reads it"
    )
    slow.background.run()
    assert slow.segment_bytes == quick.segment_bytes == 20_000_000
