"""Version 2 of transactions (KIP-890): leaders add partitions, every end starts a new epoch."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest
from embedkafka.wire.records.batch import read_batches
from tests.java_tools.java_client import JavaClient, JavaError, Message
from tests.wire.clients import Cluster, consume, create_topic, eventually, values
from tests.wire.one_partition import Answer, describe, fetch, values_of
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import COMMIT_V2, PRODUCE_V2, RawTransaction

Unique = Callable[[str], str]
READ_COMMITTED = 1


@pytest.fixture
def transaction(raw: RawClient, unique: Unique, topic: str) -> RawTransaction:
    return RawTransaction(raw, unique("txn-id"), topic)


def write(transaction: RawTransaction, value: bytes) -> int:
    """Writes one record and returns its offset; the previous transaction may still be ending."""

    def send() -> Answer | None:
        answer = transaction.send(value, version=PRODUCE_V2)
        return None if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS else answer

    answer = eventually(send, "the former transaction is complete")
    assert answer.error_code == ErrorCode.NONE
    return int(answer.base_offset)


def refusal(transaction: RawTransaction, **how: Any) -> ErrorCode:
    return ErrorCode(transaction.send(b"refused", version=PRODUCE_V2, **how).error_code)


# Feature level


def test_the_broker_says_that_it_has_version_2(raw: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    answer = raw.call(request, 4)
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in finalized_of(answer)}
    assert (supported["transaction.version"], supported["group.version"]) == ((0, 2), (0, 1))
    assert (finalized["transaction.version"], finalized["group.version"]) == ((2, 2), (1, 1))
    assert answer.finalized_features_epoch >= 0
    assert not answer.zk_migration_ready


def test_version_3_of_api_versions_cannot_tell_of_features_from_0_on(raw: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    answer = raw.call(request, 3)
    assert not [f for f in answer.supported_features if f.name == "transaction.version"]
    assert [f.max_version_level for f in finalized_of(answer) if f.name == "transaction.version"]


def finalized_of(answer: Answer) -> list[Answer]:
    return list(answer.finalized_features)


# Writing


@pytest.mark.both_io_modes
def test_writing_adds_the_partition(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    assert write(transaction, b"a") == 0
    described = transaction.describe()
    assert described.transaction_state == "Ongoing"
    (added,) = described.topics
    assert (added.topic, list(added.partitions)) == (topic, [0])
    assert write(transaction, b"b") == 1
    assert transaction.finish(commit=True).error_code == ErrorCode.NONE
    transaction.await_state("CompleteCommit")
    assert values_of(fetch(raw, topic, 0, isolation_level=READ_COMMITTED))[:2] == [b"a", b"b"]


def test_every_end_gives_the_next_epoch(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    producer_id, epoch = transaction.producer_id, transaction.epoch
    for number, commit in enumerate((True, False, True), 1):
        write(transaction, b"x")
        answer = transaction.finish(commit=commit)
        assert (answer.producer_id, answer.producer_epoch) == (producer_id, epoch + number)
    transaction.await_state("CompleteCommit")
    batches = read_batches(memoryview(fetch(raw, topic, 0).records))
    # Data carries the epoch of its transaction, and the marker the next one.
    assert [b.producer_epoch - epoch for b in batches] == [0, 1, 1, 2, 2, 3]


def test_a_transaction_begins_with_sequence_0(transaction: RawTransaction) -> None:
    assert refusal(transaction, sequence=3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(transaction, b"a")
    write(transaction, b"b")
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    assert refusal(transaction, sequence=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(transaction, b"c") == 3


def test_a_batch_that_came_before_the_first_one_is_taken_after_it(
    transaction: RawTransaction,
) -> None:
    assert refusal(transaction, sequence=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(transaction, b"first") == 0
    assert refusal(transaction, sequence=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(transaction, b"second") == 1


def test_batches_of_an_ended_transaction_are_refused(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    write(transaction, b"a")
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    old_epoch = transaction.epoch - 1
    assert refusal(transaction, epoch=old_epoch, sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    # Not even as a duplicate, because its epoch is over.
    assert refusal(transaction, epoch=old_epoch, sequence=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetch(raw, topic, 0, isolation_level=READ_COMMITTED).last_stable_offset == 2


def test_a_batch_sent_twice_is_written_once(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    for _ in range(2):
        taken = transaction.send(b"a", version=PRODUCE_V2, sequence=0)
        assert (taken.error_code, taken.base_offset) == (ErrorCode.NONE, 0)
    assert fetch(raw, topic, 0).high_watermark == 1


def test_both_versions_may_take_turns(transaction: RawTransaction) -> None:
    transaction.add()
    assert transaction.send(b"a").error_code == ErrorCode.NONE
    assert transaction.end(commit=True) == ErrorCode.NONE
    transaction.await_state("CompleteCommit")
    assert write(transaction, b"b") == 2
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    assert transaction.add() == ErrorCode.NONE
    assert transaction.send(b"c").error_code == ErrorCode.NONE
    assert transaction.end(commit=False) == ErrorCode.NONE


def test_leaders_add_partitions_to_the_transaction(transaction: RawTransaction) -> None:
    assert transaction.verify(verify_only=False) == ErrorCode.NONE
    assert transaction.describe().transaction_state == "Ongoing"
    nowhere = transaction.verify(topic="nowhere", verify_only=False)
    assert nowhere == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert transaction.finish(commit=True).error_code == ErrorCode.NONE
    transaction.await_state("CompleteCommit")


# Ending


def test_an_end_that_is_asked_for_twice_answers_the_same(transaction: RawTransaction) -> None:
    epoch = transaction.epoch
    write(transaction, b"a")
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    again = transaction.finish(commit=True, epoch=epoch)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, epoch + 1)
    other = transaction.finish(commit=False, epoch=epoch)
    assert (other.error_code, other.producer_epoch) == (ErrorCode.INVALID_TXN_STATE, -1)


def test_nothing_can_be_aborted_but_not_committed(transaction: RawTransaction) -> None:
    epoch = transaction.epoch
    assert transaction.finish(commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    aborted = transaction.finish(commit=False)
    assert (aborted.error_code, aborted.producer_epoch) == (ErrorCode.NONE, epoch + 1)
    transaction.await_state("CompleteAbort")
    assert transaction.finish(commit=False).producer_epoch == epoch + 2
    transaction.await_state("CompleteAbort")
    assert transaction.finish(commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert write(transaction, b"a") == 0


def test_the_end_of_a_strangers_epoch_is_refused(transaction: RawTransaction) -> None:
    write(transaction, b"a")
    for epoch in (transaction.epoch + 1, transaction.epoch + 7):
        answer = transaction.finish(commit=True, epoch=epoch)
        assert answer.error_code == ErrorCode.PRODUCER_FENCED
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    write(transaction, b"b")
    fenced = transaction.finish(commit=True, epoch=transaction.epoch - 1)
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED


def test_an_unused_producer_has_no_former_epoch_to_end(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    successor = RawTransaction(raw, transaction.id, topic)
    assert successor.epoch == transaction.epoch + 1
    assert transaction.finish(commit=False).error_code == ErrorCode.PRODUCER_FENCED


def test_a_new_producer_with_the_same_id_fences_the_old(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    write(transaction, b"zombie")
    successor = RawTransaction(raw, transaction.id, topic)
    # One epoch for the abort of the old producer's transaction, one for the successor.
    assert successor.epoch == transaction.epoch + 2
    assert refusal(transaction) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transaction.finish(commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert write(successor, b"good") == 2
    assert successor.finish(commit=True).error_code == ErrorCode.NONE
    successor.await_state("CompleteCommit")
    (aborted,) = fetch(raw, topic, 0, isolation_level=READ_COMMITTED).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (transaction.producer_id, 0)


def test_a_transaction_that_takes_too_long_is_aborted(
    raw: RawClient, unique: Unique, topic: str
) -> None:
    transaction = RawTransaction(raw, unique("txn-id"), topic, timeout_ms=1)
    write(transaction, b"slow")
    described = transaction.await_state("CompleteAbort")
    assert described.producer_epoch == transaction.epoch + 1
    assert refusal(transaction) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transaction.finish(commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    # An abort only repeats what has happened, and returns the new epoch to the producer.
    assert transaction.finish(commit=False).producer_epoch == described.producer_epoch
    assert write(transaction, b"next") == 2


# Offsets


def test_committing_offsets_adds_their_partition(
    transaction: RawTransaction, unique: Unique
) -> None:
    group = unique("group")
    assert transaction.commit_offset(group, 7, version=COMMIT_V2) == ErrorCode.NONE
    (added,) = transaction.describe().topics
    assert added.topic == "__consumer_offsets"
    assert transaction.committed_offset(group) == -1
    transaction.finish(commit=True)
    transaction.await_state("CompleteCommit")
    assert transaction.committed_offset(group) == 7


def test_offsets_of_an_aborted_transaction_are_forgotten(
    transaction: RawTransaction, unique: Unique
) -> None:
    group = unique("group")
    transaction.commit_offset(group, 7, version=COMMIT_V2)
    epoch = transaction.epoch
    transaction.finish(commit=False)
    transaction.await_state("CompleteAbort")
    assert transaction.committed_offset(group) == -1
    transaction.epoch = epoch
    late = transaction.commit_offset(group, 8, version=COMMIT_V2)
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH


# Several brokers, and stock clients


def test_the_coordinator_may_be_another_broker(three_brokers: Cluster, unique: Unique) -> None:
    name = create_topic(three_brokers, unique("txn"), partitions=3, replication=3)
    with ExitStack() as stack:
        brokers = {n + 1: stack.enter_context(three_brokers.connect(n)) for n in range(3)}
        leaders = [brokers[p.leader_id] for p in in_order(describe(brokers[1], name).partitions)]
        for coordinator in brokers.values():
            transactional_id = eventually(
                partial(find_id_of, coordinator, unique), "an id for each coordinator"
            )
            transaction = RawTransaction(coordinator, transactional_id, name)
            for partition, leader in enumerate(leaders):
                taken = transaction.send(
                    b"x", sequence=0, version=PRODUCE_V2, partition=partition, leader=leader
                )
                assert taken.error_code == ErrorCode.NONE
            assert transaction.finish(commit=True).error_code == ErrorCode.NONE
            transaction.await_state("CompleteCommit")
    for partition in range(3):
        read = consume(
            three_brokers, name, 3, partition=partition, isolation_level="read_committed"
        )
        assert values(read) == [b"x"] * 3


def find_id_of(coordinator: RawClient, unique: Unique) -> str | None:
    """A transactional id that this broker coordinates, or None if it coordinates another."""
    transactional_id = unique("txn-id")
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=30_000
    )
    taken = coordinator.call(request, 4).error_code == ErrorCode.NONE
    return transactional_id if taken else None


def in_order(partitions: Sequence[Answer]) -> list[Answer]:
    return sorted(partitions, key=lambda partition: int(partition.partition_index))


@pytest.mark.java
def test_a_java_producer_aborts_what_it_has_not_written(
    java: JavaClient, cluster: Cluster, topic: str, unique: Unique
) -> None:
    settings = {"transactional_id": unique("txn-id")}
    with java.producer(cluster.bootstrap_servers, **settings) as producer:
        producer.call("initTransactions")
        for end in ("abortTransaction", "commitTransaction", "abortTransaction"):
            producer.call("beginTransaction")
            producer.call(end)
        producer.call("beginTransaction")
        producer.send(Message(topic=topic, partition=0, value=b"a"))
        producer.call("commitTransaction")
    read = consume(cluster, topic, 1, isolation_level="read_committed")
    assert values(read) == [b"a"]


@pytest.mark.java
def test_a_java_producer_goes_on_after_aborts_and_many_commits(
    java: JavaClient, cluster: Cluster, topic: str, unique: Unique
) -> None:
    expected = []
    with java.producer(cluster.bootstrap_servers, transactional_id=unique("txn-id")) as producer:
        producer.call("initTransactions")
        for number in range(20):
            producer.call("beginTransaction")
            value = str(number).encode()
            producer.send_one(topic, value, partition=0)
            is_commit = number % 3 != 2
            producer.call("commitTransaction" if is_commit else "abortTransaction")
            expected += [value] if is_commit else []
    read = consume(cluster, topic, len(expected), isolation_level="read_committed")
    assert values(read) == expected


@pytest.mark.java
def test_a_java_producer_whose_transaction_timed_out_learns_of_it(
    java: JavaClient, cluster: Cluster, topic: str, unique: Unique
) -> None:
    settings = {"transactional_id": unique("txn-id"), "transaction_timeout_ms": 100}
    with (
        java.admin(cluster.bootstrap_servers) as admin,
        java.producer(cluster.bootstrap_servers, **settings) as producer,
    ):
        producer.call("initTransactions")
        producer.call("beginTransaction")
        producer.send_one(topic, b"slow", partition=0)
        transactional_id = settings["transactional_id"]
        eventually(
            lambda: (
                admin.one("describeTransactions", ids=[transactional_id])["state"]
                == "CompleteAbort"
            ),
            "the transaction has timed out",
        )
        with pytest.raises(JavaError) as told:
            producer.call("commitTransaction")
        # The abort raised the epoch, so a commit of version 2 looks like a repeated end.
        is_version_2 = java.version.startswith("4.")
        expected = "InvalidTxnStateException" if is_version_2 else "ProducerFencedException"
        assert told.value.kind == expected
