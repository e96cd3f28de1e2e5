"""Answers security requests as a Kafka cluster without security does."""

from typing import TYPE_CHECKING

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.security import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

_NO_AUTHORIZER = "No Authorizer is configured."
_NO_SASL = "the listener is plaintext and does not authenticate"
_NO_TOKENS = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def sasl_handshake(
    broker: "Broker", request: SaslHandshakeRequest, context: "RequestContext"
) -> SaslHandshakeResponse:
    """Refuses: listeners are plaintext (ILLEGAL_SASL_STATE)."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def sasl_authenticate(
    broker: "Broker", request: SaslAuthenticateRequest, context: "RequestContext"
) -> SaslAuthenticateResponse:
    """Refuses: listeners are plaintext (ILLEGAL_SASL_STATE)."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_NO_SASL, auth_bytes=b""
    )


def describe_acls(
    broker: "Broker", request: DescribeAclsRequest, context: "RequestContext"
) -> DescribeAclsResponse:
    """Refuses: there is no authorizer (SECURITY_DISABLED)."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER, resources=[]
    )


def create_acls(
    broker: "Broker", request: CreateAclsRequest, context: "RequestContext"
) -> CreateAclsResponse:
    """Refuses: there is no authorizer (SECURITY_DISABLED)."""
    refused = CreateAclsResponse.Result(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
    )
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(
    broker: "Broker", request: DeleteAclsRequest, context: "RequestContext"
) -> DeleteAclsResponse:
    """Refuses: there is no authorizer (SECURITY_DISABLED)."""
    refused = DeleteAclsResponse.FilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def create_delegation_token(
    broker: "Broker", request: CreateDelegationTokenRequest, context: "RequestContext"
) -> CreateDelegationTokenResponse:
    """Refuses: tokens are disabled (DELEGATION_TOKEN_AUTH_DISABLED)."""
    return CreateDelegationTokenResponse(
        error_code=_NO_TOKENS,
        principal_type="User",
        principal_name="ANONYMOUS",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
    )


def renew_delegation_token(
    broker: "Broker", request: RenewDelegationTokenRequest, context: "RequestContext"
) -> RenewDelegationTokenResponse:
    """Refuses: tokens are disabled (DELEGATION_TOKEN_AUTH_DISABLED)."""
    return RenewDelegationTokenResponse(error_code=_NO_TOKENS, expiry_timestamp_ms=-1)


def expire_delegation_token(
    broker: "Broker", request: ExpireDelegationTokenRequest, context: "RequestContext"
) -> ExpireDelegationTokenResponse:
    """Refuses: tokens are disabled (DELEGATION_TOKEN_AUTH_DISABLED)."""
    return ExpireDelegationTokenResponse(error_code=_NO_TOKENS, expiry_timestamp_ms=-1)


def describe_delegation_token(
    broker: "Broker", request: DescribeDelegationTokenRequest, context: "RequestContext"
) -> DescribeDelegationTokenResponse:
    """Refuses: tokens are disabled (DELEGATION_TOKEN_AUTH_DISABLED)."""
    return DescribeDelegationTokenResponse(error_code=_NO_TOKENS, tokens=[])
