"""Administration of transactions: list, describe, verify, abort, take over."""

from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from tests.wire.one_partition import LATEST, Answer, fetch, list_offset, values_of
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import ADD_AS_BROKER, COMMIT_V2, PRODUCE_V2, RawTransaction

pytestmark = pytest.mark.topic(partitions=2)

Unique = Callable[[str], str]
READ_COMMITTED = 1
AN_HOUR_MS = 3_600_000

_Transaction = AddPartitionsToTxnRequest.Transaction
_Marker = WriteTxnMarkersRequest.Marker


@pytest.fixture
def transaction(raw: RawClient, unique: Unique, topic: str) -> RawTransaction:
    return RawTransaction(raw, unique("txn-id"), topic)


class Three:
    """Transactional ids with one prefix: in a transaction, after one, and before the first."""

    def __init__(self, raw: RawClient, prefix: str, topic: str) -> None:
        self._raw = raw
        self._prefix = prefix
        self.open, self.ended, self.unused = (
            RawTransaction(raw, f"{prefix}.{name}", topic) for name in ("open", "ended", "unused")
        )
        self.open.add()
        self.ended.add()
        self.ended.end(commit=True)
        self.ended.await_state("CompleteCommit")

    def answer(self, *, version: int = 2, **filters: Any) -> Answer:
        known: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        return self._raw.call(ListTransactionsRequest(**{**known, **filters}), version)

    def listed(self, **filters: Any) -> set[str]:
        answer = self.answer(**filters)
        assert answer.error_code == ErrorCode.NONE
        found = {one.transactional_id for one in answer.transaction_states}
        return {name for name in ("open", "ended", "unused") if f"{self._prefix}.{name}" in found}


@pytest.fixture
def three(raw: RawClient, unique: Unique, topic: str) -> Three:
    return Three(raw, unique("listed"), topic)


def test_transactions_are_listed_by_state_and_producer(three: Three) -> None:
    assert three.listed() == {"open", "ended", "unused"}
    assert three.listed(state_filters=["Ongoing", "Empty"]) == {"open", "unused"}
    mine = [three.open.producer_id]
    assert three.listed(producer_id_filters=mine) == {"open"}
    assert three.listed(producer_id_filters=mine, state_filters=["Empty"]) == set()


def test_a_state_that_is_not_known_is_told_of(three: Three) -> None:
    answer = three.answer(state_filters=["ongoing", "Empty"])
    assert answer.unknown_state_filters == ["ongoing"]
    assert three.listed(state_filters=["ongoing", "Empty"]) == {"unused"}


def test_transactions_are_listed_by_how_long_they_run(three: Three) -> None:
    everybody = {"open", "ended", "unused"}
    assert three.listed(duration_filter=-1) == everybody
    # An id that never began a transaction counts as running since the epoch.
    assert three.listed(duration_filter=AN_HOUR_MS) == {"unused"}


def test_transactions_are_listed_by_a_pattern_for_the_whole_id(
    three: Three, raw: RawClient
) -> None:
    assert three.listed(transactional_id_pattern=r"listed-\d+\.(open|ended)") == {"open", "ended"}
    assert three.listed(transactional_id_pattern=r"(?i)LISTED.*D") == {"ended", "unused"}
    assert three.listed(transactional_id_pattern="listed") == set()
    assert three.listed(transactional_id_pattern="") == {"open", "ended", "unused"}


