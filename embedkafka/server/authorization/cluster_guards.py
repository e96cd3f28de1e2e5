"""Who may administer the cluster: settings, ACLs, quotas, credentials, leaders, directories."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeClientQuotasResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesResponse,
    UpdateFeaturesResponse,
)
from embedkafka.protocol.messages.quorum import (
    AddRaftVoterResponse,
    DescribeQuorumResponse,
    RemoveRaftVoterResponse,
    UnregisterBrokerResponse,
)
from embedkafka.protocol.messages.security import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from embedkafka.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from embedkafka.security.acl.acls import CLUSTER_NAME
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import REFUSED_WITH, Checks, Narrowed, Refused
from embedkafka.server.handlers import configs
from embedkafka.server.handlers.acls import is_complete

_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
_ALTER_CONFIGS, _DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS

_DELETE = 1
_BROKER, _LOGGER = 4, 8
_CONFIG_KINDS = {
    2: ResourceType.TOPIC,
    _BROKER: ResourceType.CLUSTER,
    _LOGGER: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
"""What a type of config resource is to an ACL; brokers, loggers and metrics are the cluster's."""

Guard = Callable[[Checks, Any], object]  # Any: each guard has its own request
Refusal = Callable[[Any, str], object]
"""Makes the answer to a request, with the reason in the words of Kafka's controller."""


def _needs(operation: AclOperation, refuse: Refusal) -> Guard:
    """A guard that asks for one operation on the cluster."""

    def guard(check: Checks, request: Any) -> object:  # Any: as above
        if check.may_cluster(operation):
            return request
        context = check.context
        asked = f"{context.api_key.name} of {context.connection_id}"
        return Refused(refuse(request, f"Request {asked} needs {operation.name} permission."))

    return guard


def _forwardable(operation: AclOperation, refuse: Refusal) -> Guard:
    """The same; a broker that passes a client's request on has asked for the client already."""
    needs = _needs(operation, refuse)

    def guard(check: Checks, request: Any) -> object:  # Any: as above
        is_forwarded = check.broker.is_forwarded(check.context.client_id)
        if is_forwarded and check.may_cluster(AclOperation.CLUSTER_ACTION, quiet=True):
            return request
        return needs(check, request)

    return guard


# --- settings


