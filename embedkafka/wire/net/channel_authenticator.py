"""The seam between a connection and whatever authenticates its client.

Not here: mechanisms and credentials, which belong to a layer above.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.transport import Stream
from embedkafka.wire.protocol.wire_types import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An authenticator's answer to a frame.

    With a `failure`, the reason for the log, the connection ends: after `delay_ms`, in which the
    client waits for the reply.
    """

    reply: Sequence[Part] | None = None
    failure: str | None = None
    delay_ms: float = 0


class Authenticator(Protocol):
    """Sees every frame of one connection first. Runs on the processor's thread."""

    max_frame_bytes: int | None
    """The longest frame that a client may send before it has authenticated; None for no other
    limit than that of requests."""

    failure_delay_ms: int
    """How long a client that sends a longer one waits for the end of its connection."""

    principal: Any  # Any: as in `ReplyPort`; None before authentication

    @property
    def is_settled(self) -> bool:
        """Whether all further frames may pass, so that the connection needs it no more."""
        ...

    def receive(self, frame: memoryview, now_ms: float) -> Verdict | None:
        """Answers a frame; None lets it pass to the handlers."""
        ...


class Login(Protocol):
    """The other side: how one broker logs in to another."""

    mechanism: str

    def respond(self, challenge: bytes | None) -> bytes | None:
        """The next token; the first one for None. None when the broker is satisfied.

        Raises `LoginRefused`.
        """
        ...


class LoginRefused(Exception):
    """The other broker does not accept the login, or did not prove who it is."""


NewLogin = Callable[[str], Login]
"""Makes the login of a connection to another broker, on this host."""

NewAuthenticator = Callable[[Stream], Authenticator]
"""Makes the authenticator of a connection."""
