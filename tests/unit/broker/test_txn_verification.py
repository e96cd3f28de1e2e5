from types import SimpleNamespace
from typing import Any, cast

import pytest

from embedkafka.broker.apis.transactional_writes import transactional_write, unverified
from embedkafka.broker.broker_channels import BrokerChannels, OnDone
from embedkafka.broker.coordinator.transactions.service import TxnService
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.settings.dynamic import DynamicConfig
from embedkafka.broker.txn_verification import (
    ClientSupport,
    Errors,
    TransactionalWrite,
    TxnVerification,
    support_by_version,
)
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from embedkafka.wire.records.builder import build_batch
from tests.doubles.scheduling import ManualScheduler
from tests.presence import present

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ME, OTHER = BrokerId(1), BrokerId(2)


class Logs:
    """Stands in for HostedPartitions and their logs; records verifications by partition."""

    def __init__(self) -> None:
        self.open: set[TopicPartition] = set()
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.begun: list[tuple[TopicPartition, int, int, int, bool]] = []
        self.confirmed: list[tuple[TopicPartition, int]] = []

    def require_leader(self, topic_partition: TopicPartition) -> SimpleNamespace:
        if topic_partition in self.errors:
            raise ApiError(self.errors[topic_partition])
        return SimpleNamespace(require_log=lambda: _Log(self, topic_partition))


class _Log:
    def __init__(self, logs: Logs, topic_partition: TopicPartition) -> None:
        self._logs = logs
        self._topic_partition = topic_partition

    def begin_verification(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, bumps_epochs: bool
    ) -> object:
        if self._topic_partition in self._logs.open:
            return None
        begun = (self._topic_partition, producer_id, producer_epoch, base_sequence, bumps_epochs)
        self._logs.begun.append(begun)
        return object()

    def confirm_verification(self, verification: object, producer_epoch: int) -> None:
        self._logs.confirmed.append((self._topic_partition, producer_epoch))


class Coordinators:
    """The broker's coordinator and the channels to others; the test gives the answers."""

    def __init__(self) -> None:
        self.questions: list[tuple[int, AddPartitionsToTxnRequest.Transaction, OnDone]] = []
        self.coordinator = self

    def partition_for(self, transactional_id: str | None) -> int:
        return 7

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, version: int, reply: OnDone
    ) -> None:
        self.questions.append((ME, request.transactions[0], reply))

    def send(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest, version: int, reply: OnDone
    ) -> None:
        self.questions.append((broker_id, request.transactions[0], reply))

    def answer(self, *codes: ErrorCode, strict: bool = True) -> None:
        """Answers the oldest request with one code per partition, or for some if not `strict`."""
        _, transaction, reply = self.questions.pop(0)
        result_type = AddPartitionsToTxnResponse.Transaction
        (topic,) = transaction.topics
        results = [
            result_type.Topic.Partition(partition_index=index, partition_error_code=code)
            for index, code in zip(topic.partitions, codes, strict=strict)
        ]
        topics = [result_type.Topic(name=topic.name, results_by_partition=results)]
        result = result_type(transactional_id="tx", topic_results=topics)
        reply(AddPartitionsToTxnResponse(results_by_transaction=[result]))


class Bench:
    def __init__(self) -> None:
        self.leader: int | None = ME
        self.settings: dict[str, bool | int] = {
            "transaction.partition.verification.enable": True,
            "add.partitions.to.txn.retry.backoff.ms": 20,
            "add.partitions.to.txn.retry.backoff.max.ms": 100,
        }
        self.logs = Logs()
        self.coordinators = Coordinators()
        self.clock = ManualClock()
        self.tasks = ManualScheduler(self.clock)
        config = SimpleNamespace(flag=self.settings.get, integer=self.settings.get)
        metadata = SimpleNamespace(snapshot=SimpleNamespace(find_partition=self._find))
        # Each stand-in has the methods that verification uses.
        self.verification = TxnVerification(
            ME,
            cast(DynamicConfig, SimpleNamespace(broker=config)),
            partitions=cast(HostedPartitions, self.logs),
            metadata=cast(MetadataCache, metadata),
            txns=cast(TxnService, self.coordinators),
            channels=cast(BrokerChannels, self.coordinators),
            scheduler=self.tasks,
            clock=self.clock,
        )
        self.done: list[Errors] = []

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.tasks.run_due()

    def _find(self, topic: str, partition: int) -> SimpleNamespace | None:
        assert (topic, partition) == ("__transaction_state", 7)
        return None if self.leader is None else SimpleNamespace(leader=self.leader)

    def verify(
        self,
        *partitions: TopicPartition,
        support: ClientSupport = ClientSupport.NOTHING,
        patient: bool = False,
    ) -> None:
        write = TransactionalWrite(
            transactional_id="tx",
            producer_id=5,
            producer_epoch=3,
            sequences=dict.fromkeys(partitions, 0),
            support=support,
        )
        self.verification.verify(write, self.done.append, patient=patient)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_partition_that_the_coordinator_does_not_mention_is_not_confirmed(bench: Bench) -> None:
    bench.verify(T0, T1)
    bench.coordinators.answer(ErrorCode.NONE, strict=False)
    assert bench.logs.confirmed == [(T0, 3)]
    assert bench.done == [{T1: ErrorCode.NETWORK_EXCEPTION}]


