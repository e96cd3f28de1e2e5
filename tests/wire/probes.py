"""One request to every API that asks for rights: what it needs, and how it is refused without."""

import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from embedkafka.security.acl.acls import Acl
from embedkafka.security.acl.operations import ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages import core, groups, security
from embedkafka.wire.protocol.messages import transactions as t
from tests.presence import present
from tests.wire.one_partition import batch, produce_request
from tests.wire.plain_messages import Plain, request
from tests.wire.secured import ANYONE, creation

TOPIC, HIDDEN, GROUP, TXN = "visible", "hidden", "a-group", "a-transaction"
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TXN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS: Final = frozenset({NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN})
_REFUSAL_OF: Final = {
    ResourceType.TOPIC: NO_TOPIC,
    ResourceType.GROUP: NO_GROUP,
    ResourceType.CLUSTER: NO_CLUSTER,
    ResourceType.TRANSACTIONAL_ID: NO_TXN,
}


def codes(message: object) -> set[int]:
    """The errors in a response."""
    return set(_codes(message)) - {ErrorCode.NONE}


def _codes(value: Any) -> Iterator[int]:  # Any: a message, or a field of one
    if isinstance(value, list | tuple):
        for item in value:
            yield from _codes(item)
    elif hasattr(value, "__slots__") and not isinstance(value, uuid.UUID):
        for field in schema_of(type(value)).fields:
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield inner
            else:
                yield from _codes(inner)


def produced(topic: str, *, acks: int = 1) -> core.ProduceRequest:
    return produce_request(topic, batch(b"x"), acks=acks)


def fetched(topic: str, **session: Any) -> core.FetchRequest:
    _Topic = core.FetchRequest.Topic
    partition = _Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return core.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[_Topic(topic=topic, partitions=[partition])] if topic else [],
        **session,
    )


def commit(*names: str) -> groups.OffsetCommitRequest:
    _Topic = groups.OffsetCommitRequest.Topic
    one = _Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=None)
    return groups.OffsetCommitRequest(
        group_id=GROUP, topics=[_Topic(name=name, partitions=[one]) for name in names]
    )


def in_transaction(name: str, producer_id: int, epoch: int) -> t.AddPartitionsToTxnRequest:
    return t.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            t.AddPartitionsToTxnRequest.Transaction.Topic(name=name, partitions=[0])
        ],
    )


def allow(operation: str, **resource: Any) -> Acl:  # Any: as `Acl.allow` takes it
    return Acl.allow(ANYONE, operation, **resource)


class Probe(NamedTuple):
    """A request, the rights it needs, and the errors of a client without them."""

    api: ApiKey
    request: object
    version: int
    acls: tuple[Acl, ...]
    refused: frozenset[int] | set[int]


def _asked(asked: object, version: int, *acls: Acl, refused: set[int] | None = None) -> Probe:
    """`refused` is what the first of the rights asks for, if it is not given."""
    api = ApiKey(present(schema_of(type(asked)).api))
    kind = acls[0].resource.resource_type
    return Probe(api, asked, version, acls, refused or {_REFUSAL_OF[ResourceType(kind)]})


def _probe(
    api: ApiKey, version: int, *acls: Acl, refused: set[int] | None = None, **fields: Plain
) -> Probe:
    return _asked(request(api, **fields), version, *acls, refused=refused)


_OF_TXN: dict[str, Any] = {"transactional_id": TXN, "producer_id": 999_999, "producer_epoch": 0}
_VOTER: dict[str, Any] = {"cluster_id": None, "voter_directory_id": uuid.UUID(int=1)}
ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": "no such",
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