def test_transactions_are_described(three: Three, topic: str, raw: RawClient) -> None:
    running, ended = three.open.describe(), three.ended.describe()
    assert (running.transaction_state, running.transaction_timeout_ms) == ("Ongoing", 30_000)
    assert (running.producer_id, running.producer_epoch) == (three.open.producer_id, 0)
    assert [(t.topic, list(t.partitions)) for t in running.topics] == [(topic, [0])]
    assert running.transaction_start_time_ms > 0
    assert (ended.transaction_state, list(ended.topics)) == ("CompleteCommit", [])
    assert three.unused.describe().transaction_start_time_ms == -1
    request = DescribeTransactionsRequest(transactional_ids=["nobody", ""])
    unknown, nameless = raw.call(request, 0).transaction_states
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [4, ADD_AS_BROKER])
def test_leaders_ask_about_several_transactions_at_once(
    raw: RawClient, three: Three, topic: str, version: int
) -> None:
    def question(
        transactional_id: str, producer: RawTransaction, *partitions: int
    ) -> AddPartitionsToTxnRequest.Transaction:
        return _Transaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[_Transaction.Topic(name=topic, partitions=partitions)],
        )

    questions = [
        question(three.open.id, three.open, 0, 1),
        question(three.unused.id, three.unused, 0),
        question("stranger", three.open, 0),
        question("", three.open, 0),
    ]
    answer = raw.call(AddPartitionsToTxnRequest(transactions=questions), version)
    found = {
        (result.transactional_id, partition.partition_index): partition.partition_error_code
        for result in answer.results_by_transaction
        for found in result.topic_results
        for partition in found.results_by_partition
    }
    assert (answer.error_code, found) == (
        ErrorCode.NONE,
        {
            (three.open.id, 0): ErrorCode.NONE,
            (three.open.id, 1): ErrorCode.TRANSACTION_ABORTABLE,
            (three.unused.id, 0): ErrorCode.TRANSACTION_ABORTABLE,
            ("stranger", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ("", 0): ErrorCode.INVALID_REQUEST,
        },
    )


def test_one_unknown_partition_spoils_the_whole_request(
    raw: RawClient, transaction: RawTransaction
) -> None:
    asked = _Transaction(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        verify_only=False,
        topics=[_Transaction.Topic(name=transaction.topic, partitions=[0, 9])],
    )
    answer = raw.call(AddPartitionsToTxnRequest(transactions=[asked]), ADD_AS_BROKER)
    (found,) = answer.results_by_transaction[0].topic_results
    assert {p.partition_index: p.partition_error_code for p in found.results_by_partition} == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert transaction.describe().transaction_state == "Empty"


def mark(
    raw: RawClient,
    transaction: RawTransaction,
    *,
    commit: bool,
    coordinator_epoch: int,
    topic: str | None = None,
) -> ErrorCode:
    """Ends the producer's transaction in one partition, as its coordinator would."""
    marker = _Marker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_result=commit,
        topics=[_Marker.Topic(name=topic or transaction.topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    (answer,) = raw.call(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_an_admin_aborts_a_transaction_that_hangs(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    def abort(*, coordinator_epoch: int, topic: str | None = None) -> ErrorCode:
        return mark(
            raw, transaction, commit=False, coordinator_epoch=coordinator_epoch, topic=topic
        )

    def last_stable_offset() -> int:
        return list_offset(raw, topic, LATEST, isolation_level=READ_COMMITTED).offset

    transaction.add()
    transaction.send(b"stuck")
    assert last_stable_offset() == 0
    assert abort(coordinator_epoch=-2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert abort(coordinator_epoch=0, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert last_stable_offset() == 0
    assert abort(coordinator_epoch=100) == ErrorCode.NONE
    assert last_stable_offset() == 2
    assert abort(coordinator_epoch=99) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_late_marker_ends_the_next_transaction_of_version_1(
    raw: RawClient, transaction: RawTransaction, topic: str
) -> None:
    """Every transaction of this producer has the same epoch, so nothing tells them apart.

    Version 2 was made for this (KIP-890): each transaction has its own epoch.
    """
    transaction.add()
    transaction.send(b"first")
    transaction.end(commit=True)
    transaction.await_state("CompleteCommit")
    transaction.add()
    transaction.send(b"second")
    assert mark(raw, transaction, commit=True, coordinator_epoch=100) == ErrorCode.NONE
    assert b"second" in values_of(fetch(raw, topic, 0, isolation_level=READ_COMMITTED))
    assert transaction.describe().transaction_state == "Ongoing"


def test_whoever_starts_with_an_id_ends_its_open_transaction(
    raw: RawClient, transaction: RawTransaction, unique: Unique
) -> None:
    transaction.add()
    transaction.send(b"x")
    request = InitProducerIdRequest(transactional_id=transaction.id, transaction_timeout_ms=30_000)
    assert raw.call(request, 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    transaction.await_state("CompleteAbort")
    answer = raw.call(request, 5)
    assert answer.error_code == ErrorCode.NONE
    assert answer.producer_id == transaction.producer_id
    assert answer.producer_epoch > transaction.epoch

    # Every request fences the old producer; the error code depends on the API.
    group = unique("group")
    assert transaction.add() == ErrorCode.PRODUCER_FENCED
    assert transaction.add_offsets(group) == ErrorCode.PRODUCER_FENCED
    assert transaction.end(commit=True) == ErrorCode.PRODUCER_FENCED
    for version in (PRODUCE_V2 - 1, PRODUCE_V2):
        refused = transaction.send(b"late", version=version)
        assert refused.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    for version in (COMMIT_V2 - 1, COMMIT_V2):
        refused = transaction.commit_offset(group, 1, version=version)
        assert refused == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    "fields", [{"transaction_timeout_ms": 900_000}, {"producer_id": 5, "producer_epoch": 5}]
)
def test_a_new_transactional_id_may_wait_long_and_know_a_producer(
    raw: RawClient, unique: Unique, fields: dict[str, int]
) -> None:
    known: dict[str, Any] = {"transactional_id": unique("txn-id"), "transaction_timeout_ms": 30_000}
    answer = raw.call(InitProducerIdRequest(**{**known, **fields}), 5)
    assert answer.error_code == ErrorCode.NONE


def test_a_producer_goes_on_with_its_own_epoch_only(
    raw: RawClient, transaction: RawTransaction
) -> None:
    def recover(*, epoch: int, producer_id: int | None = None, version: int = 5) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=transaction.id,
            transaction_timeout_ms=30_000,
            producer_id=transaction.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch,
        )
        return raw.call(request, version)

    assert recover(epoch=0).producer_epoch == 1
    assert recover(epoch=0).producer_epoch == 1, "a retry after a lost answer gets the same epoch"
    assert recover(epoch=1).producer_epoch == 2
    assert recover(epoch=0).error_code == ErrorCode.PRODUCER_FENCED
    assert recover(epoch=99).error_code == ErrorCode.PRODUCER_FENCED
    stranger = transaction.producer_id + 1000
    assert recover(epoch=2, producer_id=stranger).error_code == ErrorCode.PRODUCER_FENCED
    before_v4 = recover(epoch=2, producer_id=stranger, version=3)
    assert before_v4.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
