"""Waits for the groups, lags and offsets of clients that run outside the test."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from embedkafka import AwaitTimeout, EmbeddedKafka, InvalidArgument, QueryFailed, Topic
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread
from embedkafka.spark import failed_queries


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        yield kafka


def consumer(kafka: EmbeddedKafka, group: str, protocol: str) -> Consumer:
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer(settings)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_awaited_while_its_members_come_work_and_go(
    cluster: EmbeddedKafka, protocol: str
) -> None:
    topic = cluster.topic(partitions=2)
    group = f"readers of {topic.name}"
    numbers = range(10)
    topic.send_many(map(str, numbers), partitions=[number % 2 for number in numbers])
    failures = Failures()
    member = consumer(cluster, group, protocol)
    steps: list[str] = []

    def work() -> None:
        member.subscribe([topic.name])
        count = 0
        while count < 10:
            count += len(member.consume(10, timeout=0.2))
        steps.append("commit")
        member.commit(asynchronous=False)
        while "leave" not in steps:
            member.poll(0.05)
        member.close()

    thread = start_thread("ek-test-member", work, failures)
    try:
        cluster.group(group).await_state(members=1)
        cluster.group(group).await_lag(topic=topic.name)
        assert steps == ["commit"]
        cluster.group(group).await_lag(0)
        steps.append("leave")
        cluster.group(group).await_state(state="Empty")
        cluster.group(group).await_state(members=0)
    finally:
        steps.append("leave")
        end_thread(thread, failures)
    failures.check()
    topic.send("one more", partition=1)
    with pytest.raises(AwaitTimeout, match=rf"1 behind: {topic.name}-1 1"):
        cluster.group(group).await_lag(timeout_s=0.2)


def test_offsets_are_awaited_from_before_the_topic_is_there(cluster: EmbeddedKafka) -> None:
    failures = Failures()

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.topic("later", partitions=2)
        for partition in (0, 0, 1):
            producer.produce("later", "x", partition=partition)
        producer.flush(30)

    thread = start_thread("ek-test-writer", write, failures)
    later = cluster.existing_topic("later", timeout_s=30)
    later.await_offsets({0: 2})
    later.await_offsets(3)
    end_thread(thread, failures)
    failures.check()
    with pytest.raises(AwaitTimeout, match=r"ends \{0: 2, 1: 1\} of later"):
        later.await_offsets({1: 2}, timeout_s=0.2)


def test_what_never_comes_is_described(cluster: EmbeddedKafka) -> None:
    with pytest.raises(AwaitTimeout, match=r"absent to be Stable with 2 members; .*Dead with 0"):
        cluster.group("absent").await_state(members=2, timeout_s=0.2)
    with pytest.raises(AwaitTimeout, match="no committed offsets"):
        cluster.group("absent").await_lag(timeout_s=0.2)
    cluster.group("absent").await_state(state="Dead")


def test_records_that_are_there_are_seen_in_no_time(cluster: EmbeddedKafka) -> None:
    topic = cluster.topic()
    topic.send("x")
    assert len(topic.wait_for(1, timeout_s=0)) == 1
    with pytest.raises(AwaitTimeout, match="and saw 1; the last"):
        topic.wait_for(2, timeout_s=0)


def test_mistakes_are_refused_at_once(cluster: EmbeddedKafka) -> None:
    with pytest.raises(InvalidArgument, match="did you mean Stable"):
        cluster.group("billing").await_state(state="stable")
    with pytest.raises(InvalidArgument, match="lag must be a whole number"):
        cluster.group("billing").await_lag(-1)
    with pytest.raises(InvalidArgument, match="must name a partition"):
        cluster.topic().await_offsets({})


class FailingQuery:
    """A Spark query that has written a record and failed when a wait looks at it again."""

    id, name = "id", "pricing"  # PySpark's names

    def __init__(self, run: str, sink: Topic) -> None:
        self.runId = run  # PySpark's name
        self._sink = sink
        self._looks = 0

    @property
    def isActive(self) -> bool:  # PySpark's name
        self._looks += 1
        if self._looks == 2:
            self._sink.send(self.runId)
        return self._looks < 2

    def exception(self) -> Exception:
        return ValueError("no such sku")


def test_a_wait_ends_when_the_query_fails_but_not_without_its_last_record(
    cluster: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark.sql")
    topic = cluster.topic()
    queries = [FailingQuery("first run", topic)]
    monkeypatch.setattr(failed_queries, "_known_queries", lambda: queries)
    assert [record.text for record in topic.wait_for(1)] == ["first run"]
    for wait in (lambda: topic.wait_for(9), lambda: topic.await_offsets(9)):
        queries[:] = [FailingQuery("next run", topic)]
        with pytest.raises(QueryFailed, match="the query pricing has failed: no such sku"):
            wait()
    assert len(topic.read()) == 3
    queries[:] = [FailingQuery("last run", topic)]
    with pytest.raises(AwaitTimeout, match="waited 1 s") as wait_for_none:
        topic.wait_for(lambda records: not records, timeout_s=1)
    assert not isinstance(wait_for_none.value, QueryFailed), "no query takes records away"
