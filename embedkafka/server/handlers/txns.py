"""Producer ids and transactions."""

from typing import TYPE_CHECKING

from embedkafka.protocol.messages.transactions import InitProducerIdRequest
from embedkafka.server.dispatch import LATER

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext


def init_producer_id(
    broker: "Broker", request: InitProducerIdRequest, context: "RequestContext"
) -> object:
    """A producer id and epoch for an idempotent producer."""
    broker.txns.init_producer_id(request, context.version, context.reply)
    return LATER
