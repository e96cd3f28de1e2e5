"""Keeps the readers of topic handles out of the coordinators' business.

librdkafka's consumer looks for the coordinator of its group even if it never joins, and on Kafka
that creates `__consumer_offsets`. A plain `topic.read()` should leave no trace, so embedded brokers
refuse that one request of that one client.

Owner: none.
Invariants: any other request costs a look at its API key.
"""

from typing import Final

from embedkafka.broker.assembly import Handle
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.headers import decode_request_header, encode_response_header
from embedkafka.wire.protocol.messages.registry import request_type

_API: Final = ApiKey.FIND_COORDINATOR
_KEY: Final = int(_API)  # the second byte of a frame; the first is zero


def refuse_readers(handle: Handle) -> Handle:
    """`handle`, for all but the readers' search for a coordinator."""

    def handle_or_refuse(request: Request) -> None:
        frame = request.frame
        if len(frame) > 1 and frame[1] == _KEY and not frame[0] and _refuse(request):
            return
        handle(request)

    return handle_or_refuse


def _refuse(request: Request) -> bool:
    from embedkafka.cluster.clients.clients import READER  # some client looks for a coordinator

    try:
        header, body = decode_request_header(request.frame)
        if header.client_id != READER:
            return False
        asked = codec.decode(request_type(_API), header.api_version, body, surplus_allowed=True)
    except ProtocolError:
        return False  # the broker answers it
    from embedkafka.wire.protocol.refusals import refusal  # only readers need it

    answer = refusal(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE, header.api_version)
    start = encode_response_header(_API, header.api_version, header.correlation_id)
    request.reply([start, *codec.encode_parts(answer, header.api_version)])
    return True
