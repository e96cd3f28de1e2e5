"""The transaction coordinator of one broker, on the `coordinator` loop.

Any thread may call these methods. Each posts its request to the loop and returns; `reply` is
called once, on the loop, when the answer is known.

Owner: the `coordinator` loop, shared with the group coordinator.
Not here: decisions (`shard.py`), their execution (`broker/coordinator/`). Handlers do the work that
needs the metadata cache: they refuse unknown partitions, and find a group's offsets partition.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from embedkafka.broker.coordinator.hosting import ShardHost
from embedkafka.broker.coordinator.ports import CoordinatorParts, KnownLeaders
from embedkafka.broker.coordinator.runtime import CoordinatorRuntime
from embedkafka.broker.coordinator.transactions.admin import (
    describe,
    describe_error,
    find_pattern,
    is_listed,
    listed,
)
from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.broker.coordinator.transactions.decision import Decision
from embedkafka.broker.coordinator.transactions.marker_delivery import MarkerDelivery, MarkerOrder
from embedkafka.broker.coordinator.transactions.metadata import EPOCH_BUMP_VERSION
from embedkafka.broker.coordinator.transactions.ports import MarkerTransport, ProducerIdBlocks
from embedkafka.broker.coordinator.transactions.producer_ids import (
    ProducerIds,
    init_error,
    init_idempotent_producer,
)
from embedkafka.broker.coordinator.transactions.shard import (
    ProducerIdAndEpoch,
    Result,
    ResultReply,
    TxnShard,
)
from embedkafka.broker.coordinator.transactions.states import STATES_BY_LABEL
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from embedkafka.runtime.topic_names import TRANSACTION_STATE_TOPIC
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
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

R = TypeVar("R")

_FIRST_WITH_BUMP = 5  # EndTxn
FIRST_SENT_BY_BROKERS: Final = 4
"""AddPartitionsToTxn: from this version leaders send it, for several transactional ids at once."""


class TxnService:
    """Answers transaction requests for the shards this broker leads."""

    def __init__(
        self,
        config: TxnConfig,
        parts: CoordinatorParts,
        *,
        producer_id_blocks: ProducerIdBlocks,
        markers: MarkerTransport,
        leaders: KnownLeaders,
    ) -> None:
        self._config = config
        self._clock = parts.clock
        self._producer_ids = ProducerIds(producer_id_blocks)
        host = ShardHost(
            TRANSACTION_STATE_TOPIC,
            parts,
            leaders=leaders,
            new_shard=self._new_shard,
            effects=MarkerDelivery(
                markers,
                parts,
                retry_backoff_ms=config.retry_backoff_ms,
                on_marked=self._on_marked,
            ),
            is_bound_to_epoch=True,  # markers carry it as the coordinator epoch
        )
        self.coordinator = CoordinatorRuntime(
            host, parts, partition_count=config.transaction_state_log_num_partitions
        )

    def start(self, *, partition_count: int | None = None) -> None:
        """Starts to look for transactions that run too long, and for unused ids.

        `partition_count` is that of the state topic, or None if the topic does not exist yet.
        """
        self.coordinator.start(partition_count)
        self.coordinator.every(
            self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            _abort_timed_out,
        )
        self.coordinator.every(
            self._config.transaction_remove_expired_transaction_cleanup_interval_ms, _expire
        )

    def stop(self) -> None:
        """Releases every shard; the next coordinator completes prepared transactions."""
        self.coordinator.stop()

    # Producers

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        version: int,
        reply: Callable[[InitProducerIdResponse], None],
    ) -> None:
        """Gives a producer its id and epoch; with a transactional id, fences other producers.

        Left out: two-phase commit (KIP-939), which needs v6. Kafka 4.3 does not offer that yet.
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
        elif not self.coordinator.post(partial(self._init_idempotent, request, reply)):
            reply(init_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _init_transactional(
        self, transactional_id: str, request: InitProducerIdRequest, reply: ResultReply
    ) -> None:
        def decide(shard: TxnShard, now_ms: int) -> Decision:
            return shard.init(
                transactional_id,
                timeout_ms=request.transaction_timeout_ms,
                expected=_expected(request),
                reply=reply,
                now_ms=now_ms,
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
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.transaction_timeout_ms <= self._config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    # Transactions

    def add_partitions_to_txn(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        reply: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        """Adds or verifies partitions; from v4 on for several transactional ids."""
        transactions = (
            request.transactions
            if version >= FIRST_SENT_BY_BROKERS
            else [_transaction_before_v4(request)]
        )
        results: dict[int, AddPartitionsToTxnResponse.Transaction] = {}

        def note(index: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            results[index] = _add_result(transactions[index], errors)
            if len(results) < len(transactions):
                return
            ordered = [results[index] for index in range(len(transactions))]
            if version >= FIRST_SENT_BY_BROKERS:
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

        def add(shard: TxnShard, now_ms: int) -> Decision:
            return shard.add_partitions(
                transaction.transactional_id,
                producer,
                partitions,
                # Leaders add partitions only for producers that leave it to them (KIP-890).
                client_version=EPOCH_BUMP_VERSION if version >= FIRST_SENT_BY_BROKERS else 0,
                reply=answer,
                now_ms=now_ms,
            )

        def verify(shard: TxnShard, now_ms: int) -> Decision:
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
        """Adds the partition of `__consumer_offsets` that holds the group's offsets."""

        def answer(error: ErrorCode) -> None:
            reply(AddOffsetsToTxnResponse(error_code=_fenced_before(2, version, error)))

        def decide(shard: TxnShard, now_ms: int) -> Decision:
            return shard.add_partitions(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                frozenset({offsets_partition}),
                client_version=0,
                reply=answer,
                now_ms=now_ms,
            )

        self._submit(request.transactional_id, decide, answer, _same)

    def end_txn(
        self, request: EndTxnRequest, version: int, reply: Callable[[EndTxnResponse], None]
    ) -> None:
        """Commits or aborts, and answers when the outcome is stored, before markers are written."""

        def answer(result: Result) -> None:
            reply(
                EndTxnResponse(
                    error_code=_fenced_before(2, version, result.error),
                    producer_id=result.producer.producer_id,
                    producer_epoch=result.producer.epoch,
                )
            )

        def decide(shard: TxnShard, now_ms: int) -> Decision:
            return shard.end(
                request.transactional_id,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                committed=request.committed,
                client_version=EPOCH_BUMP_VERSION if version >= _FIRST_WITH_BUMP else 0,
                reply=answer,
                now_ms=now_ms,
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

        if not self.coordinator.post(partial(answer, self._describe)):
            answer(partial(describe_error, error=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _describe(self, transactional_id: str) -> DescribeTransactionsResponse.Transaction:
        if not transactional_id:
            return describe_error(transactional_id, error=ErrorCode.INVALID_REQUEST)
        try:
            shard = self.coordinator.require(transactional_id)
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
        if not self.coordinator.post(partial(self._on_list, request, reply)):
            reply(_list_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _on_list(
        self,
        request: ListTransactionsRequest,
        reply: Callable[[ListTransactionsResponse], None],
    ) -> None:
        if not self.coordinator.is_open:
            reply(_list_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        if self.coordinator.is_loading:
            reply(_list_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        try:
            pattern = find_pattern(request)
        except ApiError as error:
            reply(_list_error(error.code))
            return
        now_ms = self._clock.now_ms()
        states = [
            listed(transaction)
            for shard in self.coordinator.active_shards()
            for transaction in shard.transactions()
            if is_listed(transaction, request, pattern=pattern, now_ms=now_ms)
        ]
        unknown = [name for name in request.state_filters if name not in STATES_BY_LABEL]
        reply(ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states))

    def forget(self, transactional_id: str, reply: Callable[[ErrorCode], None]) -> None:
        """Deletes an id at once; CONCURRENT_TRANSACTIONS while its transaction is aborted."""

        def decide(shard: TxnShard, now_ms: int) -> Decision:
            return shard.forget(transactional_id, reply=reply, now_ms=now_ms)

        self._submit(transactional_id, decide, reply, _same)

    # The shell

    def _submit(
        self,
        transactional_id: str,
        decide: Callable[[TxnShard, int], Decision],
        reply: Callable[[R], None],
        refuse: Callable[[ErrorCode], R],
    ) -> None:
        """Runs `decide` on the loop, or refuses the request; refuses an empty id."""
        if transactional_id:
            self.coordinator.submit(transactional_id, decide, reply, refuse)
        else:
            reply(refuse(ErrorCode.INVALID_REQUEST))

    def _on_marked(self, order: MarkerOrder) -> None:
        def decide(shard: TxnShard, now_ms: int) -> Decision:
            return shard.on_marked(order.transaction.transactional_id, now_ms=now_ms)

        self.coordinator.decide(order.shard_partition, decide)

    def _new_shard(self, partition: int, epoch: int) -> TxnShard:
        return TxnShard(partition, epoch, self._config, self._producer_ids.generate)


def _abort_timed_out(shard: TxnShard, now_ms: int) -> Decision:
    return shard.abort_timed_out(now_ms=now_ms)


def _expire(shard: TxnShard, now_ms: int) -> Decision:
    return shard.expire(now_ms=now_ms)


def _same(error: ErrorCode) -> ErrorCode:
    return error


def _fenced_before(first_version: int, version: int, error: ErrorCode) -> ErrorCode:
    """Older clients only know INVALID_PRODUCER_EPOCH for a fenced producer."""
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
    transaction: AddPartitionsToTxnRequest.Transaction, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse.Transaction:
    """Repeats what was asked, but lists partitions that were to be verified only once."""
    asked = [(topic.name, topic.partitions) for topic in transaction.topics]
    if transaction.verify_only:
        by_topic: dict[str, dict[int, None]] = {}
        for name, partitions in asked:
            by_topic.setdefault(name, {}).update(dict.fromkeys(partitions))
        asked = [(name, list(partitions)) for name, partitions in by_topic.items() if partitions]
    return AddPartitionsToTxnResponse.Transaction(
        transactional_id=transaction.transactional_id,
        topic_results=[
            _topic_result(name, [(p, errors[TopicPartition(name, p)]) for p in partitions])
            for name, partitions in asked
        ],
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
