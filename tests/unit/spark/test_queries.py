"""Draining a query that shows only its public side, as one of Spark Connect does."""

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka.runtime.failures import AwaitTimeout, ConfigError, InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark import queries
from embedkafka.spark.queries import crash_between_write_and_commit, drain, restart

ENDS = {TopicPartition("orders", 0): 5}


class Orders:
    """A topic handle."""

    name = "orders"

    def spark_options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "orders"}


class RemoteQuery:
    """A query that moves on, or ends, each time it is asked."""

    name, id = "pricing", "1"
    status = {"message": "Processing new data", "isTriggerActive": True}
    form: Callable[[object], object] = str
    """How its PySpark shows offsets: 3.5 as a mapping, 4.0 and later as Python writes one."""

    def __init__(self, *positions: int | None, ends: bool = False) -> None:
        self._positions = list(positions)
        self._ends = ends

    def awaitTermination(self, timeout: float) -> bool:  # PySpark's name
        assert timeout > 0
        if len(self._positions) > 1:
            self._positions.pop(0)
        return self._ends and len(self._positions) == 1

    @property
    def lastProgress(self) -> Any:  # PySpark's name
        at = self._positions[0]
        return (
            None if at is None else {"sources": [{"endOffset": self.form({"orders": {"0": at}})}]}
        )


class CountingQuery(RemoteQuery):
    """A query with state, whose progress reaches the ends at once. Each look shows a new status."""

    def __init__(self, *looks: tuple[int, str]) -> None:
        super().__init__(5)
        self.looks = list(looks)

    def awaitTermination(self, timeout: float) -> bool:  # PySpark's name
        if len(self.looks) > 1:
            self.looks.pop(0)
        return False

    @property
    def status(self) -> dict[str, Any]:  # type: ignore[override]  # changes here
        return {"message": self.looks[0][1]}

    @property
    def lastProgress(self) -> Any:  # PySpark's name
        state = [{"operatorName": "stateStoreSave"}]
        return {**super().lastProgress, "stateOperators": state, "batchId": self.looks[0][0]}


