"""The questions that one request puts to the authorizer, on brokers with an authorizer."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from embedkafka.security.acl.authorizer import AclAuthorizer, Refusal
from embedkafka.security.acl.operations import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    ResourceType,
)
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

T = TypeVar("T")

REFUSED_WITH: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Checks:
    """What the client of one request may do."""

    __slots__ = ("_authorizer", "_host", "_principal", "broker", "context")

    def __init__(
        self, authorizer: AclAuthorizer, broker: "BrokerParts", context: "RequestContext"
    ) -> None:
        self._authorizer = authorizer
        self._principal = str(context.principal)
        self._host = context.client_address
        self.broker = broker
        self.context = context

    def may(
        self, operation: AclOperation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether the client may do this; notes a refusal unless `quiet`.

        A question is quiet if the client has not asked for this resource: a list is filtered, or
        another permission would do as well.
        """
        if self._authorizer.allows(self._principal, self._host, operation, kind, name):
            return True
        if not quiet:
            self._authorizer.note(
                Refusal(
                    principal=self._principal,
                    host=self._host,
                    operation=operation,
                    resource_type=kind,
                    resource=name,
                    api=self.context.api_key,
                )
            )
        return False

    def may_cluster(self, operation: AclOperation, *, quiet: bool = False) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def may_describe(self, kind: ResourceType, name: str) -> bool:
        """Whether the client may see what it has not asked for by name."""
        return self.may(AclOperation.DESCRIBE, kind, name, quiet=True)

    def may_see_topic(self, name: str) -> bool:
        return self.may_describe(ResourceType.TOPIC, name)

    def may_some(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether the client may do this to at least one resource of the type."""
        return self._authorizer.allows_any(self._principal, self._host, operation, kind)

    def split(
        self,
        operation: AclOperation,
        kind: ResourceType,
        items: Iterable[T],
        name_of: Callable[[T], str | None],
    ) -> tuple[Sequence[T], Sequence[T]]:
        """Items with a permitted name, and the others. An item without a name is permitted."""
        answers: dict[str, bool] = {}
        allowed: list[T] = []
        refused: list[T] = []
        for item in items:
            name = name_of(item)
            if name is not None and name not in answers:
                answers[name] = self.may(operation, kind, name)
            (allowed if name is None or answers[name] else refused).append(item)
        return allowed, refused

    def operations(self, kind: ResourceType, name: str) -> int:
        """The bits of "authorized operations": those of the resource that the client may do."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[kind]
            if self._authorizer.allows(self._principal, self._host, operation, kind, name)
        )

    def topic_name(self, entry: Any) -> str | None:  # Any: a struct that names a topic
        """The name of a topic that a message names or identifies; None if there is no such id."""
        if entry.name or entry.topic_id == ZERO_UUID:
            name: str = entry.name
            return name
        return self.broker.metadata.snapshot.topic_names.get(entry.topic_id)
