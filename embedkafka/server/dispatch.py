"""From a frame to a handler and back: decodes, looks up, calls, encodes.

A handler is `function(broker, request, context)`. It returns the response, `LATER` if a delayed
operation or a coordinator will call `context.reply`, or `NO_REPLY`.
Errors: an `ApiError` from a handler becomes the response's top-level error code. A broker without
ZooKeeper closes the connection, and clients turn to another broker. Any other exception is our bug:
it is recorded, and costs that connection only. The same holds for answers made on other threads: a
handler that answers later hands out `context.answering(callback)` or `context.reply`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec

from embedkafka.net.request_channel import Request
from embedkafka.protocol import codec
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.protocol.headers import (
    RequestHeader,
    UnsupportedApi,
    decode_request_header,
    encode_response_header,
)
from embedkafka.protocol.messages.registry import request_type, response_type
from embedkafka.runtime.failures import Failures
from embedkafka.server.api_table import HANDLERS, Api, load_handler
from embedkafka.zk.store import ConnectionLoss, SessionExpired

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker

P = ParamSpec("P")

LATER: Final = object()
"""A handler's answer when another thread or a later event will reply."""

NO_REPLY: Final = object()
"""A handler's answer when the protocol has none (Produce with acks=0)."""


class RequestContext:
    """One request as its handler sees it: the client, the version, and the way to reply."""

    __slots__ = ("_failures", "_request", "api_key", "client_id", "correlation_id", "version")

    def __init__(self, request: Request, header: RequestHeader, failures: Failures) -> None:
        self._request = request
        self._failures = failures
        self.api_key = ApiKey(header.api_key)
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id or ""

    @property
    def listener(self) -> str:
        return self._request.listener

    @property
    def client_host(self) -> str:
        return f"/{self._request.client_address}"

    @property
    def connection_id(self) -> str:
        return self._request.connection_id

    def reply(self, response: object) -> None:
        """Sends the response: once, from any thread. Failing to encode it is our bug."""
        try:
            header = encode_response_header(self.api_key, self.version, self.correlation_id)
            self._request.reply([header, *codec.encode_parts(response, self.version)])
        except Exception as error:  # the thread may be another client's; it is recorded
            self._give_up(error)

    def answering(self, answer: Callable[P, None]) -> Callable[P, None]:
        """Wraps `answer` for any thread to call; a failure affects only this client."""

        # The annotations are strings, because evaluating them takes ten times as long as the call.
        def run(*args: "P.args", **kwargs: "P.kwargs") -> None:
            try:
                answer(*args, **kwargs)
            except Exception as error:  # the thread may be another client's; it is recorded
                self.fail(error)

        return run

    def fail(self, error: Exception) -> None:
        """Answers with the error if the response can carry it, else closes the connection."""
        name = f"{self.api_key.name} v{self.version}"
        if isinstance(error, ApiError):
            response = _find_error_response(self, error)
            if response is None:
                self.close_connection(f"{name}: {error}")
            else:
                self.reply(response)
        elif isinstance(error, ConnectionLoss | SessionExpired):
            self.close_connection(f"the broker has lost ZooKeeper: {error!r}")
        else:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        name = f"{self.api_key.name} v{self.version}"
        self._failures.record(f"{name} of {self.connection_id}", error)
        self.close_connection(f"its request failed: {error!r}")

    def no_reply(self) -> None:
        self._request.no_reply()

    def close_connection(self, reason: str) -> None:
        self._request.close_connection(reason)


class Dispatcher:
    """Answers the requests of one broker."""

    def __init__(self, broker: "Broker", failures: Failures) -> None:
        self._broker = broker
        self._failures = failures

    def handle(self, request: Request) -> None:
        """Answers one request, now or later. Never blocks."""
        try:
            header, body = decode_request_header(request.frame)
        except UnsupportedApi as error:
            key, version = error.api_key, error.api_version
            header = RequestHeader(key, version, error.correlation_id, None)
            self._refuse_version(request, header)
            return
        except ProtocolError as error:
            request.close_connection(str(error))
            return
        api = HANDLERS.get(header.api_key)  # type: ignore[call-overload]  # an int finds its ApiKey
        if api is None or api.control_plane != request.is_control_plane:
            request.close_connection(f"api key {header.api_key} is not served on this listener")
            return
        if not api.supports(header.api_version):
            self._refuse_version(request, header)
            return
        self._answer(api, body, RequestContext(request, header, self._failures), request)

    def _answer(
        self, api: Api, body: memoryview, context: RequestContext, request: Request
    ) -> None:
        try:
            message = codec.decode(
                request_type(context.api_key), context.version, body, surplus_allowed=True
            )
        except ProtocolError as error:
            request.close_connection(f"{context.api_key.name} v{context.version}: {error}")
            return
        try:
            answer = load_handler(api.handler)(self._broker, message, context)
        except Exception as error:  # costs this client only; our bugs are recorded
            context.fail(error)
            return
        if answer is NO_REPLY:
            context.no_reply()
        elif answer is not LATER:
            context.reply(answer)

    def _refuse_version(self, request: Request, header: RequestHeader) -> None:
        """Closes the connection, as Kafka does, except that ApiVersions lists its versions."""
        if header.api_key != ApiKey.API_VERSIONS or request.is_control_plane:
            request.close_connection(
                f"api key {header.api_key} version {header.api_version} is not supported"
            )
            return
        context = RequestContext(request, header._replace(api_version=0), self._failures)
        context.reply(load_handler("metadata.unsupported_api_versions")())


def _find_error_response(context: RequestContext, error: ApiError) -> object | None:
    """A response with only the error code; None if the message has no top-level error."""
    code: ErrorCode = error.code
    try:
        response: object = response_type(context.api_key)(error_code=code)
    except TypeError:  # it has fields without defaults, or no error field
        return None
    return response
