"""The job of this example, tested with the fixtures `kafka`, `kafka_cluster` and `spark`."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clickstream.job import CLICK, sessions, start
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka, Topic
from embedkafka.explore import Input, Options, Refuted, explore
from embedkafka.explore import latest_by_key as last_of_each_key
from embedkafka.spark import assert_topic_equals, drain, latest_by_key

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

Run = Callable[..., StreamingQuery]


def at(minutes: int) -> str:
    """So many minutes after noon."""
    return (NOON + timedelta(minutes=minutes)).isoformat()


def click(
    topic: Topic, user: str, page: str, minutes: int, *, partition: int | None = None
) -> None:
    topic.send_json({"user": user, "page": page, "at": at(minutes)}, key=user, partition=partition)


@pytest.fixture
def run(spark: SparkSession, spark_checkpoint: Path) -> Iterator[Run]:
    """Starts the job from one topic into another; it stops with the test."""
    started: list[StreamingQuery] = []

    def start_job(source: Topic, sink: Topic, **options: str) -> StreamingQuery:
        query = start(
            spark,
            source=source.spark_options(**options),
            sink=sink.sink_options(checkpointLocation=str(spark_checkpoint)),
        )
        started.append(query)
        return query

    yield start_job
    for query in started:
        query.stop()


# -- the rules, on plain DataFrames


def test_a_pause_ends_a_session(spark: SparkSession) -> None:
    noon = NOON.replace(tzinfo=None)
    later = [noon + timedelta(minutes=minutes) for minutes in (0, 29, 60)]
    clicks = [
        ("ann", page, time) for page, time in zip(["/", "/cart", "/help"], later, strict=True)
    ]

    rows = sessions(spark.createDataFrame(clicks, CLICK)).orderBy("began").collect()

    assert [(row.clicks, row.entry, row.exit) for row in rows] == [
        (2, "/", "/cart"),
        (1, "/help", "/help"),
    ]


# -- watermarks and late clicks


def test_a_session_waits_for_late_clicks_and_is_written_once(
    kafka: EmbeddedKafka, run: Run
) -> None:
    clicks, found = kafka.topic("clicks"), kafka.topic("sessions")
    query = run(clicks, found)
    click(clicks, "ann", "/", 0)
    click(clicks, "bob", "/", 39)  # the watermark is 12:29 now, and ann's session ends at 12:30
    drain(query, topics=[clicks])
    click(clicks, "ann", "/cart", 29)  # ten minutes late
    drain(query, topics=[clicks])
    assert found.read() == []

    click(clicks, "bob", "/help", 70)  # the watermark is 13:00, and ann's session ends at 12:59
    drain(query, topics=[clicks])

    assert_topic_equals(
        found,
        [
            {
                "user": "ann",
                "began": "2026-03-01T12:00:00.000Z",
                "ended": "2026-03-01T12:29:00.000Z",
                "clicks": 2,
                "entry": "/",
                "exit": "/cart",
            }
        ],
    )


def test_a_click_that_comes_too_late_is_dropped_and_counted(kafka: EmbeddedKafka, run: Run) -> None:
    clicks, found = kafka.topic("clicks"), kafka.topic("sessions")
    query = run(clicks, found)
    click(clicks, "ann", "/", 0)
    click(clicks, "bob", "/", 60)
    drain(query, topics=[clicks])
    assert list(latest_by_key(found)) == ["ann@2026-03-01T12:00:00"]

    click(clicks, "ann", "/cart", 10)
    drain(query, topics=[clicks])

    assert len(found.read()) == 1
    assert dropped(query) == 1


def dropped(query: StreamingQuery) -> int:
    """How many clicks came too late: the number that belongs on a dashboard."""
    progress: list[Any] = list(query.recentProgress)
    return sum(
        state["numRowsDroppedByWatermark"] for one in progress for state in one["stateOperators"]
    )


# -- the cluster's clock


def test_a_phone_from_the_future_makes_no_click_late(
    kafka_cluster: Callable[..., EmbeddedKafka], run: Run
) -> None:
    kafka = kafka_cluster(brokers=1)
    kafka.clock.travel(to=NOON)
    clicks = kafka.topic("clicks", config={"message.timestamp.type": "LogAppendTime"})
    found = kafka.topic("sessions")
    query = run(clicks, found)
    click(clicks, "ann", "/", 0)
    click(clicks, "mal", "/", 10 * 365 * 24 * 60)
    drain(query, topics=[clicks])

    kafka.clock.advance(minutes=5)
    click(clicks, "ann", "/cart", 5)
    drain(query, topics=[clicks])
    kafka.clock.advance(hours=2)
    click(clicks, "bob", "/", 125)
    drain(query, topics=[clicks])

    (session,) = latest_by_key(found).values()
    assert (session["user"], session["clicks"]) == ("ann", 2)
    assert dropped(query) == 0


def test_a_job_that_was_down_for_longer_than_the_retention_says_so(
    kafka_cluster: Callable[..., EmbeddedKafka], run: Run
) -> None:
    kafka = kafka_cluster(brokers=1)
    clicks = kafka.topic("clicks", config={"retention.ms": 24 * 60 * 60 * 1000})
    found = kafka.topic("sessions")
    click(clicks, "ann", "/", 0)
    query = run(clicks, found)
    drain(query, topics=[clicks])
    query.stop()

    click(clicks, "ann", "/cart", 5)
    kafka.clock.advance(days=2)
    clicks.wait_for(lambda records: records == [])
    click(clicks, "bob", "/", 60)

    with pytest.raises(StreamingQueryException, match="Some data may have been lost"):
        drain(run(clicks, found), topics=[clicks])


# -- every schedule gives the same sessions

CLICKS = [
    {"user": user, "page": page, "at": at(minutes)}
    for user, page, minutes in [
        ("ann", "/", 0),
        ("bob", "/", 2),
        ("bob", "/help", 20),
        ("ann", "/cart", 28),
        ("eve", "/", 35),
        ("ann", "/pay", 40),
        ("bob", "/", 65),
        ("eve", "/", 240),  # so late that all sessions before it are complete
    ]
]


def job(spark: SparkSession, options: Options) -> StreamingQuery:
    return start(
        spark,
        source=options.read("clicks"),
        sink=options.sink("sessions"),
        trigger=options.trigger,
    )


def hasty_job(spark: SparkSession, options: Options) -> StreamingQuery:
    """Takes a session for complete while clicks of it are on their way."""
    return start(
        spark,
        source=options.read("clicks"),
        sink=options.sink("sessions"),
        trigger=options.trigger,
        lateness="0 minutes",
    )


def is_right(out: Mapping[str, Any], given: Mapping[str, list[Any]]) -> None:
    """The clicks, cut into sessions by the few lines that Spark's way is compared with."""
    expected: dict[str, list[str]] = {}
    open_at: dict[str, tuple[str, datetime]] = {}
    for click in sorted(given["clicks"], key=lambda click: click["at"])[:-1]:
        user, time = click["user"], datetime.fromisoformat(click["at"])
        began, last = open_at.get(user, ("", NOON - timedelta(days=1)))
        if time - last > timedelta(minutes=30):
            began = f"{user}@{time:%Y-%m-%dT%H:%M:%S}"
        open_at[user] = (began, time)
        expected.setdefault(began, []).append(click["page"])
    found = {
        key: [session["clicks"], session["entry"], session["exit"]]
        for key, session in out["sessions"].items()
    }
    assert found == {key: [len(pages), pages[0], pages[-1]] for key, pages in expected.items()}


