"""Notifications between brokers: read once, purged after a while, missed by those who were away."""

from collections.abc import Callable, Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk.change_feed import CHANGE_EXPIRATION_MS, ChangeFeed
from embedkafka.zk.memory import MemoryZk


class Reader:
    """One broker; it reads when a test runs its background."""

    def __init__(self, server: MemoryZk, clock: ManualClock) -> None:
        self.read: list[bytes] = []
        self.gaps = 0
        self._tasks: list[Callable[[], object]] = []
        self.feed = ChangeFeed(
            server.connect(),
            clock,
            self,  # type: ignore[arg-type]  # all it uses of a scheduler
            folder="/changes",
            prefix="change_",
            on_change=self.read.append,
            on_gap=self._on_gap,
        )
        self.feed.start()

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> None:
        self._tasks.append(run)

    def run(self) -> None:
        while self._tasks:
            self._tasks.pop(0)()

    def _on_gap(self) -> None:
        self.gaps += 1


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[MemoryZk]:
    server = MemoryZk(clock, Failures())
    server.connect().create("/changes")
    yield server
    server.close()


def announce(server: MemoryZk, text: bytes) -> None:
    server.connect().create("/changes/change_", text, sequence=True)


def test_each_change_is_read_once_and_in_order(server: MemoryZk, clock: ManualClock) -> None:
    announce(server, b"before")
    reader = Reader(server, clock)
    for text in (b"a", b"b"):
        announce(server, text)
    reader.run()
    announce(server, b"c")
    reader.run()
    assert (reader.read, reader.gaps) == ([b"a", b"b", b"c"], 0)


def test_a_change_is_purged_a_quarter_of_an_hour_later(
    server: MemoryZk, clock: ManualClock
) -> None:
    reader = Reader(server, clock)
    announce(server, b"a")
    clock.advance(CHANGE_EXPIRATION_MS)
    announce(server, b"b")
    reader.run()
    assert len(server.connect().children("/changes")) == 2
    clock.advance(1)
    announce(server, b"c")
    reader.run()
    assert sorted(server.connect().children("/changes"))[0] == "change_0000000001"


def test_a_reader_that_missed_a_purged_change_learns_of_the_gap(
    server: MemoryZk, clock: ManualClock
) -> None:
    quick, slow = Reader(server, clock), Reader(server, clock)
    announce(server, b"a")
    clock.advance(CHANGE_EXPIRATION_MS + 1)
    quick.run()
    announce(server, b"b")
    quick.run()
    slow.run()
    assert (slow.read, slow.gaps, quick.gaps) == ([b"b"], 1, 0)
