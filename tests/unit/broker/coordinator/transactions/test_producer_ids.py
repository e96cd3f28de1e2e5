from typing import Any

from embedkafka.broker.coordinator.transactions.producer_ids import (
    ProducerIds,
    init_idempotent_producer,
)
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest


class Blocks:
    def __init__(self, *blocks: Any) -> None:
        self.blocks = list(blocks)

    def allocate(self) -> Any:
        if not self.blocks:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.blocks.pop(0)


def test_ids_come_from_one_block_after_the_other() -> None:
    ids = ProducerIds(Blocks(range(1000, 1002), range(5000, 6000)))
    assert [ids.generate() for _ in range(4)] == [1000, 1001, 5000, 5001]


def test_an_idempotent_producer_gets_a_new_id_with_epoch_zero() -> None:
    ids = ProducerIds(Blocks(range(7, 8)))
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    response = init_idempotent_producer(request, ids)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 7, 0)
    response = init_idempotent_producer(request, ids)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
