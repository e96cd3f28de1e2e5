"""ACLs as values: how users write them, and which ones a filter means."""

from collections.abc import Callable

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.acl.acls import (
    Acl,
    AclFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
    known,
)
from embedkafka.security.acl.operations import CLUSTER_NAME, AclOperation, ResourceType


def test_allow_names_a_user_an_operation_and_a_resource() -> None:
    assert Acl.allow("job", "READ", topic="orders") == Acl(
        principal="User:job",
        operation=AclOperation.READ,
        resource=ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
        permission=PermissionType.ALLOW,
        host="*",
    )
    assert Acl.allow("User:a", "all", group="g", prefixed=True).resource == ResourcePattern(
        ResourceType.GROUP, "g", PatternType.PREFIXED
    )
    assert Acl.allow("a", "CREATE", cluster=True).resource.name == CLUSTER_NAME
    assert Acl.deny("a", "WRITE", topic="t", host="10.0.0.1").permission is PermissionType.DENY


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Acl.allow("a", "READ"), "one resource"),
        (lambda: Acl.allow("a", "READ", topic="t", group="g"), "not 2"),
        (lambda: Acl.allow("a", "READ", topic=""), "'\\*' means every one"),
        (lambda: Acl.allow("a", "PRODUCE", topic="t"), "READ, WRITE"),
        (lambda: Acl.allow("a", "IDEMPOTENT_WRITE", topic="t"), "no operation on a TOPIC"),
        (lambda: Acl.allow("a", "READ", group="a/b"), "slash"),
    ],
)
def test_a_mistake_is_refused_at_once(make: Callable[[], Acl], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


LITERAL = Acl.allow("a", "READ", topic="orders")
WILD = Acl.allow("a", "READ", topic="*")
PREFIX = Acl.allow("a", "READ", topic="ord", prefixed=True)
OTHER = Acl.deny("b", "WRITE", topic="orders", host="10.0.0.1")
ALL = [LITERAL, WILD, PREFIX, OTHER]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), ALL),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), ALL),
        (AclFilter(name="ordinary", pattern_type=PatternType.MATCH), [WILD, PREFIX]),
        (AclFilter(name="orders"), [LITERAL, OTHER]),
        (AclFilter(name="ord"), [PREFIX]),
        (AclFilter(pattern_type=PatternType.PREFIXED), [PREFIX]),
        (AclFilter(name="*", pattern_type=PatternType.LITERAL), [WILD]),
        (AclFilter(principal="User:b"), [OTHER]),
        (AclFilter(host="10.0.0.1"), [OTHER]),
        (AclFilter(operation=AclOperation.WRITE), [OTHER]),
        (AclFilter(permission=PermissionType.DENY), [OTHER]),
        (AclFilter(resource_type=ResourceType.GROUP), []),
    ],
)
def test_a_filter_finds_what_kafkas_finds(wanted: AclFilter, expected: list[Acl]) -> None:
    assert [acl for acl in ALL if wanted.matches(acl)] == expected


def test_a_number_without_a_meaning_is_unknown() -> None:
    assert known(AclOperation, 99) is AclOperation.UNKNOWN
    assert AclFilter(operation=known(AclOperation, 99)).find_unknown() == "entryFilter"
    assert AclFilter(resource_type=known(ResourceType, 99)).find_unknown() == "patternFilter"
    assert AclFilter().find_unknown() is None
