"""Calls that name what a client may see, what it may not, and what does not exist, in one request.

Every call is made with each of the grants: as a stranger, as one who may do anything to a few
resources, as one who may only look, as a job, as an administrator, and as one who is denied a few.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.security.acl.acls import Acl
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.one_partition import batch
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import (
    GROUP,
    ID,
    MISSING,
    NO_GROUP,
    NO_ID,
    TOPIC,
    Call,
    call,
)
from tests.wire.secured import ANYONE, EVERYTHING

HIDDEN: Final = "raw-hidden"
HIDDEN_ID: Final = UUID(int=2)
"""Stands for the id of `HIDDEN`."""
HIDDEN_GROUP: Final = "raw-hidden-group"
MEMBERS: Final = "raw-members"
"""A group of the new protocol, whose member subscribes to both topics."""
TXN: Final = "raw-txn"
"""An open transaction with a partition of both topics."""
HIDDEN_TXN: Final = "raw-hidden-txn"
NO_TXN: Final = "raw-no-txn"


def _allow(operation: str, **resource: Plain) -> Acl:
    return Acl.allow(ANYONE, operation, **resource)


def _deny(operation: str, **resource: Plain) -> Acl:
    return Acl.deny(ANYONE, operation, **resource)


GRANTS: Final[Mapping[str, Sequence[Acl]]] = {
    "nothing": (),
    "a few resources": (
        _allow("ALL", topic=TOPIC),
        _allow("ALL", group=GROUP),
        _allow("ALL", group=MEMBERS),
        _allow("ALL", transactional_id=TXN),
    ),
    "looking": (
        _allow("DESCRIBE", topic="*"),
        _allow("DESCRIBE", group="*"),
        _allow("DESCRIBE", transactional_id="*"),
        _allow("DESCRIBE", cluster=True),
    ),
    "the rights of a job": (
        _allow("READ", topic="raw-", prefixed=True),
        _allow("WRITE", topic=TOPIC),
        _allow("READ", group="raw-", prefixed=True),
        _allow("WRITE", transactional_id=TXN),
    ),
    "the cluster": (_allow("ALL", cluster=True),),
    "all but a few": (
        *EVERYTHING,
        _deny("DESCRIBE", topic=HIDDEN),
        _deny("READ", topic=TOPIC),
        _deny("DELETE", group=GROUP),
        _deny("DESCRIBE_CONFIGS", topic=TOPIC),
        _deny("DESCRIBE", transactional_id=HIDDEN_TXN),
        _deny("CREATE", cluster=True),
        _deny("CREATE", topic=MISSING),
    ),
}

_NAMES: Final = (TOPIC, HIDDEN, MISSING)
_IDS: Final = (ID, HIDDEN_ID, NO_ID)
_RECORDS: Final = batch(b"a", timestamp=1_700_000_000_000)


def _named(*names: str, field: str = "name", **more: Plain) -> list[Plain]:
    return [{field: name, **more} for name in names or _NAMES]


def _identified(**more: Plain) -> list[Plain]:
    return [{"topic_id": topic_id, **more} for topic_id in _IDS]


def _metadata(versions: range | None, topics: list[Plain] | None, **more: Plain) -> Call:
    return call(ApiKey.METADATA, versions, topics=topics, **more)


_QUIETLY: Final[Mapping[str, Plain]] = {"allow_auto_topic_creation": False}
_WITH_OPERATIONS: Final[Mapping[str, Plain]] = {"include_topic_authorized_operations": True}

SEEING: Final[Mapping[str, Call]] = {
    "metadata of all": _metadata(range(1, 14), None),
    "metadata of all, operations": _metadata(range(8, 14), None, **_WITH_OPERATIONS),
    "metadata by name": _metadata(range(4, 14), _named(), **_QUIETLY),
    "metadata by name, operations": _metadata(
        range(8, 14), _named(), **_QUIETLY, **_WITH_OPERATIONS
    ),
    "metadata by id, operations": _metadata(
        range(12, 14),
        [{"name": None, **one} for one in _identified()],
        **_QUIETLY,
        **_WITH_OPERATIONS,
    ),
    "metadata of bad names": _metadata(
        range(4, 14), _named("a b", "", TOPIC, TOPIC, HIDDEN, HIDDEN), **_QUIETLY
    ),
    "metadata, cluster operations": _metadata(
        range(8, 11), [], include_cluster_authorized_operations=True
    ),
    "pages of all": call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[]),
    "pages by name": call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=_named()),
    "pages from hidden on": call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[],
        cursor={"topic_name": HIDDEN, "partition_index": 0},
    ),
    "pages of one": call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=_named(), response_partition_limit=1
    ),
    "cluster": call(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True),
    "cluster of controllers": call(
        ApiKey.DESCRIBE_CLUSTER,
        range(1, 3),
        include_cluster_authorized_operations=True,
        endpoint_type=2,
    ),
}


def _produce(versions: range, topics: list[Plain], **more: Plain) -> Call:
    return call(
        ApiKey.PRODUCE, versions, **{"acks": 1, "timeout_ms": 9000, "topic_data": topics, **more}
    )


def _written(records: bytes = _RECORDS, index: int = 0) -> dict[str, Plain]:
    return {"partition_data": [{"index": index, "records": records}]}


def _fetch(versions: range, topics: list[Plain], **more: Plain) -> Call:
    return call(ApiKey.FETCH, versions, max_wait_ms=0, min_bytes=0, topics=topics, **more)


_READ: Final[Mapping[str, Plain]] = {
    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
}
_OFFSETS: Final[Mapping[str, Plain]] = {"partitions": [{"partition_index": 0, "timestamp": -2}]}
_TRANSACTIONAL: Final = batch(
    b"a",
    timestamp=1_700_000_000_000,
    producer_id=77,
    producer_epoch=3,
    base_sequence=0,
    transactional=True,
)

RECORDS: Final[Mapping[str, Call]] = {
    "produce to a missing partition": _produce(range(3, 13), _named(**_written(index=9))),
    "produce by id": _produce(range(13, 14), _identified(**_written(index=9))),
    "produce no records": _produce(range(9, 13), _named(TOPIC, HIDDEN, **_written(b""))),
    "produce with acks 2": _produce(range(9, 13), _named(TOPIC, HIDDEN, **_written()), acks=2),
    "produce in a transaction": _produce(
        range(3, 13), _named(**_written(_TRANSACTIONAL)), transactional_id=NO_TXN
    ),
    "produce in a hidden transaction": _produce(
        range(3, 13), _named(**_written(_TRANSACTIONAL)), transactional_id=HIDDEN_TXN
    ),
    "produce with an idle transactional id": _produce(
        range(9, 13), _named(**_written(index=9)), transactional_id=HIDDEN_TXN
    ),
    "fetch by name": _fetch(range(4, 13), _named(field="topic", **_READ)),
    "fetch by id": _fetch(range(13, 18), _identified(**_READ)),
    "offsets": call(ApiKey.LIST_OFFSETS, range(1, 11), replica_id=-1, topics=_named(**_OFFSETS)),
    "offsets of a replica": call(
        ApiKey.LIST_OFFSETS, range(1, 11), replica_id=2, topics=_named(**_OFFSETS)
    ),
    "offsets twice": call(
        ApiKey.LIST_OFFSETS,
        range(1, 11),
        replica_id=-1,
        topics=_named(TOPIC, TOPIC, HIDDEN, HIDDEN, **_OFFSETS),
    ),
    "epochs": call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        range(2, 5),
        replica_id=-1,
        topics=_named(field="topic", partitions=[{"partition": 0, "leader_epoch": 0}]),
    ),
    "epochs of a replica": call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        range(3, 5),
        replica_id=2,
        topics=_named(field="topic", partitions=[{"partition": 0, "leader_epoch": 0}]),
    ),
    "delete records": call(
        ApiKey.DELETE_RECORDS,
        timeout_ms=9000,
        topics=_named(partitions=[{"partition_index": 0, "offset": 0}]),
    ),
    "producers": call(ApiKey.DESCRIBE_PRODUCERS, topics=_named(partition_indexes=[0])),
}


def _wanted(name: str, **more: Plain) -> Plain:
    return {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
        **more,
    }


def _create(*topics: Plain) -> Call:
    return call(
        ApiKey.CREATE_TOPICS,
        range(2, 8),
        topics=list(topics),
        timeout_ms=9000,
        validate_only=True,
    )


def _delete(*names: str) -> Call:
    return call(ApiKey.DELETE_TOPICS, range(1, 6), topic_names=list(names), timeout_ms=9000)


def _delete_by(*topics: Plain) -> Call:
    return call(
        ApiKey.DELETE_TOPICS,
        range(6, 7),
        topics=[{"topic_id": ZERO_UUID, **topic} for topic in topics],
        timeout_ms=9000,
    )


def _grow(*names: str, count: int = 1) -> Call:
    return call(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"name": name, "count": count, "assignments": None} for name in names],
        timeout_ms=9000,
        validate_only=True,
    )


TOPICS: Final[Mapping[str, Call]] = {
    "create": _create(_wanted(TOPIC), _wanted(HIDDEN), _wanted(MISSING)),
    "create with settings": _create(
        _wanted("raw-new", configs=[{"name": "retention.ms", "value": "9"}])
    ),
    "create badly": _create(
        _wanted("a b"),
        _wanted(""),
        _wanted("raw-a", replication_factor=9),
        _wanted("raw-b", configs=[{"name": "made.up", "value": "9"}]),
    ),
    "create twice": _create(_wanted(MISSING), _wanted(MISSING), _wanted("raw-c")),
    "create the metadata log": _create(_wanted("__cluster_metadata"), _wanted("raw-c")),
    "delete a missing one": _delete(MISSING),
    "delete twice": _delete(MISSING, MISSING),
    "delete by name": _delete_by({"name": MISSING}, {"name": "a b"}),
    "delete by unknown id": _delete_by({"name": None, "topic_id": NO_ID}),
    "delete by name twice": _delete_by({"name": MISSING}, {"name": MISSING}),
    "delete by both": _delete_by({"name": HIDDEN, "topic_id": HIDDEN_ID}),
    "delete by neither": _delete_by({"name": None}),
    "grow": _grow(TOPIC, HIDDEN, MISSING),
    "grow twice": _grow(TOPIC, TOPIC, HIDDEN, HIDDEN, MISSING, count=9),
}

_COMMITTED: Final[Mapping[str, Plain]] = {
    "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
}


def _commit(versions: range, topics: list[Plain], group: str = GROUP, **more: Plain) -> Call:
    return call(ApiKey.OFFSET_COMMIT, versions, group_id=group, topics=topics, **more)


def _committed(versions: range, *groups: Plain) -> Call:
    return call(ApiKey.OFFSET_FETCH, versions, groups=list(groups))


def _group(name: str, topics: list[Plain] | None) -> Plain:
    return {"group_id": name, "topics": topics}


OFFSETS: Final[Mapping[str, Call]] = {
    "commit": _commit(range(2, 10), _named(**_COMMITTED)),
    "commit by id": _commit(range(10, 11), _identified(**_COMMITTED)),
    "commit of a hidden group": _commit(range(2, 10), _named(**_COMMITTED), HIDDEN_GROUP),
    "commit of no member": _commit(
        range(2, 10),
        _named(**_COMMITTED),
        generation_id_or_member_epoch=3,
        member_id="m",
    ),
    "committed": call(
        ApiKey.OFFSET_FETCH, range(1, 8), group_id=GROUP, topics=_named(partition_indexes=[0, 9])
    ),
    "committed of all": call(ApiKey.OFFSET_FETCH, range(2, 8), group_id=GROUP, topics=None),
    "committed of a hidden group": call(
        ApiKey.OFFSET_FETCH,
        range(1, 8),
        group_id=HIDDEN_GROUP,
        topics=_named(partition_indexes=[0]),
    ),
    "committed of groups": _committed(
        range(8, 10),
        _group(GROUP, _named(partition_indexes=[0])),
        _group(HIDDEN_GROUP, None),
        _group(NO_GROUP, None),
    ),
    "committed of groups by id": _committed(
        range(10, 11),
        _group(GROUP, _identified(partition_indexes=[0])),
        _group(HIDDEN_GROUP, None),
    ),
    "forget": call(
        ApiKey.OFFSET_DELETE,
        group_id=NO_GROUP,
        topics=_named(partitions=[{"partition_index": 0}]),
    ),
    "forget of a group": call(
        ApiKey.OFFSET_DELETE,
        group_id=GROUP,
        topics=_named(HIDDEN, MISSING, partitions=[{"partition_index": 7}]),
    ),
}

GROUPS: Final[Mapping[str, Call]] = {
    "coordinator": call(ApiKey.FIND_COORDINATOR, range(4), key=HIDDEN_GROUP),
    "coordinators of groups": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), coordinator_keys=[GROUP, HIDDEN_GROUP, ""]
    ),
    "coordinators of transactions": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), key_type=1, coordinator_keys=[TXN, HIDDEN_TXN, ""]
    ),
    "coordinators of nothing": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), key_type=9, coordinator_keys=[GROUP]
    ),
    "join nameless": call(
        ApiKey.JOIN_GROUP,
        group_id="",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    ),
    "join with a bad timeout": call(
        ApiKey.JOIN_GROUP,
        group_id=HIDDEN_GROUP,
        session_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=[],
    ),
    "leave": call(
        ApiKey.LEAVE_GROUP, range(3, 6), group_id=HIDDEN_GROUP, members=[{"member_id": "m"}]
    ),
    "sync": call(
        ApiKey.SYNC_GROUP, group_id=HIDDEN_GROUP, generation_id=1, member_id="m", assignments=[]
    ),
    "beat": call(ApiKey.HEARTBEAT, group_id=HIDDEN_GROUP, generation_id=1, member_id="m"),
    "describe groups": call(
        ApiKey.DESCRIBE_GROUPS,
        range(3, 7),
        groups=[GROUP, HIDDEN_GROUP, NO_GROUP, MEMBERS],
        include_authorized_operations=True,
    ),
    "describe new groups": call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        group_ids=[GROUP, NO_GROUP, HIDDEN_GROUP, MEMBERS],
        include_authorized_operations=True,
    ),
    "list groups": call(ApiKey.LIST_GROUPS),
    "list empty groups": call(ApiKey.LIST_GROUPS, range(4, 6), states_filter=["Empty"]),
    "list groups in no state": call(ApiKey.LIST_GROUPS, range(4, 6), states_filter=["Made up"]),
    "delete groups": call(
        ApiKey.DELETE_GROUPS, groups_names=[NO_GROUP, MEMBERS, "raw-other", NO_GROUP]
    ),
    "heartbeat": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id=HIDDEN_GROUP,
        member_id="m",
        member_epoch=7,
    ),
    "heartbeat, nameless": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="", member_id="m", member_epoch=7
    ),
    "heartbeat with topics": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id=MEMBERS,
        member_id="m",
        member_epoch=7,
        subscribed_topic_names=[TOPIC, HIDDEN],
        rebalance_timeout_ms=-5,
    ),
}

_PRODUCER: Final[Mapping[str, Plain]] = {"producer_id": 77, "producer_epoch": 3}


def _added(name: str) -> Call:
    return call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4),
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=77,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=_named(partitions=[0, 9]),
    )


def _txn_offsets(name: str, group: str) -> Call:
    return call(
        ApiKey.TXN_OFFSET_COMMIT,
        range(6),
        transactional_id=name,
        group_id=group,
        topics=_named(**_COMMITTED),
        **_PRODUCER,
    )


TRANSACTIONS: Final[Mapping[str, Call]] = {
    "init badly": call(ApiKey.INIT_PRODUCER_ID, transactional_id=NO_TXN, transaction_timeout_ms=-1),
    "init nameless": call(
        ApiKey.INIT_PRODUCER_ID, transactional_id="", transaction_timeout_ms=1000
    ),
    "init idempotent": call(
        ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout_ms=1000
    ),
    "add": _added(TXN),
    "add to a missing one": _added(NO_TXN),
    "add as a broker": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[
            {
                "transactional_id": name,
                **_PRODUCER,
                "verify_only": True,
                "topics": _named(partitions=[0]),
            }
            for name in (TXN, NO_TXN)
        ],
    ),
    "add offsets": call(
        ApiKey.ADD_OFFSETS_TO_TXN, transactional_id=TXN, group_id=HIDDEN_GROUP, **_PRODUCER
    ),
    "add offsets to a missing one": call(
        ApiKey.ADD_OFFSETS_TO_TXN, transactional_id=NO_TXN, group_id=GROUP, **_PRODUCER
    ),
    "end": call(ApiKey.END_TXN, transactional_id=TXN, committed=True, **_PRODUCER),
    "end a missing one": call(ApiKey.END_TXN, transactional_id=NO_TXN, committed=True, **_PRODUCER),
    "transactional offsets": _txn_offsets(TXN, GROUP),
    "transactional offsets of a hidden group": _txn_offsets(TXN, HIDDEN_GROUP),
    "transactional offsets of a missing one": _txn_offsets(NO_TXN, GROUP),
    "describe transactions": call(
        ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[TXN, HIDDEN_TXN, NO_TXN]
    ),
    "list transactions": call(ApiKey.LIST_TRANSACTIONS, state_filters=[], producer_id_filters=[]),
    "list transactions in no state": call(
        ApiKey.LIST_TRANSACTIONS, state_filters=["Made up"], producer_id_filters=[]
    ),
    "markers": call(
        ApiKey.WRITE_TXN_MARKERS,
        range(1, 2),
        markers=[
            {
                "producer_id": 77,
                "producer_epoch": 3,
                "transaction_result": False,
                "coordinator_epoch": 0,
                "topics": _named(MISSING, partition_indexes=[0, 1]),
            }
        ],
    ),
}


def _resources(*resources: tuple[int, str], **more: Plain) -> list[Plain]:
    return [{"resource_type": kind, "resource_name": name, **more} for kind, name in resources]


_ALL_KINDS: Final = (
    (2, TOPIC),
    (2, HIDDEN),
    (2, MISSING),
    (4, "1"),
    (4, ""),
    (8, "1"),
    (16, "raw-metrics"),
    (32, GROUP),
    (32, HIDDEN_GROUP),
)
_BAD: Final = ((2, "a b"), (2, ""), (4, "x"), (32, ""))
_UNKNOWN: Final = (99, "x")


def _describe_configs(*resources: tuple[int, str]) -> Call:
    keys = ["retention.ms", "log.retention.ms", "interval.ms", "consumer.session.timeout.ms", "x"]
    return call(ApiKey.DESCRIBE_CONFIGS, resources=_resources(*resources, configuration_keys=keys))


def _alter_configs(*resources: tuple[int, str]) -> Call:
    return call(
        ApiKey.ALTER_CONFIGS,
        resources=_resources(*resources, configs=[{"name": "made.up", "value": "1"}]),
        validate_only=True,
    )


def _change_configs(*resources: tuple[int, str], operation: int = 0) -> Call:
    change = {"name": "made.up", "config_operation": operation, "value": "1"}
    return call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=_resources(*resources, configs=[change]),
        validate_only=True,
    )


CONFIGS: Final[Mapping[str, Call]] = {
    "configs": _describe_configs(*_ALL_KINDS),
    "configs of bad names": _describe_configs(*_BAD),
    "configs of an unknown kind": _describe_configs(*_BAD, _UNKNOWN),
    "configs twice": _describe_configs((2, HIDDEN), (2, HIDDEN), (4, "1"), (4, "1")),
    "alter configs": _alter_configs((2, TOPIC), (2, HIDDEN), (2, MISSING), (4, "1")),
    "change configs": _change_configs(*_ALL_KINDS),
    "change configs badly": _change_configs(*_BAD, _UNKNOWN),
    "change configs twice": _change_configs((2, HIDDEN), (2, HIDDEN), (2, MISSING)),
    "append to configs": _change_configs((2, HIDDEN), (32, HIDDEN_GROUP), operation=2),
    "list config resources": call(ApiKey.LIST_CONFIG_RESOURCES),
    "list config resources of a kind": call(
        ApiKey.LIST_CONFIG_RESOURCES, range(1, 2), resource_types=[2, 99]
    ),
}

_FILTER: Final[Mapping[str, Plain]] = {
    "resource_name_filter": "no such",
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_NEW_ACL: Final[Mapping[str, Plain]] = {
    "resource_type": 2,
    "resource_name": "x",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_SCRAM: Final[Mapping[str, Plain]] = {
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"s",
    "salted_password": b"p",
}

CLUSTER: Final[Mapping[str, Call]] = {
    "acls": call(ApiKey.DESCRIBE_ACLS, resource_type_filter=2, **_FILTER),
    "acls of an unknown kind": call(ApiKey.DESCRIBE_ACLS, resource_type_filter=99, **_FILTER),
    "create a bad acl": call(
        ApiKey.CREATE_ACLS,
        creations=[{**_NEW_ACL, "resource_name": ""}, {**_NEW_ACL, "resource_type": 99}],
    ),
    "create a nameless acl": call(
        ApiKey.CREATE_ACLS, creations=[{**_NEW_ACL, "principal": "nobody"}]
    ),
    "delete acls": call(
        ApiKey.DELETE_ACLS,
        filters=[{"resource_type_filter": 2, **_FILTER}, {"resource_type_filter": 5, **_FILTER}],
    ),
    "quotas": call(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=[], strict=False),
    "quotas of nothing": call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[{"entity_type": "made up", "match_type": 0, "match": "x"}],
        strict=False,
    ),
    "alter quotas": call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": "x"}],
                "ops": [{"key": "made up", "value": 1.0, "remove": False}],
            }
            for kind in ("user", "made up")
        ],
        validate_only=True,
    ),
    "credentials": call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[{"name": "nobody"}, {"name": "nobody"}]
    ),
    "alter credentials": call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        deletions=[{"name": "nobody", "mechanism": 1}, {"name": "", "mechanism": 9}],
        upsertions=[{"name": "nobody", **_SCRAM}, {"name": "other", **_SCRAM, "iterations": 1}],
    ),
    "elect": call(
        ApiKey.ELECT_LEADERS,
        range(1, 3),
        election_type=0,
        timeout_ms=9000,
        topic_partitions=_named(field="topic", partitions=[0, 9]),
    ),
    "elect badly": call(
        ApiKey.ELECT_LEADERS,
        range(1, 3),
        election_type=9,
        timeout_ms=9000,
        topic_partitions=_named(field="topic", partitions=[0]),
    ),
    "move": call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        timeout_ms=9000,
        topics=_named(HIDDEN, MISSING, partitions=[{"partition_index": 0, "replicas": [99]}]),
    ),
    "moves": call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        timeout_ms=9000,
        topics=_named(partition_indexes=[0]),
    ),
    "move directories": call(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        dirs=[{"path": "/no/such", "topics": _named(MISSING, partitions=[0])}],
    ),
    "directories": call(
        ApiKey.DESCRIBE_LOG_DIRS, topics=_named(MISSING, field="topic", partitions=[0])
    ),
    "quorum": call(
        ApiKey.DESCRIBE_QUORUM,
        topics=[{"topic_name": "x", "partitions": [{"partition_index": 0}]}],
    ),
    "unregister": call(ApiKey.UNREGISTER_BROKER, broker_id=99),
    "features": call(
        ApiKey.UPDATE_FEATURES,
        range(1, 3),
        timeout_ms=9000,
        feature_updates=[{"feature": "made.up", "max_version_level": 1, "upgrade_type": 1}],
        validate_only=True,
    ),
    "tokens": call(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None),
}


def _offsets(timestamp: int, *names: str, **more: Plain) -> Call:
    partition = {"partition_index": 0, "timestamp": timestamp}
    topics = _named(*names, partitions=[partition])
    return call(ApiKey.LIST_OFFSETS, range(2, 11), replica_id=-1, topics=topics, **more)


def _acl_filter(**more: Plain) -> dict[str, Plain]:
    return {"resource_type_filter": 2, **_FILTER, **more}


def _read_badly(*names: str) -> list[Plain]:
    return _named(*names, field="topic", **_READ)


#: Values of small sets that have no meaning, on resources that a client may see or may not.
NO_MEANING: Final[Mapping[str, Call]] = {
    "fetch with an unknown isolation": _fetch(range(4, 13), _read_badly(), isolation_level=7),
    "fetch hidden with an unknown isolation": _fetch(
        range(4, 13), _read_badly(HIDDEN), isolation_level=7
    ),
    "fetch missing with an unknown isolation": _fetch(
        range(4, 13), _read_badly(MISSING), isolation_level=7
    ),
    "fetch by id with an unknown isolation": _fetch(
        range(13, 18), _identified(**_READ), isolation_level=7
    ),
    "fetch hidden by id with an unknown isolation": _fetch(
        range(13, 18), [{"topic_id": HIDDEN_ID, **_READ}], isolation_level=-1
    ),
    "fetch as a replica with an unknown isolation": _fetch(
        range(4, 13), _read_badly(TOPIC, HIDDEN), isolation_level=7, replica_id=2
    ),
    "fetch nothing with an unknown isolation": _fetch(range(4, 18), [], isolation_level=7),
    "fetch in no session with an unknown isolation": _fetch(
        range(7, 13), _read_badly(TOPIC), isolation_level=7, session_id=9, session_epoch=9
    ),
    "offsets with an unknown isolation": _offsets(-2, isolation_level=7),
    "offsets of hidden with an unknown isolation": _offsets(-2, HIDDEN, isolation_level=7),
    "offsets of missing with an unknown isolation": _offsets(-2, MISSING, isolation_level=7),
    "offsets of an unknown time": _offsets(-9),
    "produce to hidden with acks -7": _produce(
        range(9, 13), _named(HIDDEN, **_written(index=9)), acks=-7
    ),
    "coordinator of nothing": call(
        ApiKey.FIND_COORDINATOR, range(1, 4), key_type=9, key=HIDDEN_GROUP
    ),
    "cluster of nothing": call(
        ApiKey.DESCRIBE_CLUSTER,
        range(1, 3),
        include_cluster_authorized_operations=True,
        endpoint_type=9,
    ),
    "delete records before the start": call(
        ApiKey.DELETE_RECORDS,
        timeout_ms=9000,
        topics=_named(partitions=[{"partition_index": 0, "offset": -5}]),
    ),
    "alter configs of an unknown kind": _alter_configs((2, HIDDEN), _UNKNOWN),
    "change configs in an unknown way": _change_configs((2, HIDDEN), (2, MISSING), operation=9),
    "change configs of a group in an unknown way": _change_configs((32, HIDDEN_GROUP), operation=9),
    "acls with an unknown operation": call(ApiKey.DESCRIBE_ACLS, **_acl_filter(operation=99)),
    "acls with an unknown permission": call(
        ApiKey.DESCRIBE_ACLS, **_acl_filter(permission_type=99)
    ),
    "acls with an unknown pattern": call(
        ApiKey.DESCRIBE_ACLS, range(1, 4), **_acl_filter(pattern_type_filter=99)
    ),
    "create acls without meaning": call(
        ApiKey.CREATE_ACLS,
        range(1, 4),
        creations=[
            {**_NEW_ACL, "operation": 99},
            {**_NEW_ACL, "permission_type": 99},
            {**_NEW_ACL, "resource_pattern_type": 99},
            {**_NEW_ACL, "operation": 1},
            {**_NEW_ACL, "permission_type": 1},
            {**_NEW_ACL, "resource_pattern_type": 2},
        ],
    ),
    "delete acls with an unknown operation": call(
        ApiKey.DELETE_ACLS, filters=[_acl_filter(operation=99)]
    ),
    "delete acls with an unknown pattern": call(
        ApiKey.DELETE_ACLS, range(1, 4), filters=[_acl_filter(pattern_type_filter=99)]
    ),
    "quotas that match in an unknown way": call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[{"entity_type": "user", "match_type": 9, "match": "x"}],
        strict=False,
    ),
    "features in an unknown way": call(
        ApiKey.UPDATE_FEATURES,
        range(1, 3),
        timeout_ms=9000,
        feature_updates=[{"feature": "made.up", "max_version_level": 1, "upgrade_type": 9}],
        validate_only=True,
    ),
    "list groups of no type": call(ApiKey.LIST_GROUPS, range(5, 6), types_filter=["Made up"]),
    "list transactions of a bad pattern": call(
        ApiKey.LIST_TRANSACTIONS,
        range(2, 3),
        state_filters=[],
        producer_id_filters=[],
        transactional_id_pattern="(",
    ),
    "heartbeat with an unknown assignor": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id=HIDDEN_GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=9000,
        subscribed_topic_names=[HIDDEN],
        server_assignor="made up",
        topic_partitions=[],
    ),
    "heartbeat with a bad pattern": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        range(1, 2),
        group_id=MEMBERS,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=9000,
        subscribed_topic_names=[HIDDEN],
        subscribed_topic_regex="(",
        topic_partitions=[],
    ),
    "elect in an unknown way": call(
        ApiKey.ELECT_LEADERS, range(1, 3), election_type=9, timeout_ms=9000, topic_partitions=None
    ),
    "pages from a negative partition": call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=_named(),
        cursor={"topic_name": HIDDEN, "partition_index": -1},
    ),
}

CALLS: Final[Mapping[str, Call]] = {
    **SEEING,
    **RECORDS,
    **TOPICS,
    **OFFSETS,
    **GROUPS,
    **TRANSACTIONS,
    **CONFIGS,
    **CLUSTER,
    **NO_MEANING,
}
