"""A failed login is answered after `connection.failed.authentication.delay.ms`, not before.

The delay of this cluster is longer than any test. A login that is held back got neither an answer
nor the end of its connection by the time that a later one, on another connection, has succeeded.
"""

import select
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, MetadataRequest
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.wire import sasl_cluster, tls_cluster
from tests.wire.conftest import ONE_BROKER, SHARED_CONFIG
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import (
    PASSWORD,
    USER,
    SaslCluster,
    authenticate,
    bearer,
    handshake,
    scram_final,
    unsecured_token,
)
from tests.wire.tls_cluster import TlsCluster

CONFIG: Final[Mapping[str, object]] = {
    **SHARED_CONFIG,
    **ONE_BROKER,
    "connection.failed.authentication.delay.ms": 500_000,
}
WRONG: Final = f"\0{USER}\0wrong".encode()
SCRAM_USER: Final = "scram-user"

Step = Callable[[RawClient], object]


ON_EITHER_KIND = ("slow_to_refuse", "slow_over_tls")


@pytest.fixture(scope="module")
def slow_to_refuse(request: pytest.FixtureRequest) -> Iterator[SaslCluster]:
    """A cluster that holds back the answer to a failed login."""
    version = request.config.getoption("--oracle-version")
    with sasl_cluster.running(request.param, CONFIG, version) as started:
        started.add_user(SCRAM_USER, "geheim")
        yield started


@pytest.fixture(scope="module")
def slow_over_tls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsCluster]:
    """A cluster with TLS that does."""
    version = request.config.getoption("--oracle-version")
    directory = tmp_path_factory.mktemp("certificates")
    with tls_cluster.running(request.param, CONFIG, version, directory) as started:
        yield started


def assert_held(cluster: SaslCluster | TlsCluster, client: RawClient) -> None:
    """Other clients log in, and this one has heard nothing."""
    with cluster.log_in(user=USER) as other:
        assert other.call(MetadataRequest(topics=[]), 12).brokers
    readable, _, _ = select.select([client._socket], [], [], 0)
    assert not readable


def assert_ended(client: RawClient) -> None:
    with pytest.raises(ConnectionError):
        client.receive_frame()


def log_in_wrongly(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)


def with_a_bare_token(client: RawClient) -> None:
    handshake(client, "PLAIN", 0)
    client.send_frame(WRONG)


def with_a_wrong_proof(client: RawClient) -> None:
    first = f"n={SCRAM_USER},r=abc".encode()
    handshake(client, "SCRAM-SHA-512")
    challenge = authenticate(client, b"n,," + first).auth_bytes
    final = scram_final("SCRAM-SHA-512", "guess", first, challenge)
    client.send(SaslAuthenticateRequest(auth_bytes=final), 2)


def with_a_bare_wrong_proof(client: RawClient) -> None:
    first = f"n={SCRAM_USER},r=abc".encode()
    handshake(client, "SCRAM-SHA-512", 0)
    client.send_frame(b"n,," + first)
    client.send_frame(scram_final("SCRAM-SHA-512", "guess", first, client.receive_frame()))


def with_an_expired_token(client: RawClient) -> None:
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, bearer(unsecured_token(iat=1, exp=2)))
    assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
    client.send(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)


def with_an_unknown_mechanism(client: RawClient) -> None:
    client.send(SaslHandshakeRequest(mechanism="CRAM-MD5"), 1)


def without_a_handshake(client: RawClient) -> None:
    client.send(MetadataRequest(topics=[]), 12)


def with_nonsense(client: RawClient) -> None:
    client.send_frame(b"\x60\x82\x01 as a GSSAPI client of Kafka 0.9")


def with_a_frame_too_long(client: RawClient) -> None:
    client.send_frame(b"x" * 20_001)


def with_a_negative_length(client: RawClient) -> None:
    client._socket.sendall(b"\xff\xff\xff\xff")


def over_tls(client: RawClient) -> None:
    client._socket.sendall(b"\x16\x03\x01\x02\x00\x01\x00")


def with_another_request_than_its_token(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)


HELD: Final[Mapping[str, Step]] = {
    step.__name__: step
    for step in (
        log_in_wrongly,
        with_a_bare_token,
        with_a_wrong_proof,
        with_an_expired_token,
        with_an_unknown_mechanism,
        with_a_frame_too_long,
        with_a_negative_length,
        over_tls,
        with_another_request_than_its_token,
    )
}


