"""Delegation tokens on a cluster with an authorizer: who may ask for, see and change whose."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedkafka import Acl
from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.tls_cluster import PASSWORDS, TlsCluster
from tests.wire.tokens import await_known, create, describe, expire, renew

MISMATCH = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
FOR_BOB = {"owner_principal_type": "User", "owner_principal_name": "bob"}


@pytest.fixture
def users(tls_cluster: TlsCluster) -> Iterator[dict[str, RawClient]]:
    """Connections of alice, bob and carol, and of root, a super user. Nothing is granted."""
    tls_cluster.grant()
    with ExitStack() as stack:
        yield {user: stack.enter_context(tls_cluster.log_in(user)) for user in PASSWORDS}


@pytest.fixture
def bobs(tls_cluster: TlsCluster, users: dict[str, RawClient]) -> Any:  # Any: the response
    """A token that alice has requested for bob."""
    tls_cluster.grant(Acl.allow("alice", "CREATE_TOKENS", of_user="bob"))
    token = create(users["alice"], -1, **FOR_BOB)
    assert token.error_code == 0
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    tls_cluster.grant()
    await_known(users["bob"], token)
    return token


def may_see(client: RawClient, token: Any) -> bool:
    return token.token_id in describe(client)


def test_everyone_may_ask_for_a_token_of_its_own(users: dict[str, RawClient]) -> None:
    assert [create(client).error_code for client in users.values()] == [0] * len(users)


def test_a_token_for_another_user_needs_permission(
    tls_cluster: TlsCluster, users: dict[str, RawClient]
) -> None:
    refused = create(users["alice"], -1, **FOR_BOB)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert (refused.token_id, refused.hmac, refused.issue_timestamp_ms) == ("", b"", -1)
    assert create(users["root"], -1, **FOR_BOB).error_code == 0
    for acl, code in (
        (Acl.allow("alice", "CREATE_TOKENS", of_user="carol"), refused.error_code),
        (Acl.allow("alice", "DESCRIBE_TOKENS", of_user="bob"), refused.error_code),
        (Acl.allow("alice", "CREATE_TOKENS", of_user="*"), 0),
        (Acl.allow("alice", "ALL", of_user="bob"), 0),
    ):
        tls_cluster.grant(acl)
        assert create(users["alice"], -1, **FOR_BOB).error_code == code, acl


def test_owner_and_requester_see_a_token_and_others_do_not(
    users: dict[str, RawClient], bobs: Any
) -> None:
    seen_by = {user: may_see(client, bobs) for user, client in users.items()}
    assert seen_by == {"alice": True, "bob": True, "carol": False, "root": True}
    assert bobs.token_id in describe(users["alice"], "alice"), "the requester counts as an owner"
    assert bobs.token_id in describe(users["alice"], "bob")
    assert bobs.token_id not in describe(users["alice"], "carol")


@pytest.mark.parametrize("what", ["token", "every token", "owner", "every owner"])
def test_permission_shows_the_tokens_of_others(
    tls_cluster: TlsCluster, users: dict[str, RawClient], bobs: Any, what: str
) -> None:
    tls_cluster.grant(
        {
            "token": Acl.allow("carol", "DESCRIBE", delegation_token=bobs.token_id),
            "every token": Acl.allow("carol", "DESCRIBE", delegation_token="*"),
            "owner": Acl.allow("carol", "DESCRIBE_TOKENS", of_user="bob"),
            "every owner": Acl.allow("carol", "DESCRIBE_TOKENS", of_user="*"),
        }[what]
    )
    assert may_see(users["carol"], bobs)
    tls_cluster.grant()
    assert not may_see(users["carol"], bobs)


def test_a_renewer_sees_and_changes_a_token(users: dict[str, RawClient]) -> None:
    token = create(users["bob"], -1, "carol")
    await_known(users["carol"], token)
    assert renew(users["carol"], token.hmac).error_code == 0
    assert expire(users["carol"], token.hmac).error_code == 0
    eventually(lambda: not may_see(users["bob"], token), "the token is gone")


def test_only_the_owner_changes_a_token_whatever_others_may_do(
    tls_cluster: TlsCluster, users: dict[str, RawClient], bobs: Any
) -> None:
    tls_cluster.grant(
        Acl.allow("carol", "ALL", of_user="bob"), Acl.allow("carol", "ALL", delegation_token="*")
    )
    for user in ("alice", "carol", "root"):
        assert renew(users[user], bobs.hmac).error_code == MISMATCH, user
        assert expire(users[user], bobs.hmac).error_code == MISMATCH, user
    assert renew(users["bob"], bobs.hmac).error_code == 0
    assert expire(users["bob"], bobs.hmac).error_code == 0
