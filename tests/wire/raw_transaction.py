"""A transactional producer, request by request, in both versions of the protocol (KIP-890).

Version 1 adds partitions to its transaction before it writes to them, and keeps its epoch. Version
2 just writes: leaders add the partition, and every end of a transaction starts a new epoch.
"""

from typing import Any, Final

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import OffsetFetchRequest
from embedkafka.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from tests.wire.clients import eventually
from tests.wire.one_partition import Answer, batch, produce
from tests.wire.raw_client import RawClient

#: Produce: only INVALID_TXN_STATE; also TRANSACTION_ABORTABLE; the leader adds the partition.
PRODUCE_V1: Final = 9
PRODUCE_WITH_ABORTABLE: Final = 11
PRODUCE_V2: Final = 12
#: EndTxn: keeps the epoch; returns the next one.
END_V1: Final = 3
END_V2: Final = 5
#: TxnOffsetCommit: as Produce above.
COMMIT_V1: Final = 3
COMMIT_WITH_ABORTABLE: Final = 4
COMMIT_V2: Final = 5
#: AddPartitionsToTxn as leaders send it to the coordinator.
ADD_AS_BROKER: Final = 5

_Transaction = AddPartitionsToTxnRequest.Transaction


class RawTransaction:
    """One transactional id and the producer that owns it."""

    def __init__(
        self, raw: RawClient, transactional_id: str, topic: str, *, timeout_ms: int = 30_000
    ) -> None:
        """`raw` is connected to the coordinator. `send` uses it unless given a `leader`."""
        self._raw = raw
        self.id = transactional_id
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.sequence = 0
        answer = eventually(self._initialize, f"a producer id for {transactional_id}")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _initialize(self) -> Answer | None:
        request = InitProducerIdRequest(
            transactional_id=self.id, transaction_timeout_ms=self.timeout_ms
        )
        answer = self._raw.call(request, 4)
        return answer if answer.error_code == ErrorCode.NONE else None

    # Both versions

    def send(
        self,
        value: bytes,
        *,
        epoch: int | None = None,
        sequence: int | None = None,
        version: int = PRODUCE_V1,
        partition: int = 0,
        leader: RawClient | None = None,
    ) -> Answer:
        """Writes one record. The sequence number advances only if the record is accepted."""
        records = batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=self.sequence if sequence is None else sequence,
            transactional=True,
        )
        answer = produce(
            leader or self._raw,
            self.topic,
            records,
            partition=partition,
            transactional_id=self.id,
            version=version,
        )
        if answer.error_code == ErrorCode.NONE and sequence is None:
            self.sequence += 1
        return answer

    def describe(self) -> Answer:
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        (described,) = self._raw.call(request, 0).transaction_states
        return described

    def await_state(self, state: str) -> Answer:
        """Waits for a state such as CompleteCommit, in which all markers are written."""
        return eventually(
            lambda: next((d for d in [self.describe()] if d.transaction_state == state), None),
            f"{self.id} is {state}",
        )

    def commit_offset(self, group: str, offset: int, *, version: int = COMMIT_V1) -> ErrorCode:
        """Commits an offset of partition 0 of the topic for the group."""
        _Topic = TxnOffsetCommitRequest.Topic
        partition = _Topic.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[_Topic(name=self.topic, partitions=[partition])],
        )
        (topic,) = self._raw.call(request, version).topics
        return ErrorCode(topic.partitions[0].error_code)

    def committed_offset(self, group: str) -> int:
        """The group's offset for partition 0 of the topic, -1 for none."""
        _Group = OffsetFetchRequest.Group
        wanted = _Group.Topic(name=self.topic, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[_Group(group_id=group, topics=[wanted])])
        (found,) = self._raw.call(request, 8).groups
        return int(found.topics[0].partitions[0].committed_offset)

    # Version 1

    def add(self, **fields: Any) -> ErrorCode:
        known = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
        }
        topics = [_Transaction.Topic(name=self.topic, partitions=[0])]
        request = AddPartitionsToTxnRequest(**{**known, **fields}, v3_and_below_topics=topics)
        (topic,) = self._raw.call(request, 3).results_by_topic_v3_and_below
        (partition,) = topic.results_by_partition
        return ErrorCode(partition.partition_error_code)

    def add_offsets(self, group: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(self._raw.call(request, 3).error_code)

    def end(self, *, commit: bool, epoch: int | None = None) -> ErrorCode:
        return ErrorCode(self._end(commit, epoch, END_V1).error_code)

    # Version 2

    def finish(self, *, commit: bool, epoch: int | None = None) -> Answer:
        """Ends the transaction and adopts the epoch from the answer."""
        answer = self._end(commit, epoch, END_V2)
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return answer

    def _end(self, commit: bool, epoch: int | None, version: int) -> Answer:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        return self._raw.call(request, version)

    # Requests of leaders

    def verify(
        self, *, topic: str | None = None, verify_only: bool = True, epoch: int | None = None
    ) -> ErrorCode:
        """Asks whether partition 0 is in the transaction, or adds it."""
        transaction = _Transaction(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            verify_only=verify_only,
            topics=[_Transaction.Topic(name=topic or self.topic, partitions=[0])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        (result,) = self._raw.call(request, ADD_AS_BROKER).results_by_transaction
        (found,) = result.topic_results
        return ErrorCode(found.results_by_partition[0].partition_error_code)
