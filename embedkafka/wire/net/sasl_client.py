"""How one broker logs in to another with SASL."""

from collections.abc import Callable
from typing import Any

from embedkafka.wire.net.channel_authenticator import Login, LoginRefused
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest


def log_in(login: Login, call: Callable[[object, int], Any]) -> int:
    """Exchanges tokens until the broker is satisfied; returns the lifetime of the session, or 0.

    `call` sends a request and returns the response; Any: its class follows from the request's.
    """
    shaken = call(SaslHandshakeRequest(mechanism=login.mechanism), 1)
    if shaken.error_code:
        enabled = ", ".join(shaken.mechanisms)
        raise LoginRefused(f"{login.mechanism} is not enabled there, only {enabled}")
    lifetime_ms, challenge = 0, None
    while (token := login.respond(challenge)) is not None:
        answer = call(SaslAuthenticateRequest(auth_bytes=token), 1)
        if answer.error_code:
            raise LoginRefused(answer.error_message or f"error {answer.error_code}")
        lifetime_ms, challenge = answer.session_lifetime_ms, bytes(answer.auth_bytes)
    return int(lifetime_ms)
