"""What every SASL mechanism offers: tokens in, tokens out, and in the end an identity.

An exchange is pure: no socket, no thread. It belongs to one attempt of one connection.
"""

from typing import Final, Protocol

from embedkafka.runtime.values import dataclass

SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""A name in a SASL message (RFC 5801), in which comma and equals sign are escaped."""


class AuthenticationFailed(Exception):
    """The client is refused, and its error message is this text."""


class InvalidCredentials(Exception):
    """The client is refused with a message that says nothing; this text is for the broker's log.

    It never contains what the client sent: that may be a password in the wrong place.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who has authenticated, and until when (epoch milliseconds) the credential is valid."""

    name: str
    expires_ms: int | None = None
    token_authenticated: bool = False


class Exchange(Protocol):
    """One attempt to authenticate with a mechanism, on the broker's side."""

    identity: Identity | None
    """Set once the exchange has succeeded."""

    def evaluate(self, token: bytes) -> bytes | None:
        """The broker's answer to a token; None means that there is nothing to send.

        Raises `AuthenticationFailed` or `InvalidCredentials`.
        """
        ...
