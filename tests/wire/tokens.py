"""Delegation tokens: asked for, changed, described, used to log in."""

import base64
from typing import Any

from embedkafka.wire.protocol.messages.security import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import SaslCluster, authenticate, handshake, scram_final


def create(client: RawClient, max_lifetime_ms: int = -1, *renewers: str, **owner: str) -> Any:
    return client.call(
        CreateDelegationTokenRequest(
            renewers=[
                CreateDelegationTokenRequest.Renewer(principal_type="User", principal_name=name)
                for name in renewers
            ],
            max_lifetime_ms=max_lifetime_ms,
            **owner,
        )
    )


def describe(client: RawClient, *owners: str) -> Any:
    _Owner = DescribeDelegationTokenRequest.Owner
    wanted = [_Owner(principal_type="User", principal_name=name) for name in owners]
    answer = client.call(DescribeDelegationTokenRequest(owners=wanted or None))
    assert answer.error_code == 0
    return {token.token_id: token for token in answer.tokens}


def renew(client: RawClient, hmac: bytes, period_ms: int = -1) -> Any:
    return client.call(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))


def expire(client: RawClient, hmac: bytes, period_ms: int = -1) -> Any:
    return client.call(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))


def await_known(client: RawClient, token: Any) -> Any:
    """Brokers of Apache Kafka learn of a token a moment after its creation."""
    return eventually(lambda: describe(client).get(token.token_id), "the token is known")


def log_in(
    cluster: SaslCluster, token_id: str, hmac: bytes, mechanism: str
) -> tuple[RawClient, Any]:
    """A connection that has used the token, and the answer to its last message."""
    client = cluster.connect()
    handshake(client, mechanism)
    first = f"n={token_id},r=fyko+d2lbbFgONRv9,tokenauth=true".encode()
    answer = authenticate(client, b"n,," + first)
    if not answer.error_code:
        password = base64.b64encode(hmac).decode()
        answer = authenticate(client, scram_final(mechanism, password, first, answer.auth_bytes))
    return client, answer
