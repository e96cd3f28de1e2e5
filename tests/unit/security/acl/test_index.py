"""What a set of ACLs decides."""

from collections import defaultdict

import pytest

from embedkafka.security.acl.acls import Acl, ResourcePattern
from embedkafka.security.acl.index import AclIndex
from embedkafka.security.acl.operations import AclOperation, ResourceType

TOPIC = ResourceType.TOPIC


def index(*acls: Acl, allow_if_none: bool = False) -> AclIndex:
    resources: dict[ResourcePattern, set[Acl]] = defaultdict(set)
    for acl in acls:
        resources[acl.resource].add(acl)
    frozen = {resource: frozenset(found) for resource, found in resources.items()}
    return AclIndex(frozen, allow_if_none=allow_if_none)


def may(
    acls: AclIndex, operation: str, topic: str = "orders", user: str = "a", host: str = "1.1.1.1"
) -> bool:
    return acls.allows((f"User:{user}", host, AclOperation[operation], TOPIC, topic))


def test_without_an_acl_the_setting_decides() -> None:
    assert not may(index(), "READ")
    assert may(index(allow_if_none=True), "READ")
    other = index(Acl.allow("b", "READ", topic="orders"), allow_if_none=True)
    assert not may(other, "READ"), "the topic has an ACL, though none for this user"
    assert may(other, "READ", topic="payments")


@pytest.mark.parametrize(
    ("acl", "allowed", "refused"),
    [
        (Acl.allow("a", "READ", topic="orders"), ["orders"], ["orders2", "order", "*"]),
        (Acl.allow("a", "READ", topic="ord", prefixed=True), ["ord", "orders"], ["or", "x"]),
        (Acl.allow("a", "READ", topic="*"), ["orders", "anything"], []),
        (Acl.allow("a", "READ", topic="*", prefixed=True), ["*x"], ["orders"]),
        (Acl.allow("*", "READ", topic="orders"), ["orders"], ["payments"]),
        (Acl.allow("a", "ALL", topic="orders"), ["orders"], ["payments"]),
    ],
)
def test_a_pattern_covers_its_names(acl: Acl, allowed: list[str], refused: list[str]) -> None:
    acls = index(acl)
    assert [name for name in [*allowed, *refused] if may(acls, "READ", name)] == allowed


def test_an_acl_is_for_its_user_host_and_operation() -> None:
    acls = index(Acl.allow("a", "READ", topic="orders", host="10.0.0.1"))
    assert may(acls, "READ", host="10.0.0.1")
    assert not may(acls, "READ", host="10.0.0.2")
    assert not may(acls, "READ", host="10.0.0.1", user="b")
    assert not may(acls, "WRITE", host="10.0.0.1")


@pytest.mark.parametrize(
    "deny",
    [
        Acl.deny("a", "READ", topic="orders"),
        Acl.deny("a", "ALL", topic="orders"),
        Acl.deny("*", "READ", topic="*"),
        Acl.deny("a", "READ", topic="o", prefixed=True),
    ],
)
def test_a_denial_wins(deny: Acl) -> None:
    assert not may(index(Acl.allow("a", "ALL", topic="orders"), deny), "READ")
    assert not may(index(deny, allow_if_none=True), "READ")


@pytest.mark.parametrize("stronger", ["READ", "WRITE", "DELETE", "ALTER", "ALL"])
def test_some_permissions_include_describe(stronger: str) -> None:
    assert may(index(Acl.allow("a", stronger, topic="orders")), "DESCRIBE")
    assert not may(index(Acl.allow("a", "CREATE", topic="orders")), "DESCRIBE")
    assert not may(index(Acl.allow("a", stronger, topic="orders")), "CREATE") or stronger == "ALL"


def test_alter_configs_includes_describe_configs() -> None:
    assert may(index(Acl.allow("a", "ALTER_CONFIGS", topic="orders")), "DESCRIBE_CONFIGS")
    assert not may(index(Acl.allow("a", "ALTER", topic="orders")), "DESCRIBE_CONFIGS")


def test_a_denial_denies_only_its_own_operation() -> None:
    acls = index(Acl.allow("a", "DESCRIBE", topic="orders"), Acl.deny("a", "READ", topic="orders"))
    assert may(acls, "DESCRIBE")


def test_an_index_with_another_resource_leaves_the_first_as_it_was() -> None:
    before = index(Acl.allow("a", "READ", topic="orders"))
    assert may(before, "READ")
    resource = Acl.allow("a", "READ", topic="orders").resource
    after = before.with_resource(resource, frozenset())
    assert not may(after, "READ")
    assert may(before, "READ")


ALLOW = Acl.allow("a", "WRITE", topic="orders")
ALLOW_PREFIX = Acl.allow("a", "WRITE", topic="ord", prefixed=True)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([ALLOW], True),
        ([ALLOW_PREFIX], True),
        ([Acl.allow("a", "READ", topic="orders")], False),
        ([Acl.allow("b", "WRITE", topic="orders")], False),
        ([Acl.allow("a", "WRITE", transactional_id="t")], False),
        ([ALLOW, Acl.deny("a", "WRITE", topic="*")], False),
        ([ALLOW, Acl.deny("a", "ALL", topic="orders")], False),
        ([ALLOW, Acl.deny("a", "WRITE", topic="or", prefixed=True)], False),
        ([ALLOW_PREFIX, Acl.deny("a", "WRITE", topic="or", prefixed=True)], False),
        ([ALLOW_PREFIX, Acl.deny("a", "WRITE", topic="orders")], True),
        ([ALLOW_PREFIX, Acl.deny("a", "WRITE", topic="orders", prefixed=True)], True),
        ([Acl.allow("a", "WRITE", topic="*"), Acl.deny("a", "WRITE", topic="orders")], True),
    ],
)
def test_some_resource_of_a_type(acls: list[Acl], expected: bool) -> None:
    found = index(*acls)
    assert found.allows_any("User:a", "1.1.1.1", AclOperation.WRITE, TOPIC) is expected


def test_some_resource_when_no_acl_means_yes() -> None:
    def ask(acls: AclIndex) -> bool:
        return acls.allows_any("User:a", "1.1.1.1", AclOperation.WRITE, TOPIC)

    assert ask(index(allow_if_none=True))
    assert not ask(index(Acl.deny("a", "ALL", topic="*"), allow_if_none=True))
