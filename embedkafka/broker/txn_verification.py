"""Asks a transaction's coordinator before its first write to a partition led here (KIP-890).

A producer with transaction version 1 has added the partition itself, and the leader only verifies
that. For version 2 the leader adds it. Either way the log accepts no batch of a transaction unless
the coordinator knows it to be open.

Owner: none. Pending work lives in callbacks, which run on the `coordinator` loop, a channel or the
background thread; the log settles the race with markers (`log.producers.verification`).
Invariants: nothing blocks; `on_done` is called once, with an error for each partition that must
not be written.
Not here: the error codes that each kind of client understands (`apis`).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Final

from embedkafka.broker.broker_channels import BrokerChannels
from embedkafka.broker.coordinator.transactions.service import TxnService
from embedkafka.broker.log.log import Log, Verification
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.settings.dynamic import DynamicConfig
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.topic_names import TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)

_VERSION: Final = 5  # of AddPartitionsToTxn
_ENABLED: Final = "transaction.partition.verification.enable"

Errors = Mapping[TopicPartition, ErrorCode]


class ClientSupport(Enum):
    """How much of KIP-890 a client supports, judged by its request versions."""

    NOTHING = "knows INVALID_TXN_STATE only"
    ABORTABLE = "knows TRANSACTION_ABORTABLE"
    EPOCH_BUMPS = "lets the leader add partitions, and takes a new epoch with every transaction"


def support_by_version(version: int, *, abortable: int, epoch_bumps: int) -> ClientSupport:
    """The support of a client that sends `version`, given the first version of each level."""
    if version >= epoch_bumps:
        return ClientSupport.EPOCH_BUMPS
    return ClientSupport.ABORTABLE if version >= abortable else ClientSupport.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalWrite:
    """One request's writes in a transaction: the first sequence number by partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: Mapping[TopicPartition, int]
    support: ClientSupport

    @property
    def is_bumping(self) -> bool:
        return self.support is ClientSupport.EPOCH_BUMPS


class TxnVerification:
    """Verifies, or for newer clients adds, partitions of transactions."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: DynamicConfig,
        *,
        partitions: HostedPartitions,
        metadata: MetadataCache,
        txns: TxnService,
        channels: BrokerChannels,
        scheduler: Scheduler,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._partitions = partitions
        self._metadata = metadata
        self._txns = txns
        self._channels = channels
        self._scheduler = scheduler
        self._clock = clock

    def verify(
        self, write: TransactionalWrite, on_done: Callable[[Errors], None], *, patient: bool = False
    ) -> None:
        """Prepares the log for `write`; `on_done` gets the partitions that must not be written.

        With `patient`, a producer whose previous transaction is still completing waits here for a
        moment, because resending its records would cost more.
        """
        if patient and write.is_bumping:
            deadline = self._clock.monotonic_ms() + self._setting("retry.backoff.max.ms")
            on_done = partial(self._retry_or_finish, write, deadline, on_done)
        self._attempt(write, on_done)

    def _retry_or_finish(
        self,
        write: TransactionalWrite,
        deadline: float,
        on_done: Callable[[Errors], None],
        errors: Errors,
    ) -> None:
        is_late = self._clock.monotonic_ms() >= deadline
        if is_late or ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values():
            on_done(errors)
            return
        again = partial(self._retry_or_finish, write, deadline, on_done)
        self._scheduler.once(
            "retry-add-partitions-to-txn",
            self._setting("retry.backoff.ms"),
            partial(self._attempt, write, again),
        )

    def _attempt(self, write: TransactionalWrite, on_done: Callable[[Errors], None]) -> None:
        errors, begun = self._begin(write)
        if not begun:
            on_done(errors)
            return

        def settle(codes: Errors) -> None:
            for topic_partition, (log, verification) in begun.items():
                code = codes[topic_partition]
                if code is ErrorCode.NONE:
                    log.confirm_verification(verification, write.producer_epoch)
                else:
                    errors[topic_partition] = _for_clients(code, write.support)
            on_done(errors)

        if write.is_bumping or self._config.broker.flag(_ENABLED):
            self._ask(write, begun.keys(), settle)
        else:
            settle(dict.fromkeys(begun, ErrorCode.NONE))

    def _setting(self, name: str) -> int:
        return self._config.broker.integer(f"add.partitions.to.txn.{name}")

    def _begin(
        self, write: TransactionalWrite
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, tuple[Log, Verification]]]:
        """Partitions that cannot be written, and those that need the coordinator's word.

        A transaction that is already open in the log needs none.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        begun: dict[TopicPartition, tuple[Log, Verification]] = {}
        for topic_partition, sequence in write.sequences.items():
            try:
                log = self._partitions.require_leader(topic_partition).require_log()
                verification = log.begin_verification(
                    write.producer_id,
                    producer_epoch=write.producer_epoch,
                    base_sequence=sequence,
                    bumps_epochs=write.is_bumping,
                )
            except ApiError as error:
                errors[topic_partition] = error.code
                continue
            if verification is not None:
                begun[topic_partition] = log, verification
        return errors, begun

    def _ask(
        self,
        write: TransactionalWrite,
        partitions: Iterable[TopicPartition],
        settle: Callable[[Errors], None],
    ) -> None:
        asked = frozenset(partitions)
        state_partition = self._txns.coordinator.partition_for(write.transactional_id)
        info = self._metadata.snapshot.find_partition(TRANSACTION_STATE_TOPIC, state_partition)
        if info is None or info.leader < 0:
            settle(dict.fromkeys(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def on_answer(response: AddPartitionsToTxnResponse | None) -> None:
            settle(_codes(response, asked))

        request = _question(write, asked)
        if info.leader == self._broker_id:
            self._txns.add_partitions_to_txn(request, _VERSION, on_answer)
        else:
            self._channels.send(BrokerId(info.leader), request, _VERSION, on_answer)


def _question(
    write: TransactionalWrite, partitions: frozenset[TopicPartition]
) -> AddPartitionsToTxnRequest:
    _Transaction = AddPartitionsToTxnRequest.Transaction
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    transaction = _Transaction(
        transactional_id=write.transactional_id,
        producer_id=write.producer_id,
        producer_epoch=write.producer_epoch,
        verify_only=not write.is_bumping,
        topics=[
            _Transaction.Topic(name=name, partitions=indexes) for name, indexes in by_topic.items()
        ],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _codes(
    response: AddPartitionsToTxnResponse | None, asked: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """The coordinator's answer; NETWORK_EXCEPTION where it, or one partition of it, is missing."""
    unanswered = dict.fromkeys(asked, ErrorCode.NETWORK_EXCEPTION)
    if response is None:
        return unanswered
    if response.error_code:
        return dict.fromkeys(asked, ErrorCode(response.error_code))
    return unanswered | {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(
            partition.partition_error_code
        )
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for partition in topic.results_by_partition
    }


def _for_clients(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    """Producers expect INVALID_PRODUCER_EPOCH for fencing; old ones know no abortable error."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.NOTHING:
        return ErrorCode.INVALID_TXN_STATE
    return code