def describe_configs(check: Checks, request: DescribeConfigsRequest) -> object:
    """For an unknown type of resource the handler refuses the whole request from anyone."""
    if not {resource.resource_type for resource in request.resources} <= set(_CONFIG_KINDS):
        return request
    allowed, refused = _split(check, _DESCRIBE_CONFIGS, request.resources)
    failed = [
        DescribeConfigsResponse.Resource(
            error_code=_code(resource),
            error_message=_code(resource).message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        for resource in refused
    ]
    return Narrowed(
        replace(request, resources=allowed),
        lambda response: replace(response, results=[*response.results, *failed]),
    )


def alter_configs(check: Checks, request: AlterConfigsRequest) -> object:
    return _altered(check, request, configs.alter_configs, AlterConfigsResponse.Resource)


def incremental_alter_configs(check: Checks, request: IncrementalAlterConfigsRequest) -> object:
    handler = configs.incremental_alter_configs
    return _altered(check, request, handler, IncrementalAlterConfigsResponse.Resource)


def _altered(
    check: Checks, request: Any, handler: Callable[..., Any], result: Any
) -> object:  # Any: either kind of change
    allowed, refused = _split(check, _ALTER_CONFIGS, request.resources)
    if refused:
        wrong = _wrong(check, request, handler)
        allowed = [one for one in request.resources if one in wrong or one in allowed]
        refused = [one for one in refused if one not in wrong]
    failed = [
        result(
            error_code=_code(resource),
            error_message=None if resource.resource_type == _LOGGER else _code(resource).message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in refused
    ]
    return Narrowed(
        replace(request, resources=allowed),
        lambda response: replace(response, responses=[*response.responses, *failed]),
    )


def _wrong(check: Checks, request: Any, handler: Callable[..., Any]) -> list[Any]:  # Any: as above
    """Resources with a fault that Kafka finds before it asks for permission."""
    trial = handler(check.broker, replace(request, validate_only=True), check.context)
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    first = {_BROKER, _LOGGER} if check.context.api_key is ApiKey.ALTER_CONFIGS else {_BROKER}
    return [
        resource
        for resource, answer in zip(request.resources, trial.responses, strict=True)
        if answer.error_code == ErrorCode.INVALID_REQUEST
        and (
            resource.resource_type in first
            or times[resource.resource_type, resource.resource_name] > 1
            or _is_malformed(resource.configs)
        )
    ]


def _is_malformed(changes: Any) -> bool:  # Any: as above
    """Whether a setting is there twice, or shall have no value."""
    names = {change.name for change in changes}
    return len(names) < len(changes) or any(
        change.value is None and getattr(change, "config_operation", None) != _DELETE
        for change in changes
    )


def _split(
    check: Checks,
    operation: AclOperation,
    resources: Any,
) -> tuple[list[Any], list[Any]]:
    """Resources that the client may describe or alter, and the others. Any: of three requests."""
    allowed: list[Any] = []  # Any: as above
    refused: list[Any] = []
    for resource in resources:
        kind = _CONFIG_KINDS.get(resource.resource_type)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
        permitted = kind is None or check.may(operation, kind, name)
        (allowed if permitted else refused).append(resource)
    return allowed, refused


def _code(resource: Any) -> ErrorCode:  # Any: as above
    return REFUSED_WITH[_CONFIG_KINDS[resource.resource_type]]


list_config_resources = _needs(
    _DESCRIBE_CONFIGS, lambda request, reason: ListConfigResourcesResponse(error_code=_FAILED)
)

# --- ACLs


_describe_acls = _needs(
    _DESCRIBE,
    lambda request, reason: DescribeAclsResponse(
        error_code=_FAILED, error_message=reason, resources=[]
    ),
)


def describe_acls(check: Checks, request: DescribeAclsRequest) -> object:
    """A filter with unknown numbers ends the connection of any client."""
    return _describe_acls(check, request) if is_complete(request) else request


def _acls_not_created(request: CreateAclsRequest, reason: str) -> CreateAclsResponse:
    failed = CreateAclsResponse.Result(error_code=_FAILED, error_message=reason)
    return CreateAclsResponse(results=[failed] * len(request.creations))


def _acls_not_deleted(request: DeleteAclsRequest, reason: str) -> DeleteAclsResponse:
    failed = DeleteAclsResponse.FilterResult(
        error_code=_FAILED, error_message=reason, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[failed] * len(request.filters))


_create_acls = _needs(_ALTER, _acls_not_created)
_delete_acls = _needs(_ALTER, _acls_not_deleted)


def create_acls(check: Checks, request: CreateAclsRequest) -> object:
    """As `describe_acls`."""
    return _create_acls(check, request) if is_complete(request) else request


def delete_acls(check: Checks, request: DeleteAclsRequest) -> object:
    """As `describe_acls`."""
    return _delete_acls(check, request) if is_complete(request) else request


# --- quotas and credentials


describe_client_quotas = _needs(
    _DESCRIBE_CONFIGS,
    lambda request, reason: DescribeClientQuotasResponse(error_code=_FAILED, entries=None),
)


def _quotas_not_altered(
    request: AlterClientQuotasRequest, reason: str
) -> AlterClientQuotasResponse:
    _Entry = AlterClientQuotasResponse.Entry
    return AlterClientQuotasResponse(
        entries=[
            _Entry(
                error_code=_FAILED,
                error_message=_FAILED.message,
                entity=[
                    _Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


alter_client_quotas = _needs(_ALTER_CONFIGS, _quotas_not_altered)


def _credentials_not_described(
    request: DescribeUserScramCredentialsRequest, reason: str
) -> DescribeUserScramCredentialsResponse:
    """As many refusals as users were asked for, without their names."""
    _User = DescribeUserScramCredentialsResponse.User
    failed = _User(user="", error_code=_FAILED, credential_infos=[])
    return DescribeUserScramCredentialsResponse(
        error_code=_FAILED, results=[failed] * len(request.users or ())
    )


describe_user_scram_credentials = _needs(_DESCRIBE, _credentials_not_described)


def _credentials_not_altered(
    request: AlterUserScramCredentialsRequest, reason: str
) -> AlterUserScramCredentialsResponse:
    users = {deletion.name for deletion in request.deletions}
    users.update(upsertion.name for upsertion in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.User(
                user=user, error_code=_FAILED, error_message=reason
            )
            for user in sorted(users)
        ]
    )


alter_user_scram_credentials = _needs(_ALTER, _credentials_not_altered)

# --- leaders, moves, directories, features


def _leaders_not_elected(request: ElectLeadersRequest, reason: str) -> ElectLeadersResponse:
    _Topic = ElectLeadersResponse.Topic
    return ElectLeadersResponse(
        error_code=_FAILED,
        replica_election_results=[
            _Topic(
                topic=topic.topic,
                partition_result=[
                    _Topic.Partition(partition_id=index, error_code=_FAILED, error_message=reason)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


elect_leaders = _forwardable(_ALTER, _leaders_not_elected)


def _partitions_not_moved(
    request: AlterPartitionReassignmentsRequest, reason: str
) -> AlterPartitionReassignmentsResponse:
    _Topic = AlterPartitionReassignmentsResponse.Topic
    return AlterPartitionReassignmentsResponse(
        error_code=_FAILED,
        error_message=reason,
        responses=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Topic.Partition(
                        partition_index=p.partition_index, error_code=_FAILED, error_message=reason
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _moves_not_listed(
    request: ListPartitionReassignmentsRequest, reason: str
) -> ListPartitionReassignmentsResponse:
    """Names what the client asked for, and nothing else."""
    _Topic = ListPartitionReassignmentsResponse.Topic
    return ListPartitionReassignmentsResponse(
        error_code=_FAILED,
        error_message=reason,
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Topic.Partition(
                        partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


alter_partition_reassignments = _forwardable(_ALTER, _partitions_not_moved)
list_partition_reassignments = _forwardable(_DESCRIBE, _moves_not_listed)


def _replicas_not_moved(
    request: AlterReplicaLogDirsRequest, reason: str
) -> AlterReplicaLogDirsResponse:
    _Topic = AlterReplicaLogDirsResponse.Topic
    return AlterReplicaLogDirsResponse(
        results=[
            _Topic(
                topic_name=topic.name,
                partitions=[
                    _Topic.Partition(partition_index=index, error_code=_FAILED)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


alter_replica_log_dirs = _needs(_ALTER, _replicas_not_moved)

describe_log_dirs = _needs(
    _DESCRIBE, lambda request, reason: DescribeLogDirsResponse(error_code=_FAILED, results=[])
)

describe_quorum = _needs(
    _DESCRIBE,
    lambda request, reason: DescribeQuorumResponse(
        error_code=_FAILED, error_message=_FAILED.message, topics=[]
    ),
)

unregister_broker = _needs(
    _ALTER,
    lambda request, reason: UnregisterBrokerResponse(error_code=_FAILED, error_message=reason),
)

add_raft_voter = _needs(
    _ALTER,
    lambda request, reason: AddRaftVoterResponse(error_code=_FAILED, error_message=_FAILED.message),
)

remove_raft_voter = _needs(
    _ALTER,
    lambda request, reason: RemoveRaftVoterResponse(
        error_code=_FAILED, error_message=_FAILED.message
    ),
)

update_features = _needs(
    _ALTER,
    lambda request, reason: UpdateFeaturesResponse(error_code=_FAILED, error_message=reason),
)
