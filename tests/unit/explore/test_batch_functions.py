"""Functions for `foreachBatch` end before a line, and their writes fail, as a schedule says."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.sql.streaming.readwriter import DataStreamWriter

from embedkafka.explore.batch_functions import BatchFunctions, DiedInside
from embedkafka.explore.places import Passed, Place
from embedkafka.explore.schedule import CrashInside, FailWrite
from embedkafka.explore.sink_calls import failure_of, find_write

Function = Callable[[Any, int], object]


class Batch(list[str]):
    """A batch as a DataFrame that is a list."""

    def isEmpty(self) -> bool:
        return not self


class Store:
    """Three tables, and functions that write a batch to them."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.done: list[str] = []

    def one_after_the_other(self, batch: list[str], number: int) -> None:
        self.done.append("begun")
        for row in batch:
            self.done.append(row)
        self.done.append("ended")

    def careless(self, batch: list[str], number: int) -> None:
        try:
            self.done.append("begun")
            self.database.execute("CREATE TABLE rows (n INT)")
            self.done.append("created")
        except Exception:
            self.done.append("swallowed")
        finally:
            self.done.append("finally")

    def calls_another(self, batch: list[str], number: int) -> None:
        self.one_after_the_other(batch, number)
        self.done.extend(sorted(batch, key=len))


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.database.close()


def passed(function: Function, batch: list[str]) -> Passed:
    functions = BatchFunctions()
    functions.note()
    functions.wrap(function)(batch, 0)
    return functions.passed


def texts(places: tuple[Place, ...]) -> list[str]:
    return [f"{place.text} {place.nth}" for place in places]


def struck(function: Function, event: CrashInside | FailWrite) -> bool:
    """Whether the function came to the place."""
    functions = BatchFunctions()
    with functions.striking(event) as strike:
        try:
            functions.wrap(function)(Batch("ab"), 0)
        except DiedInside:
            assert isinstance(event, CrashInside)
    return strike.has_hit


def test_lines_are_noted_in_their_order_and_each_twice_at_most(store: Store) -> None:
    found = passed(store.one_after_the_other, ["a", "b", "c"])
    assert texts(found.lines) == [  # all but the first: nothing has happened before it
        "for row in batch: 1",
        "self.done.append(row) 1",
        "for row in batch: 2",
        "self.done.append(row) 2",
        'self.done.append("ended") 1',
    ]
    assert found.functions == 1
    assert found.writes == ()
    assert store.done == ["begun", "a", "b", "c", "ended"]


def test_only_the_authors_lines_are_noted(store: Store) -> None:
    """Also of functions that the author's function calls."""
    found = passed(store.calls_another, ["a"])
    assert {place.file for place in found.lines} == {__file__}
    assert 'self.done.append("ended") 1' in texts(found.lines)


def test_a_driver_dies_before_each_line(store: Store) -> None:
    left = []
    for place in passed(store.one_after_the_other, ["a", "b"]).lines:
        store.done.clear()
        assert struck(store.one_after_the_other, CrashInside(place=place))
        left.append(list(store.done))
    whole = ["begun", "a", "b"]
    assert left == [whole[:1], whole[:1], whole[:2], whole[:2], whole]


def test_no_except_of_the_authors_catches_a_death(store: Store) -> None:
    (place,) = [each for each in passed(store.careless, []).lines if "created" in each.text]
    store.database.execute("DROP TABLE rows")
    store.done.clear()
    assert struck(store.careless, CrashInside(place=place))
    assert store.done == ["begun", "finally"]


def test_a_write_fails_before_or_after_it_has_written(store: Store) -> None:
    (write,) = passed(store.careless, []).writes
    assert write.name == "Connection.execute"
    assert "CREATE TABLE" in write.place.text
    for has_written in (False, True):
        store.database.execute("DROP TABLE IF EXISTS rows")
        store.done.clear()
        assert struck(store.careless, FailWrite(write=write, has_written=has_written))
        assert store.done == ["begun", "swallowed", "finally"]
        tables = store.database.execute("SELECT name FROM sqlite_master").fetchall()
        assert tables == [("rows",)] * has_written


def test_a_function_that_never_comes_there_is_left_alone(store: Store) -> None:
    place = Place(file=__file__, line=1)
    assert not struck(store.one_after_the_other, CrashInside(place=place))
    assert store.done == ["begun", "a", "b", "ended"]


