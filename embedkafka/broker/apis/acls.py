"""Describes, creates and deletes ACLs; without an authorizer there are none."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.broker.dispatch import LATER
from embedkafka.security.acl.acls import (
    Acl,
    AclFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
    known,
)
from embedkafka.security.acl.operations import CLUSTER_NAME, AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.security import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def describe_acls(
    broker: "BrokerParts", request: DescribeAclsRequest, context: "RequestContext"
) -> object:
    """ACLs that match a filter, by resource; SECURITY_DISABLED without an authorizer."""
    if not _is_complete(request):
        context.close_connection("a filter has unknown elements")
        return LATER
    if broker.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    found = sorted(
        broker.authorizer.acls(_filter(request)), key=lambda acl: (acl.resource, str(acl))
    )
    _Resource = DescribeAclsResponse.Resource
    return DescribeAclsResponse(
        error_message="",
        resources=[
            _Resource(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                pattern_type=resource.pattern_type,
                acls=[
                    _Resource.Acl(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for resource, acls in groupby(found, key=lambda acl: acl.resource)
        ],
    )


def _is_complete(request: DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest) -> bool:
    """Whether no number is 0, "unknown", at which Kafka closes the connection."""
    if isinstance(request, CreateAclsRequest):
        return not any(
            0 in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
            for one in request.creations
        )
    filters = request.filters if isinstance(request, DeleteAclsRequest) else [request]
    return not any(
        0 in (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        for one in filters
    )


def create_acls(
    broker: "BrokerParts", request: CreateAclsRequest, context: "RequestContext"
) -> object:
    """Adds ACLs; each succeeds or fails alone. SECURITY_DISABLED without an authorizer.

    Behaviour: as in Kafka, a number that only a filter may use fails the whole request.
    """
    if not _is_complete(request):
        context.close_connection("an ACL has unknown elements")
        return LATER
    if broker.authorizer is None:
        refused = CreateAclsResponse.Result(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
        )
        return CreateAclsResponse(results=[refused] * len(request.creations))
    if any(map(_is_filter, request.creations)):
        failed = CreateAclsResponse.Result(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None
        )
        return CreateAclsResponse(results=[failed] * len(request.creations))
    created: list[Acl] = []
    results: list[CreateAclsResponse.Result] = []
    for creation in request.creations:
        try:
            created.append(_created(creation))
        except ApiError as error:
            results.append(
                CreateAclsResponse.Result(error_code=error.code, error_message=error.message)
            )
        else:
            results.append(CreateAclsResponse.Result(error_message=""))
    broker.authorizer.create(created)
    return CreateAclsResponse(results=results)


def _is_filter(creation: CreateAclsRequest.Creation) -> bool:
    """Whether a creation has a number for filters."""
    pattern = creation.resource_pattern_type
    others = (creation.resource_type, creation.operation, creation.permission_type)
    return 1 in others or pattern in (PatternType.ANY, PatternType.MATCH)


_NUMBERS: Final = ("resourceType", "patternType", "operation", "permissionType")


def _created(creation: CreateAclsRequest.Creation) -> Acl:
    """The ACL, or why there can be none."""
    kind, name = known(ResourceType, creation.resource_type), creation.resource_name
    pattern = known(PatternType, creation.resource_pattern_type)
    operation = known(AclOperation, creation.operation)
    permission = known(PermissionType, creation.permission_type)
    fault = None
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        fault = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not name:
        fault = "Invalid empty resource name"
    elif 0 in (numbers := (kind, pattern, operation, permission)):
        fault = f"Invalid {_NUMBERS[numbers.index(0)]} UNKNOWN"
    elif "/" in name:
        fault = f"A resource name with a slash cannot be stored: {name}"
    elif ":" not in creation.principal:
        fault = (
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, fault)
    return Acl(
        principal=creation.principal,
        operation=operation,
        resource=ResourcePattern(kind, name, pattern),
        permission=permission,
        host=creation.host,
    )


def delete_acls(
    broker: "BrokerParts", request: DeleteAclsRequest, context: "RequestContext"
) -> object:
    """Deletes the ACLs that match filters. SECURITY_DISABLED without an authorizer."""
    if not _is_complete(request):
        context.close_connection("a filter has unknown elements")
        return LATER
    _Result = DeleteAclsResponse.FilterResult
    authorizer = broker.authorizer
    if authorizer is None:
        refused = _Result(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER, matching_acls=[]
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    results = []
    doomed: set[Acl] = set()
    for asked in request.filters:
        wanted = _filter(asked)
        unknown = wanted.find_unknown()
        if unknown is not None:
            results.append(
                _Result(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=f"Unknown {unknown}.",
                    matching_acls=[],
                )
            )
            continue
        found = authorizer.acls(wanted)
        doomed.update(found)
        results.append(_Result(matching_acls=[_deleted(acl) for acl in sorted(found, key=str)]))
    authorizer.delete(doomed)
    return DeleteAclsResponse(filter_results=results)


def _deleted(acl: Acl) -> DeleteAclsResponse.FilterResult.MatchingAcl:
    return DeleteAclsResponse.FilterResult.MatchingAcl(
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(asked: DescribeAclsRequest | DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter(
        resource_type=known(ResourceType, asked.resource_type_filter),
        name=asked.resource_name_filter,
        pattern_type=known(PatternType, asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=known(AclOperation, asked.operation),
        permission=known(PermissionType, asked.permission_type),
    )


_ALTER: Final = Need(AclOperation.ALTER, ResourceType.CLUSTER, says=REASON)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.DESCRIBE_ACLS: Api(describe_acls, [_ALTER._replace(operation=AclOperation.DESCRIBE)]),
    ApiKey.CREATE_ACLS: Api(create_acls, [_ALTER]),
    ApiKey.DELETE_ACLS: Api(delete_acls, [_ALTER]),
}
