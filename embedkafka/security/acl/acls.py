"""Access control lists: one entry is an `Acl`, numbered and named as on Kafka's wire."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

from embedkafka.runtime.arguments import require_text, shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import NamedTuple, dataclass, replace
from embedkafka.security.acl.operations import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    ResourceType,
)
from embedkafka.security.principals import USER

WILDCARD: Final = "*"
"""Any host; as the name of a literal pattern, any resource."""

ANYONE: Final = f"{USER}:{WILDCARD}"


class PatternType(IntEnum):
    """`MATCH` and `ANY` appear in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL allows or denies; `ANY` appears in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """What an ACL is about: one resource, all of a type, or those whose names begin alike."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"{self.resource_type.name} {self.pattern_type.name} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Allows or denies one operation on a resource to a principal that connects from a host.

    `Acl.allow("job", "READ", topic="orders")` and `Acl.deny` are the short forms.
    """

    principal: str
    operation: AclOperation
    resource: ResourcePattern
    permission: PermissionType = PermissionType.ALLOW
    host: str = WILDCARD

    @classmethod
    def allow(
        cls,
        user: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        delegation_token: str | None = None,
        of_user: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = WILDCARD,
    ) -> "Acl":
        """`user` may do `operation` (such as READ, or ALL) on one resource.

        `"*"` means every user, or every resource. With `prefixed`, the name is the beginning of
        the names that are meant.
        """
        names = {
            ResourceType.TOPIC: topic,
            ResourceType.GROUP: group,
            ResourceType.TRANSACTIONAL_ID: transactional_id,
            ResourceType.DELEGATION_TOKEN: delegation_token,
            ResourceType.USER: (
                of_user if of_user in (None, "", WILDCARD) else _principal("of_user", of_user)
            ),
            ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
        }
        resource = _only_resource(names, prefixed=prefixed)
        return cls(
            principal=_principal("user", user),
            operation=_operation(operation, resource.resource_type),
            resource=resource,
            host=require_text("host", host, refusal=ConfigError),
        )

    @classmethod
    def deny(
        cls,
        user: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        delegation_token: str | None = None,
        of_user: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = WILDCARD,
    ) -> "Acl":
        """The opposite of `allow`, and stronger: a denial wins over every permission."""
        allowed = cls.allow(
            user,
            operation,
            topic=topic,
            group=group,
            transactional_id=transactional_id,
            delegation_token=delegation_token,
            of_user=of_user,
            cluster=cluster,
            prefixed=prefixed,
            host=host,
        )
        return replace(allowed, permission=PermissionType.DENY)

    def __str__(self) -> str:
        return (
            f"{self.principal} from {self.host}: {self.permission.name} {self.operation.name} on "
            f"{self.resource}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs a request means; None and `ANY` match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    def find_unknown(self) -> str | None:
        """Which part of the request used a number that no enumeration has, in Kafka's words."""
        if 0 in (self.resource_type, self.pattern_type):
            return "patternFilter"
        return "entryFilter" if 0 in (self.operation, self.permission) else None

    def matches(self, acl: Acl) -> bool:
        return (
            self.matches_resource(acl.resource)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
        )

    def matches_resource(self, resource: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, resource.resource_type):
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or _applies(resource, self.name)
        if self.pattern_type not in (PatternType.ANY, resource.pattern_type):
            return False
        return self.name in (None, resource.name)


_E = TypeVar("_E", ResourceType, PatternType, AclOperation, PermissionType)


def known(enumeration: type[_E], number: int) -> _E:
    """The member with this number; `UNKNOWN` if there is none, as Kafka reads it."""
    try:
        return enumeration(number)
    except ValueError:
        return enumeration(0)


def _applies(resource: ResourcePattern, name: str) -> bool:
    """Whether the pattern is about the resource called `name`."""
    if resource.pattern_type is PatternType.PREFIXED:
        return name.startswith(resource.name)
    return resource.name in (name, WILDCARD)


def _principal(name: str, value: object) -> str:
    user = require_text(name, value, refusal=ConfigError)
    return user if user.startswith(f"{USER}:") else f"{USER}:{user}"


def _only_resource(names: Mapping[ResourceType, str | None], *, prefixed: bool) -> ResourcePattern:
    given = [(kind, name) for kind, name in names.items() if name is not None]
    if len(given) != 1:
        raise ConfigError(
            "an ACL is about one resource: give topic=, group=, transactional_id=, "
            f"delegation_token=, of_user= or cluster=True, not {len(given)} of them"
        )
    ((kind, name),) = given
    if name == "":
        raise ConfigError(f"the {kind.name} of an ACL needs a name; '*' means every one")
    if "/" in require_text(f"the {kind.name} of an ACL", name, refusal=ConfigError):
        raise ConfigError(f"{name!r} contains a slash, which Kafka's ACL znodes cannot hold")
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return ResourcePattern(kind, name, pattern)


def _operation(name: str, kind: ResourceType) -> AclOperation:
    supported = (AclOperation.ALL, *SUPPORTED_OPERATIONS[kind])
    wanted = require_text("operation", name, refusal=ConfigError).upper().replace(" ", "_")
    for operation in supported:
        if operation.name == wanted:
            return operation
    listed = ", ".join(operation.name for operation in supported)
    raise ConfigError(f"{shown(name)} is no operation on a {kind.name}: use {listed}")