def test_a_batch_without_rows_is_not_struck(store: Store) -> None:
    place = passed(store.one_after_the_other, ["a"]).lines[-1]
    functions = BatchFunctions()
    with functions.striking(CrashInside(place=place)) as strike:
        functions.wrap(store.one_after_the_other)(Batch(), 0)
    assert not strike.has_hit


def test_one_strike_hits_once_and_tracers_are_those_of_before(store: Store) -> None:
    def before(frame: Any, event: str, arg: Any) -> None: ...

    place = passed(store.one_after_the_other, ["a"]).lines[-1]
    functions = BatchFunctions()
    call = functions.wrap(store.one_after_the_other)
    trace = sys.gettrace()
    sys.settrace(before)
    try:
        with functions.striking(CrashInside(place=place)):
            with pytest.raises(DiedInside, match="the driver dies in foreachBatch, before line"):
                call(Batch("a"), 0)
            assert sys.gettrace() is before
            call(Batch("a"), 1)
        call(Batch("a"), 2)
    finally:
        sys.settrace(trace)
    assert store.done[-1] == "ended"


def test_threads_of_the_function_are_followed_too(store: Store) -> None:
    def in_parallel(batch: list[str], number: int) -> None:
        with ThreadPoolExecutor(1) as threads:
            written = threads.submit(careless, batch)
        written.result()

    def careless(batch: list[str]) -> None:
        try:
            Producer({}).produce("out", b"1")
            store.done.append("sent")
        except KafkaException:
            store.done.append("swallowed")

    (write,) = passed(in_parallel, ["a"]).writes
    assert write.name == "Producer.produce"
    assert struck(in_parallel, FailWrite(write=write))
    assert store.done == ["sent", "swallowed"]
    assert (threading.gettrace(), threading.getprofile()) == (None, None)


def test_a_function_that_does_not_flush_its_producer_is_noted() -> None:
    producer = Producer({})  # it knows no broker

    def send(batch: list[str], number: int) -> None:
        producer.produce("out", b"1")

    def send_and_flush(batch: list[str], number: int) -> None:
        producer.produce("out", b"1")
        producer.flush(0)

    assert passed(send, ["a"]).is_unflushed
    assert not passed(send_and_flush, ["a"]).is_unflushed


def test_a_flush_is_told_before_it_begins() -> None:
    producer, told = Producer({}), list[str]()
    functions = BatchFunctions()
    with functions.flushing(lambda: told.append("now")):
        functions.wrap(lambda batch, number: producer.produce("out", b"1"))(Batch("a"), 0)
        assert told == []
        functions.wrap(lambda batch, number: producer.flush(0))(Batch("a"), 0)
    assert told == ["now"]


def test_functions_are_wrapped_only_while_a_job_starts() -> None:
    functions = BatchFunctions()
    original = DataStreamWriter.foreachBatch
    with functions.wrapped():
        assert DataStreamWriter.foreachBatch is not original
    assert DataStreamWriter.foreachBatch is original
    assert functions.passed.functions == 0


class DataFrameWriter:
    """As PySpark's."""

    __module__ = "pyspark.sql.readwriter"


class SparkSession:
    """As PySpark's."""

    __module__ = "pyspark.sql.session"


@pytest.mark.parametrize(
    ("owner", "name", "given", "found"),
    [
        (DataFrameWriter(), "saveAsTable", {}, "DataFrameWriter.saveAsTable"),
        (DataFrameWriter(), "mode", {}, None),
        (SparkSession(), "sql", {"sqlQuery": " merge INTO t"}, "SparkSession.sql"),
        (SparkSession(), "sql", {"sqlQuery": "SELECT 1"}, None),
        (cast(Any, Producer).__new__(Producer), "flush", {}, "Producer.flush"),
        ([], "append", {}, None),
    ],
)
def test_calls_that_write_are_known_by_their_names(
    owner: object, name: str, given: dict[str, str], found: str | None
) -> None:
    assert find_write(owner, name, given) == found


def test_a_client_raises_its_own_exception() -> None:
    assert isinstance(failure_of(cast(Any, Producer).__new__(Producer)), KafkaException)
