"""Authentication of one connection with SASL, as Kafka's SaslServerAuthenticator does it.

Before it is over, a client may send ApiVersions once, then SaslHandshake, then its tokens: in
SaslAuthenticate requests after a handshake of version 1, bare after one of version 0, and bare
without any handshake if it is a GSSAPI client of Kafka 0.9. Anything else ends the connection.

A session can end: with the credential, or after `connections.max.reauth.ms` (KIP-368). The client
repeats handshake and tokens on the same connection before that. A request that comes later ends the
connection.

Owner: the thread of the connection's processor.
Invariants: `principal` is None until the client has authenticated, and never changes after that.
Not here: mechanisms (`sasl`), sockets and delays (`net`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeVar

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.values import dataclass
from embedkafka.security.principals import USER, KafkaPrincipal
from embedkafka.security.sasl.exchange import (
    AuthenticationFailed,
    Exchange,
    Identity,
    InvalidCredentials,
)
from embedkafka.wire.net.channel_authenticator import Verdict
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.client_software import has_valid_software
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.headers import (
    RequestHeader,
    UnsupportedApi,
    decode_request_header,
    encode_response_header,
)
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from embedkafka.wire.protocol.messages.registry import response_type
from embedkafka.wire.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from embedkafka.wire.protocol.wire_types import Part

_LOG = logging.getLogger(__name__)

M = TypeVar("M")

GSSAPI: Final = "GSSAPI"

# A client may not begin a re-authentication earlier than this after the last one.
_MIN_REAUTH_INTERVAL_MS: Final = 1_000

# Java's clients count a session in nanoseconds, of which a long holds 292 years.
_LONGEST_SESSION_MS: Final = 2**62 // 1_000_000

# It may repeat a name that the client sent; in old versions, a text has 32,767 bytes at most.
_LONGEST_MESSAGE: Final = 1_000


class SaslState(Enum):
    """What a connection expects next."""

    INITIAL_REQUEST = auto()
    HANDSHAKE_OR_VERSIONS_REQUEST = auto()
    HANDSHAKE_REQUEST = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    REAUTH_BAD_MECHANISM = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How a listener authenticates; `new_exchange` holds the enabled mechanisms."""

    new_exchange: Mapping[str, Callable[[], Exchange]]
    max_reauth_ms: Mapping[str, int]
    """How long a session lasts, by mechanism; 0 for as long as its credential."""
    failure_delay_ms: int
    max_receive_bytes: int
    clock: Clock


class _Refused(Exception):
    """Ends the connection, after Kafka's delay if `is_delayed`."""

    def __init__(
        self, reason: str, *, reply: Sequence[Part] | None = None, is_delayed: bool = True
    ) -> None:
        super().__init__(reason)
        self.reply = reply
        self.is_delayed = is_delayed