def test_an_answer_about_nothing_confirms_nothing(bench: Bench) -> None:
    bench.verify(T0)
    _, _, reply = bench.coordinators.questions.pop()
    reply(AddPartitionsToTxnResponse())
    assert bench.logs.confirmed == []
    assert bench.done == [{T0: ErrorCode.NETWORK_EXCEPTION}]


def test_the_log_is_ready_once_the_coordinator_has_confirmed(bench: Bench) -> None:
    bench.verify(T0, T1)
    assert bench.logs.begun == [(T0, 5, 3, 0, False), (T1, 5, 3, 0, False)]
    ((asked, transaction, _),) = bench.coordinators.questions
    assert (asked, transaction.verify_only) == (ME, True)
    assert (transaction.transactional_id, transaction.producer_epoch) == ("tx", 3)
    assert (bench.done, bench.logs.confirmed) == ([], [])
    bench.coordinators.answer(ErrorCode.NONE, ErrorCode.NONE)
    assert bench.done == [{}]
    assert bench.logs.confirmed == [(T0, 3), (T1, 3)]


def test_for_newer_clients_the_partition_is_added(bench: Bench) -> None:
    bench.verify(T0, support=ClientSupport.EPOCH_BUMPS)
    assert bench.logs.begun == [(T0, 5, 3, 0, True)]
    assert not bench.coordinators.questions[0][1].verify_only


def test_there_is_nothing_to_ask_about_an_open_transaction(bench: Bench) -> None:
    bench.logs.open.add(T0)
    bench.verify(T0)
    assert bench.done == [{}]
    bench.verify(T0, T1)
    ((_, transaction, _),) = bench.coordinators.questions
    assert transaction.topics[0].partitions == [1]


