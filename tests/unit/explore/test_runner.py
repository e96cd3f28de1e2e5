"""What a run does around its steps: the order in which queries stop, and remarks on sources."""

from embedkafka.explore.runner import stops_first
from embedkafka.explore.schedule import Arrival, Expire, Restart, Send, Step, Take
from embedkafka.explore.source_remarks import careless_sources, latest_starts

NAMES = {"orders-1a": "orders"}


def test_queries_are_down_before_the_records_come_that_expire() -> None:
    first, second = (Send(arrivals=(Arrival("orders", nth),)) for nth in (0, 1))
    expire = Expire(source="orders")
    steps: list[Step] = [first, Take(), second, expire, Take()]
    assert stops_first(steps) == [
        (0, first),
        (1, Take()),
        (3, Restart()),
        (2, second),
        (3, expire),
        (4, Take()),
    ]


def test_sources_that_begin_at_the_latest_or_ignore_losses_are_named_once() -> None:
    careless = {"subscribe": "orders-1a", "failondataloss": "False"}
    sources = [careless, careless, {"subscribe": "b", "startingoffsets": "earliest"}, {}]
    (said,) = careless_sources(sources, NAMES)
    assert said.startswith("The job reads orders with failOnDataLoss=false")
    (said,) = latest_starts(sources, NAMES)
    assert said.startswith("The job reads orders with startingOffsets=latest")
