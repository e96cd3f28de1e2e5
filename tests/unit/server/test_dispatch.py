from types import SimpleNamespace

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.groups import HeartbeatResponse
from embedkafka.server.dispatch import _find_error_response


def test_an_error_that_a_handler_lets_through_is_answered_where_there_is_a_place_for_it():
    error = ApiError(ErrorCode.INVALID_REQUEST)
    heartbeat = SimpleNamespace(api_key=ApiKey.HEARTBEAT)
    assert _find_error_response(heartbeat, error) == HeartbeatResponse(error_code=42)
    assert _find_error_response(SimpleNamespace(api_key=ApiKey.FETCH), error) is None
