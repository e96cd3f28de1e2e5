"""A coordinator is made once, by whatever needs it first, and not after the broker has stopped."""

from typing import Any
from unittest.mock import Mock

import pytest

from embedkafka.broker.lazy_coordinator import LazyCoordinator
from embedkafka.broker.metadata_cache import MetadataCache


class Bench:
    """A lazy coordinator, and the stand-ins that it has made."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.made: list[Any] = []
        self.lazy = LazyCoordinator("__consumer_offsets", self._make, self.metadata)

    def _make(self) -> Any:
        self.made.append(Mock(coordinator=Mock()))
        return self.made[-1]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_is_made_once_and_knows_the_partitions_that_its_topic_has(bench: Bench) -> None:
    bench.lazy.start(partition_count=7)
    assert bench.made == []
    assert bench.lazy.get() is bench.lazy.get()
    (made,) = bench.made
    made.start.assert_called_once_with(partition_count=7)
    made.stop.assert_not_called()


def test_it_is_made_for_the_first_partition_that_the_broker_leads(bench: Bench) -> None:
    bench.lazy.on_resigned(3, 1)
    assert bench.made == []
    bench.lazy.on_leading(3, 2)
    bench.lazy.on_resigned(3, 4)
    (made,) = bench.made
    made.coordinator.on_leading.assert_called_once_with(3, 2)
    made.coordinator.on_resigned.assert_called_once_with(3, 4)


def test_it_learns_of_metadata_once_it_is_made(bench: Bench) -> None:
    made = bench.lazy.get()
    assert bench.metadata._listeners == (made.coordinator.on_metadata_changed,)


def test_whether_made_before_or_after_it_stops_with_the_broker(bench: Bench) -> None:
    early, late = bench, Bench()
    early.lazy.get()
    for one in (early, late):
        one.lazy.stop()
        one.lazy.get()
        (made,) = one.made
        made.stop.assert_called_once_with()
