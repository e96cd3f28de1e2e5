"""Transactions as producers and consumers see them, and the requests beneath."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ProduceRequest
from embedkafka.wire.records.batch import read_batches
from tests.java_tools.java_client import JavaClient, JavaError, Message
from tests.wire.clients import (
    Cluster,
    consume,
    create_topic,
    eventually,
    open_consumer,
    poll,
    produce_values,
    values,
)
from tests.wire.one_partition import (
    FETCH_BY_NAME,
    LATEST,
    TOO_LONG_MS,
    Answer,
    batch,
    fetch,
    fetch_request,
    list_offset,
    produce,
    records_of,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import (
    COMMIT_WITH_ABORTABLE,
    PRODUCE_WITH_ABORTABLE,
    RawTransaction,
)

Unique = Callable[[str], str]
READ_COMMITTED = 1


@pytest.fixture
def transaction(raw: RawClient, unique: Unique, topic: str) -> RawTransaction:
    return RawTransaction(raw, unique("txn-id"), topic)


def open_producer(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions(30)
    return producer


@pytest.mark.both_io_modes
def test_committed_records_are_read_and_aborted_ones_are_not(
    cluster: Cluster, topic: str, unique: Unique
) -> None:
    producer = open_producer(cluster, unique("txn-id"))
    for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0  # only records that have left the client can be aborted
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    read = consume(cluster, topic, 2, isolation_level="read_committed")
    assert values(read) == [b"a", b"c"]
    read = consume(cluster, topic, 3, isolation_level="read_uncommitted")
    assert values(read) == [b"a", b"b", b"c"]


def test_an_open_transaction_holds_back_committed_readers_only(
    cluster: Cluster, raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    produce(raw, topic, batch(b"before"))
    assert transaction.add() == ErrorCode.NONE
    assert transaction.send(b"open").error_code == ErrorCode.NONE
    produce(raw, topic, batch(b"after"))
    everything = fetch(raw, topic, 0)
    stable = fetch(raw, topic, 0, isolation_level=READ_COMMITTED)
    assert values_of(everything) == [b"before", b"open", b"after"]
    assert (everything.high_watermark, everything.last_stable_offset) == (3, 1)
    assert values_of(stable) == [b"before"]
    assert list(stable.aborted_transactions) == []
    assert list_offset(raw, topic, LATEST).offset == 3
    assert list_offset(raw, topic, LATEST, isolation_level=READ_COMMITTED).offset == 1
    assert transaction.end(commit=True) == ErrorCode.NONE
    eventually(
        lambda: fetch(raw, topic, 0, isolation_level=READ_COMMITTED).last_stable_offset == 4,
        "the marker is written",
    )


def test_a_waiting_committed_reader_is_woken_by_the_commit(
    cluster: Cluster, raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    transaction.send(b"a")
    with cluster.connect() as reader:
        request = fetch_request(topic, 0, isolation_level=READ_COMMITTED, max_wait_ms=TOO_LONG_MS)
        waiting = reader.send(request, FETCH_BY_NAME)
        transaction.end(commit=True)
        response = reader.receive(request, FETCH_BY_NAME, waiting)
    assert values_of(the_partition(response.responses, "partitions"))[0] == b"a"


def test_aborted_transactions_are_listed_for_committed_readers(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    transaction.send(b"never")
    assert transaction.end(commit=False) == ErrorCode.NONE
    answer = eventually(lambda: stable_fetch(raw, topic, until=2), "the marker is written")
    (aborted,) = answer.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (transaction.producer_id, 0)


def stable_fetch(raw: RawClient, topic: str, *, until: int) -> Answer | None:
    """The answer to a read-committed fetch once the last stable offset is `until`; None before.

    A fetch during the marker's append may return the new offset with the old records, so the next
    fetch provides the answer.
    """
    answer = fetch(raw, topic, 0, isolation_level=READ_COMMITTED)
    if answer.last_stable_offset != until:
        return None
    return fetch(raw, topic, 0, isolation_level=READ_COMMITTED)


def test_the_end_of_a_transaction_is_a_control_record(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    transaction.send(b"a")
    transaction.end(commit=True)
    answer = eventually(lambda: stable_fetch(raw, topic, until=2), "the marker is written")
    data, marker = read_batches(memoryview(answer.records))
    assert (data.is_transactional, data.is_control) == (True, False)
    assert (marker.is_transactional, marker.is_control) == (True, True)
    assert (marker.producer_id, marker.producer_epoch) == (transaction.producer_id, 0)
    assert records_of(answer)[-1].key == b"\0\0\0\1"  # version 0, commit


def test_a_new_producer_with_the_same_id_fences_the_old(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    transaction.send(b"zombie")
    successor = RawTransaction(raw, transaction.id, topic)
    assert successor.producer_id == transaction.producer_id
    assert successor.epoch > transaction.epoch
    assert transaction.add() == ErrorCode.PRODUCER_FENCED
    assert transaction.end(commit=True) == ErrorCode.PRODUCER_FENCED
    refused = transaction.send(b"more").error_code
    assert refused == ErrorCode.INVALID_PRODUCER_EPOCH
    # The open transaction of the old producer was aborted on its behalf.
    eventually(lambda: stable_fetch(raw, topic, until=2), "the old transaction has ended")
    successor.add()
    successor.send(b"good")
    assert successor.end(commit=True) == ErrorCode.NONE


@pytest.mark.both_io_modes
def test_a_partition_must_be_added_before_it_is_written(transaction: RawTransaction) -> None:
    refused = transaction.send(b"a")
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    assert refused.error_message == "Partition was not added to the transaction"
    assert (refused.base_offset, refused.log_start_offset) == (-1, -1)
    newer = transaction.send(b"a", version=PRODUCE_WITH_ABORTABLE)
    assert (newer.error_code, newer.error_message) == (ErrorCode.TRANSACTION_ABORTABLE, None)
    assert transaction.add() == ErrorCode.NONE
    assert transaction.send(b"a").base_offset == 0
    assert transaction.send(b"b", version=PRODUCE_WITH_ABORTABLE).base_offset == 1


def test_a_late_batch_does_not_open_a_transaction_again(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    transaction.send(b"a")
    transaction.end(commit=True)
    transaction.await_state("CompleteCommit")
    assert transaction.send(b"late").error_code == ErrorCode.INVALID_TXN_STATE
    produce(raw, topic, batch(b"after"))
    assert fetch(raw, topic, 0, isolation_level=READ_COMMITTED).last_stable_offset == 3
    assert transaction.add() == ErrorCode.NONE
    assert transaction.send(b"b").base_offset == 3


def test_batches_of_strangers_are_refused(transaction: RawTransaction) -> None:
    transaction.add()
    assert transaction.send(b"a", epoch=9).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    transaction.producer_id += 1000
    assert transaction.send(b"a").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_transactional_batches_need_a_transactional_id(
    cluster: Cluster, raw: RawClient, transaction: RawTransaction, topic: str, unique: Unique
) -> None:
    transaction.add()
    refused = produce(raw, topic, transactional_batch(transaction))
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # One transactional batch fails all others in its request.
    wide = create_topic(cluster, unique("wide"), partitions=2)
    mixed = produce_two(raw, wide, batch(b"plain"), transactional_batch(transaction))
    assert mixed == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    idempotent = batch(b"a", producer_id=transaction.producer_id, producer_epoch=0, base_sequence=0)
    taken = produce(raw, topic, idempotent, transactional_id=transaction.id)
    assert taken.error_code == ErrorCode.NONE


def test_a_request_has_transactional_batches_of_one_producer_only(
    cluster: Cluster, raw: RawClient, transaction: RawTransaction, unique: Unique
) -> None:
    wide = create_topic(cluster, unique("wide"), partitions=2)
    first = transactional_batch(transaction)
    transaction.producer_id += 1
    second = transactional_batch(transaction)
    codes = produce_two(raw, wide, first, second, transactional_id=transaction.id)
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def transactional_batch(transaction: RawTransaction) -> bytes:
    return batch(
        b"a",
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        base_sequence=0,
        transactional=True,
    )


def produce_two(
    raw: RawClient, topic: str, *batches: bytes, transactional_id: str | None = None
) -> list[ErrorCode]:
    """Produces to partitions 0 and 1 in one request."""
    partitions = [
        ProduceRequest.Topic.Partition(index=index, records=memoryview(records))
        for index, records in enumerate(batches)
    ]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.Topic(name=topic, partition_data=partitions)],
    )
    (answered,) = raw.call(request, 9).responses
    return [ErrorCode(partition.error_code) for partition in answered.partition_responses]


def test_offsets_must_be_added_before_they_are_committed(
    transaction: RawTransaction, unique: Unique
) -> None:
    group = unique("group")
    assert transaction.commit_offset(group, 7) == ErrorCode.INVALID_TXN_STATE
    newer = transaction.commit_offset(group, 7, version=COMMIT_WITH_ABORTABLE)
    assert newer == ErrorCode.TRANSACTION_ABORTABLE
    assert transaction.add_offsets(group) == ErrorCode.NONE
    assert transaction.commit_offset(group, 7) == ErrorCode.NONE
    assert transaction.committed_offset(group) == -1
    transaction.end(commit=True)
    transaction.await_state("CompleteCommit")
    assert transaction.committed_offset(group) == 7


def test_leaders_may_ask_what_is_in_a_transaction(
    cluster: Cluster, transaction: RawTransaction, unique: Unique
) -> None:
    assert transaction.verify() == ErrorCode.TRANSACTION_ABORTABLE
    transaction.add()
    other = create_topic(cluster, unique("other"))
    assert transaction.verify() == ErrorCode.NONE
    assert transaction.verify(topic=other) == ErrorCode.TRANSACTION_ABORTABLE
    assert transaction.verify(topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert transaction.verify(epoch=9) == ErrorCode.PRODUCER_FENCED


def test_a_transaction_whose_first_request_was_lost_begins_with_what_came(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    transaction.add()
    assert transaction.send(b"third", sequence=2).error_code == ErrorCode.NONE
    again = transaction.send(b"third", sequence=2)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    for late in (0, 1):
        refused = transaction.send(b"late", sequence=late)
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert transaction.send(b"fourth", sequence=3).error_code == ErrorCode.NONE
    assert transaction.end(commit=True) == ErrorCode.NONE
    transaction.await_state("CompleteCommit")
    # The next transaction continues the sequence numbers.
    transaction.add()
    refused = transaction.send(b"sixth", sequence=5)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert transaction.send(b"fifth", sequence=4).error_code == ErrorCode.NONE
    assert transaction.end(commit=True) == ErrorCode.NONE


def test_a_transaction_after_one_that_wrote_nothing_here_begins_with_sequence_0(
    transaction: RawTransaction,
) -> None:
    transaction.add()
    assert transaction.end(commit=False) == ErrorCode.NONE
    transaction.await_state("CompleteAbort")
    transaction.add()
    refused = transaction.send(b"second", sequence=1)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert transaction.send(b"first", sequence=0).error_code == ErrorCode.NONE
    assert transaction.end(commit=True) == ErrorCode.NONE


def test_what_was_not_begun_cannot_be_ended(transaction: RawTransaction) -> None:
    assert transaction.end(commit=True) == ErrorCode.INVALID_TXN_STATE


def test_strangers_cannot_touch_a_transaction(transaction: RawTransaction) -> None:
    assert (
        transaction.add(v3_and_below_producer_id=transaction.producer_id + 1000)
        == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert transaction.add(v3_and_below_producer_epoch=99) == ErrorCode.PRODUCER_FENCED


def test_offsets_are_committed_with_the_transaction(
    cluster: Cluster, topic: str, unique: Unique
) -> None:
    source, group = create_topic(cluster, unique("source")), unique("group")
    produce_values(cluster, source, b"1", b"2")
    producer = open_producer(cluster, unique("txn-id"))
    consumer = open_consumer(cluster, group_id=group)
    part = [TopicPartition(source, 0)]
    try:
        consumer.subscribe([source])
        poll(consumer, 2)
        for offset, commit in ((1, False), (2, True)):
            producer.begin_transaction()
            producer.produce(topic, b"out", partition=0)
            producer.send_offsets_to_transaction(
                [TopicPartition(source, 0, offset)], consumer.consumer_group_metadata(), 30
            )
            if commit:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
                assert consumer.committed(part, timeout=10)[0].offset == -1001
        assert consumer.committed(part, timeout=10)[0].offset == 2
    finally:
        consumer.close()


def test_a_transaction_spans_partitions_of_all_brokers(
    three_brokers: Cluster, unique: Unique
) -> None:
    name = create_topic(three_brokers, unique("txn"), partitions=6, replication=3)
    producer = open_producer(three_brokers, unique("txn-id"))
    producer.begin_transaction()
    for partition in range(6):
        producer.produce(name, b"x", partition=partition)
    producer.commit_transaction(30)
    for partition in range(6):
        (message,) = consume(
            three_brokers, name, 1, partition=partition, isolation_level="read_committed"
        )
        assert message.value() == b"x"


def test_a_fenced_librdkafka_producer_says_so(cluster: Cluster, topic: str, unique: Unique) -> None:
    transactional_id = unique("txn-id")
    old = open_producer(cluster, transactional_id)
    old.begin_transaction()
    old.produce(topic, b"zombie", partition=0)
    old.flush(30)
    open_producer(cluster, transactional_id)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(30)
    assert fenced.value.args[0].fatal()


@pytest.mark.java
def test_a_java_producer_commits_aborts_and_is_fenced(
    java: JavaClient, cluster: Cluster, topic: str, unique: Unique
) -> None:
    settings = {"transactional_id": unique("txn-id"), "delivery_timeout_ms": 60_000}
    old = java.producer(cluster.bootstrap_servers, **settings)
    old.call("initTransactions")
    for value, end in ((b"a", "commitTransaction"), (b"b", "abortTransaction")):
        old.call("beginTransaction")
        old.send(Message(topic=topic, partition=0, value=value))
        old.call(end)
    old.call("beginTransaction")
    old.send(Message(topic=topic, partition=0, value=b"zombie"))
    new = java.producer(cluster.bootstrap_servers, **settings)
    new.call("initTransactions")
    with pytest.raises(JavaError) as fenced:
        old.call("commitTransaction")
    assert fenced.value.kind == "ProducerFencedException"
    new.call("beginTransaction")
    new.send(Message(topic=topic, partition=0, value=b"c"))
    new.call("commitTransaction")
    config = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with java.consumer(cluster.bootstrap_servers, **config) as consumer:
        consumer.assign(f"{topic}-0")
        assert [record.value for record in consumer.poll(2)] == [b"a", b"c"]
    old.close()
    new.close()


@pytest.mark.java
def test_the_java_admin_sees_transactions_and_producers(
    java: JavaClient, cluster: Cluster, topic: str, unique: Unique
) -> None:
    transactional_id = unique("txn-id")
    with (
        java.admin(cluster.bootstrap_servers) as admin,
        java.producer(cluster.bootstrap_servers, transactional_id=transactional_id) as producer,
    ):
        producer.call("initTransactions")
        producer.call("beginTransaction")
        producer.send_one(topic, b"open", partition=0)
        described = admin.one("describeTransactions", ids=[transactional_id])
        assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
        assert admin.call("listTransactions")[transactional_id]["state"] == "Ongoing"
        (seen,) = admin.one("describeProducers", partitions=[f"{topic}-0"])
        assert (seen["producerId"], seen["transactionStart"]) == (described["producerId"], 0)
        producer.call("commitTransaction")
        eventually(
            lambda: (
                admin.one("describeTransactions", ids=[transactional_id])["state"]
                == "CompleteCommit"
            ),
            "the transaction is complete",
        )
