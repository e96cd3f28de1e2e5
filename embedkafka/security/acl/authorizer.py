"""One broker's authorizer: the ACLs in force here, kept up to date, and what they refused.

Owner: `_changing` guards reading from the store and replacing the index, one change at a time;
anyone may read the index. `_lock` (leaf) guards the list of refusals.
Invariants: the index reflects the store as of the last change this broker has heard of. A change
made through this broker is in force here when `create` or `delete` returns.
Not here: the decisions (`index`), and what each request needs (`broker.authorization`).
"""

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.locks import ACL_RANK, LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.values import dataclass, field
from embedkafka.security.acl.acls import Acl, AclFilter, ResourcePattern
from embedkafka.security.acl.index import AclIndex
from embedkafka.security.acl.operations import CLUSTER_NAME, AclOperation, ResourceType
from embedkafka.security.acl.znodes import (
    CHANGE_PREFIX,
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    AclZnodes,
    decode_change,
)
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.zk.kafka_zk import KafkaZk

_LOG = logging.getLogger("kafka.authorizer.logger")

_KEPT_REFUSALS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfig:
    """`super.users` and `allow.everyone.if.no.acl.found`."""

    super_users: frozenset[str] = field(default_factory=frozenset)
    allow_if_none: bool = False

    @staticmethod
    def of(*, super_users: str, allow_if_none: bool) -> "AuthorizerConfig":
        """Reads `User:alice;User:bob`."""
        try:
            parsed = [KafkaPrincipal.parse(text.strip()) for text in super_users.split(";") if text]
        except ConfigError as error:
            raise ConfigError(f"super.users: {error}") from None
        return AuthorizerConfig(
            super_users=frozenset(map(str, parsed)), allow_if_none=allow_if_none
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that a client was not allowed to do."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    resource: str
    api: ApiKey

    def __str__(self) -> str:
        return (
            f"{self.principal} from {self.host} may not {self.operation.name} "
            f"{self.resource_type.name} {self.resource} ({self.api.name})"
        )


class AclAuthorizer:
    """Answers whether a principal may do something, and changes the ACLs that say so."""

    def __init__(self, config: AuthorizerConfig, zk: KafkaZk, background: Scheduler) -> None:
        self._config = config
        self._zk = zk
        self._znodes = AclZnodes(zk)
        self._background = background
        self._changing = ranked_lock("acl changes", ACL_RANK)
        self._lock = ranked_lock("refusals", LEAF_RANK)
        self._refusals: deque[Refusal] = deque(maxlen=_KEPT_REFUSALS)
        self._index = AclIndex({}, allow_if_none=config.allow_if_none)

    def start(self) -> None:
        """Reads all ACLs and follows their changes."""
        self._znodes.make_paths()
        for folder in (LITERAL_CHANGES, EXTENDED_CHANGES):
            self._zk.follow_changes(
                folder,
                CHANGE_PREFIX,
                self._background,
                on_change=lambda data: self._reload(decode_change(data)),
                on_gap=self.reload,
            )
        self.reload()

    def reload(self) -> None:
        """Reads all ACLs again."""
        with self._changing:
            found = self._znodes.load()
            self._index = AclIndex(found, allow_if_none=self._config.allow_if_none)

    # -- decisions

    def allows(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str
    ) -> bool:
        return principal in self._config.super_users or self._index.allows(
            (principal, host, operation, kind, name)
        )

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Whether the principal may do it to some resource of this type."""
        return principal in self._config.super_users or self._index.allows_any(
            principal, host, operation, kind
        )

    def allows_brokers(self, principal: str, host: str) -> bool:
        """Whether the principal may send what brokers send each other."""
        action, kind = AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER
        return self.allows(principal, host, action, kind, CLUSTER_NAME)

    def note(self, refusal: Refusal) -> None:
        """Logs a refusal and keeps it for reports."""
        _LOG.info("%s", refusal)
        with self._lock:
            self._refusals.append(refusal)

    def refusals(self) -> Sequence[Refusal]:
        """The latest, oldest first."""
        with self._lock:
            return list(self._refusals)

    def forget_refusals(self) -> None:
        with self._lock:
            self._refusals.clear()

    # -- changes

    def acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        return [acl for acl in self._index.acls() if wanted is None or wanted.matches(acl)]

    def create(self, acls: Iterable[Acl]) -> None:
        by_resource: dict[ResourcePattern, set[Acl]] = {}
        for acl in acls:
            by_resource.setdefault(acl.resource, set()).add(acl)
        with self._changing:
            for resource, added in by_resource.items():
                self._update(resource, added=added)

    def delete(self, doomed: Collection[Acl]) -> None:
        """Deletes ACLs; those that do not exist are fine."""
        with self._changing:
            for resource in {acl.resource for acl in doomed}:
                self._update(resource, removed=doomed)

    def _update(
        self,
        resource: ResourcePattern,
        *,
        added: Collection[Acl] = (),
        removed: Collection[Acl] = (),
    ) -> None:
        acls = self._znodes.update(resource, lambda before: before.union(added).difference(removed))
        self._index = self._index.with_resource(resource, acls)

    def _reload(self, resource: ResourcePattern) -> None:
        with self._changing:
            self._index = self._index.with_resource(resource, self._znodes.read(resource))