class SaslAuthenticator:
    """Authenticates the client of one connection."""

    def __init__(self, settings: SaslSettings) -> None:
        self.principal: KafkaPrincipal | None = None
        self.max_frame_bytes: int | None = settings.max_receive_bytes
        self.failure_delay_ms = settings.failure_delay_ms
        self._settings = settings
        self._state = SaslState.INITIAL_REQUEST
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._has_headers = False
        self._expires_ms: float | None = None
        self._last_reauth_ms: float | None = None

    @property
    def is_settled(self) -> bool:
        return self._state is SaslState.COMPLETE and self._expires_ms is None

    def receive(self, frame: memoryview, now_ms: float) -> Verdict | None:
        """Answers a frame; None lets it pass. `now_ms` is monotonic."""
        try:
            if self._state is SaslState.COMPLETE:
                return self._guard_session(frame, now_ms)
            if self._state is SaslState.AUTHENTICATE:
                return self._take_token(frame, now_ms)
            if self._state is SaslState.REAUTH_BAD_MECHANISM:
                raise _Refused("it changed the mechanism in a re-authentication")
            return self._take_request(frame, now_ms)
        except _Refused as refused:
            self._state = SaslState.FAILED
            return Verdict(
                reply=refused.reply,
                failure=f"failed {self._what}: {refused}",
                delay_ms=self._settings.failure_delay_ms if refused.is_delayed else 0,
            )

    @property
    def _what(self) -> str:
        return "authentication" if self.principal is None else "re-authentication"

    # -- after authentication

    def _guard_session(self, frame: memoryview, now_ms: float) -> Verdict | None:
        assert self._expires_ms is not None, "a settled authenticator is not asked"
        if int.from_bytes(frame[:2]) == ApiKey.SASL_HANDSHAKE and self._may_begin_again(now_ms):
            self._last_reauth_ms = now_ms
            self._has_headers = False
            self._state = SaslState.HANDSHAKE_REQUEST
            return self._take_request(frame, now_ms)
        if now_ms > self._expires_ms:
            return Verdict(failure="its session has expired, and it did not authenticate again")
        return None

    def _may_begin_again(self, now_ms: float) -> bool:
        last_ms = self._last_reauth_ms
        return last_ms is None or now_ms - last_ms >= _MIN_REAUTH_INTERVAL_MS

    # -- before the tokens

    def _take_request(self, frame: memoryview, now_ms: float) -> Verdict | None:
        try:
            header, body = decode_request_header(frame)
        except UnsupportedApi as error:
            if not _is_api_key(error.api_key):
                return self._take_first_gssapi_token(frame, now_ms)
            header = RequestHeader(error.api_key, error.api_version, error.correlation_id, None)
            body = None
        except ProtocolError:
            return self._take_first_gssapi_token(frame, now_ms)
        if self._state is SaslState.INITIAL_REQUEST:
            self._state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        if header.api_key == ApiKey.API_VERSIONS:
            self._let_versions_pass(header, body)
            return None
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            name = ApiKey(header.api_key).name
            raise _Refused(
                f"Unexpected Kafka request of type {name} during SASL handshake.", is_delayed=False
            )
        return self._shake_hands(header, body)

    def _take_first_gssapi_token(self, frame: memoryview, now_ms: float) -> Verdict | None:
        """A client of Kafka 0.9 begins with its token."""
        if self._state is not SaslState.INITIAL_REQUEST:
            raise _Refused("it sent no request", is_delayed=False)
        if GSSAPI not in self._settings.new_exchange:
            raise _Refused(
                "its first bytes are no request, and GSSAPI is not enabled", is_delayed=False
            )
        self._begin(GSSAPI)
        return self._take_token(frame, now_ms)

    def _let_versions_pass(self, header: RequestHeader, body: memoryview | None) -> None:
        """The handlers answer ApiVersions as they do after authentication."""
        if self._state is not SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            raise _Refused("it sent ApiVersions again", is_delayed=False)
        if body is None:
            return
        request = _decode(ApiVersionsRequest, header, body)
        named = (request.client_software_name, request.client_software_version)
        if has_valid_software(header.api_version, *named):
            self._state = SaslState.HANDSHAKE_REQUEST

    def _shake_hands(self, header: RequestHeader, body: memoryview | None) -> Verdict:
        mechanism = _decode(SaslHandshakeRequest, header, body).mechanism
        enabled = list(self._settings.new_exchange)
        self._has_headers = header.api_version >= 1
        if mechanism not in enabled:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise _Refused(
                f"Unsupported SASL mechanism {mechanism[:100]!r}",
                reply=_encode(header, SaslHandshakeResponse(error_code=code, mechanisms=enabled)),
            )
        if self.principal is not None and mechanism != self._mechanism:
            self._state = SaslState.REAUTH_BAD_MECHANISM
        else:
            self._begin(mechanism)
        return Verdict(reply=_encode(header, SaslHandshakeResponse(mechanisms=enabled)))

    def _begin(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._exchange = self._settings.new_exchange[mechanism]()
        self._state = SaslState.AUTHENTICATE

    # -- tokens

    def _take_token(self, frame: memoryview, now_ms: float) -> Verdict:
        if self._has_headers:
            return self._take_framed_token(frame, now_ms)
        try:
            answer, _ = self._evaluate(bytes(frame), now_ms)
        except AuthenticationFailed as error:
            raise _Refused(str(error)) from None
        except InvalidCredentials as error:
            raise _Refused(str(error), is_delayed=False) from None
        return Verdict(reply=None if answer is None else [answer])

    def _take_framed_token(self, frame: memoryview, now_ms: float) -> Verdict:
        try:
            header, body = decode_request_header(frame)
        except ProtocolError as error:
            raise _Refused(str(error), is_delayed=False) from None
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            name = ApiKey(header.api_key).name
            raise _Refused(
                f"Unexpected Kafka request of type {name} during SASL authentication.",
                reply=_encode_error(header, ErrorCode.ILLEGAL_SASL_STATE),
            )
        request = _decode(SaslAuthenticateRequest, header, body)
        try:
            answer, lifetime_ms = self._evaluate(bytes(request.auth_bytes), now_ms)
        except (AuthenticationFailed, InvalidCredentials) as error:
            raise self._token_refused(header, error) from None
        response = SaslAuthenticateResponse(
            error_message="", auth_bytes=answer or b"", session_lifetime_ms=lifetime_ms
        )
        return Verdict(reply=_encode(header, response))

    def _token_refused(self, header: RequestHeader, error: Exception) -> _Refused:
        if isinstance(error, AuthenticationFailed):
            message = str(error)[:_LONGEST_MESSAGE]
        else:  # what is wrong could tell a stranger which users exist
            _LOG.debug("%s failed: %s", self._mechanism, error)
            message = (
                f"Authentication failed during {self._what} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            )
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
        )
        return _Refused(message, reply=_encode(header, response))

    def _evaluate(self, token: bytes, now_ms: float) -> tuple[bytes | None, int]:
        """The mechanism's answer, and the lifetime of the session if that has begun."""
        assert self._exchange is not None
        answer = self._exchange.evaluate(token)
        identity = self._exchange.identity
        if identity is None:
            return answer, 0
        self._identify(identity)
        self._exchange = None
        self._state = SaslState.COMPLETE
        lifetime_ms = self._lifetime_ms(identity)
        self._expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        return answer, lifetime_ms or 0

    def _identify(self, identity: Identity) -> None:
        principal = KafkaPrincipal(
            USER, identity.name, token_authenticated=identity.token_authenticated
        )
        known = self.principal
        if known is not None and known != principal:
            raise AuthenticationFailed(
                "Cannot change principals during re-authentication from "
                f"{known.type}.{known.name}: {principal.type}.{principal.name}"
            )
        self.principal = principal

    def _lifetime_ms(self, identity: Identity) -> int | None:
        limits = [_LONGEST_SESSION_MS]
        if identity.expires_ms is not None:
            limits.append(identity.expires_ms - self._settings.clock.now_ms())
        max_reauth_ms = self._settings.max_reauth_ms.get(self._mechanism, 0)
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        return max(0, min(limits)) if len(limits) > 1 else None


def _is_api_key(number: int) -> bool:
    return any(number == key for key in ApiKey)


def _decode(message: type[M], header: RequestHeader, body: memoryview | None) -> M:
    if body is None:
        version = f"{ApiKey(header.api_key).name} v{header.api_version}"
        raise _Refused(f"{version} is not supported", is_delayed=False)
    try:
        return codec.decode(message, header.api_version, body, surplus_allowed=True)
    except ProtocolError as error:
        raise _Refused(str(error), is_delayed=False) from None


def _encode(header: RequestHeader, response: object) -> list[Part]:
    first = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return [first, *codec.encode_parts(response, header.api_version)]


def _encode_error(header: RequestHeader, code: ErrorCode) -> list[Part] | None:
    """The answer to a request of another API, if that has an error for all of it."""
    try:
        return _encode(header, response_type(ApiKey(header.api_key))(error_code=code))
    except TypeError:  # it has fields without defaults, or no error field
        return None
