"""Which frames pytest shows of an error: the test's own, and all of them if it is our bug."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import embedkafka
from embedkafka import AwaitTimeout, BackgroundFailure, EmbedKafkaError
from embedkafka.explore.refutation import Refuted
from pytest_embedkafka.reporting import hide_frames

Call = Callable[[], object]
ERROR = type("StreamingQueryException", (Exception,), {"__module__": "pyspark.errors.captured"})


def function_in(module: str, code: str, **names: Any) -> Call:
    """A function of a module that need not be there, whose body is this code."""
    found: dict[str, Any] = {"__name__": module, **names}
    exec(f"def call():\n    {code}", found)
    function: Call = found["call"]
    return function


def shown(call: Call) -> list[str]:
    """The modules of the frames that pytest shows, without this one."""
    with pytest.raises(BaseException) as excinfo:
        call()
    hide_frames(excinfo)
    modules = [entry.frame.f_globals["__name__"] for entry in excinfo.traceback.filter(excinfo)]
    return [module for module in modules if module != __name__]


def test_a_failed_assertion_of_ours_shows_the_test_alone() -> None:
    inner = function_in("embedkafka.spark.differences", "raise AssertionError('differs')")
    assert shown(function_in("embedkafka.spark.assertions", "inner()", inner=inner)) == []


def test_an_error_of_spark_that_came_through_us_shows_neither_us_nor_its_client() -> None:
    py4j = function_in("py4j.protocol", "raise error('the job failed')", error=ERROR)
    spark = function_in("pyspark.sql.streaming.query", "inner()", inner=py4j)
    assert shown(function_in("embedkafka.spark.queries", "inner()", inner=spark)) == []
    assert shown(spark) == ["pyspark.sql.streaming.query", "py4j.protocol"], "the test's own call"


def test_a_bug_of_ours_shows_all_frames() -> None:
    for bug in (AssertionError("a bug"), KeyError("a bug"), BackgroundFailure("a bug")):
        inner = function_in("embedkafka.cluster.brokers", "raise bug", bug=bug)
        outer = function_in("embedkafka.spark.queries", "inner()", inner=inner)
        assert shown(outer) == ["embedkafka.spark.queries", "embedkafka.cluster.brokers"]


def test_public_names_say_where_they_are_imported_from() -> None:
    public = [getattr(embedkafka, name) for name in embedkafka.__all__]
    assert {each.__module__ for each in public} == {"embedkafka"}
    assert all(pickle.loads(pickle.dumps(each)) is each for each in public)
    error = pickle.loads(pickle.dumps(AwaitTimeout("late")))
    assert isinstance(error, EmbedKafkaError)
    assert Refuted.__module__ == "embedkafka.explore"
    assert pickle.loads(pickle.dumps(Refuted)) is Refuted
