"""Producer ids: numbers that no two producers of a cluster share.

Owner: the `coordinator` loop.
Invariants: an id is given out once. As in Kafka, the unused ids of a block are lost.
"""

from embedkafka.broker.coordinator.transactions.ports import ProducerIdBlocks
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


class ProducerIds:
    """Gives out producer ids from blocks of a thousand."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = 0
        self._end = 0

    def generate(self) -> int:
        """A new id; raises ApiError if no block can be allocated."""
        if self._next >= self._end:
            block = self._blocks.allocate()
            self._next, self._end = block.start, block.stop
        producer_id = self._next
        self._next += 1
        return producer_id


def init_idempotent_producer(
    request: InitProducerIdRequest, producer_ids: ProducerIds
) -> InitProducerIdResponse:
    """Answers a producer without a transactional id, on any broker, with a new id and epoch 0.

    A producer that asks for a new epoch of its id gets a new id too: no broker keeps the old one.
    """
    assert request.transactional_id is None
    try:
        producer_id = producer_ids.generate()
    except ApiError as error:
        return init_error(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def init_error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
