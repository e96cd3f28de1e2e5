"""Immediate triggers replace intervals for a block, and nothing after it."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming import readwriter

from embedkafka.spark import triggers
from embedkafka.spark.triggers import describe_replaced, immediate_triggers, replaced_intervals


class Writer:
    """A writer of streams as PySpark has it: it keeps the trigger that it was given last."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self._spark = SimpleNamespace(conf={})

    def trigger(self, **given: Any) -> "Writer":
        if given.get("processingTime") == "soon":
            raise ValueError("soon is not an interval")
        self.given = given
        return self


class RemoteWriter(Writer):
    """The same, of Spark Connect."""

    def trigger(self, **given: Any) -> "RemoteWriter":
        self.given = given
        return self


AT_ONCE = {"processingTime": "0 seconds"}
MINUTE = {"processingTime": "1 minute"}
ORIGINALS = Writer.trigger, RemoteWriter.trigger


@pytest.fixture(autouse=True)
def writers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both stand in for PySpark's, and must be as they were."""
    monkeypatch.setattr(readwriter, "DataStreamWriter", Writer)
    connect = SimpleNamespace(DataStreamWriter=RemoteWriter)
    monkeypatch.setitem(sys.modules, triggers._CONNECT, connect)
    triggers.forget_replaced()
    yield
    assert (Writer.trigger, RemoteWriter.trigger) == ORIGINALS


@pytest.mark.parametrize(
    ("allowed", "shortest"),
    [
        ("5000ms", "5000 milliseconds"),
        ("1s", "1000 milliseconds"),
        ("2min", "120000 milliseconds"),
        ("700", "700 milliseconds"),
        ("a while", "5 seconds"),
    ],
)
def test_real_time_mode_gets_the_shortest_batch_that_the_session_allows(
    allowed: str, shortest: str
) -> None:
    writer = Writer()
    writer._spark.conf = {"spark.sql.streaming.realTimeMode.minBatchDuration": allowed}
    with immediate_triggers() as replaced:
        writer.trigger(realTime="5 minutes ")
        assert writer.given == {"realTime": shortest}
    assert replaced == ["realTime 5 minutes"]
    assert describe_replaced(replaced) == "immediate_triggers: realTime 5 minutes ran at once"


@pytest.mark.parametrize("writer", [Writer(), RemoteWriter()])
def test_an_interval_becomes_zero_in_the_block_only(writer: Writer) -> None:
    with immediate_triggers() as replaced:
        assert writer.trigger(**MINUTE) is writer
        assert writer.given == AT_ONCE
        writer.trigger(processingTime=" 1 minute ")
        writer.trigger(processingTime="10 seconds")
    assert replaced == ["1 minute", "10 seconds"]
    writer.trigger(**MINUTE)
    assert writer.given == MINUTE


@pytest.mark.parametrize(
    "given",
    [
        {"availableNow": True},
        {"once": True},
        {"continuous": "1 second"},
        {"processingTime": "0 seconds"},
    ],
)
def test_other_triggers_stay_as_they_are(given: dict[str, Any]) -> None:
    with immediate_triggers() as replaced:
        assert Writer().trigger(**given).given == given
    assert replaced == []


def test_blocks_in_blocks_and_failures_leave_nothing_behind() -> None:
    with immediate_triggers() as outer:
        with pytest.raises(ZeroDivisionError), immediate_triggers() as inner:
            Writer().trigger(**MINUTE)
            raise ZeroDivisionError
        assert Writer().trigger(processingTime="1 hour").given == AT_ONCE
    assert (inner, outer) == (["1 minute"], ["1 minute", "1 hour"])


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    is_inside, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with immediate_triggers():
            is_inside.set()
            may_end.wait(60)

    thread = threading.Thread(target=other)
    with immediate_triggers():
        thread.start()
        assert is_inside.wait(60)
    assert Writer().trigger(**MINUTE).given == AT_ONCE, "the other block still runs"
    may_end.set()
    thread.join(60)
    assert Writer().trigger(**MINUTE).given == MINUTE


def test_what_spark_refuses_is_refused_and_not_told() -> None:
    with immediate_triggers() as replaced, pytest.raises(ValueError, match="not an interval"):
        Writer().trigger(processingTime="soon")
    assert replaced == []


def test_a_report_names_the_intervals_since_the_last_test_and_of_wider_fixtures() -> None:
    with immediate_triggers():
        Writer().trigger(**MINUTE)
    with immediate_triggers():
        Writer().trigger(processingTime="1 hour")
        assert replaced_intervals() == ["1 minute", "1 hour"]
        triggers.forget_replaced()
        assert replaced_intervals() == ["1 hour"], "its queries run in the next test"
    triggers.forget_replaced()
    assert describe_replaced(replaced_intervals()) == ""
    assert describe_replaced(["1 minute", "1 hour"]) == (
        "immediate_triggers: processingTime 1 minute, processingTime 1 hour ran at once"
    )
