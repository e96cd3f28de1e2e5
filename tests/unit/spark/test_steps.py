"""The steps of `check_stream`: their order, what a failed one says, and what is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from embedkafka import InvalidArgument
from embedkafka.spark import AddRecords, AdvanceClock, Restart, check_stream


class Query:
    """A query that only ends."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def awaitTermination(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._said.append("stopped")


class Topic:
    """Takes records; its cluster's clock says how it moved."""

    name, decode = "orders", None

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def send(self, value: object, key: object, timestamp_ms: object) -> None:
        self._said.append(f"sent {value!r} key {key} at {timestamp_ms}")

    def send_json(self, value: object, key: object, timestamp_ms: object) -> None:
        self._said.append(f"sent JSON {value!r} key {key} at {timestamp_ms}")

    def spark_options(self) -> dict[str, str]:
        return {}

    def advance(self, *given: float, **spans: float) -> None:
        self._said.append(f"clock {given} {spans}")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def topic(said: list[str]) -> Any:
    return Topic(said)


@pytest.fixture
def check(said: list[str], topic: Any) -> Any:
    kafka = SimpleNamespace(clock=topic)
    spark: Any = None

    def query() -> Any:
        return Query(said)

    def check(*steps: Any) -> None:
        check_stream(kafka, spark, lambda spark: query(), list(steps))

    return check


def test_steps_are_taken_in_order_and_the_query_ends(
    check: Any, topic: Any, said: list[str]
) -> None:
    records = AddRecords(topic, {"sku": "a"}, "text", None, key="sku", timestamp_ms=5)
    check(records, AdvanceClock(7, days=1), AddRecords(topic, b"x"))
    assert said == [
        "sent JSON {'sku': 'a'} key a at 5",
        "sent 'text' key sku at 5",
        "sent None key sku at 5",
        "clock (7,) {'days': 1}",
        "sent b'x' key None at None",
        "stopped",
    ]


def test_a_restart_may_bring_other_code(check: Any, said: list[str]) -> None:
    def other(spark: Any) -> Any:
        said.append("the other job starts")
        return [Query(said)]

    check(Restart(other))
    assert said == ["stopped", "the other job starts", "stopped"]


def test_a_failed_step_is_shown_among_all(check: Any, topic: Any, said: list[str]) -> None:
    class Fails:
        def run(self, job: Any) -> None:
            raise AssertionError("it differs")

        def __repr__(self) -> str:
            return "CheckTopic(totals)"

    with pytest.raises(AssertionError, match="it differs") as failed:
        check(AddRecords(topic, "a"), Fails(), AdvanceClock(hours=1))
    assert failed.value.__notes__ == [
        "the steps of check_stream:\n"
        "   AddRecords(orders, 'a')\n"
        "=> CheckTopic(totals)\n"
        "   AdvanceClock(hours=1)"
    ]
    assert said[-1] == "stopped"


@pytest.mark.parametrize("wrong", [Restart, "Restart()", None])
def test_what_is_no_step_is_refused_before_the_job_starts(
    check: Any, said: list[str], wrong: object
) -> None:
    with pytest.raises(InvalidArgument, match="an action is an object such as"):
        check(wrong)
    assert said == []
