"""The offset ranges that an audit reads, and the names it gives to its inputs."""

from embedkafka.spark.delivery.fingerprints import describe
from embedkafka.spark.delivery.offsets import OffsetRange, no_such_topic
from embedkafka.spark.delivery.origins import close_runs


def test_examples_that_are_close_are_read_together() -> None:
    assert close_runs([]) == []
    assert close_runs([7]) == [OffsetRange(start=7, end=8)]
    assert close_runs({10_000, 0, 20_001, 5}) == [
        OffsetRange(start=0, end=10_001),
        OffsetRange(start=20_001, end=20_002),
    ]


def test_a_missing_topic_is_named_with_those_like_it() -> None:
    names = {"orders", "order-lines", "payments"}
    assert no_such_topic("order", names) == (
        "there is no topic order; there are orders, order-lines, ..."
    )
    assert no_such_topic("x", {"a", "b"}) == "there is no topic x; there are a, b"
    assert no_such_topic("x", set()) == "there is no topic x; there are none"


def test_a_selector_is_described_in_words() -> None:
    def order_id(frame: object) -> object: ...

    assert describe("id") == "id"
    assert describe(["id", "region"]) == "id, region"
    assert describe(order_id) == "order_id()"  # type: ignore[arg-type]
    assert describe(lambda frame: frame["id"]) == "a function"
