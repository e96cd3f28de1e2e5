"""Requests that are refused, late, cut off or never answered."""

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from embedkafka import AwaitTimeout, EmbeddedKafka, EmbedKafkaError, InvalidArgument, Topic
from embedkafka.faults.names import parse_api, parse_error
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from tests.cluster.traffic import make_consumer, make_producer, send
from tests.presence import present


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic("orders", partitions=2, replication=3)


def test_an_error_comes_back_as_often_as_it_was_set(kafka: EmbeddedKafka, topic: Topic) -> None:
    careless = make_producer(kafka, retries=0, **{"enable.idempotence": False})
    fault = kafka.faults.error("produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    for _ in range(2):
        error, _ = send(careless, "orders", "x")
        assert error.code() == KafkaError.NOT_ENOUGH_REPLICAS
    assert send(careless, "orders", "x")[0] is None
    assert fault.hits == 2
    assert len(topic.read()) == 1


def test_a_client_retries_what_was_refused(kafka: EmbeddedKafka, topic: Topic) -> None:
    with kafka.faults.error("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=3) as fault:
        assert send(make_producer(kafka), "orders", "x")[0] is None
        assert fault.hits == 3
    assert [message.text for message in topic.read()] == ["x"]


def test_a_reply_that_is_lost_does_not_write_twice(kafka: EmbeddedKafka, topic: Topic) -> None:
    fault = kafka.faults.drop_reply("PRODUCE", topic="orders")
    assert send(make_producer(kafka), "orders", "once")[0] is None
    fault.await_hits()
    assert [message.text for message in topic.read()] == ["once"]


@pytest.mark.parametrize("handled", [True, False])
def test_a_connection_that_breaks_does_not_write_twice(
    kafka: EmbeddedKafka, topic: Topic, handled: bool
) -> None:
    fault = kafka.faults.disconnect("PRODUCE", handled=handled)
    assert send(make_producer(kafka), "orders", "once")[0] is None
    assert fault.hits == 1
    assert [message.text for message in topic.read()] == ["once"]


def test_without_idempotence_a_lost_reply_writes_twice(kafka: EmbeddedKafka, topic: Topic) -> None:
    kafka.faults.disconnect("PRODUCE", handled=True)
    careless = make_producer(kafka, **{"enable.idempotence": False})
    assert send(careless, "orders", "twice")[0] is None
    assert [message.text for message in topic.read()] == ["twice", "twice"]


def test_a_topic_is_made_and_deleted_though_the_answer_is_lost(kafka: EmbeddedKafka) -> None:
    with kafka.faults.disconnect("CREATE_TOPICS", handled=True) as fault:
        made = kafka.topic("made")
    assert fault.hits == 1
    made.send("one")
    with pytest.raises(EmbedKafkaError, match="TOPIC_ALREADY_EXISTS"):
        kafka.topic("made")
    with kafka.faults.disconnect("DELETE_TOPICS", handled=True) as fault:
        kafka.existing_topic("made").delete()
    assert fault.hits == 1
    with pytest.raises(InvalidArgument, match="no topic 'made'"):
        kafka.existing_topic("made").delete()


def test_a_late_request_is_handled_when_its_time_has_come(
    kafka: EmbeddedKafka, topic: Topic
) -> None:
    fault = kafka.faults.delay("PRODUCE", 60_000)
    producer = make_producer(kafka, **{"request.timeout.ms": 30_000, "socket.timeout.ms": 60_000})
    acked = []
    producer.produce(
        "orders", "late", partition=0, on_delivery=lambda *result: acked.append(result)
    )
    while not fault.hits:
        producer.poll(0.01)
    assert topic.read() == []
    kafka.clock.advance(minutes=1)
    producer.flush(20)
    assert acked[0][0] is None
    assert len(topic.read()) == 1


def test_a_late_marker_whose_connection_broke_ends_no_later_transaction(
    kafka: EmbeddedKafka, topic: Topic
) -> None:
    producer = make_producer(kafka, **{"transactional.id": "payments"})
    producer.init_transactions(20)
    fault = kafka.faults.delay("WRITE_TXN_MARKERS", 20_000)
    producer.begin_transaction()
    producer.produce("orders", "committed", partition=0)
    producer.commit_transaction(20)
    fault.await_hits()
    coordinator = kafka.broker(kafka.transaction_coordinator("payments"))
    coordinator.pause()  # its connection with the marker breaks, and it sends another
    coordinator.resume()
    assert [record.text for record in topic.wait_for(1)] == ["committed"]

    producer.begin_transaction()
    producer.produce("orders", "aborted", partition=0)
    producer.flush(20)
    next_one = kafka.faults.delay("LIST_GROUPS", 20_000)
    admin = AdminClient({**kafka.client_config()})
    groups = admin.list_consumer_groups(request_timeout=120)
    next_one.await_hits()
    kafka.clock.advance(seconds=20)
    groups.result(20)  # comes after the marker, which was late before it
    producer.abort_transaction(20)
    assert [record.text for record in topic.read()] == ["committed"]


def test_the_nth_request_is_met(kafka: EmbeddedKafka, topic: Topic) -> None:
    careless = make_producer(kafka, retries=0, **{"enable.idempotence": False})
    kafka.faults.error("PRODUCE", ErrorCode.KAFKA_STORAGE_ERROR, after=2)
    refused = [send(careless, "orders", "x")[0] is not None for _ in range(4)]
    assert refused == [False, False, True, False]


def test_only_the_named_partition_broker_or_topic_is_met(
    kafka: EmbeddedKafka, topic: Topic
) -> None:
    kafka.topic("prices", replication=3)
    careless = make_producer(kafka, retries=0, **{"enable.idempotence": False})
    code = ErrorCode.NOT_ENOUGH_REPLICAS
    with kafka.faults.error("PRODUCE", code, topic="orders", partition=1, times=None) as fault:
        assert send(careless, "orders", "x", partition=0)[0] is None
        assert send(careless, "prices", "x")[0] is None
        assert send(careless, "orders", "x", partition=1)[0] is not None
        assert fault.hits == 1
    leader = kafka.existing_topic("orders").leader(0)
    other = leader % 3 + 1
    with kafka.faults.error("PRODUCE", code, broker=other, times=None) as fault:
        assert send(careless, "orders", "x", partition=0)[0] is None
        assert fault.hits == 0
    with kafka.faults.error("PRODUCE", code, broker=leader, times=None):
        assert send(careless, "orders", "x", partition=0)[0] is not None
    assert send(careless, "orders", "x", partition=0)[0] is None


def test_fetches_by_topic_id_are_known_by_name(kafka: EmbeddedKafka, topic: Topic) -> None:
    topic.send("x")
    with kafka.faults.error("FETCH", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="orders") as fault:
        assert [message.text for message in topic.read()] == ["x"]
        assert fault.hits == 1


def test_a_group_is_met_by_its_name(kafka: EmbeddedKafka, topic: Topic) -> None:
    topic.send_many(["a", "b"])
    with kafka.faults.error(
        "JOIN_GROUP", ErrorCode.NOT_COORDINATOR, group="readers", times=2
    ) as fault:
        consumer = make_consumer(kafka, "readers", **{"enable.partition.eof": False})
        consumer.subscribe(["orders"])
        deadline, seen = time.monotonic() + 20, []
        while len(seen) < 2 and time.monotonic() < deadline:
            seen += [m for m in consumer.consume(2, 0.1) if not m.error()]
        consumer.close()
        assert len(seen) == 2
        assert fault.hits == 2


def test_waiting_for_a_hit_in_vain_says_so(kafka: EmbeddedKafka) -> None:
    fault = kafka.faults.error("PRODUCE", ErrorCode.INVALID_RECORD)
    with pytest.raises(AwaitTimeout, match=r"for 1 requests like .*PRODUCE.*; there were 0"):
        fault.await_hits(timeout_s=0.05)


def test_what_cannot_be_is_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(InvalidArgument, match="no Kafka API 'PRODUCED': did you mean PRODUCE"):
        kafka.faults.error("PRODUCED", ErrorCode.INVALID_RECORD)
    with pytest.raises(InvalidArgument, match="METADATA responses have no field"):
        kafka.faults.error("METADATA", ErrorCode.INVALID_RECORD)


def test_a_consumer_asks_again_for_offsets_that_its_group_was_refused(
    kafka: EmbeddedKafka, topic: Topic
) -> None:
    topic.send("x")
    fault = kafka.faults.error("OFFSET_FETCH", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    consumer = make_consumer(kafka, **{"enable.partition.eof": False})
    consumer.subscribe(["orders"])
    message = present(consumer.poll(30))
    assert (message.error(), message.value()) == (None, b"x")
    assert fault.hits == 2
    consumer.close()


# -- which requests


@pytest.mark.parametrize(
    "api", ["OffsetFetch", "OFFSET_FETCH", "offset_fetch", "offsetFetch", "OffsetFetchRequest"]
)
def test_an_api_has_many_spellings(api: str) -> None:
    assert parse_api(api) is ApiKey.OFFSET_FETCH


@pytest.mark.parametrize(
    "code",
    ["NOT_LEADER_OR_FOLLOWER", "NotLeaderOrFollowerException", "not_leader_for_partition"],
)
def test_an_error_has_many_spellings(code: str) -> None:
    assert parse_error(code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_every_api_and_error_is_found_by_its_name() -> None:
    assert [parse_api(key.name) for key in ApiKey] == list(ApiKey)
    assert [parse_error(code.name) for code in ErrorCode] == list(ErrorCode)


def test_a_fault_can_be_for_one_client(kafka: EmbeddedKafka, topic: Topic) -> None:
    unlucky, lucky = (
        make_producer(kafka, retries=0, **{"enable.idempotence": False, "client.id": name})
        for name in ("unlucky", "lucky")
    )
    with kafka.faults.error("Produce", "INVALID_RECORD", client_id="unlucky", times=None) as fault:
        assert send(unlucky, "orders", "a")[0].code() == KafkaError.INVALID_RECORD
        assert send(lucky, "orders", "b")[0] is None
        assert fault.hits == 1
    with kafka.faults.error("Produce", "INVALID_RECORD", user="ANONYMOUS") as fault:
        assert send(lucky, "orders", "a")[0].code() == KafkaError.INVALID_RECORD
    with kafka.faults.error("Produce", "INVALID_RECORD", user="alice") as fault:
        assert send(lucky, "orders", "a")[0] is None


def test_a_predicate_sees_the_decoded_request(kafka: EmbeddedKafka, topic: Topic) -> None:
    def waits_for_one(request: Any) -> bool:
        return bool(request.acks == 1)

    careless, careful = (
        make_producer(kafka, retries=0, acks=acks, **{"enable.idempotence": False})
        for acks in (1, "all")
    )
    with kafka.faults.error("Produce", "INVALID_RECORD", when=waits_for_one, times=None) as fault:
        assert send(careless, "orders", "a")[0].code() == KafkaError.INVALID_RECORD
        assert send(careful, "orders", "b")[0] is None
        assert "PRODUCE with when=waits_for_one" in str(fault)


def test_a_predicate_that_fails_is_reported_to_its_author(
    kafka: EmbeddedKafka, topic: Topic
) -> None:
    def typo(request: Any) -> bool:
        return bool(request.akcs)

    fault = kafka.faults.error("Produce", "INVALID_RECORD", when=typo)
    with pytest.raises(InvalidArgument, match="akcs"), fault:
        assert send(make_producer(kafka), "orders", "a")[0] is None
    kafka.check()


def test_the_nth_call_of_each_client(kafka: EmbeddedKafka, topic: Topic) -> None:
    producers = [
        make_producer(kafka, retries=0, **{"enable.idempotence": False, "client.id": name})
        for name in ("one", "two")
    ]
    with kafka.faults.error("Produce", "INVALID_RECORD", nth=2) as fault:
        outcomes = [
            [send(producer, "orders", "a")[0] is None for _ in range(3)] for producer in producers
        ]
        assert outcomes == [[True, False, True]] * 2
        assert fault.hits == 2


def test_chance_is_repeated_by_the_seed() -> None:
    def outcomes(seed: int) -> list[bool]:
        with EmbeddedKafka(seed=seed, topics={"orders": 1}) as kafka:
            producer = make_producer(kafka, retries=0, **{"enable.idempotence": False})
            kafka.faults.error("Produce", "INVALID_RECORD", probability=0.5)
            return [send(producer, "orders", "a")[0] is None for _ in range(20)]

    first = outcomes(7)
    assert {True, False} == set(first)
    assert outcomes(7) == first
    assert outcomes(8) != first


def test_any_request_can_be_hit(kafka: EmbeddedKafka, topic: Topic) -> None:
    mark = kafka.mark()
    with kafka.faults.disconnect("any", client_id="unlucky", times=3) as fault:
        producer = make_producer(kafka, **{"client.id": "unlucky"})
        assert send(producer, "orders", "a")[0] is None
        assert fault.hits == 3
    assert kafka.requests(client_id="unlucky", since=mark)
