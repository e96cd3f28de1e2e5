"""Asks for permission before handlers run, on brokers with an authorizer only."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.security.acl.authorizer import AclAuthorizer
from embedkafka.server.api_table import SERVED, Api, load_api
from embedkafka.server.authorization.checks import Checks, Narrowed, Refused
from embedkafka.server.authorization.needs import outcome
from embedkafka.server.dispatch import LATER

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

Handler = Callable[..., Any]  # Any: each handler has its own message types

_NO_ACK: Final = 0


def guarded_loader(
    authorizer: AclAuthorizer, load_plain: Callable[[ApiKey], Handler]
) -> Callable[[ApiKey], Handler]:
    """A `load_plain` whose handlers ask `authorizer` first."""

    @functools.cache
    def load(key: ApiKey) -> Handler:
        handler, api = load_plain(key), load_api(key)
        if not api.needs:
            return handler
        guarded = _guarded(handler, api, authorizer)
        return _once_informed(guarded) if SERVED[key].for_clients else guarded

    return load


def _guarded(handler: Handler, api: Api, authorizer: AclAuthorizer) -> Handler:
    def run(broker: "Broker", request: Any, context: "RequestContext") -> object:  # Any: see above
        context.checks = check = Checks(authorizer, broker, context)
        permitted = outcome(check, request, api)
        if isinstance(permitted, Refused):
            if getattr(request, "acks", None) == _NO_ACK:
                context.close_connection("a request without an answer was not allowed")
                return LATER
            return permitted.response
        if isinstance(permitted, Narrowed):
            request, context.amend = permitted
        return handler(broker, request, context)

    return run


def _once_informed(handler: Handler) -> Handler:
    """Guards need the names of topics, which a broker that has just started does not know."""

    def run(broker: "Broker", request: Any, context: "RequestContext") -> object:  # Any: see above
        if broker.metadata.snapshot.is_informed:
            return handler(broker, request, context)

        @context.answering
        def reply() -> None:
            context.finish(handler(broker, request, context))

        broker.metadata.once_informed(reply)
        return LATER

    return run
