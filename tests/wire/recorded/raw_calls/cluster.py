"""The cluster, its features and quorum; ACLs and tokens where security is off."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import NO_ID, TOPIC, Call, call


def _describe(versions: range | None = None, **more: Plain) -> Call:
    fields = {"include_cluster_authorized_operations": False, **more}
    return call(ApiKey.DESCRIBE_CLUSTER, versions, **fields)


NODE: Final[Mapping[str, Call]] = {
    "cluster: brokers": _describe(),
    "cluster: operations": _describe(include_cluster_authorized_operations=True),
    "cluster: fenced": _describe(range(2, 3), include_fenced_brokers=True),
    "cluster: controllers": _describe(range(1, 3), endpoint_type=2),
    "cluster: fenced controllers": _describe(
        range(2, 3), endpoint_type=2, include_fenced_brokers=True
    ),
    "cluster: type 0": _describe(range(1, 3), endpoint_type=0),
    "cluster: type 9": _describe(range(1, 3), endpoint_type=9),
    "versions: nameless": call(
        ApiKey.API_VERSIONS, range(3, 5), client_software_name="", client_software_version=""
    ),
    "versions: bad name": call(
        ApiKey.API_VERSIONS, range(3, 5), client_software_name="-a b", client_software_version="1"
    ),
    "unregister: missing": call(ApiKey.UNREGISTER_BROKER, broker_id=99),
    "unregister: negative": call(ApiKey.UNREGISTER_BROKER, broker_id=-1),
}


def _update(*features: Plain, versions: range | None = None, validate_only: bool = True) -> Call:
    more = {"validate_only": validate_only} if versions is None else {}
    return call(
        ApiKey.UPDATE_FEATURES,
        versions or range(1, 3),
        timeout_ms=9000,
        feature_updates=list(features),
        **more,
    )


def _to(name: str, level: int, kind: int = 1) -> Plain:
    return {"feature": name, "max_version_level": level, "upgrade_type": kind}


FEATURES: Final[Mapping[str, Call]] = {
    "features: unknown": _update(_to("made.up", 1)),
    "features: unknown, disabled": _update(_to("made.up", 0, 2)),
    "features: unknown and known": _update(_to("group.version", 1), _to("made.up", 1)),
    "features: as they are": _update(_to("group.version", 1), _to("transaction.version", 2)),
    "features: as they are, version 0": _update(
        _to("group.version", 1), _to("transaction.version", 2), versions=range(1)
    ),
    "features: unknown, version 0": _update(
        _to("group.version", 1), _to("made.up", 1), versions=range(1)
    ),
    "features: lower transactions called higher": _update(_to("transaction.version", 1)),
    "features: lower transactions, kind 0": _update(_to("transaction.version", 1, 0)),
    "features: transactions too high": _update(_to("transaction.version", 9)),
    "features: transactions too high for real": _update(
        _to("transaction.version", 9), validate_only=False
    ),
    "features: transactions too high to be lower": _update(_to("transaction.version", 9, 2)),
    "features: negative transactions": _update(_to("transaction.version", -1)),
    "features: nameless": _update(_to("", 1)),
    "features: nothing": _update(),
    "features: twice": _update(_to("metadata.version", 30), _to("metadata.version", 29)),
    "features: same": _update(_to("metadata.version", 30)),
    "features: too high": _update(_to("metadata.version", 999)),
    "features: too low": _update(_to("metadata.version", 1, 2)),
    "features: lower without leave": _update(_to("metadata.version", 29)),
    "features: kind 0": _update(_to("metadata.version", 30, 0)),
    "features: kind 9": _update(_to("metadata.version", 30, 9)),
    "features: negative": _update(_to("metadata.version", -1)),
    "features: zero": _update(_to("metadata.version", 0, 2)),
    "features: two": _update(_to("made.up", 1), _to("metadata.version", 30)),
}


def _quorum(*topics: tuple[str, list[int]]) -> Call:
    return call(
        ApiKey.DESCRIBE_QUORUM,
        topics=[
            {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in topics
        ],
    )


QUORUM: Final[Mapping[str, Call]] = {
    "quorum: of a topic": _quorum((TOPIC, [0])),
    "quorum: second partition": _quorum(("__cluster_metadata", [1])),
    "quorum: two partitions": _quorum(("__cluster_metadata", [0, 1])),
    "quorum: nothing": _quorum(),
    "quorum: no partitions": _quorum(("__cluster_metadata", [])),
    "voter added: elsewhere": call(
        ApiKey.ADD_RAFT_VOTER,
        cluster_id="elsewhere",
        timeout_ms=9000,
        voter_id=9,
        voter_directory_id=NO_ID,
        listeners=[{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
    ),
    "voter added: negative": call(
        ApiKey.ADD_RAFT_VOTER,
        cluster_id=None,
        timeout_ms=9000,
        voter_id=-1,
        voter_directory_id=UUID(int=0),
        listeners=[],
    ),
    "voter removed: elsewhere": call(
        ApiKey.REMOVE_RAFT_VOTER, cluster_id="elsewhere", voter_id=9, voter_directory_id=NO_ID
    ),
    "voter removed: unknown": call(
        ApiKey.REMOVE_RAFT_VOTER, cluster_id=None, voter_id=9, voter_directory_id=NO_ID
    ),
}

ANY: Final[Plain] = {
    "pattern_type_filter": 1,
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
RULE: Final[Plain] = {
    "resource_type": 2,
    "resource_name": "x",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


SECURITY: Final[Mapping[str, Call]] = {
    "acls: all": call(ApiKey.DESCRIBE_ACLS, **ANY),
    "acls: operation 99": call(ApiKey.DESCRIBE_ACLS, **{**ANY, "operation": 99}),
    "acls: operation 0": call(ApiKey.DESCRIBE_ACLS, **{**ANY, "operation": 0}),
    "acls: created": call(ApiKey.CREATE_ACLS, creations=[RULE, RULE]),
    "acls: created for any": call(ApiKey.CREATE_ACLS, creations=[{**RULE, "operation": 1}]),
    "acls: nothing created": call(ApiKey.CREATE_ACLS, creations=[]),
    "acls: deleted": call(ApiKey.DELETE_ACLS, filters=[ANY]),
    "acls: deleted of type 99": call(
        ApiKey.DELETE_ACLS, filters=[{**ANY, "resource_type_filter": 99}]
    ),
    "acls: nothing deleted": call(ApiKey.DELETE_ACLS, filters=[]),
    "tokens: all": call(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None),
    "tokens: nobody's": call(ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=[]),
    "token: created": call(ApiKey.CREATE_DELEGATION_TOKEN, renewers=[], max_lifetime_ms=-1),
    "token: renewed": call(ApiKey.RENEW_DELEGATION_TOKEN, hmac=b"x", renew_period_ms=1),
    "token: expired": call(ApiKey.EXPIRE_DELEGATION_TOKEN, hmac=b"", expiry_time_period_ms=-1),
    "handshake: unknown": call(ApiKey.SASL_HANDSHAKE, mechanism="PLAIN"),
    "handshake: nameless": call(ApiKey.SASL_HANDSHAKE, mechanism=""),
    "authenticate": call(ApiKey.SASL_AUTHENTICATE, auth_bytes=b""),
}

CALLS: Final[Mapping[str, Call]] = {**NODE, **FEATURES, **QUORUM, **SECURITY}
