"""PLAIN (RFC 4616): user name and password in one token."""

import hmac
from collections.abc import Callable

from embedkafka.security.sasl.exchange import AuthenticationFailed, Identity

MECHANISM = "PLAIN"

_PARTS = 3
_MOST_PARTS = 4


class PlainExchange:
    """Compares the password with the one that `find_password` knows for the user."""

    def __init__(self, find_password: Callable[[str], str | None]) -> None:
        self._find_password = find_password
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        authorization_id, user, password = _split(token)
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._find_password(user)
        # An unknown user costs the same comparison as a wrong password.
        is_equal = hmac.compare_digest(password.encode(), (expected or password + "?").encode())
        if not is_equal:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.identity = Identity(name=user)
        return b""


def _split(token: bytes) -> list[str]:
    parts = token.decode(errors="replace").split("\0", _MOST_PARTS)[:_MOST_PARTS]
    if len(parts) != _PARTS:
        raise AuthenticationFailed(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        )
    return parts