@pytest.mark.parametrize("step", HELD)
def test_the_answer_to_a_failed_login_is_held_back(slow_to_refuse: SaslCluster, step: str) -> None:
    with slow_to_refuse.connect() as client:
        HELD[step](client)
        assert_held(slow_to_refuse, client)


def again_as_another_user(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b"), 2)


def again_with_a_wrong_password(client: RawClient) -> None:
    log_in_wrongly(client)


def again_with_another_mechanism(client: RawClient) -> None:
    handshake(client, "OAUTHBEARER")
    client.send(SaslAuthenticateRequest(auth_bytes=bearer(unsecured_token())), 2)


@pytest.mark.parametrize(
    "step", [again_as_another_user, again_with_a_wrong_password, again_with_another_mechanism]
)
def test_the_answer_to_a_failed_renewal_is_held_back(
    slow_to_refuse: SaslCluster, step: Step
) -> None:
    with slow_to_refuse.log_in("REAUTH") as client:
        step(client)
        assert_held(slow_to_refuse, client)


def with_versions_twice(client: RawClient) -> None:
    client.call(ApiVersionsRequest(), 0)
    client.send(ApiVersionsRequest(), 0)


def with_half_a_request(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send_frame(b"\0\x24\0\2")


def with_a_broken_handshake(client: RawClient) -> None:
    client.send_frame(b"\0\x11\0\1\0\0\0\1\xff\xff\0\x7fPLAIN")


def with_a_later_version(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send_frame(b"\0\x24\0\x63\0\0\0\1\xff\xff\0")


@pytest.mark.parametrize(
    "step",
    [
        with_versions_twice,
        without_a_handshake,
        with_nonsense,
        with_half_a_request,
        with_a_broken_handshake,
        with_a_later_version,
        with_a_bare_wrong_proof,
    ],
)
def test_a_client_that_breaks_the_protocol_is_not_held(
    slow_to_refuse: SaslCluster, step: Step
) -> None:
    with slow_to_refuse.connect() as client:
        step(client)
        assert_ended(client)


def test_nothing_is_answered_after_a_failed_login(slow_to_refuse: SaslCluster) -> None:
    with slow_to_refuse.connect() as client:
        log_in_wrongly(client)
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 2)
        client.send(ApiVersionsRequest(), 0)
        assert_held(slow_to_refuse, client)


def test_a_held_client_that_leaves_is_let_go_at_once(slow_to_refuse: SaslCluster) -> None:
    with slow_to_refuse.connect() as client:
        log_in_wrongly(client)
        assert_held(slow_to_refuse, client)
        client._socket.shutdown(socket.SHUT_WR)
        assert_ended(client)


def test_a_held_client_may_send_anything(slow_to_refuse: SaslCluster) -> None:
    with slow_to_refuse.connect() as client:
        log_in_wrongly(client)
        client.send_frame(b"x" * 20_001)
        assert_held(slow_to_refuse, client)


def test_over_tls_too_the_answer_is_held_back(slow_over_tls: TlsCluster) -> None:
    with slow_over_tls.connect("SAFE") as client:
        log_in_wrongly(client)
        assert_held(slow_over_tls, client)
        client._socket.shutdown(socket.SHUT_WR)
        with pytest.raises(OSError):  # Apache Kafka says goodbye, or not, to one that has left
            client.receive_frame()


def test_a_failed_handshake_of_tls_is_not_held(slow_over_tls: TlsCluster) -> None:
    for listener in ("MUTUAL", "OLD"):
        tls = slow_over_tls.client_context()
        if listener == "OLD":
            tls.minimum_version = ssl.TLSVersion.TLSv1_3
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            slow_over_tls.connect(listener, tls=tls) as client,
        ):
            client.call(ApiVersionsRequest(), 0)


def test_plain_text_where_tls_is_spoken_is_not_held(slow_over_tls: TlsCluster) -> None:
    with RawClient(*parse_address(slow_over_tls.listeners["SAFE"])) as client:
        client.send(ApiVersionsRequest(), 0)
        with pytest.raises(ConnectionError):
            while True:  # Apache Kafka answers with an alert first
                client._receive(1)
