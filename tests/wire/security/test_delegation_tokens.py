"""Delegation tokens: asked for by a client that has logged in, used to log in with SCRAM."""

import base64
import time
from collections.abc import Iterator

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.security import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
)
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import USER, SaslCluster, authenticate, handshake, scram_final
from tests.wire.tokens import (
    await_known,
    create,
    describe,
    expire,
    log_in,
    renew,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def alice(sasl_cluster: SaslCluster) -> Iterator[RawClient]:
    with sasl_cluster.log_in() as client:
        yield client


def test_a_token_is_created_described_and_ended(alice: RawClient) -> None:
    now_ms = time.time() * 1000
    token = create(alice, -1, "bob")
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", USER)
    assert token.token_requester_principal_name == USER
    assert abs(token.issue_timestamp_ms - now_ms) < 60_000
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS
    assert (len(token.token_id), len(token.hmac)) == (22, 64)

    found = await_known(alice, token)
    assert (found.principal_name, found.hmac) == (USER, token.hmac)
    assert [renewer.principal_name for renewer in found.renewers] == ["bob"]
    assert found.expiry_timestamp == token.expiry_timestamp_ms

    assert expire(alice, token.hmac).error_code == 0
    eventually(lambda: token.token_id not in describe(alice), "the token is gone")
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_lifetimes_are_limited(alice: RawClient) -> None:
    short = create(alice, HOUR_MS)
    assert short.max_timestamp_ms - short.issue_timestamp_ms == HOUR_MS
    assert short.expiry_timestamp_ms == short.max_timestamp_ms
    long = create(alice, 30 * DAY_MS)
    assert long.max_timestamp_ms - long.issue_timestamp_ms == 7 * DAY_MS


def test_a_token_is_renewed_up_to_its_longest_life(alice: RawClient) -> None:
    token = create(alice)
    await_known(alice, token)
    sooner = expire(alice, token.hmac, HOUR_MS)
    assert sooner.error_code == 0
    assert sooner.expiry_timestamp_ms < token.expiry_timestamp_ms
    eventually(
        lambda: await_known(alice, token).expiry_timestamp == sooner.expiry_timestamp_ms, "sooner"
    )
    later = renew(alice, token.hmac, 2 * HOUR_MS)
    assert 0 < later.expiry_timestamp_ms - sooner.expiry_timestamp_ms < 2 * HOUR_MS
    latest = renew(alice, token.hmac, 30 * DAY_MS)
    assert 0 < latest.expiry_timestamp_ms - later.expiry_timestamp_ms <= DAY_MS
    end = expire(alice, token.hmac, 30 * DAY_MS)
    assert end.expiry_timestamp_ms == token.max_timestamp_ms


def test_only_owner_and_renewers_may_change_a_token(
    sasl_cluster: SaslCluster, alice: RawClient
) -> None:
    mine, ours = create(alice), create(alice, -1, "bob")
    await_known(alice, mine)
    await_known(alice, ours)
    with sasl_cluster.log_in(user="bob", password="b") as bob:
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert renew(bob, mine.hmac).error_code == mismatch
        assert expire(bob, mine.hmac).error_code == mismatch
        assert renew(bob, ours.hmac).error_code == 0
        assert renew(bob, b"unknown").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_tokens_are_described_by_owner(sasl_cluster: SaslCluster, alice: RawClient) -> None:
    ours = create(alice, -1, "bob")
    await_known(alice, ours)
    with sasl_cluster.log_in(user="bob", password="b") as bob:
        his = create(bob)
        await_known(bob, his)
        assert {ours.token_id, his.token_id} <= set(describe(bob))
        assert his.token_id not in describe(bob, USER)
        assert ours.token_id in describe(bob, USER)
        none = bob.call(DescribeDelegationTokenRequest(owners=[]))
        assert (none.error_code, none.tokens) == (0, [])


def test_a_token_for_another_user(sasl_cluster: SaslCluster, alice: RawClient) -> None:
    """Without an authorizer, everyone may ask for it."""
    token = create(alice, -1, owner_principal_type="User", owner_principal_name="carol")
    assert (token.error_code, token.principal_name) == (0, "carol")
    assert token.token_requester_principal_name == USER


def test_a_renewer_must_be_a_user(alice: RawClient) -> None:
    team = CreateDelegationTokenRequest.Renewer(principal_type="Team", principal_name="a")
    request = CreateDelegationTokenRequest(renewers=[team], max_lifetime_ms=-1)
    assert alice.call(request).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_as_its_owner_and_cannot_make_another(
    sasl_cluster: SaslCluster, alice: RawClient, mechanism: str
) -> None:
    token = create(alice)
    await_known(alice, token)
    client, answer = log_in(sasl_cluster, token.token_id, token.hmac, mechanism)
    with client:
        assert (answer.error_code, answer.error_message) == (0, "")
        assert 0 < answer.session_lifetime_ms <= DAY_MS
        eventually(client.gives_producer_ids, "it is served like any client")
        refused = create(client)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused.principal_name, refused.token_id) == (USER, "")
        answer = client.call(DescribeDelegationTokenRequest(owners=None))
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_token_that_has_ended_or_never_was_is_refused(
    sasl_cluster: SaslCluster, alice: RawClient
) -> None:
    token = create(alice)
    await_known(alice, token)
    expire(alice, token.hmac)
    eventually(lambda: token.token_id not in describe(alice), "the token is gone")
    for token_id in (token.token_id, "never-was"):
        client, answer = log_in(sasl_cluster, token_id, token.hmac, "SCRAM-SHA-512")
        client.close()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in (
            answer.error_message
        )


def test_a_token_is_refused_without_its_extension(
    sasl_cluster: SaslCluster, alice: RawClient
) -> None:
    token = create(alice)
    await_known(alice, token)
    password = base64.b64encode(token.hmac).decode()
    first = f"n={token.token_id},r=abc".encode()
    with sasl_cluster.connect() as client:
        handshake(client, "SCRAM-SHA-512")
        answer = authenticate(client, b"n,," + first)
        if not answer.error_code:  # Apache Kafka has refused it already
            final = scram_final("SCRAM-SHA-512", password, first, answer.auth_bytes)
            answer = authenticate(client, final)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_anonymous_clients_get_no_tokens(sasl_cluster: SaslCluster) -> None:
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with sasl_cluster.connect("PLAINTEXT") as anonymous:
        refused = create(anonymous)
        assert refused.error_code == not_allowed
        assert (refused.principal_name, refused.issue_timestamp_ms) == ("ANONYMOUS", -1)
        assert (refused.token_id, refused.hmac) == ("", b"")
        assert (renew(anonymous, b"x").error_code, expire(anonymous, b"x").error_code) == (
            not_allowed,
            not_allowed,
        )
        answer = anonymous.call(DescribeDelegationTokenRequest(owners=None))
        assert answer.error_code == not_allowed
