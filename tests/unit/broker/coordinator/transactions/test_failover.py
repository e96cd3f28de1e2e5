"""Stored records, loading, and the rule that a loaded shard equals a live one."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.broker.coordinator.transactions.records import (
    read_transaction,
    read_transactional_id,
    tombstone,
    transaction_record,
)
from embedkafka.broker.coordinator.transactions.states import TxnState
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.messages.transactions import ListTransactionsRequest
from tests.presence import present
from tests.unit.broker.coordinator.transactions.conftest import Coordinator

T0, T1 = ("t", 0), ("t", 1)


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


TRANSACTION = Transaction(
    transactional_id="tx",
    producer_id=1000,
    previous_producer_id=1000,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TxnState.ONGOING,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0)}),
    start_timestamp_ms=5,
    last_update_timestamp_ms=6,
    client_version=2,
)


def test_a_transaction_is_written_as_kafka_writes_it() -> None:
    record = transaction_record(TRANSACTION, transaction_version=0)
    assert record.key == b"\0\0" + string(b"tx")
    assert record.value == (
        b"\0\0"
        + struct.pack(">qhib", 1000, 3, 60_000, 1)
        + struct.pack(">i", 1)
        + string(b"t")
        + struct.pack(">iii", 2, 0, 1)
        + struct.pack(">qq", 6, 5)
    )


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_since_transaction_version_1_there_are_tagged_fields(transaction_version: int) -> None:
    record = transaction_record(TRANSACTION, transaction_version=transaction_version)
    assert record.value == (
        b"\0\1"
        + struct.pack(">qhib", 1000, 3, 60_000, 1)
        + b"\2\2t"
        + b"\3"
        + struct.pack(">ii", 0, 1)
        + b"\0"
        + struct.pack(">qq", 6, 5)
        + b"\2\0\x08"
        + struct.pack(">q", 1000)
        + b"\2\2"
        + struct.pack(">h", 2)
    )


def test_an_empty_transaction_has_null_for_partitions() -> None:
    empty = replace(TRANSACTION, state=TxnState.EMPTY, partitions=frozenset())
    record = transaction_record(empty, transaction_version=0)
    assert struct.pack(">i", -1) in present(record.value)[17:21]


def test_what_is_written_is_read() -> None:
    record = transaction_record(TRANSACTION, transaction_version=2)
    assert read_transactional_id(record.key) == "tx"
    assert read_transaction("tx", present(record.value)) == TRANSACTION
    assert tombstone("tx") == (record.key, None)
    assert read_transactional_id(b"\0\7") is None


LOG = TopicPartition("__transaction_state", 0)


def test_records_of_an_unknown_type_are_skipped_with_a_warning(
    coordinator: Coordinator, new_coordinator: type[Coordinator], caplog: pytest.LogCaptureFixture
) -> None:
    producer = coordinator.init().producer
    coordinator.log.put(LOG, b"\0\x63rest", b"\0\0")
    coordinator.log.put(LOG, b"\0\x63rest", None)
    loaded = new_coordinator(log=coordinator.log).lead()
    assert loaded.add(producer, T0) is ErrorCode.NONE
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "offset 1 is of unknown type 99" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"\0\0", "no key"),
        (b"\0", b"\0\0", "no version"),
        (tombstone("tx").key, b"\0\x63", "not 99"),
        (
            tombstone("tx").key,
            b"\0\0" + struct.pack(">qhibiqq", 1000, 3, 60_000, 99, -1, 6, 5),
            "99",
        ),
    ],
    ids=["no key", "no type", "a value of a newer version", "an unknown state"],
)
def test_a_record_that_cannot_be_read_leaves_no_coordinator(
    coordinator: Coordinator, new_coordinator: type[Coordinator], key: Any, value: Any, error: str
) -> None:
    coordinator.init()
    coordinator.log.put(LOG, key, value)
    loaded = new_coordinator(log=coordinator.log)
    with pytest.raises(ProtocolError, match=error):
        loaded.lead()
    assert loaded.init().error is ErrorCode.NOT_COORDINATOR


def test_the_state_topic_decides_which_partition_coordinates_an_id(
    new_coordinator: type[Coordinator],
) -> None:
    coordinator = new_coordinator(
        TxnConfig(transaction_state_log_num_partitions=50), elsewhere=range(50)
    )
    coordinator.service.start(partition_count=3)
    coordinator.service.coordinator.on_leading(coordinator_partition("tx", 3), 0)
    coordinator.loop.run()
    assert coordinator.init().error is ErrorCode.NONE


def test_a_broker_that_does_not_lead_says_so(new_coordinator: type[Coordinator]) -> None:
    coordinator = new_coordinator()
    assert coordinator.init().error is ErrorCode.NOT_COORDINATOR
    assert coordinator.add((1, 0), T0) is ErrorCode.NOT_COORDINATOR
    assert coordinator.end((1, 0)).error is ErrorCode.NOT_COORDINATOR


def test_requests_during_loading_wait_and_in_the_end_are_told_to(
    coordinator: Coordinator, new_coordinator: type[Coordinator]
) -> None:
    coordinator.init()
    other = new_coordinator(log=coordinator.log)
    loading = other.begin_loading()
    early = other.init()
    assert early.is_waiting
    other.advance(500)
    assert early.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    in_time = other.init()
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    listing = other.send(other.service.list_transactions, request)
    assert listing.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    other.loop.events = loading
    other.loop.run()
    assert in_time.producer == (1000, 1)


def test_an_open_transaction_survives_a_failover(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    coordinator.add(producer, T0)
    successor = coordinator.successor()
    assert successor.add(producer, T1) is ErrorCode.NONE
    assert successor.end(producer).error is ErrorCode.NONE
    assert successor.leaders.markers() == [(1, *producer, True, {T0, T1})]


def test_a_step_in_flight_is_answered_when_the_broker_resigns(coordinator: Coordinator) -> None:
    producer = coordinator.init().producer
    coordinator.add(producer, T0)
    coordinator.log.hold()
    ending = coordinator.end(producer)
    coordinator.service.coordinator.on_resigned(0)
    coordinator.loop.run()
    coordinator.log.release()
    coordinator.loop.run()
    assert ending.error is ErrorCode.NOT_COORDINATOR
    assert coordinator.leaders.markers() == []
    assert coordinator.successor().state() == "CompleteCommit"


def test_a_late_resignation_of_an_older_epoch_is_ignored(coordinator: Coordinator) -> None:
    coordinator.service.coordinator.on_leading(0, 5)
    coordinator.service.coordinator.on_resigned(0, 4)
    coordinator.service.coordinator.on_leading(0, 3)
    coordinator.loop.run()
    assert coordinator.shard().coordinator_epoch == 5
    assert coordinator.init().error is ErrorCode.NONE


def test_a_stopped_service_is_not_available(coordinator: Coordinator) -> None:
    coordinator.service.stop()
    assert coordinator.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.loop.is_open = False
    assert coordinator.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.init(None).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


operations = st.one_of(
    st.tuples(st.just("init"), st.sampled_from("ab")),
    st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(0, 2), st.sampled_from([3, 4])),
    st.tuples(st.just("end"), st.sampled_from("ab"), st.booleans(), st.sampled_from([4, 5])),
    st.tuples(st.just("fail")),
    st.tuples(st.just("advance"), st.sampled_from([1_000, 80_000, 700_000])),
)


@settings(max_examples=60)
@given(st.lists(operations, max_size=25))
def test_loading_equals_living(new_coordinator: type[Coordinator], script: Any) -> None:
    config = TxnConfig(
        transaction_state_log_num_partitions=1,
        transactional_id_expiration_ms=600_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=100_000,
    )
    live = new_coordinator(config).lead()
    live.service.start()
    producers = {"a": (-1, -1), "b": (-1, -1)}
    for name, *arguments in script:
        if name == "init":
            reply = live.init(arguments[0])
            if reply.error is ErrorCode.NONE:
                producers[arguments[0]] = reply.producer
        elif name == "add":
            who, partition, version = arguments
            live.add(producers[who], ("t", partition), transactional_id=who, version=version)
        elif name == "end":
            who, committed, version = arguments
            reply = live.end(
                producers[who], committed=committed, transactional_id=who, version=version
            )
            if reply.error is ErrorCode.NONE:
                producers[who] = reply.producer
        elif name == "fail":
            live.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            live.advance(arguments[0])
    live.log.errors.clear()
    live.advance(1_000)

    loaded = live.successor()

    def durable(coordinator: Coordinator) -> dict[Any, Any]:
        # The last epoch is not stored, and neither is an id whose first step failed.
        return {
            t.transactional_id: replace(t, last_producer_epoch=NO_PRODUCER_EPOCH)
            for t in coordinator.shard().transactions()
            if t.producer_epoch != NO_PRODUCER_EPOCH
        }

    assert durable(loaded) == durable(live)
