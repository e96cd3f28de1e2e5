"""The transaction coordinator of one broker, on the `coordinator` loop.

Methods may be called from any thread. Each posts its request to the loop and returns; `reply` is
called on the loop, once, when the answer is known.

Owner: the `coordinator` loop, shared with the group coordinator.
Not here: decisions (`shard.py`), their carrying out (`hosting.py`), and what needs the metadata
cache: handlers refuse partitions that do not exist, and find a group's offsets partition.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.ids import TopicPartition
from embedkafka.txn.admin import describe, describe_error, find_pattern, is_listed, listed
from embedkafka.txn.config import TxnConfig
from embedkafka.txn.decision import Decision
from embedkafka.txn.hosting import HostedShard, ShardHost
from embedkafka.txn.metadata import EPOCH_BUMP_VERSION, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from embedkafka.txn.ports import (
    CoordinatorLeaders,
    CoordinatorLoop,
    CoordinatorTimer,
    MarkerSender,
    PartitionReader,
    PartitionWriter,
    ProducerIdBlocks,
)
from embedkafka.txn.producer_ids import ProducerIds, init_error, init_idempotent_producer
from embedkafka.txn.shard import ProducerIdAndEpoch, Result, ResultReply, TxnShard
from embedkafka.txn.states import STATES_BY_LABEL

R = TypeVar("R")

_FIRST_WITH_BUMP = 5  # EndTxn
_FIRST_OF_BROKERS = 4  # AddPartitionsToTxn: from here on leaders ask, several ids at once


class TxnService:
    """Answers transaction requests for the shards this broker leads."""

    def __init__(
        self,
        *,
        config: TxnConfig,
        loop: CoordinatorLoop,
        clock: Clock,
        timer: CoordinatorTimer,
        writer: PartitionWriter,
        reader: PartitionReader,
        producer_id_blocks: ProducerIdBlocks,
        markers: MarkerSender,
        leaders: CoordinatorLeaders | None = None,
    ) -> None:
        self._config = config
        self._partition_count = config.num_partitions
        self._loop = loop
        self._clock = clock
        self._timer = timer
        self._is_open = True
        self._producer_ids = ProducerIds(producer_id_blocks)
        self._host = ShardHost(
            new_shard=self._new_shard,
            config=config,
            loop=loop,
            clock=clock,
            timer=timer,
            writer=writer,
            reader=reader,
            markers=markers,
            leaders=leaders,
        )

    def start(self, *, partition_count: int | None = None) -> None:
        """Begins to look for transactions that run too long, and ids that nobody uses.

        `partition_count` is that of the state topic, if it exists; else it will be as configured.
        """
        self._partition_count = partition_count or self._config.num_partitions
        self._every(self._config.abort_timed_out_interval_ms, TxnShard.abort_timed_out)
        self._every(self._config.remove_expired_interval_ms, TxnShard.expire)

    def stop(self) -> None:
        """Lets every shard go; prepared transactions are completed by the next coordinator."""
        self._loop.post(self._close)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` whose leader coordinates the id."""
        return coordinator_partition(transactional_id, self._partition_count)

    # Leadership

    def on_leading(self, partition: int, epoch: int) -> None:
        """This broker leads the partition from `epoch` on: its transactions are loaded."""
        self._loop.post(partial(self._host.lead, partition, epoch))

    def on_resigned(self, partition: int, epoch: int | None = None) -> None:
        """This broker leads the partition no longer (since `epoch`, or whatever epoch it had)."""
        self._loop.post(partial(self._host.resign, partition, epoch))

    def on_metadata_changed(self) -> None:
        """This broker has heard from the controller, maybe of leaders of its partitions."""
        self._loop.post(self._host.on_leaders_changed)

    # Producers

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        version: int,
        reply: Callable[[InitProducerIdResponse], None],
    ) -> None:
        """A producer id and epoch; with a transactional id, other producers are fenced.

        Two-phase commit (v6, KIP-939) is left out: asking for it is refused as not allowed.
        """

        def answer(result: Result) -> None:
            reply(
                InitProducerIdResponse(
                    error_code=_fenced_before(4, version, result.error),
                    producer_id=result.producer.producer_id,
                    producer_epoch=result.producer.epoch,
                )
            )

        error = self._refusal_of_init(request)
        if error is not None:
            answer(Result(error))
        elif request.transactional_id is not None:
            self._init_transactional(request.transactional_id, request, answer)
        elif not self._loop.post(partial(self._init_idempotent, request, reply)):
            reply(init_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _init_transactional(
        self, transactional_id: str, request: InitProducerIdRequest, reply: ResultReply
    ) -> None:
        def decide(shard: TxnShard) -> Decision:
            return shard.init(
                transactional_id,
                timeout_ms=request.transaction_timeout_ms,
                expected=_expected(request),
                reply=reply,
                now_ms=self._clock.now_ms(),
            )

        self._submit(transactional_id, decide, reply, Result)

    def _init_idempotent(
        self, request: InitProducerIdRequest, reply: Callable[[InitProducerIdResponse], None]
    ) -> None:
        reply(init_idempotent_producer(request, self._producer_ids))

    def _refusal_of_init(self, request: InitProducerIdRequest) -> ErrorCode | None:
        has_id = request.producer_id != NO_PRODUCER_ID
        has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
        if has_id != has_epoch:
            return ErrorCode.INVALID_REQUEST
        if request.transactional_id is None:
            return None
        if request.enable2_pc or request.keep_prepared_txn:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not 0 < request.transaction_timeout_ms <= self._config.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    # Transactions

    def add_partitions_to_txn(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        reply: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        """Adds, or verifies, partitions; from v4 on for several transactional ids."""
        transactions = (
            request.transactions
            if version >= _FIRST_OF_BROKERS
            else [_transaction_before_v4(request)]
        )
        results: dict[int, AddPartitionsToTxnResponse.Transaction] = {}

        def note(index: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            results[index] = _add_result(transactions[index].transactional_id, errors)
            if len(results) < len(transactions):
                return
            ordered = [results[index] for index in range(len(transactions))]
            if version >= _FIRST_OF_BROKERS:
                reply(AddPartitionsToTxnResponse(results_by_transaction=ordered))
            else:
                topics = ordered[0].topic_results
                reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

        if not transactions:
            reply(AddPartitionsToTxnResponse())
        for index, transaction in enumerate(transactions):
            self._add_or_verify(transaction, version, partial(note, index))

    def _add_or_verify(
        self,
        transaction: AddPartitionsToTxnRequest.Transaction,
        version: int,
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        partitions = frozenset(
            TopicPartition(topic.name, partition)
            for topic in transaction.topics
            for partition in topic.partitions
        )
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)

        def answer(error: ErrorCode) -> None:
            reply(dict.fromkeys(partitions, _fenced_before(2, version, error)))

        def add(shard: TxnShard) -> Decision:
            return shard.add_partitions(
                transaction.transactional_id,
                producer,
                partitions,
                # Leaders add partitions only for producers that do not so themselves (KIP-890).
                client_version=EPOCH_BUMP_VERSION if version >= _FIRST_OF_BROKERS else 0,
                reply=answer,
                now_ms=self._clock.now_ms(),
            )

        def verify(shard: TxnShard) -> Decision:
            reply(shard.verify_partitions(transaction.transactional_id, producer, partitions))
            return Decision()

        decide = verify if transaction.verify_only else add
        self._submit(transaction.transactional_id, decide, answer, _same)

    def add_offsets_to_txn(
        self,
        request: AddOffsetsToTxnRequest,
        offsets_partition: TopicPartition,
        version: int,
        reply: Callable[[AddOffsetsToTxnResponse], None],
    ) -> None:
        """Adds the partition of `__consumer_offsets` that keeps the group's offsets."""

        def answer(error: ErrorCode) -> None:
            reply(AddOffsetsToTxnResponse(error_code=_fenced_before(2, version, error)))

        def decide(shard: TxnShard) -> Decision:
            return shard.add_partitions(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                frozenset({offsets_partition}),
                client_version=0,
                reply=answer,
                now_ms=self._clock.now_ms(),
            )

        self._submit(request.transactional_id, decide, answer, _same)

    def end_txn(
        self, request: EndTxnRequest, version: int, reply: Callable[[EndTxnResponse], None]
    ) -> None:
        """Commits or aborts; answered when the outcome is stored, before markers are written."""

        def answer(result: Result) -> None:
            reply(
                EndTxnResponse(
                    error_code=_fenced_before(2, version, result.error),
                    producer_id=result.producer.producer_id,
                    producer_epoch=result.producer.epoch,
                )
            )

        def decide(shard: TxnShard) -> Decision:
            return shard.end(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                committed=request.committed,
                client_version=EPOCH_BUMP_VERSION if version >= _FIRST_WITH_BUMP else 0,
                reply=answer,
                now_ms=self._clock.now_ms(),
            )

        self._submit(request.transactional_id, decide, answer, Result)

    # Administration

    def describe_transactions(
        self,
        request: DescribeTransactionsRequest,
        reply: Callable[[DescribeTransactionsResponse], None],
    ) -> None:
        def answer(
            describe_one: Callable[[str], DescribeTransactionsResponse.Transaction],
        ) -> None:
            states = [describe_one(one) for one in request.transactional_ids]
            reply(DescribeTransactionsResponse(transaction_states=states))

        if not self._loop.post(partial(answer, self._describe)):
            answer(partial(describe_error, error=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _describe(self, transactional_id: str) -> DescribeTransactionsResponse.Transaction:
        try:
            shard = self._require(transactional_id).shard
        except ApiError as error:
            return describe_error(transactional_id, error=error.code)
        transaction = shard.find(transactional_id)
        if transaction is None:
            error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return describe_error(transactional_id, error=error_code)
        return describe(transaction)

    def list_transactions(
        self,
        request: ListTransactionsRequest,
        reply: Callable[[ListTransactionsResponse], None],
    ) -> None:
        if not self._loop.post(partial(self._on_list, request, reply)):
            reply(_list_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _on_list(
        self,
        request: ListTransactionsRequest,
        reply: Callable[[ListTransactionsResponse], None],
    ) -> None:
        if not self._is_open:
            reply(_list_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        if self._host.is_loading:
            reply(_list_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        try:
            pattern = find_pattern(request)
        except re.error:
            reply(_list_error(ErrorCode.INVALID_REGULAR_EXPRESSION))
            return
        now_ms = self._clock.now_ms()
        states = [
            listed(transaction)
            for hosted in self._host.active()
            for transaction in hosted.shard.transactions()
            if is_listed(transaction, request, pattern=pattern, now_ms=now_ms)
        ]
        unknown = [name for name in request.state_filters if name not in STATES_BY_LABEL]
        reply(ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states))

    # The shell

    def _submit(
        self,
        transactional_id: str,
        decide: Callable[[TxnShard], Decision],
        reply: Callable[[R], None],
        refuse: Callable[[ErrorCode], R],
    ) -> None:
        """Runs `decide` on the loop with the id's shard, or answers why there is none."""

        def run() -> None:
            if self._is_open:
                self._host.when_settled(self.partition_for(transactional_id), attempt)
            else:
                attempt()

        def attempt() -> None:
            try:
                hosted = self._require(transactional_id)
            except ApiError as error:
                reply(refuse(error.code))
                return
            self._host.carry_out(hosted, decide(hosted.shard))

        if not self._loop.post(run):
            reply(refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _require(self, transactional_id: str) -> HostedShard:
        if not self._is_open:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return self._host.require(self.partition_for(transactional_id))

    def _new_shard(self, partition: int, epoch: int) -> TxnShard:
        return TxnShard(partition, epoch, self._config, self._producer_ids.generate)

    def _every(self, interval_ms: int, check: Callable[..., Decision]) -> None:
        """Runs `check` on every active shard, again and again."""

        def run() -> None:
            if not self._is_open:
                return
            for hosted in self._host.active():
                self._host.carry_out(hosted, check(hosted.shard, now_ms=self._clock.now_ms()))
            schedule()

        def schedule() -> None:
            self._timer.add(interval_ms, partial(self._loop.post, run))

        schedule()

    def _close(self) -> None:
        self._is_open = False
        self._host.resign_all()


def _same(error: ErrorCode) -> ErrorCode:
    return error


def _fenced_before(first_version: int, version: int, error: ErrorCode) -> ErrorCode:
    """Older clients know a fenced producer by INVALID_PRODUCER_EPOCH only."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def _transaction_before_v4(
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnRequest.Transaction:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _add_result(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse.Transaction:
    by_topic: dict[str, list[tuple[int, ErrorCode]]] = {}
    for topic_partition, error in sorted(errors.items()):
        by_topic.setdefault(topic_partition.topic, []).append((topic_partition.partition, error))
    return AddPartitionsToTxnResponse.Transaction(
        transactional_id=transactional_id,
        topic_results=[_topic_result(topic, codes) for topic, codes in by_topic.items()],
    )


def _topic_result(
    topic: str, codes: Iterable[tuple[int, ErrorCode]]
) -> AddPartitionsToTxnResponse.Transaction.Topic:
    return AddPartitionsToTxnResponse.Transaction.Topic(
        name=topic,
        results_by_partition=[
            AddPartitionsToTxnResponse.Transaction.Topic.Partition(
                partition_index=partition, partition_error_code=error
            )
            for partition, error in codes
        ],
    )


def _list_error(error: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error, unknown_state_filters=[], transaction_states=[]
    )
