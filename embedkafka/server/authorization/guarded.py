"""Asks for permission before handlers run, on brokers with an authorizer only."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from embedkafka.security.acl.authorizer import AclAuthorizer
from embedkafka.server.api_table import HANDLERS, load_handler
from embedkafka.server.authorization.checks import Checks, Narrowed, Refused
from embedkafka.server.authorization.needs import Rule, outcome
from embedkafka.server.authorization.table import FREE, RULES
from embedkafka.server.dispatch import LATER

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

Handler = Callable[..., Any]  # Any: each handler has its own message types

_NO_ACK: Final = 0


def guarded_loader(
    authorizer: AclAuthorizer, load_plain: Callable[[str], Handler] = load_handler
) -> Callable[[str], Handler]:
    """A `load_plain` whose handlers ask `authorizer` first."""
    apis = {row.handler: api for api, row in HANDLERS.items()}

    @functools.cache
    def load(name: str) -> Handler:
        handler, api = load_plain(name), apis[name]
        if api in FREE:
            return handler
        guarded = _guarded(handler, RULES[api], authorizer)
        return _once_informed(guarded) if HANDLERS[api].for_clients else guarded

    return load


def _guarded(handler: Handler, rule: Rule, authorizer: AclAuthorizer) -> Handler:
    def run(broker: "Broker", request: Any, context: "RequestContext") -> object:  # Any: see above
        context.checks = check = Checks(authorizer, broker, context)
        permitted = outcome(check, request, rule)
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
