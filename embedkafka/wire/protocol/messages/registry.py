"""Finds the message classes of an API, and imports a family only when it is needed."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import schema_of

FAMILIES: Final[Mapping[str, tuple[ApiKey, ...]]] = {
    "core": (
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ),
    "topics": (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
    ),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    ),
    "groups": (
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
    ),
    "consumer_groups": (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    ),
    "transactions": (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "security": (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
    "quorum": (
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    ),
    "brokers": (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    ),
}
"""Every API that has messages, by the module that declares them."""

_FAMILY_OF: Final[Mapping[int, str]] = {
    api: family for family, apis in FAMILIES.items() for api in apis
}


@cache
def request_type(api_key: int) -> type[Any]:  # Any: a different class for each key
    """The request class of an API; `KeyError` if we have no messages for it."""
    return _message_type(api_key, "Request")


@cache
def response_type(api_key: int) -> type[Any]:  # Any: as above
    """The response class of an API; `KeyError` if we have no messages for it."""
    return _message_type(api_key, "Response")


def versions(cls: type[Any]) -> tuple[int, int]:  # Any: any message class
    """The first and last version of a message."""
    return schema_of(cls).versions


def _message_type(api_key: int, kind: str) -> type[Any]:  # Any: as above
    module = import_module(f"embedkafka.wire.protocol.messages.{_FAMILY_OF[api_key]}")
    name = ApiKey(api_key).name.title().replace("_", "") + kind
    cls: type[Any] = getattr(module, name)
    return cls
