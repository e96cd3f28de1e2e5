"""The control plane obeys ACLs: what only brokers may send is refused to everyone else."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from embedkafka import Acl, ConfigError, EmbeddedKafka, Security, TopicSpec
from embedkafka.broker.api_table import SERVED, load_api
from embedkafka.broker.dispatch import Dispatcher
from embedkafka.broker.settings.listeners import CONTROL_LISTENER
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.security.sasl.logins import plain_login
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import encode_request_header
from tests.cluster.broker_requests import (
    AUTHORIZER,
    REQUESTS,
)
from tests.wire.probes import REFUSALS, codes

OPEN: Final = {api for api in SERVED if not load_api(api).needs} | {ApiKey.DESCRIBE_CLUSTER}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    users = {"mallory": "m-secret", "machine": "b-secret"}
    secured = Security(
        protocol="SASL_PLAINTEXT",
        mechanism="PLAIN",
        users=users,
        acls=[Acl.allow("machine", "CLUSTER_ACTION", cluster=True)],
    )
    with EmbeddedKafka(security=secured) as kafka:
        kafka.topic("orders").send("kept")
        yield kafka


def ask(kafka: EmbeddedKafka, api: ApiKey, user: str = "", password: str = "") -> Any:  # Any: wire
    """The answer of the first broker's control plane."""
    port = kafka._reach.running_broker().bound.port(CONTROL_LISTENER)
    login = (lambda host: plain_login(user, password)) if user else None
    client = BrokerClient("127.0.0.1", port, SystemClock(), "a-stranger", new_login=login)
    try:
        return client.call(REQUESTS[api], SERVED[api].versions[1])
    finally:
        client.close()


def test_every_api_of_the_control_plane_is_probed_or_open_to_all() -> None:
    served = {api for api, row in SERVED.items() if row.for_controllers}
    assert served == REQUESTS.keys() | (OPEN & served)


@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name)
def test_a_user_without_rights_is_refused_and_changes_nothing(
    kafka: EmbeddedKafka, api: ApiKey
) -> None:
    found = codes(ask(kafka, api, "mallory", "m-secret"))
    assert found
    assert found <= REFUSALS
    assert {one.principal for one in kafka.acls.refusals() if one.api is api} == {"User:mallory"}
    assert [one.value for one in kafka.existing_topic("orders").read()] == [b"kept"]


def test_a_user_with_the_right_of_brokers_is_heard(kafka: EmbeddedKafka) -> None:
    answer = ask(kafka, ApiKey.CONTROLLED_SHUTDOWN, "machine", "b-secret")
    assert answer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_client_is_no_broker_though_all_clients_are_anonymous() -> None:
    with EmbeddedKafka(brokers=2, config=AUTHORIZER) as kafka:
        kafka.acls.add(Acl.allow("ANONYMOUS", "ALL", topic="*"))
        kafka.acls.add(Acl.allow("ANONYMOUS", "CREATE", cluster=True))
        orders = kafka.topic("orders", replication=2)
        orders.send("kept")
        with pytest.raises(ConnectionError):
            ask(kafka, ApiKey.STOP_REPLICA)
        assert [one.value for one in orders.read()] == [b"kept"]


@pytest.mark.parametrize(
    ("config", "user"),
    [
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}, "ANON"),
        (
            {
                "listeners": "SASL_PLAINTEXT://:0",
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    'username="admin" password="p" user_admin="p";'
                ),
            },
            "admin",
        ),
    ],
    ids=["anonymous", "logged in"],
)
def test_brokers_that_may_not_control_each_other_do_not_start(
    config: dict[str, object], user: str
) -> None:
    with pytest.raises(ConfigError, match=f"as User:{user}.* to super.users"):
        EmbeddedKafka(config={**AUTHORIZER, **config}).start()


def test_super_users_of_the_settings_are_added_to_those_of_the_brokers() -> None:
    secured = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", users={"a": "b"}, acls=[])
    with EmbeddedKafka(security=secured, config={"super.users": "User:a"}) as kafka:
        kafka.topic("orders").send("x")
        assert kafka.acls.refusals() == []


def test_a_full_data_plane_delays_no_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data plane's handlers are busy and its queues full; the control plane has its own."""
    busy, go_on = threading.Semaphore(0), threading.Event()
    handle = Dispatcher.handle

    def block(dispatcher: Dispatcher, request: Request) -> None:
        if b"block" in bytes(request.frame):
            busy.release()
            go_on.wait()
        handle(dispatcher, request)

    monkeypatch.setattr(Dispatcher, "handle", block)
    header = encode_request_header(ApiKey.API_VERSIONS, 0, 1, "block")
    settings = {"num.io.threads": 1, "queued.max.requests": 1}
    topic = {"orders": TopicSpec(replication=3)}
    with EmbeddedKafka(brokers=3, config=settings, topics=topic) as kafka, ExitStack() as clients:
        clients.callback(go_on.set)
        names = {each.name for each in threading.enumerate()}
        assert {f"ek-b{each.id}-control-handler-0" for each in kafka.brokers} <= names
        leader = kafka.existing_topic("orders").leader()
        full = [each for each in kafka.brokers if each.id != leader]
        for broker in full:
            for _ in range(3):  # one at the handler, one in the queue, one before it
                client = socket.create_connection(parse_address(broker.address))
                clients.enter_context(client)
                client.sendall(struct.pack(">i", len(header)) + header)
        for _ in full:
            assert busy.acquire(timeout=30)
        kafka.broker(leader).kill()
        assert kafka.existing_topic("orders").await_leader() != leader
