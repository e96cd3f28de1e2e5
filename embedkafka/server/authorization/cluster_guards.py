"""Who may administer the cluster: settings, ACLs, quotas, credentials, leaders, directories."""

from collections.abc import Callable
from typing import Any

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
    DescribeAclsResponse,
)
from embedkafka.protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
from embedkafka.security.acl.acls import CLUSTER_NAME
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import REFUSED_WITH, Checks, Narrowed, Refused

_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
_ALTER_CONFIGS, _DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS

_CONFIG_KINDS = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,
    8: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
"""What a type of config resource is to an ACL; brokers, loggers and metrics are the cluster's."""

Guard = Callable[[Checks, Any], object]  # Any: each guard has its own request


def _needs(operation: AclOperation, refuse: Callable[[Any], object]) -> Guard:  # Any: as above
    """A guard that asks for one operation on the cluster."""

    def guard(check: Checks, request: Any) -> object:  # Any: as above
        return request if check.may_cluster(operation) else Refused(refuse(request))

    return guard


def _forwardable(operation: AclOperation, refuse: Callable[[Any], object]) -> Guard:
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
    return _altered(check, request, AlterConfigsResponse.Resource)


def incremental_alter_configs(check: Checks, request: IncrementalAlterConfigsRequest) -> object:
    return _altered(check, request, IncrementalAlterConfigsResponse.Resource)


def _altered(check: Checks, request: Any, result: Any) -> object:  # Any: either kind of change
    allowed, refused = _split(check, _ALTER_CONFIGS, request.resources)
    failed = [
        result(
            error_code=_code(resource),
            error_message=_code(resource).message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in refused
    ]
    return Narrowed(
        replace(request, resources=allowed),
        lambda response: replace(response, responses=[*response.responses, *failed]),
    )


def _split(check: Checks, operation: AclOperation, resources: Any) -> tuple[list[Any], list[Any]]:
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
    _DESCRIBE_CONFIGS, lambda request: ListConfigResourcesResponse(error_code=_FAILED)
)

# --- ACLs


describe_acls = _needs(
    _DESCRIBE,
    lambda request: DescribeAclsResponse(
        error_code=_FAILED, error_message=_FAILED.message, resources=[]
    ),
)


def _acls_not_created(request: CreateAclsRequest) -> CreateAclsResponse:
    failed = CreateAclsResponse.Result(error_code=_FAILED, error_message=_FAILED.message)
    return CreateAclsResponse(results=[failed] * len(request.creations))


def _acls_not_deleted(request: DeleteAclsRequest) -> DeleteAclsResponse:
    failed = DeleteAclsResponse.FilterResult(
        error_code=_FAILED, error_message=_FAILED.message, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[failed] * len(request.filters))


create_acls = _needs(_ALTER, _acls_not_created)
delete_acls = _needs(_ALTER, _acls_not_deleted)

# --- quotas and credentials


describe_client_quotas = _needs(
    _DESCRIBE_CONFIGS,
    lambda request: DescribeClientQuotasResponse(
        error_code=_FAILED, error_message=_FAILED.message, entries=None
    ),
)


def _quotas_not_altered(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
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

describe_user_scram_credentials = _needs(
    _DESCRIBE,
    lambda request: DescribeUserScramCredentialsResponse(
        error_code=_FAILED, error_message=_FAILED.message, results=[]
    ),
)


def _credentials_not_altered(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    users = {deletion.name for deletion in request.deletions}
    users.update(upsertion.name for upsertion in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.User(
                user=user, error_code=_FAILED, error_message=_FAILED.message
            )
            for user in sorted(users)
        ]
    )


alter_user_scram_credentials = _needs(_ALTER, _credentials_not_altered)

# --- leaders, moves, directories, features


def _leaders_not_elected(request: ElectLeadersRequest) -> ElectLeadersResponse:
    _Topic = ElectLeadersResponse.Topic
    return ElectLeadersResponse(
        error_code=_FAILED,
        replica_election_results=[
            _Topic(
                topic=topic.topic,
                partition_result=[
                    _Topic.Partition(
                        partition_id=index, error_code=_FAILED, error_message=_FAILED.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


elect_leaders = _forwardable(_ALTER, _leaders_not_elected)

alter_partition_reassignments = _forwardable(
    _ALTER,
    lambda request: AlterPartitionReassignmentsResponse(
        error_code=_FAILED, error_message=_FAILED.message, responses=[]
    ),
)

list_partition_reassignments = _forwardable(
    _DESCRIBE,
    lambda request: ListPartitionReassignmentsResponse(
        error_code=_FAILED, error_message=_FAILED.message, topics=[]
    ),
)


def _replicas_not_moved(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
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
    _DESCRIBE, lambda request: DescribeLogDirsResponse(error_code=_FAILED, results=[])
)

describe_quorum = _needs(
    _DESCRIBE,
    lambda request: DescribeQuorumResponse(
        error_code=_FAILED, error_message=_FAILED.message, topics=[]
    ),
)

unregister_broker = _needs(
    _ALTER,
    lambda request: UnregisterBrokerResponse(error_code=_FAILED, error_message=_FAILED.message),
)

add_raft_voter = _needs(
    _ALTER,
    lambda request: AddRaftVoterResponse(error_code=_FAILED, error_message=_FAILED.message),
)

remove_raft_voter = _needs(
    _ALTER,
    lambda request: RemoveRaftVoterResponse(error_code=_FAILED, error_message=_FAILED.message),
)

update_features = _needs(
    _ALTER,
    lambda request: UpdateFeaturesResponse(error_code=_FAILED, error_message=_FAILED.message),
)