def test_what_is_not_led_here_costs_nothing_else(bench: Bench) -> None:
    bench.logs.errors[T0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.verify(T0, T1)
    bench.coordinators.answer(ErrorCode.NONE)
    assert bench.done == [{T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}]
    bench.verify(T0)
    assert bench.done[1:] == [{T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


def test_another_broker_is_asked_over_the_wire(bench: Bench) -> None:
    bench.leader = OTHER
    bench.verify(T0)
    assert bench.coordinators.questions[0][0] == OTHER
    _, _, reply = bench.coordinators.questions.pop()
    reply(None)
    assert bench.done == [{T0: ErrorCode.NETWORK_EXCEPTION}]
    assert bench.logs.confirmed == []


@pytest.mark.parametrize("leader", [None, -1])
def test_without_a_coordinator_nothing_can_be_written(bench: Bench, leader: int | None) -> None:
    bench.leader = leader
    bench.verify(T0)
    assert bench.done == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]


def test_an_error_for_the_whole_question_is_one_for_each_partition(bench: Bench) -> None:
    bench.verify(T0, T1)
    _, _, reply = bench.coordinators.questions.pop()
    reply(AddPartitionsToTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.done == [dict.fromkeys((T0, T1), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


def test_old_clients_hear_of_what_they_know(bench: Bench) -> None:
    told = []
    for support in ClientSupport:
        for code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.PRODUCER_FENCED):
            bench.verify(T0, support=support)
            bench.coordinators.answer(code)
            told.append(bench.done.pop()[T0])
    epoch, abortable = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_ABORTABLE
    assert told == [ErrorCode.INVALID_TXN_STATE, epoch, abortable, epoch, abortable, epoch]
    assert bench.logs.confirmed == []


def test_verification_can_be_turned_off_but_adding_cannot(bench: Bench) -> None:
    bench.settings["transaction.partition.verification.enable"] = False
    bench.verify(T0)
    assert (bench.done, bench.logs.confirmed) == ([{}], [(T0, 3)])
    bench.verify(T0, support=ClientSupport.EPOCH_BUMPS)
    assert len(bench.coordinators.questions) == 1


def test_a_producer_that_writes_on_waits_for_its_last_transaction(bench: Bench) -> None:
    bench.verify(T0, support=ClientSupport.EPOCH_BUMPS, patient=True)
    bench.coordinators.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (bench.done, bench.coordinators.questions) == ([], [])
    bench.pass_time(20)
    bench.coordinators.answer(ErrorCode.NONE)
    assert bench.done == [{}]


def test_patience_has_an_end(bench: Bench) -> None:
    bench.verify(T0, support=ClientSupport.EPOCH_BUMPS, patient=True)
    for _ in range(5):
        bench.coordinators.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert bench.done == []
        bench.pass_time(20)
    bench.coordinators.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.done == [{T0: ErrorCode.CONCURRENT_TRANSACTIONS}]


@pytest.mark.parametrize(
    ("support", "patient"), [(ClientSupport.ABORTABLE, True), (ClientSupport.EPOCH_BUMPS, False)]
)
def test_others_are_told_at_once(bench: Bench, support: ClientSupport, patient: bool) -> None:
    bench.verify(T0, support=support, patient=patient)
    bench.coordinators.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.done == [{T0: ErrorCode.CONCURRENT_TRANSACTIONS}]


def test_support_follows_from_the_version() -> None:
    supports = [support_by_version(v, abortable=11, epoch_bumps=12) for v in (10, 11, 12, 13)]
    assert supports == [*ClientSupport, ClientSupport.EPOCH_BUMPS]


# Produce requests


def batch(**fields: Any) -> memoryview:
    known: dict[str, Any] = {
        "producer_id": 5,
        "producer_epoch": 3,
        "base_sequence": 8,
        "transactional": True,
    }
    return memoryview(build_batch([(0, None, b"v", ())], **{**known, **fields}))


def test_what_a_request_wants_to_write_is_read_from_its_batches() -> None:
    plain = batch(transactional=False)
    write = present(transactional_write("tx", {T0: plain, T1: batch()}, 9))
    assert (write.transactional_id, write.producer_id, write.producer_epoch) == ("tx", 5, 3)
    assert write.sequences == {T1: 8}
    assert write.support is ClientSupport.NOTHING


@pytest.mark.parametrize(
    ("transactional_id", "other", "error"),
    [
        (None, {}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("tx", {"producer_id": 6}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("tx", {"producer_epoch": 4}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_request_is_for_one_producer_with_a_transactional_id(
    transactional_id: str | None, other: dict[str, int], error: ErrorCode
) -> None:
    with pytest.raises(ApiError) as refused:
        transactional_write(transactional_id, {T0: batch(), T1: batch(**other)}, 9)
    assert refused.value.code is error


def test_torn_batches_and_those_without_producer_are_for_the_log_to_refuse() -> None:
    nobody = batch(producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert transactional_write("tx", {T0: batch()[:60], T1: nobody}, 9) is None


@pytest.mark.parametrize("support", ClientSupport)
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
def test_producers_try_again_when_the_coordinator_cannot_tell(
    error: ErrorCode, support: ClientSupport
) -> None:
    told = unverified(error, support)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and support is ClientSupport.EPOCH_BUMPS:
        assert (told.error, told.error_message) == (error, None)
    else:
        assert told.error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert error.name in present(told.error_message)


def test_other_errors_are_told_as_they_are() -> None:
    told = unverified(ErrorCode.INVALID_PRODUCER_EPOCH, ClientSupport.NOTHING)
    assert (told.error, told.error_message) == (ErrorCode.INVALID_PRODUCER_EPOCH, None)
    told = unverified(ErrorCode.INVALID_TXN_STATE, ClientSupport.NOTHING)
    assert told.error_message == "Partition was not added to the transaction"
