"""The transaction coordinator of one broker, on the `coordinator` loop.

Methods may be called from any thread. Each posts its request to the loop and returns; `reply` is
called on the loop, once, when the answer is known.

Owner: the `coordinator` loop, shared with the group coordinator.
"""

from collections.abc import Callable
from functools import partial

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.txn.config import TxnConfig
from embedkafka.txn.ports import (
    CoordinatorLoop,
    CoordinatorTimer,
    MarkerSender,
    PartitionReader,
    PartitionWriter,
    ProducerIdBlocks,
)
from embedkafka.txn.producer_ids import ProducerIds, init_error, init_idempotent_producer


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
    ) -> None:
        self._config = config
        self._loop = loop
        self._producer_ids = ProducerIds(producer_id_blocks)

    def start(self) -> None:
        """Begins to look for transactions that have run too long."""

    def stop(self) -> None:
        """Lets every shard go."""

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` whose leader coordinates the id."""
        return coordinator_partition(transactional_id, self._config.num_partitions)

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        version: int,
        reply: Callable[[InitProducerIdResponse], None],
    ) -> None:
        """A producer id and epoch; with a transactional id, other producers are fenced."""
        if not self._loop.post(partial(self._on_init_producer_id, request, reply)):
            reply(init_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _on_init_producer_id(
        self, request: InitProducerIdRequest, reply: Callable[[InitProducerIdResponse], None]
    ) -> None:
        if request.transactional_id is None:
            reply(init_idempotent_producer(request, self._producer_ids))
        else:
            reply(init_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
