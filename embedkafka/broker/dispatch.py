"""From a frame to a handler and back, in these steps.

| step | taken | by |
|---|---|---|
| authentication | on listeners with SASL or TLS | `security.sasl_authenticator` |
| log of requests | in the cluster of a test | `cluster.request_log` |
| faults | while one is set | `faults.request_faults` |
| meter, begins | once metrics are wanted | `broker.meter` |
| needs: what a client may do | with an authorizer | `broker.authorization` |
| quota: what it may do now | while there are quotas | `broker.throttling` |
| handler | always | `broker.apis` |
| amendment: what it may not | if a need or the quota refused a part | the step that refused it |
| time to wait | after the step "quota" | `broker.throttling` |
| meter, ends | after the step "meter, begins" | `broker.meter` |

The first three wrap `Dispatcher.handle`, the last three are in `RequestContext.reply`.

A step that is off costs a comparison. The control plane takes the same way, but for quotas.

A handler is `function(broker, request, context)`. It returns the response, `LATER` if a delayed
operation or a coordinator will call `context.reply`, or `NO_REPLY`.
Errors: an `ApiError` from a handler refuses the whole request (`protocol.refusals`). A broker
without ZooKeeper closes the connection, and clients turn to another broker. Any other exception is
our bug: it is recorded, and costs that connection only. The same holds for answers made on other
threads: a handler that answers later hands out `context.answering(callback)` or `context.reply`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from embedkafka.broker.api_table import SERVED, Api, load_api
from embedkafka.runtime.failures import Failures
from embedkafka.security.principals import ANONYMOUS, KafkaPrincipal
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.client_software import ClientSoftware
from embedkafka.wire.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.wire.protocol.headers import (
    RequestHeader,
    UnsupportedApi,
    decode_request_header,
    encode_response_header,
)
from embedkafka.wire.protocol.messages.registry import request_type, response_type
from embedkafka.zk.store import ConnectionLoss, SessionExpired

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.meter import Meter, Metered
    from embedkafka.broker.parts import BrokerParts
    from embedkafka.broker.throttling import ClientThrottle
    from embedkafka.security.acl.operations import AclOperation, ResourceType

P = ParamSpec("P")

_NO_ACK: Final = 0
_SERVED_KEYS: Final[Mapping[int, ApiKey]] = {int(key): key for key in SERVED}
"""Faster than to call `ApiKey`."""

LATER: Final = object()
"""A handler's answer when another thread or a later event will reply."""

NO_REPLY: Final = object()
"""A handler's answer when the protocol has none (Produce with acks=0)."""


