"""Reports for people: on a cluster, and on what its clients did."""

import logging
import pickle
import re

import pytest
from confluent_kafka import Consumer, TopicPartition

from embedkafka import (
    AwaitTimeout,
    EmbeddedKafka,
    EmbedKafkaError,
    InvalidArgument,
    SeenRequest,
)
from embedkafka.cluster import request_log
from embedkafka.runtime.ids import BrokerId
from tests.cluster.members import await_true
from tests.cluster.traffic import PATIENT, make_consumer, make_producer, send
from tests.presence import present


def test_requests_are_remembered_by_api_and_client() -> None:
    with EmbeddedKafka(brokers=1) as kafka:
        kafka.topic("orders")
        producer = make_producer(kafka, **{"client.id": "shop"})
        for _ in range(3):
            send(producer, "orders", b"a")

        produced = kafka.requests("produce", client_id="shop")

        assert [(seen.api, seen.broker) for seen in produced] == [("PRODUCE", 1)] * 3
        assert kafka.requests("PRODUCE", client_id="nobody") == []
        apis = {seen.api for seen in kafka.requests()}
        assert {"API_VERSIONS", "METADATA", "CREATE_TOPICS", "PRODUCE"} <= apis
        assert "UPDATE_METADATA" not in apis, "brokers count as clients"


def test_requests_are_found_by_what_they_name_and_when(kafka: EmbeddedKafka) -> None:
    orders, other = kafka.topic("orders"), kafka.topic("other")
    orders.send("a")
    mark = kafka.mark()
    assert kafka.requests("Produce", topic="orders")
    assert kafka.requests("Produce", topic="orders", since=mark) == []
    consumer = make_consumer(kafka, "readers", **PATIENT, **{"enable.partition.eof": False})
    consumer.subscribe(["orders"])
    assert present(consumer.poll(30)).value() == b"a"
    consumer.commit(asynchronous=False)
    consumer.close()

    assert kafka.requests("Fetch", topic="orders", since=mark), "which carries only the topic's id"
    assert kafka.requests("Fetch", topic=other.name, since=mark) == []
    (joined, *_) = kafka.requests("JoinGroup", group="readers", since=mark)
    assert joined.request.protocol_type == "consumer"
    (committed, *_) = kafka.requests("OffsetCommit", group="readers", topic="orders")
    assert committed.errors == []
    assert committed.answer.topics[0].name == "orders"
    assert kafka.requests("OffsetCommit", group="others") == []
    leader = kafka.existing_topic("orders").leader()
    assert {seen.broker for seen in kafka.requests("Produce", broker=leader)} == {leader}


