"""Authentication, access control lists and delegation tokens."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct
from embedkafka.wire.protocol.wire_types import Int8, Int16, Int32, Int64


@message(api=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeRequest:
    """Choose a SASL mechanism.

    After v0 the tokens follow without Kafka's framing, after v1 in SaslAuthenticate.
    """

    mechanism: str


@message(api=ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeResponse:
    """Whether the mechanism is enabled, and those that are."""

    error_code: Int16 = 0
    mechanisms: Sequence[str]


@message(api=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    """One token of the SASL exchange."""

    auth_bytes: bytes


@message(api=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    """The broker's token in return.

    v1 how long the session lasts before the client must authenticate again.
    """

    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: Int64 = since(1, default=0)


@message(api=ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible=2)
class DescribeAclsRequest:
    """Ask for access rules that match a filter.

    v1 pattern type; v0 knows literal names only.  v3 user resources.
    """

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = since(1, default=3)
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message(api=ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible=2)
class DescribeAclsResponse:
    """Access rules by resource."""

    @struct
    class Resource:
        @struct
        class Acl:
            principal: str
            host: str
            operation: Int8
            permission_type: Int8

        resource_type: Int8
        resource_name: str
        pattern_type: Int8 = since(1, default=3)
        acls: Sequence[Acl]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    resources: Sequence[Resource]


@message(api=ApiKey.CREATE_ACLS, versions=(0, 3), flexible=2)
class CreateAclsRequest:
    """Add access rules.

    v1 pattern type.  v3 user resources.
    """

    @struct
    class Creation:
        resource_type: Int8
        resource_name: str
        resource_pattern_type: Int8 = since(1, default=3)
        principal: str
        host: str
        operation: Int8
        permission_type: Int8

    creations: Sequence[Creation]


@message(api=ApiKey.CREATE_ACLS, versions=(0, 3), flexible=2)
class CreateAclsResponse:
    """The result for each rule, in the order of the request."""

    @struct
    class Result:
        error_code: Int16 = 0
        error_message: str | None = None

    throttle_time_ms: Int32 = 0
    results: Sequence[Result]


@message(api=ApiKey.DELETE_ACLS, versions=(0, 3), flexible=2)
class DeleteAclsRequest:
    """Delete the access rules that match filters.

    v1 pattern type.  v3 user resources.
    """

    @struct
    class Filter:
        resource_type_filter: Int8
        resource_name_filter: str | None
        pattern_type_filter: Int8 = since(1, default=3)
        principal_filter: str | None
        host_filter: str | None
        operation: Int8
        permission_type: Int8

    filters: Sequence[Filter]


@message(api=ApiKey.DELETE_ACLS, versions=(0, 3), flexible=2)
class DeleteAclsResponse:
    """The rules each filter has deleted."""

    @struct
    class FilterResult:
        @struct
        class MatchingAcl:
            error_code: Int16 = 0
            error_message: str | None = None
            resource_type: Int8
            resource_name: str
            pattern_type: Int8 = since(1, default=3)
            principal: str
            host: str
            operation: Int8
            permission_type: Int8

        error_code: Int16 = 0
        error_message: str | None = None
        matching_acls: Sequence[MatchingAcl]

    throttle_time_ms: Int32 = 0
    filter_results: Sequence[FilterResult]


@message(api=ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), flexible=2)
class CreateDelegationTokenRequest:
    """Create a token for authentication.

    v3 for another owner.
    """

    @struct
    class Renewer:
        principal_type: str
        principal_name: str

    owner_principal_type: str | None = since(3, default=None)
    owner_principal_name: str | None = since(3, default=None)
    renewers: Sequence[Renewer]
    max_lifetime_ms: Int64


@message(api=ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), flexible=2)
class CreateDelegationTokenResponse:
    """The token and its secret.

    v3 the requester.
    """

    error_code: Int16 = 0
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = since(3, default="")
    token_requester_principal_name: str = since(3, default="")
    issue_timestamp_ms: Int64 = -1
    expiry_timestamp_ms: Int64 = -1
    max_timestamp_ms: Int64 = -1
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0


@message(api=ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2), flexible=2)
class RenewDelegationTokenRequest:
    """Extend the life of a token."""

    hmac: bytes
    renew_period_ms: Int64


@message(api=ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2), flexible=2)
class RenewDelegationTokenResponse:
    """The token's new expiry time."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0


@message(api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), flexible=2)
class ExpireDelegationTokenRequest:
    """Change a token's expiry; a negative period means at once."""

    hmac: bytes
    expiry_time_period_ms: Int64


@message(api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), flexible=2)
class ExpireDelegationTokenResponse:
    """The token's new expiry time."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = -1
    throttle_time_ms: Int32 = 0


@message(api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3), flexible=2)
class DescribeDelegationTokenRequest:
    """Ask for tokens of the given owners, or of all (null)."""

    @struct
    class Owner:
        principal_type: str
        principal_name: str

    owners: Sequence[Owner] | None


@message(api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3), flexible=2)
class DescribeDelegationTokenResponse:
    """Tokens this principal may see.

    v3 the requesters.
    """

    @struct
    class Token:
        @struct
        class Renewer:
            principal_type: str
            principal_name: str

        principal_type: str
        principal_name: str
        token_requester_principal_type: str = since(3, default="")
        token_requester_principal_name: str = since(3, default="")
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: str
        hmac: bytes
        renewers: Sequence[Renewer]

    error_code: Int16 = 0
    tokens: Sequence[Token]
    throttle_time_ms: Int32 = 0
