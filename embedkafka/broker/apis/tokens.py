"""Delegation tokens: who may create, renew, expire and see them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import Api, by_handler
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.security.principals import ANONYMOUS, USER, KafkaPrincipal
from embedkafka.security.tokens import DelegationToken, DelegationTokens
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.security import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_NO_TIME = -1


def create_delegation_token(
    broker: "BrokerParts", request: CreateDelegationTokenRequest, context: "RequestContext"
) -> CreateDelegationTokenResponse:
    """A token for the client itself or, if it may, for another user.

    Behaviour: only clients that have authenticated, and not with a token, may ask.
    """
    requester = owner = context.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            return _not_created(owner, requester, ErrorCode.UNKNOWN_SERVER_ERROR)
        owner = KafkaPrincipal(request.owner_principal_type, request.owner_principal_name)
    try:
        _check_client(broker, context)
        renewers = [
            KafkaPrincipal(renewer.principal_type, renewer.principal_name)
            for renewer in request.renewers
        ]
        if owner != requester and not _may(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
        ):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.type != USER for renewer in renewers):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        tokens = _require_tokens(broker)
        token = tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except ApiError as error:
        return _not_created(owner, requester, error.code)
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.mac(token.token_id),
    )


def _not_created(
    owner: KafkaPrincipal, requester: KafkaPrincipal, code: ErrorCode
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
        token_id="",
        hmac=b"",
    )


def renew_delegation_token(
    broker: "BrokerParts", request: RenewDelegationTokenRequest, context: "RequestContext"
) -> RenewDelegationTokenResponse:
    """Extends a token, for its owner and its renewers."""

    def renew(tokens: DelegationTokens) -> int:
        return tokens.renew(bytes(request.hmac), context.principal, request.renew_period_ms)

    code, expires_ms = _changed(broker, context, renew)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)


def expire_delegation_token(
    broker: "BrokerParts", request: ExpireDelegationTokenRequest, context: "RequestContext"
) -> ExpireDelegationTokenResponse:
    """Changes when a token expires, for its owner and its renewers; a negative period means now."""

    def expire(tokens: DelegationTokens) -> int:
        return tokens.expire(bytes(request.hmac), context.principal, request.expiry_time_period_ms)

    code, expires_ms = _changed(broker, context, expire)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)


def describe_delegation_token(
    broker: "BrokerParts", request: DescribeDelegationTokenRequest, context: "RequestContext"
) -> DescribeDelegationTokenResponse:
    """Tokens of the given owners, or of all (null), as far as the client may see them."""
    try:
        _check_client(broker, context)
        tokens = _require_tokens(broker)
    except ApiError as error:
        return DescribeDelegationTokenResponse(error_code=error.code, tokens=[])
    owners = None
    if request.owners is not None:
        owners = [KafkaPrincipal(one.principal_type, one.principal_name) for one in request.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, tokens.mac(token.token_id))
            for token in tokens.all()
            if owners is None or any(token.concerns(owner) for owner in owners)
            if _may_see(context, token)
        ]
    )


def _described(token: DelegationToken, mac: bytes) -> DescribeDelegationTokenResponse.Token:
    _Token = DescribeDelegationTokenResponse.Token
    return _Token(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=mac,
        renewers=[
            _Token.Renewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )


def _may_see(context: "RequestContext", token: DelegationToken) -> bool:
    may = partial(_may, context, quiet=True)
    return (
        token.concerns(context.principal)
        or may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _may(
    context: "RequestContext",
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    *,
    quiet: bool = False,
) -> bool:
    """Whether the client may do this; without an authorizer, everyone may."""
    return context.checks is None or context.checks.may(operation, kind, name, quiet=quiet)


def _changed(
    broker: "BrokerParts", context: "RequestContext", change: Callable[[DelegationTokens], int]
) -> tuple[ErrorCode, int]:
    try:
        _check_client(broker, context)
        return ErrorCode.NONE, change(_require_tokens(broker))
    except ApiError as error:
        return error.code, _NO_TIME


def _check_client(broker: "BrokerParts", context: "RequestContext") -> None:
    """A token must not lead to further ones, and an anonymous client could not own any."""
    protocol = broker.listeners.protocol_of(context.listener)
    principal = context.principal
    if (
        protocol == "PLAINTEXT"
        or principal.token_authenticated
        or (protocol == "SSL" and principal == ANONYMOUS)
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _require_tokens(broker: "BrokerParts") -> DelegationTokens:
    if broker.tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return broker.tokens


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: Api(
        create_delegation_token,
        [by_handler(AclOperation.CREATE_TOKENS, ResourceType.USER, "for a token of another user")],
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Api(renew_delegation_token),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Api(expire_delegation_token),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Api(
        describe_delegation_token,
        [
            by_handler(
                AclOperation.DESCRIBE,
                ResourceType.DELEGATION_TOKEN,
                "for tokens of other users; what is not allowed is left out",
            ),
            by_handler(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "does as well"),
        ],
    ),
}