_ALL: Final = (
    _asked(produced(TOPIC), 9, allow("WRITE", topic=TOPIC)),
    _asked(fetched(TOPIC), 11, allow("READ", topic=TOPIC)),
    _probe(
        ApiKey.LIST_OFFSETS,
        7,
        allow("DESCRIBE", topic=TOPIC),
        replica_id=-1,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    ),
    _probe(
        ApiKey.METADATA,
        9,
        allow("DESCRIBE", topic=TOPIC),
        topics=[{"name": TOPIC}],
        allow_auto_topic_creation=False,
    ),
    _asked(commit(TOPIC), 8, allow("READ", group=GROUP), allow("READ", topic=TOPIC)),
    _probe(
        ApiKey.OFFSET_FETCH,
        8,
        allow("DESCRIBE", group=GROUP),
        groups=[{"group_id": GROUP, "topics": None}],
    ),
    _probe(ApiKey.FIND_COORDINATOR, 4, allow("DESCRIBE", group=GROUP), coordinator_keys=[GROUP]),
    _probe(
        ApiKey.JOIN_GROUP,
        5,
        allow("READ", group=GROUP),
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    ),
    _probe(
        ApiKey.HEARTBEAT,
        3,
        allow("READ", group=GROUP),
        group_id=GROUP,
        generation_id=1,
        member_id="nobody",
    ),
    _probe(
        ApiKey.LEAVE_GROUP,
        4,
        allow("READ", group=GROUP),
        group_id=GROUP,
        members=[{"member_id": "nobody"}],
    ),
    _probe(
        ApiKey.SYNC_GROUP,
        3,
        allow("READ", group=GROUP),
        group_id=GROUP,
        generation_id=1,
        member_id="nobody",
        assignments=[],
    ),
    _probe(ApiKey.DESCRIBE_GROUPS, 5, allow("DESCRIBE", group=GROUP), groups=[GROUP]),
    _probe(
        ApiKey.DELETE_GROUPS,
        2,
        allow("DELETE", group="no-such-group"),
        groups_names=["no-such-group"],
    ),
    _probe(
        ApiKey.OFFSET_DELETE,
        0,
        allow("DELETE", group="no-such-group"),
        allow("READ", topic=TOPIC),
        group_id="no-such-group",
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
    ),
    _probe(
        ApiKey.CREATE_TOPICS,
        7,
        allow("CREATE", topic=TOPIC),
        topics=[
            {
                "name": TOPIC,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
        ],
    ),
    _probe(
        ApiKey.DELETE_TOPICS,
        5,
        allow("DELETE", topic="no-such-topic"),
        topic_names=["no-such-topic"],
        timeout_ms=1000,
    ),
    _probe(
        ApiKey.CREATE_PARTITIONS,
        3,
        allow("ALTER", topic=TOPIC),
        topics=[{"name": TOPIC, "count": 1, "assignments": None}],
        timeout_ms=1000,
        validate_only=True,
    ),
    _probe(
        ApiKey.DELETE_RECORDS,
        2,
        allow("DELETE", topic=TOPIC),
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
        timeout_ms=1000,
    ),
    _probe(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        allow("DESCRIBE", topic=TOPIC),
        replica_id=-1,
        topics=[{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
    ),
    _probe(
        ApiKey.INIT_PRODUCER_ID,
        4,
        allow("WRITE", topic="any", prefixed=True),
        refused={NO_CLUSTER},
        transactional_id=None,
        transaction_timeout_ms=1000,
    ),
    _asked(
        in_transaction(TOPIC, 999_999, 0),
        3,
        allow("WRITE", transactional_id=TXN),
        allow("WRITE", topic=TOPIC),
    ),
    _probe(
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        allow("WRITE", transactional_id=TXN),
        allow("READ", group=GROUP),
        group_id=GROUP,
        **_OF_TXN,
    ),
    _probe(ApiKey.END_TXN, 3, allow("WRITE", transactional_id=TXN), committed=True, **_OF_TXN),
    _probe(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        allow("ALTER", cluster=True),
        markers=[
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [{"name": "no-such-topic", "partition_indexes": [0]}],
                "coordinator_epoch": 0,
            }
        ],
    ),
    _probe(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        allow("WRITE", transactional_id=TXN),
        allow("READ", group=GROUP),
        allow("READ", topic=TOPIC),
        group_id=GROUP,
        topics=[
            {
                "name": TOPIC,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
                ],
            }
        ],
        **_OF_TXN,
    ),
    _probe(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        allow("DESCRIBE_CONFIGS", topic=TOPIC),
        allow("DESCRIBE_CONFIGS", cluster=True),
        allow("DESCRIBE_CONFIGS", group=GROUP),
        refused={NO_TOPIC, NO_CLUSTER, NO_GROUP},
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
            for kind, name in ((2, TOPIC), (4, "1"), (32, GROUP))
        ],
    ),
    _probe(
        ApiKey.ALTER_CONFIGS,
        2,
        allow("ALTER_CONFIGS", topic=TOPIC),
        allow("ALTER_CONFIGS", cluster=True),
        refused={NO_TOPIC, NO_CLUSTER},
        resources=[
            {"resource_type": kind, "resource_name": name, "configs": []}
            for kind, name in ((2, TOPIC), (4, ""))
        ],
        validate_only=True,
    ),
    _probe(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        allow("ALTER_CONFIGS", topic=TOPIC),
        allow("ALTER_CONFIGS", cluster=True),
        allow("ALTER_CONFIGS", group=GROUP),
        refused={NO_TOPIC, NO_CLUSTER, NO_GROUP},
        resources=[
            {"resource_type": kind, "resource_name": name, "configs": []}
            for kind, name in ((2, TOPIC), (4, ""), (32, GROUP))
        ],
        validate_only=True,
    ),
    _probe(ApiKey.LIST_CONFIG_RESOURCES, 1, allow("DESCRIBE_CONFIGS", cluster=True)),
    _probe(
        ApiKey.ELECT_LEADERS,
        2,
        allow("ALTER", cluster=True),
        topic_partitions=[{"topic": TOPIC, "partitions": [0]}],
    ),
    _probe(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        allow("ALTER", cluster=True),
        dirs=[{"path": "/no/such", "topics": [{"name": TOPIC, "partitions": [0]}]}],
    ),
    _probe(ApiKey.DESCRIBE_LOG_DIRS, 4, allow("DESCRIBE", cluster=True), topics=None),
    _probe(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, allow("ALTER", cluster=True), topics=[]),
    _probe(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, allow("DESCRIBE", cluster=True)),
    _probe(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        allow("READ", topic=TOPIC),
        topics=[{"name": TOPIC, "partition_indexes": [0]}],
    ),
    _probe(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        allow("DESCRIBE", transactional_id=TXN),
        transactional_ids=[TXN],
    ),
    _probe(ApiKey.DESCRIBE_QUORUM, 0, allow("DESCRIBE", cluster=True), topics=[]),
    _probe(ApiKey.UNREGISTER_BROKER, 0, allow("ALTER", cluster=True), broker_id=99),
    _probe(
        ApiKey.ADD_RAFT_VOTER,
        0,
        allow("ALTER", cluster=True),
        voter_id=9,
        listeners=[],
        timeout_ms=1000,
        **_VOTER,
    ),
    _probe(ApiKey.REMOVE_RAFT_VOTER, 0, allow("ALTER", cluster=True), voter_id=9, **_VOTER),
    _probe(
        ApiKey.UPDATE_FEATURES,
        1,
        allow("ALTER", cluster=True),
        feature_updates=[],
        validate_only=True,
    ),
    _probe(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        allow("DESCRIBE", topic=TOPIC),
        topics=[{"name": TOPIC}],
    ),
    _probe(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        allow("READ", group="another-group"),
        group_id="another-group",
        member_id="nobody",
        member_epoch=7,
    ),
    _probe(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        allow("DESCRIBE", group="another-group"),
        group_ids=["another-group"],
        include_authorized_operations=False,
    ),
    _probe(ApiKey.DESCRIBE_ACLS, 2, allow("DESCRIBE", cluster=True), **ANY_ACL),
    _asked(
        security.CreateAclsRequest(creations=[creation(allow("ALTER", cluster=True))]),
        2,
        allow("ALTER", cluster=True),
    ),
    _probe(ApiKey.DELETE_ACLS, 2, allow("ALTER", cluster=True), filters=[{**ANY_ACL}]),
    _probe(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        allow("DESCRIBE_CONFIGS", cluster=True),
        components=[],
        strict=False,
    ),
    _probe(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        allow("ALTER_CONFIGS", cluster=True),
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "nobody"}],
                "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
            }
        ],
        validate_only=True,
    ),
    _probe(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, allow("DESCRIBE", cluster=True), users=[]),
    _probe(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        allow("ALTER", cluster=True),
        deletions=[{"name": "nobody", "mechanism": 1}],
        upsertions=[],
    ),
)
PROBES: Final = {probe.api: probe for probe in _ALL}
