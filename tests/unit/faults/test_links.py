"""How long a slow link takes, and which link a fault is on."""

from random import Random

import pytest

from embedkafka.faults.links import CLIENTS, Links, SlowLink, Speed, Way
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.ids import BrokerId
from tests.doubles.scheduling import TaskList


@pytest.fixture
def links() -> Links:
    return Links(TaskList(), ManualClock(), Random(7))


def slow(links: Links, **speed: float) -> SlowLink:
    fault = links.slow(CLIENTS, None, Speed(**speed))
    assert isinstance(fault, SlowLink)
    return fault


def test_bytes_queue_behind_each_other_in_each_direction(links: Links) -> None:
    fault = slow(links, bytes_per_s=1000, latency_ms=5)
    assert fault.delay_ms(Way.IN, 100, now_ms=0) == 105
    assert fault.delay_ms(Way.IN, 100, now_ms=0) == 205, "after the first"
    assert fault.delay_ms(Way.OUT, 100, now_ms=0) == 105, "the other way is free"
    assert fault.delay_ms(Way.IN, 100, now_ms=1000) == 105, "the first two are through"


def test_jitter_adds_up_to_its_size(links: Links) -> None:
    fault = slow(links, latency_ms=10, jitter_ms=20)
    delays = [fault.delay_ms(Way.IN, 0, now_ms=0) for _ in range(50)]
    assert 10 <= min(delays) < 15
    assert 25 < max(delays) <= 30


def test_jitter_is_repeated_by_the_seed() -> None:
    def delays() -> list[float]:
        fault = slow(Links(TaskList(), ManualClock(), Random(3)), jitter_ms=20)
        return [fault.delay_ms(Way.IN, 0, now_ms=0) for _ in range(5)]

    assert delays() == delays()


def test_a_cut_is_one_way_and_a_slow_link_is_not(links: Links) -> None:
    one, two, three = map(BrokerId, (1, 2, 3))
    cut = links.cut(one, two)
    assert links.find(one, two) is cut
    assert links.find(two, one) is None
    cut.remove()
    stalled = links.stall(one, two)
    assert links.find(one, two) is links.find(two, one) is stalled
    assert links.find(one, three) is links.find(None, two) is None


def test_a_link_of_clients_is_not_one_of_brokers(links: Links) -> None:
    fault = links.cut(CLIENTS, BrokerId(1))
    assert links.find(None, BrokerId(1)) is fault
    assert links.find(None, BrokerId(2)) is None
    assert links.find(BrokerId(2), BrokerId(1)) is None
    everywhere = links.cut(CLIENTS, None)
    assert links.find(None, BrokerId(2)) is everywhere
    links.clear()
    assert links.faults == ()
