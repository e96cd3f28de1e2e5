"""ACLs in the store: Kafka's znodes, and brokers that follow each other's changes."""

import json
from collections.abc import Callable, Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import ConfigError, Failures
from embedkafka.security.acl.acls import Acl, AclFilter
from embedkafka.security.acl.authorizer import AclAuthorizer, AuthorizerConfig, Refusal
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk
from embedkafka.zk.store import ZkStore

READ = Acl.allow("a", "READ", topic="orders")
WRITE = Acl.allow("a", "WRITE", topic="orders")
PREFIX = Acl.deny("a", "DESCRIBE_CONFIGS", topic="ord", prefixed=True)


class Background:
    """Keeps tasks until a test runs them."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> None:
        self.tasks.append(run)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


@pytest.fixture
def server() -> Iterator[MemoryZk]:
    server = MemoryZk(ManualClock(), Failures())
    yield server
    server.close()


@pytest.fixture
def store(server: MemoryZk) -> ZkStore:
    return server.connect()


class Broker:
    """One broker's authorizer; it learns of others' changes when its background runs."""

    def __init__(self, server: MemoryZk, config: AuthorizerConfig | None = None) -> None:
        self.background = Background()
        self.authorizer = AclAuthorizer(
            config or AuthorizerConfig(),
            KafkaZk(server.connect(), ManualClock()),
            self.background,  # type: ignore[arg-type]  # all it uses of a scheduler
        )
        self.authorizer.start()

    def may_read(self, topic: str = "orders", principal: str = "User:a") -> bool:
        return self.authorizer.allows(
            principal, "127.0.0.1", AclOperation.READ, ResourceType.TOPIC, topic
        )


def test_acls_are_znodes_as_kafka_writes_them(server: MemoryZk, store: ZkStore) -> None:
    Broker(server).authorizer.create([READ, WRITE, PREFIX])
    assert json.loads(store.get("/kafka-acl/Topic/orders")[0]) == {
        "version": 1,
        "acls": [
            {"principal": "User:a", "permissionType": "Allow", "operation": op, "host": "*"}
            for op in ("Read", "Write")
        ],
    }
    assert store.get("/kafka-acl-extended/prefixed/Topic/ord")[0] == (
        b'{"acls":[{"principal":"User:a","permissionType":"Deny","host":"*",'
        b'"operation":"DescribeConfigs"}],"version":1}'
    )
    changes = "/kafka-acl-changes/acl_changes_0000000000"
    assert store.get(changes)[0] == b"TOPIC:orders"
    extended = "/kafka-acl-extended-changes/acl_changes_0000000000"
    assert json.loads(store.get(extended)[0]) == {
        "version": 1,
        "resourceType": "TOPIC",
        "name": "ord",
        "patternType": "PREFIXED",
    }


def test_a_broker_that_starts_finds_the_acls(server: MemoryZk) -> None:
    Broker(server).authorizer.create([READ, PREFIX])
    found = Broker(server).authorizer
    assert sorted(map(str, found.acls())) == sorted(map(str, [READ, PREFIX]))
    assert found.acls(AclFilter(name="ord")) == [PREFIX]


def test_other_brokers_follow_a_change(server: MemoryZk) -> None:
    one, other = Broker(server), Broker(server)
    one.authorizer.create([READ])
    assert one.may_read()
    assert not other.may_read()
    other.background.run()
    assert other.may_read()
    other.authorizer.delete([READ])
    one.background.run()
    assert not one.may_read()


def test_the_last_acl_of_a_resource_takes_its_znode_along(server: MemoryZk, store: ZkStore) -> None:
    broker = Broker(server)
    broker.authorizer.create([READ, WRITE])
    broker.authorizer.delete([READ, Acl.allow("b", "READ", topic="payments")])
    assert broker.authorizer.acls() == [WRITE]
    broker.authorizer.delete([WRITE])
    assert store.children("/kafka-acl/Topic") == []


def test_two_brokers_add_to_one_resource(server: MemoryZk) -> None:
    one, other = Broker(server), Broker(server)
    one.authorizer.create([READ])
    other.authorizer.create([WRITE])
    assert set(other.authorizer.acls()) == {READ, WRITE}


def test_a_change_that_changes_nothing_is_not_announced(server: MemoryZk, store: ZkStore) -> None:
    broker = Broker(server)
    broker.authorizer.create([READ])
    broker.authorizer.create([READ])
    assert len(store.children("/kafka-acl-changes")) == 1


def test_super_users_may_do_everything(server: MemoryZk) -> None:
    config = AuthorizerConfig.of(super_users="User:root; User:CN=a,O=b", allow_if_none=False)
    broker = Broker(server, config)
    broker.authorizer.create([Acl.deny("*", "ALL", topic="*")])
    assert broker.may_read(principal="User:root")
    assert broker.may_read(principal="User:CN=a,O=b")
    assert not broker.may_read(principal="User:a")


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: 'root' .* User:root"):
        AuthorizerConfig.of(super_users="root", allow_if_none=False)


def test_refusals_are_kept(server: MemoryZk) -> None:
    refusal = Refusal(
        principal="User:a",
        host="127.0.0.1",
        operation=AclOperation.WRITE,
        resource_type=ResourceType.TOPIC,
        resource="orders",
        api=ApiKey.PRODUCE,
    )
    broker = Broker(server)
    broker.authorizer.note(refusal)
    assert list(map(str, broker.authorizer.refusals())) == [
        "User:a from 127.0.0.1 may not WRITE TOPIC orders (PRODUCE)"
    ]
