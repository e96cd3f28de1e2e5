"""Producer ids: numbers that no two producers of a cluster share.

Owner: the `coordinator` loop.
Invariants: an id is handed out once; ids of a block that was not used up are lost, as in Kafka.
"""

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from embedkafka.runtime.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from embedkafka.txn.ports import ProducerIdBlocks


class ProducerIds:
    """Hands out producer ids from blocks of a thousand."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = 0
        self._end = 0

    def generate(self) -> int:
        """A new id; ApiError when no block can be had."""
        if self._next >= self._end:
            block = self._blocks.allocate()
            self._next, self._end = block.start, block.stop
        producer_id = self._next
        self._next += 1
        return producer_id


def init_idempotent_producer(
    request: InitProducerIdRequest, producer_ids: ProducerIds
) -> InitProducerIdResponse:
    """Answers a producer without transactional id: it needs a new id, epoch 0, and no coordinator.

    A producer that asks for a new epoch of its id gets a new id too: nobody knows the old one.
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