class RequestContext:
    """One request as its handler sees it: the client, the version, and the way to reply."""

    __slots__ = (
        "_failures",
        "_request",
        "amend",
        "api_key",
        "checks",
        "client_id",
        "correlation_id",
        "message",
        "metered",
        "throttle",
        "version",
    )

    def __init__(self, request: Request, header: RequestHeader, failures: Failures) -> None:
        self._request = request
        self._failures = failures
        self.api_key = _SERVED_KEYS[header.api_key]
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id or ""
        self.message: Any = None  # Any: of the API's request class
        self.checks: Checks | None = None
        """What the client may do, on a broker with an authorizer."""
        self.amend: Callable[[Any], object] | None = None  # Any: the handler's response
        """Completes the handler's response."""
        self.throttle: ClientThrottle | None = None
        """Adds the time that the client has to wait for its quotas."""
        self.metered: Metered | None = None
        """Times the request, while metrics are wanted."""

    @property
    def listener(self) -> str:
        return self._request.listener

    @property
    def is_control_plane(self) -> bool:
        """Whether it arrived on the controller listener."""
        return self._request.is_control_plane

    @property
    def client_address(self) -> str:
        return self._request.client_address

    @property
    def client_host(self) -> str:
        return f"/{self._request.client_address}"

    @property
    def principal(self) -> KafkaPrincipal:
        """Who the client is; `User:ANONYMOUS` unless authentication has found someone else."""
        return self._request.principal or ANONYMOUS

    @principal.setter
    def principal(self, principal: KafkaPrincipal) -> None:
        self._request.principal = principal

    @property
    def software(self) -> ClientSoftware:
        return self._request.software

    @software.setter
    def software(self, software: ClientSoftware) -> None:
        self._request.software = software

    @property
    def connection_id(self) -> str:
        return self._request.connection_id

    def may(
        self,
        operation: "AclOperation",
        kind: "ResourceType",
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        """Whether the client may do this; without an authorizer, everyone may.

        `quiet`: the client has not asked for this resource.
        """
        return self.checks is None or self.checks.may(operation, kind, name, quiet=quiet)

    def may_cluster(self, operation: "AclOperation", *, quiet: bool = False) -> bool:
        """Whether the client may do this to the cluster."""
        return self.checks is None or self.checks.may_cluster(operation, quiet=quiet)

    def may_describe(self, kind: "ResourceType", name: str) -> bool:
        """Whether the client may see what it has not asked for by name."""
        return self.checks is None or self.checks.may_describe(kind, name)

    def reply(self, response: object) -> None:
        """Sends the response: once, from any thread. Failing to encode it is our bug."""
        try:
            if self.amend is not None:
                response = self.amend(response)
            if self.throttle is not None:
                response = self.throttle(response)
            metered = self.metered
            if metered is not None:
                metered.answered(response)  # before the client can ask for the count
            header = encode_response_header(self.api_key, self.version, self.correlation_id)
            parts = [header, *codec.encode_parts(response, self.version)]
            if metered is not None:
                metered.handed_over()
                self._request.watch(metered)
            self._request.reply(parts)
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
        """Answers with the error if the client expects an answer, else closes the connection."""
        name = f"{self.api_key.name} v{self.version}"
        if isinstance(error, ApiError):
            if getattr(self.message, "acks", None) == _NO_ACK:
                self.close_connection(f"{name}: {error}")
            else:
                self._refuse(error)
        elif isinstance(error, ConnectionLoss | SessionExpired):
            self.close_connection(f"the broker has lost ZooKeeper: {error!r}")
        else:
            self._give_up(error)

    def _refuse(self, error: ApiError) -> None:
        from embedkafka.wire.protocol.refusals import refusal  # seldom needed

        try:
            response = refusal(self.message, error.code, self.version, error.message)
        except Exception as bug:  # as in `reply`
            self._give_up(bug)
        else:
            self.reply(response)

    def _give_up(self, error: Exception) -> None:
        name = f"{self.api_key.name} v{self.version}"
        self._failures.record(f"{name} of {self.connection_id}", error)
        self.close_connection(f"its request failed: {error!r}")

    @property
    def request_bytes(self) -> int:
        """The size of the request, without its length."""
        return len(self._request.frame)

    def mute(self, delay_ms: float) -> None:
        """Keeps the client's next request unread for this long after the reply."""
        if self.metered is not None:
            self.metered.throttle_ms = delay_ms
        self._request.mute(delay_ms)

    def no_reply(self) -> None:
        if self.throttle is not None:
            self.throttle(None)
        if self.amend is None:
            self._request.no_reply()
        else:
            self.close_connection("part of a request without an answer was not allowed")

    def finish(self, answer: object) -> None:
        """Does what a handler's `answer` says."""
        if answer is NO_REPLY:
            self.no_reply()
        elif answer is not LATER:
            self.reply(answer)

    def close_connection(self, reason: str) -> None:
        self._request.close_connection(reason)


Permit = Callable[[Api, Any, RequestContext], Any]  # Any: a request
"""What the client may do of a request; None if that is nothing, and it has been told."""
Charge = Callable[[Api, Any, RequestContext], Any]  # Any: likewise
"""What of a request the quotas of its client let pass."""


class Dispatcher:
    """Answers the requests of one broker."""

    def __init__(self, broker: "BrokerParts", failures: Failures) -> None:
        self._broker = broker
        self._failures = failures
        self.permit: Permit | None = None
        """On a broker with an authorizer."""
        self.charge: Charge | None = None
        """While there are quotas."""
        self.meter: Meter | None = None
        """Once metrics are wanted."""

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
        api = SERVED.get(header.api_key)  # type: ignore[call-overload]  # an int finds its ApiKey
        if api is None or not api.is_served(control_plane=request.is_control_plane):
            request.close_connection(f"api key {header.api_key} is not served on this listener")
            return
        if not api.supports(header.api_version):
            self._refuse_version(request, header)
            return
        self._answer(body, RequestContext(request, header, self._failures), request)

    def _answer(self, body: memoryview, context: RequestContext, request: Request) -> None:
        try:
            message = codec.decode(
                request_type(context.api_key), context.version, body, surplus_allowed=True
            )
        except ProtocolError as error:
            request.close_connection(f"{context.api_key.name} v{context.version}: {error}")
            return
        context.message = message
        meter = self.meter
        if meter is not None:
            names = self._broker.metadata.snapshot.topic_names
            context.metered = meter.begin(
                context.api_key, context.client_id, message, request, names
            )
        try:
            api = load_api(context.api_key)
            if self.permit is None and self.charge is None:
                answer = api.handler(self._broker, message, context)
            else:
                answer = self._pass_on(api, message, context)
        except Exception as error:  # costs this client only; our bugs are recorded
            context.fail(error)
            return
        if answer is LATER and context.metered is not None:
            context.metered.returned()
        context.finish(answer)

    def _pass_on(self, api: Api, message: Any, context: RequestContext) -> object:  # Any: a request
        """Has the handler answer what the client may do, and may do now."""
        if self.permit is not None and api.needs:
            is_informed = self._broker.metadata.snapshot.is_informed
            if not is_informed and SERVED[context.api_key].for_clients:
                return self._once_informed(api, message, context)
            message = self.permit(api, message, context)
            if message is None:
                return LATER
        if self.charge is not None:
            message = self.charge(api, message, context)
        answer = api.handler(self._broker, message, context)
        if context.throttle is not None:
            context.throttle.worked()
        return answer

    def _once_informed(
        self, api: Api, message: Any, context: RequestContext
    ) -> object:  # Any: as above
        """What is needed depends on topics, which a broker that has just started does not know."""

        @context.answering
        def go_on() -> None:
            context.finish(self._pass_on(api, message, context))

        self._broker.metadata.once_informed(go_on)
        return LATER

    def _refuse_version(self, request: Request, header: RequestHeader) -> None:
        """Closes the connection, as Kafka does; ApiVersions answers in v0, with its versions."""
        if header.api_key != ApiKey.API_VERSIONS:
            request.close_connection(
                f"api key {header.api_key} version {header.api_version} is not supported"
            )
            return
        context = RequestContext(request, header._replace(api_version=0), self._failures)
        response = response_type(header.api_key)
        first, last = SERVED[ApiKey.API_VERSIONS].versions
        own = response.ApiVersion(api_key=header.api_key, min_version=first, max_version=last)
        context.reply(response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]))
