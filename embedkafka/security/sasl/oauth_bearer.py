"""OAUTHBEARER (RFC 7628): a bearer token, checked by a validator.

A token that the validator refuses gets its reason as JSON first. The client answers that with a
single byte and then fails with the same text.
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from embedkafka.runtime.values import dataclass, field
from embedkafka.security.sasl.exchange import (
    SASLNAME,
    AuthenticationFailed,
    Identity,
    InvalidCredentials,
)

MECHANISM: Final = "OAUTHBEARER"

_SEPARATOR: Final = "\x01"
_ACKNOWLEDGED: Final = b"\x01"

_PAIR: Final = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASLNAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class IllegalToken(Exception):
    """A validator refuses a token; `scope` is set if the token lacks one of these scopes.

    The text is for the broker's log and does not contain the token.
    """

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """The claims of a valid token that matter to a broker."""

    principal: str
    expires_ms: int
    scope: frozenset[str] = frozenset()


class TokenValidator(Protocol):
    """Reads and checks a token; raises `IllegalToken`."""

    def validate(self, token: str, *, now_ms: int) -> BearerToken: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientFirst:
    authorization_id: str
    token: str = field(repr=False)
    extensions: Mapping[str, str]


class OAuthBearerExchange:
    """The broker's side; extensions are accepted, as Kafka's own validators accept them."""

    def __init__(self, validator: TokenValidator, *, now_ms: int) -> None:
        self._validator = validator
        self._now_ms = now_ms
        self._error = ""
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        if token == _ACKNOWLEDGED and self._error:
            raise AuthenticationFailed(self._error)
        first = _parse(token)
        try:
            found = self._validator.validate(first.token, now_ms=self._now_ms)
        except IllegalToken as error:
            self._error = _error_json(error.scope)
            return self._error.encode()
        if first.authorization_id not in ("", found.principal):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id "
                f"({first.authorization_id}) that is different from the token's principal name "
                f"({found.principal})"
            )
        self.identity = Identity(name=found.principal, expires_ms=found.expires_ms)
        return b""


def encode_client_first(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """The only message of a client whose token is accepted."""
    pairs = {"auth": f"Bearer {token}", **(extensions or {})}
    joined = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
    return f"n,,{_SEPARATOR}{joined}{_SEPARATOR}".encode()


def _parse(token: bytes) -> _ClientFirst:
    match = _FIRST.fullmatch(token.decode(errors="replace"))
    if match is None:
        raise InvalidCredentials("the OAUTHBEARER message is malformed")
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split(_SEPARATOR) if pair)
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise InvalidCredentials("the OAUTHBEARER message has no valid 'auth'")
    if auth["scheme"].lower() != "bearer":
        raise InvalidCredentials("the scheme of the OAUTHBEARER message is not Bearer")
    return _ClientFirst(
        authorization_id=match["authorization_id"] or "", token=auth["token"], extensions=pairs
    )


def _error_json(scope: str | None) -> str:
    """The error as Kafka writes it, down to its blanks."""
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{scope}"}}'
