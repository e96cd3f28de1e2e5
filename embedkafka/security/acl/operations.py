"""Operations on resources, numbered as on the wire, and their bit fields."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ResourceType(IntEnum):
    """What an ACL can be about; `ANY` appears in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What an ACL allows or denies; `ANY` appears in filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only cluster."""

_Op = AclOperation

SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        _Op.READ,
        _Op.WRITE,
        _Op.CREATE,
        _Op.DELETE,
        _Op.ALTER,
        _Op.DESCRIBE,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        _Op.READ,
        _Op.DELETE,
        _Op.DESCRIBE,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        _Op.CREATE,
        _Op.ALTER,
        _Op.DESCRIBE,
        _Op.CLUSTER_ACTION,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
        _Op.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_Op.WRITE, _Op.DESCRIBE, _Op.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_Op.DESCRIBE,),
    ResourceType.USER: (_Op.CREATE_TOKENS, _Op.DESCRIBE_TOKENS),
}
"""The operations that mean something on a resource; "authorized operations" lists these."""


def _bits(kind: ResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED_OPERATIONS[kind])


TOPIC_OPERATIONS: Final = _bits(ResourceType.TOPIC)
"""All "authorized operations" of a topic: what everyone may do without an authorizer."""

GROUP_OPERATIONS: Final = _bits(ResourceType.GROUP)
CLUSTER_OPERATIONS: Final = _bits(ResourceType.CLUSTER)