def test_answers_with_errors_are_found(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", config={"min.insync.replicas": 2}, replication=2)
    follower = next(iter({*orders.partition().isr} - {orders.leader()}))
    kafka.broker(follower).stop()
    orders.await_isr(size=1)
    producer = make_producer(kafka, retries=0, **{"enable.idempotence": False})
    mark = kafka.mark()
    assert send(producer, orders.name, b"a")[0] is not None
    (refused,) = kafka.requests("Produce", error="NotEnoughReplicas", since=mark)
    assert refused.errors == ["NOT_ENOUGH_REPLICAS"]
    assert refused.topics == {"orders"}
    assert kafka.requests(error="INVALID_RECORD", since=mark) == []


def test_an_answer_with_records_tells_its_errors_too(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("a" * 100_000)
    mark = kafka.mark()
    assert len(orders.read()) == 1
    fetched = [seen for seen in kafka.requests("Fetch", since=mark) if seen.answer is not None]
    sizes = [
        len(partition.records or b"")
        for seen in fetched
        for topic in seen.answer.responses
        for partition in topic.partitions
    ]
    assert max(sizes) > 100_000
    assert all(seen.errors == [] for seen in fetched)


def test_what_is_not_kept_any_more_is_not_taken_for_what_never_came(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_MAX_BYTES", 4_000)
    orders = kafka.topic("orders")
    mark = kafka.mark()
    for _ in range(3):
        orders.send("a" * 1_900)
    produced = kafka.requests("Produce", since=mark)
    assert len(produced) == 3
    with pytest.raises(EmbedKafkaError, match="not kept any more"):
        _ = produced[0].request
    with pytest.raises(EmbedKafkaError, match="not kept any more"):
        kafka.requests("Produce", topic="other", since=mark)
    log = request_log.RequestLog()
    mark = log.mark()
    noted = [memoryview(b"")]
    for number in range(3, request_log._REMEMBERED + 3):
        log._seen.append((number, BrokerId(1), 0.0, noted, lambda topic_id: None))
    with pytest.raises(EmbedKafkaError, match="set it later"):
        log.find(lambda seen: True, mark)


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://:0,OTHERS://:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHERS:PLAINTEXT",
}


def test_requests_and_reports_are_those_of_one_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_MAX_BYTES", 6_000)
    with EmbeddedKafka(config=TWO_LISTENERS) as kafka:
        kafka.topic("orders")
        kafka.topic("prices")
        for listener, topic, group in (
            ("PLAINTEXT", "orders", "readers"),
            ("OTHERS", "prices", "strangers"),
        ):
            address = {"bootstrap.servers": kafka.listeners[listener]}
            for _ in range(2):
                send(make_producer(kafka, **address), topic, b"a" * 1_900)
            consumer = make_consumer(kafka, group, **address)
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
            consumer.close()

        for listener, topic in (("PLAINTEXT", "orders"), ("OTHERS", "prices")):
            produced = kafka.requests("Produce", listener=listener)
            assert [seen.topics for seen in produced] == [{topic}] * 2, "large ones are kept apart"
        both = kafka.requests("Produce")
        assert [seen.topics for seen in both] == [{"orders"}] * 2 + [{"prices"}] * 2, "in order"
        assert kafka.requests("OffsetCommit", listener="OTHERS", group="readers") == []
        with pytest.raises(InvalidArgument, match=r"no listener 'OTHER': did you mean OTHERS\?"):
            kafka.requests(listener="OTHER")

        told = kafka.report(listener="OTHERS")
        assert "prices" in told
        assert "strangers  Empty" in told
        assert "! lag: strangers is 2 behind" in told
        assert "readers" not in told
        assert "orders-0" not in told
        assert "readers  Empty" in kafka.report()
        with pytest.raises(InvalidArgument, match="no listener 'ANY'"):
            kafka.report(listener="ANY")


def test_the_only_listener_has_all_requests(kafka: EmbeddedKafka) -> None:
    mark = kafka.mark()
    kafka.topic("orders").send("a")
    assert len(kafka.requests("Produce", listener="PLAINTEXT", since=mark)) == 1


def test_isolation_looks_at_the_requests_of_all_listeners() -> None:
    with EmbeddedKafka(config=TWO_LISTENERS) as kafka:
        kafka.topic("orders")
        with kafka.isolated():
            address = {"bootstrap.servers": kafka.listeners["OTHERS"]}
            consumer = make_consumer(kafka, "strangers", **address)
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
            assert kafka.requests("OffsetCommit")
        assert kafka.groups() == []
        assert kafka.requests("OffsetCommit", listener="OTHERS") == []


def test_a_request_can_be_pickled_with_what_it_names(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_MAX_BYTES", 4_000)
    orders = kafka.topic("orders")
    for _ in range(3):
        orders.send("a" * 1_900)
    assert len(orders.read()) == 3
    orders.delete()
    kafka.topic("orders")
    orders.send("b")
    assert len(orders.read()) == 1

    seen = [each for each in kafka.requests() if said_of(each, "answer") != "None"]
    there = pickle.loads(pickle.dumps(seen))

    assert list(map(str, there)) == list(map(str, seen))
    for name in ("received_ms", "request", "answer", "placed_errors", "topics", "groups"):
        said = [said_of(each, name) for each in seen]
        assert [said_of(each, name) for each in there] == said
    fetched = [each for each in there if each.api == "FETCH" and each.version > 12]
    assert frozenset({"orders"}) in [each.topics for each in fetched], "which carry only the id"


def said_of(seen: SeenRequest, name: str) -> str:
    """What a request says of itself, or why it does not."""
    try:
        return re.sub(r"<memory at 0x\w+>", "<memory>", repr(getattr(seen, name)))
    except EmbedKafkaError as error:
        return str(error)


def test_a_report_shows_the_lag_of_groups_and_the_last_records(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    for number in range(4):
        orders.send(f"order {number}")
    orders.send(b"\xff" * 100)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "client.id": "shop",
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    consumer.commit(message=present(consumer.poll(20)), asynchronous=False)

    report = kafka.report()
    consumer.close()

    assert report.startswith(kafka.describe().splitlines()[0])
    assert report.startswith("! lag: readers is 4 behind: orders-0 4\n")
    groups = report.partition("groups:\n")[2].splitlines()
    assert groups[0] == "  readers  Stable"
    assert re.fullmatch(r"    shop at \S+: orders-0, last heard \d+\.\d s ago", groups[1])
    assert groups[2] == "    orders-0 committed 1, lag 4"
    assert "and the partitions of __consumer_offsets" in report
    assert "  orders-0 at 3: key none, value 'order 3'\n" in report
    assert f"  orders-0 at 4: key none, value 0x{'ff' * 30}… (100 bytes)\n" in report
    assert "open transactions:" not in report


def test_requests_before_a_jump_are_as_old_as_the_reader_remembers(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders").send("a")
    kafka.clock.advance(days=3)
    requests = kafka.report().partition("last requests:\n")[2].splitlines()
    sent = [line for line in requests if "PRODUCE" in line]
    assert sent
    for line in sent:
        assert re.match(r"  (\d+\.\d{3} s|\d min \d+ s) ago  broker ", line)


def test_a_report_of_a_cluster_in_ruins_tells_what_is_left(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send("a")
    leader = orders.leader()
    paused, killed = (broker for broker in (1, 2, 3) if broker != leader)
    kafka.broker(paused).pause()
    kafka.broker(killed).kill()

    report = kafka.report()
    kafka.broker(paused).resume()

    assert f"broker {killed}  killed" in report
    assert "value 'a'" in report


def test_what_is_wrong_comes_first_and_a_partition_without_a_leader_is_listed(
    kafka: EmbeddedKafka,
) -> None:
    alone = kafka.topic("alone", replication=1)
    leader = alone.leader()
    safe = kafka.topic("safe", replication=3, config={"min.insync.replicas": 3})
    pair = kafka.topic("pair", replication=3)
    kafka.broker(leader).kill()
    alone.await_no_leader()
    safe.await_isr(size=2)
    pair.await_isr(size=2)

    described = kafka.describe()
    lines = described.splitlines()

    down = f"broker {leader} is killed"
    assert lines[0] == f"! no leader: alone-0 (replicas {leader}, in sync {leader}; {down})"
    assert lines[1].startswith("! below min.insync.replicas: safe-0 (2 of 3; replicas ")
    assert lines[2].startswith("! under-replicated: pair-0 (replicas ")
    assert lines[3] == f"! broker down: {down}"
    assert re.search(r"^alone-0 +none +\d+ +\d +\d +- +- +- +-$", described, re.MULTILINE)
    with pytest.raises(AwaitTimeout, match="! no leader: alone-0"):
        alone.await_leader(timeout_s=0.1)


def test_the_error_that_holds_up_a_client_is_named(kafka: EmbeddedKafka) -> None:
    safe = kafka.topic("safe", config={"min.insync.replicas": 2}, replication=2)
    (follower,) = {*safe.partition().isr} - {safe.leader()}
    kafka.broker(follower).stop()
    safe.await_isr(size=1)
    shop = make_producer(kafka, retries=2, **{"client.id": "shop", "enable.idempotence": False})
    send(shop, safe.name, b"a")

    report = kafka.report()

    assert re.search(
        r"  PRODUCE safe-0 -> NOT_ENOUGH_REPLICAS x 3  \(client shop, broker \d\)\n", report
    )
    with pytest.raises(AwaitTimeout) as timeout:
        safe.wait_for(lambda records: records and records[-1].text == "a", timeout_s=1)
    said = str(timeout.value).splitlines()
    wanted = 'records such that `lambda records: records and records[-1].text == "a"`'
    assert said[0] == f"waited 1 s for {wanted} of safe and saw none"
    assert said[1].startswith("! below min.insync.replicas: safe-0 (1 of 2; ")


def test_a_report_is_about_what_came_after_the_mark(kafka: EmbeddedKafka) -> None:
    before = kafka.topic("before")
    before.send("old")
    mark = kafka.mark()
    mine = kafka.topic("mine")
    mine.send("new")

    report = kafka.report(since=mark)

    assert "value 'new'" in report
    assert "value 'old'" not in report
    assert "\nand the partitions of before (1)\n" in report
    assert "embedkafka-admin" not in report
    assert "PRODUCE" in report
    with pytest.raises(InvalidArgument, match=r"kafka\.mark\(\)"):
        kafka.report(since=3)  # type: ignore[arg-type]


def test_a_report_says_who_holds_records_back(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    producer = make_producer(kafka, **{"transactional.id": "payments"})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, "orders", b"a")

    described, report = kafka.describe(), kafka.report()

    assert re.search(r"! open transaction: payments  Ongoing for \d+\.\d s ", described)
    assert re.search(
        r"held back:\n  orders-0 is stable up to 0 of 1: held by transaction payments, open for ",
        report,
    )
    producer.abort_transaction(30)
    orders.await_offsets(2)
    leader = orders.leader()
    slow = next(iter({1, 2, 3} - {leader}))
    kafka.brokers.partition({slow}, {1, 2, 3} - {slow}, zookeeper={1, 2, 3})
    blocked = make_producer(kafka)
    blocked.produce("orders", b"b")
    for _ in range(300):
        if "orders-0 is committed up to" in (report := kafka.report()):
            break
        blocked.poll(0.01)
    kafka.brokers.heal()
    assert re.search(
        rf"orders-0 is committed up to 2 of 3: held by the replica on broker {slow}, which is at "
        r"2, behind for \d+\.\d s",
        report,
    )
    assert blocked.flush(30) == 0
    assert [message.text for message in orders.read()] == ["b"]


def test_a_handle_whose_topic_is_gone_is_no_error_of_a_client(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send("x")
    records = orders.follow()
    assert next(records).text == "x"
    reader = make_consumer(kafka, "readers", **{"client.id": "shop"})
    reader.subscribe(["orders"])
    assert reader.poll(30) is not None
    orders.delete()

    def fails(client_id: str) -> bool:
        reader.poll(0)
        return any(seen.errors for seen in kafka.requests("FETCH", client_id=client_id))

    await_true(lambda: fails("embedkafka-read") and fails("shop"), 30)
    errors = kafka.report().partition("answers with errors:\n")[2]
    records.close()
    reader.close()
    assert "(client shop, " in errors
    assert "(client embedkafka-" not in errors


def test_a_report_repeats_the_warnings_of_brokers(kafka: EmbeddedKafka) -> None:
    logging.getLogger("embedkafka.before").warning("too early")
    mark = kafka.mark()
    logging.getLogger("embedkafka.broker.log").warning("the disk is %s", "slow")
    report = kafka.report(since=mark)
    assert report.endswith("brokers' warnings:\n  MainThread  WARNING  the disk is slow")
    assert "too early" in kafka.report()


def test_a_closed_cluster_says_so() -> None:
    kafka = EmbeddedKafka()
    assert kafka.report() == "the cluster is not running"