def remote(*positions: int | None, ends: bool = False) -> StreamingQuery:
    return cast(StreamingQuery, RemoteQuery(*positions, ends=ends))


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What Kafka was asked for: it always answers `ENDS`."""
    options: list[dict[str, str]] = []

    def answer(given: dict[str, str], timeout_s: float) -> dict[TopicPartition, int]:
        options.append(given)
        return ENDS

    monkeypatch.setattr(queries, "end_offsets", answer)
    return options


@pytest.mark.parametrize("form", [dict, json.dumps, str])
def test_it_returns_once_the_progress_reaches_the_ends(
    monkeypatch: pytest.MonkeyPatch,
    asked: list[dict[str, str]],
    form: Callable[[object], object],
) -> None:
    monkeypatch.setattr(RemoteQuery, "form", staticmethod(form))
    query = remote(None, None, 2, 5, 9)
    drain(query, topics=[Orders()])
    progress: Any = query.lastProgress
    assert progress["sources"][0]["endOffset"] == form({"orders": {"0": 5}})
    assert len(asked) == 1, "the ends are asked for once, at the call"


@pytest.mark.parametrize(
    ("looks", "left"),
    [
        pytest.param(
            [
                (0, "at the call"),
                (0, "Processing new data"),
                (0, "Waiting for next trigger"),
                (0, "No new data but cleaning up state"),
                (0, "Waiting for data to arrive"),
                (0, "too late"),
            ],
            2,
            id="it has found nothing more to do",
        ),
        pytest.param(
            [(0, "at the call"), (0, "busy"), (1, "busy"), (2, "busy")], 2, id="a batch followed"
        ),
        pytest.param(
            [(0, "at the call"), *[(0, "Waiting for next trigger")] * 10, (0, "too late")],
            2,
            id="its trigger has an interval",
        ),
    ],
)
def test_a_query_with_state_may_still_have_windows_to_close(
    looks: list[tuple[int, str]], left: int
) -> None:
    query = CountingQuery(*looks)
    drain(cast(StreamingQuery, query), topics=[Orders()])
    assert len(query.looks) == left


def test_a_query_that_ends_too_soon_says_what_is_missing() -> None:
    with pytest.raises(AwaitTimeout, match=r"pricing has ended before .*: orders-0 at 3 of 5"):
        drain(remote(1, 3, ends=True), topics=[Orders()])


def test_a_timeout_says_what_is_missing_and_what_the_query_does() -> None:
    with pytest.raises(AwaitTimeout, match=r"orders-0 not read yet, 5 .*'Processing new data'"):
        drain(remote(None), topics=[Orders()], timeout_s=0)


class HourlyQuery(RemoteQuery):
    """A classic query between two triggers, at this offset; it is its own execution."""

    status = {"message": "Waiting for next trigger", "isTriggerActive": False}
    trigger, interval_ms, real_time_ms = "processingTime 1 hour", 3_600_000, 0

    def kafka_sources(self) -> list[dict[str, str]]:
        return [Orders().spark_options()]

    def committed_offsets(self) -> list[dict[TopicPartition, int]]:
        return [{TopicPartition("orders", 0): self._positions[0] or 0}]

    def next_trigger_ms(self) -> int:
        return 42_300


def test_a_long_wait_for_a_trigger_says_so_once_and_again_at_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times_ms = itertools.count(0, 1000)
    monkeypatch.setattr(queries, "REAL_TIME", SimpleNamespace(monotonic_ms=times_ms.__next__))
    monkeypatch.setattr(queries, "find_execution", lambda query: query)
    waits = (
        "the next trigger of processingTime 1 hour, in 42 s; "
        "`embedkafka.spark.immediate_triggers()` lets triggers fire at once"
    )
    with pytest.raises(AwaitTimeout) as timeout:
        drain(cast(StreamingQuery, HourlyQuery(3)), timeout_s=30)
    assert str(timeout.value).endswith(f"trigger processingTime 1 hour; it waits for {waits}")
    assert capsys.readouterr().err == f"embedkafka: drain waits for {waits}\n"


def test_a_wait_for_a_source_that_wants_more_records_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = {**Orders().spark_options(), "minoffsetspertrigger": "100"}
    monkeypatch.setattr(HourlyQuery, "interval_ms", 0)
    monkeypatch.setattr(HourlyQuery, "kafka_sources", lambda query: [source])
    monkeypatch.setattr(queries, "find_execution", lambda query: query)
    with pytest.raises(AwaitTimeout, match=r"more records: a source has minOffsetsPerTrigger 100"):
        drain(cast(StreamingQuery, HourlyQuery(3)), timeout_s=0)


class CommittedQuery(HourlyQuery):
    """One that has committed all batches, and tells the progress of the last one a little later."""

    is_micro_batch, ends_by_itself = True, False
    looks = 3

    def find_last_batch(self) -> int:
        return 7

    def has_run_batch(self) -> bool:
        return True

    def owes_batch(self) -> bool:
        return False

    def forget_idleness(self) -> None:
        pass

    def tells_progress(self, batch: int) -> bool:
        assert batch == 7
        self.looks -= 1
        return self.looks == 0


def test_the_progress_of_the_last_batch_is_told_when_a_query_is_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "find_execution", lambda query: query)
    query = CommittedQuery(5)
    drain(cast(StreamingQuery, query))
    assert query.looks == 0


def test_what_cannot_be_drained_is_refused() -> None:
    there = remote(5)
    with pytest.raises(InvalidArgument, match=r"drain needs a query"):
        drain()
    with pytest.raises(InvalidArgument, match=r"drain several with it one after the other"):
        drain(there, there, topics=[Orders()])
    with pytest.raises(InvalidArgument, match=r"query must be a StreamingQuery, got 'orders'"):
        drain(there, cast(Any, "orders"))


def test_what_spark_connect_does_not_tell_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"drain\(query, topics=\[orders\]\)"):
        drain(remote(5))
    for use in (restart, crash_between_write_and_commit):
        with pytest.raises(ConfigError, match=f"`{use.__name__}` needs a Spark driver of this"):
            use(remote(5))
