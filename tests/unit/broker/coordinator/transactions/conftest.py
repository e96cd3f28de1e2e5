"""The transaction coordinator on a bench without threads."""

from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.broker.coordinator.transactions.config import TxnConfig
from embedkafka.broker.coordinator.transactions.service import TxnService
from embedkafka.runtime.ids import NO_LEADER, BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.presence import present
from tests.unit.broker.coordinator.bench import Bench


class Leaders:
    """A MarkerTransport in which broker 1 leads every partition without an entry in `leaders`."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {}
        self.deleted: set[TopicPartition] = set()
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.errors: dict[TopicPartition, list[ErrorCode]] = {}
        self.held: list[Callable[[], None]] | None = None
        self.unreachable: set[int] = set()
        self.silent: set[TopicPartition] = set()

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        if topic_partition in self.deleted:
            return None
        return BrokerId(self.leaders.get(topic_partition, 1))

    def send(
        self,
        broker_id: BrokerId,
        request: WriteTxnMarkersRequest,
        on_done: Callable[[WriteTxnMarkersResponse | None], None],
    ) -> None:
        self.requests.append((broker_id, request))
        if broker_id in self.unreachable:
            on_done(None)
        elif self.held is None:
            on_done(self.respond(request))
        else:
            self.held.append(lambda: on_done(self.respond(request)))

    def hold(self) -> None:
        self.held = []

    def release(self) -> None:
        held, self.held = self.held, None
        for respond in present(held):
            respond()

    def respond(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        marker_type = WriteTxnMarkersResponse.Marker
        return WriteTxnMarkersResponse(
            markers=[
                marker_type(
                    producer_id=marker.producer_id,
                    topics=[
                        marker_type.Topic(
                            name=topic.name,
                            partitions=[
                                marker_type.Topic.Partition(
                                    partition_index=index,
                                    error_code=self.error(TopicPartition(topic.name, index)),
                                )
                                for index in topic.partition_indexes
                                if (topic.name, index) not in self.silent
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def error(self, topic_partition: TopicPartition) -> ErrorCode:
        queue = self.errors.get(topic_partition)
        return queue.pop(0) if queue else ErrorCode.NONE

    def markers(self) -> list[tuple[int, int, int, bool, set[tuple[str, int]]]]:
        """The markers sent, as (broker, producer id, epoch, committed, partitions)."""
        return [
            (
                broker,
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                {(t.name, p) for t in marker.topics for p in t.partition_indexes},
            )
            for broker, request in self.requests
            for marker in request.markers
        ]


class Blocks:
    """Producer ids 1000, 1001, ... in blocks of ten."""

    def __init__(self) -> None:
        self.next = 1000
        self.is_available = True

    def allocate(self) -> range:
        if not self.is_available:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        block = range(self.next, self.next + 10)
        self.next += 10
        return block


class Coordinator(Bench):
    """The transaction service, with shortcuts for its requests."""

    service: TxnService

    NO_LEADER = NO_LEADER

    def __init__(
        self, config: Any = None, *, leaders: Any = None, blocks: Any = None, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self.config = config or TxnConfig(transaction_state_log_num_partitions=1)
        self.leaders = leaders or Leaders()
        self.blocks = blocks or Blocks()
        self.service = TxnService(
            self.config,
            self.parts,
            producer_id_blocks=self.blocks,
            markers=self.leaders,
            leaders=self.elsewhere,
        )

    def lead(self, epoch: int = 0) -> Any:
        for partition in range(self.config.transaction_state_log_num_partitions):
            self.service.coordinator.on_leading(partition, epoch)
        self.loop.run()
        return self

    def successor(self, epoch: int = 1) -> Any:
        """Another broker's coordinator on the same log, after a failover."""
        successor = Coordinator(self.config, log=self.log, clock=self.clock, blocks=self.blocks)
        return successor.lead(epoch)

    def state(self, transactional_id: str = "tx") -> Any:
        return self.shard().find(transactional_id).state.label

    def init(
        self,
        transactional_id: str | None = "tx",
        *,
        producer: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
        version: Any = 4,
    ) -> Any:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        return self.send(self.service.init_producer_id, request, version)

    def add(
        self,
        producer: Any,
        *partitions: Any,
        transactional_id: str = "tx",
        version: Any = 3,
        verify_only: bool = False,
    ) -> ErrorCode:
        """Adds partitions; returns the error of the first one."""
        topics = [
            AddPartitionsToTxnRequest.Transaction.Topic(name=topic, partitions=[partition])
            for topic, partition in partitions
        ]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnRequest.Transaction(
                        transactional_id=transactional_id,
                        producer_id=producer[0],
                        producer_epoch=producer[1],
                        verify_only=verify_only,
                        topics=topics,
                    )
                ]
            )
        response = self.send(self.service.add_partitions_to_txn, request, version).response
        results = (
            response.results_by_topic_v3_and_below
            if version < 4
            else response.results_by_transaction[0].topic_results
        )
        return ErrorCode(results[0].results_by_partition[0].partition_error_code)

    def end(
        self,
        producer: Any,
        *,
        committed: bool = True,
        transactional_id: str = "tx",
        version: Any = 4,
    ) -> Any:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        return self.send(self.service.end_txn, request, version)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator().lead()


@pytest.fixture(scope="session")
def new_coordinator() -> type[Coordinator]:
    return Coordinator
