"""Decides from a set of ACLs, as Kafka's authorizers do: no state, no clock, no store.

Owner: none; an index never changes. Its memo of decisions may be filled by any thread.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.security.acl.acls import (
    ANYONE,
    WILDCARD,
    Acl,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from embedkafka.security.acl.operations import AclOperation, ResourceType

_Op = AclOperation

IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    _Op.DESCRIBE: frozenset({_Op.DESCRIBE, _Op.READ, _Op.WRITE, _Op.DELETE, _Op.ALTER, _Op.ALL}),
    _Op.DESCRIBE_CONFIGS: frozenset({_Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS, _Op.ALL}),
}
"""Permissions that include another one. A denial denies only its own operation."""

_MEMO_SIZE: Final = 10_000

Question = tuple[str, str, AclOperation, ResourceType, str]
"""Principal, host, operation, type and name of the resource."""


class AclIndex:
    """ACLs by resource pattern, and what they decide."""

    def __init__(
        self, resources: Mapping[ResourcePattern, frozenset[Acl]], *, allow_if_none: bool = False
    ) -> None:
        """`allow_if_none` is `allow.everyone.if.no.acl.found`."""
        self.resources = resources
        self._allow_if_none = allow_if_none
        self._longest_prefix = max(
            (len(r.name) for r in resources if r.pattern_type is PatternType.PREFIXED), default=0
        )
        self._memo: dict[Question, bool] = {}

    def with_resource(self, resource: ResourcePattern, acls: frozenset[Acl]) -> "AclIndex":
        """An index in which `acls` are all that there are for `resource`."""
        resources = {r: known for r, known in self.resources.items() if r != resource}
        if acls:
            resources[resource] = acls
        return AclIndex(resources, allow_if_none=self._allow_if_none)

    def acls(self) -> Iterable[Acl]:
        for acls in self.resources.values():
            yield from acls

    def allows(self, question: Question) -> bool:
        """Whether the principal may do it. A denial wins; without any ACL, the setting decides."""
        answer = self._memo.get(question)
        if answer is None:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            answer = self._memo[question] = self._decide(question)
        return answer

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Whether the principal may do it to at least one resource of this type (KIP-679)."""
        own = [
            acl
            for resource, acls in self.resources.items()
            if resource.resource_type is kind
            for acl in acls
            if acl.operation in (operation, AclOperation.ALL) and _concerns(acl, principal, host)
        ]
        denied = {acl.resource for acl in own if acl.permission is PermissionType.DENY}
        if ResourcePattern(kind, WILDCARD, PatternType.LITERAL) in denied:
            return False
        if self._allow_if_none:
            return True
        return any(
            not _is_overruled(acl.resource, denied)
            for acl in own
            if acl.permission is PermissionType.ALLOW
        )

    def _decide(self, question: Question) -> bool:
        principal, host, operation, kind, name = question
        matching = list(self._matching(kind, name))
        if not matching:
            return self._allow_if_none
        concerning = [acl for acl in matching if _concerns(acl, principal, host)]
        if any(
            acl.permission is PermissionType.DENY and acl.operation in (operation, AclOperation.ALL)
            for acl in concerning
        ):
            return False
        enough = IMPLIED_BY.get(operation) or (operation, AclOperation.ALL)
        return any(
            acl.permission is PermissionType.ALLOW and acl.operation in enough for acl in concerning
        )

    def _matching(self, kind: ResourceType, name: str) -> Iterable[Acl]:
        resources = self.resources
        for literal in {name, WILDCARD}:
            yield from resources.get(ResourcePattern(kind, literal, PatternType.LITERAL), ())
        for length in range(1, min(len(name), self._longest_prefix) + 1):
            prefix = ResourcePattern(kind, name[:length], PatternType.PREFIXED)
            yield from resources.get(prefix, ())


def _concerns(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, ANYONE) and acl.host in (host, WILDCARD)


def _is_overruled(allowed: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    """Whether denials leave nothing of what a permission allows."""
    if allowed.pattern_type is PatternType.LITERAL:
        if allowed.name == WILDCARD:
            return False
        if allowed in denied:
            return True
    kind, name = allowed.resource_type, allowed.name
    return any(
        ResourcePattern(kind, name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(name) + 1)
    )