def test_sessions_do_not_depend_on_the_schedule(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    explore(
        kafka,
        spark,
        job=job,
        inputs={"clicks": Input(CLICKS, key="user", event_time="at", lateness_s=600)},
        outputs={"sessions": last_of_each_key()},
        invariant=is_right,
        schedules=4,
        seed=3,
    )


def test_a_watermark_without_delay_depends_on_the_schedule(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    with pytest.raises(Refuted, match="key ann@2026-03-01T12:28:00"):
        explore(
            kafka,
            spark,
            job=hasty_job,
            inputs={"clicks": Input(CLICKS, key="user", event_time="at", lateness_s=600)},
            outputs={"sessions": last_of_each_key()},
            schedules=12,
            seed=150,
            without=["limit", "crash", "restart", "reply", "grow", "move", "kill"],
            shrink_runs=0,
        )


def test_small_batches_of_several_partitions_lose_clicks(kafka: EmbeddedKafka, run: Run) -> None:
    """Spark has one watermark for all partitions, and a limit lets one run ahead of the others."""
    clicks, found = kafka.topic("clicks", partitions=2), kafka.topic("sessions")
    for minutes in range(0, 200, 10):
        click(clicks, "ann", "/", minutes, partition=0)
    click(clicks, "eve", "/", 400, partition=1)
    query = run(clicks, found, maxOffsetsPerTrigger="4")
    drain(query, topics=[clicks])

    (session,) = latest_by_key(found).values()
    assert session["clicks"] + dropped(query) == 20
    assert dropped(query) > 0
