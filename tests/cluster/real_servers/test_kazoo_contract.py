"""`KazooZk` on a real ZooKeeper fulfils the contract of every store."""

import itertools
import queue
import socket
import sys
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, Failures
from embedkafka.zk.kazoo_store import KazooZk
from embedkafka.zk.store import (
    ConnectionLoss,
    EventType,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.java_tools.zookeeper import ZooKeeperServer
from tests.unit.broker.controller.harness import tp
from tests.unit.broker.controller.obedient_brokers import Brokers
from tests.unit.zk.contract import Seen, ZkStoreContract
from tests.wire.clients import eventually

pytestmark = [pytest.mark.java, pytest.mark.gate]

_numbers = itertools.count()


class ChrootEnsemble:
    """Sessions under a separate root node, so that one server serves every test."""

    def __init__(self, hosts: str) -> None:
        self.failures = Failures()
        self._hosts = hosts
        self._root = f"/tests/{next(_numbers)}"
        self._sessions: list[KazooZk] = []

    def connect(self, session_timeout_ms: int = 6_000) -> KazooZk:
        session = KazooZk(
            self._hosts + self._root, session_timeout_ms=session_timeout_ms, failures=self.failures
        )
        self._sessions.append(session)
        return session

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self.failures.check()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def ensemble(zookeeper: ZooKeeperServer) -> Iterator[ChrootEnsemble]:
    ensemble = ChrootEnsemble(zookeeper.connect_string)
    yield ensemble
    ensemble.close()


class TestKazooZk(ZkStoreContract):
    """Runs the contract with the fixture above."""


class States:
    """Collects a session's state changes, which arrive on kazoo's thread."""

    def __init__(self, session: KazooZk) -> None:
        self._came: queue.Queue[SessionState] = queue.Queue()
        session.on_session_change(self._came.put)

    def next(self) -> SessionState:
        return self._came.get(timeout=20)


def break_connection(session: KazooZk) -> None:
    session._client._connection._socket.shutdown(socket.SHUT_RDWR)


def expire(session: KazooZk, hosts: str) -> None:
    """Lets another client take over the session and close it; the server drops our connection."""
    thief = KazooClient(hosts=hosts, client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_watches_survive_a_broken_connection(ensemble: ChrootEnsemble) -> None:
    session, other = ensemble.connect(), ensemble.connect()
    states = States(session)
    session.create("/kept")
    session.create("/parent")
    seen = Seen()
    for path in ("/kept", "/missing"):
        session.exists(path, seen)
    session.children("/parent", seen)
    break_connection(session)
    assert states.next() is SessionState.SUSPENDED
    assert states.next() is SessionState.CONNECTED
    session.exists("/missing")  # a round trip
    other.set("/kept", b"1")
    other.create("/missing")
    other.create("/parent/child")
    assert set(seen.await_events(3)) == {
        WatchEvent(EventType.CHANGED, "/kept"),
        WatchEvent(EventType.CREATED, "/missing"),
        WatchEvent(EventType.CHILD, "/parent"),
    }


def test_changes_missed_while_disconnected_fire_after_it(ensemble: ChrootEnsemble) -> None:
    session, other = ensemble.connect(), ensemble.connect()
    for path in ("/changed", "/deleted", "/parent", "/dead-parent", "/same"):
        session.create(path)
    seen, same = Seen(), Seen()
    for path in ("/changed", "/deleted", "/created"):
        session.exists(path, seen)
    session.exists("/same", same)
    for path in ("/parent", "/dead-parent"):
        session.children(path, seen)
    kept = dict(session._watches)
    session._client._reset_watchers()  # what kazoo does when its connection breaks
    assert session._watches == kept
    other.set("/changed", b"1")
    other.delete("/deleted")
    other.create("/created")
    other.create("/parent/child")
    other.delete("/dead-parent")
    session._rearm()
    assert sorted((e.type.name, e.path) for e in seen.await_events(5)) == [
        ("CHANGED", "/changed"),
        ("CHILD", "/parent"),
        ("CREATED", "/created"),
        ("DELETED", "/dead-parent"),
        ("DELETED", "/deleted"),
    ]
    other.set("/same", b"1")
    assert same.await_events(1) == [WatchEvent(EventType.CHANGED, "/same")]


def test_an_expired_session_refuses_calls_until_it_is_renewed(
    ensemble: ChrootEnsemble, zookeeper: ZooKeeperServer
) -> None:
    session, other = ensemble.connect(), ensemble.connect()
    states = States(session)
    first = session.session_id
    session.create("/e", ephemeral=True)
    gone = Seen()
    other.exists("/e", gone)
    expire(session, zookeeper.connect_string)
    gone.await_events(1)
    while (state := states.next()) is not SessionState.EXPIRED:
        assert state is SessionState.SUSPENDED
    with pytest.raises(SessionExpired):
        session.exists("/e")
    session.renew()
    assert states.next() is SessionState.CONNECTED
    assert session.session_id != first
    session.create("/e", ephemeral=True)


def test_a_client_that_is_cut_off_refuses_calls_and_keeps_its_session_when_it_is_short(
    ensemble: ChrootEnsemble,
) -> None:
    session, other = ensemble.connect(), ensemble.connect()
    states = States(session)
    first = session.session_id
    session.create("/e", ephemeral=True)
    seen = Seen()
    session.exists("/news", seen)
    session.pause()
    assert states.next() is SessionState.SUSPENDED
    with pytest.raises(ConnectionLoss):
        session.exists("/e")
    other.create("/news")
    session.resume()
    assert states.next() is SessionState.CONNECTED
    assert seen.await_events(1) == [WatchEvent(EventType.CREATED, "/news")]
    assert session.session_id == first
    assert session.exists("/e") is not None


@pytest.mark.parametrize("end", ["pause", "drop"])
def test_a_client_that_is_cut_off_for_long_loses_its_session(
    ensemble: ChrootEnsemble, end: str
) -> None:
    session, other = ensemble.connect(session_timeout_ms=3_000), ensemble.connect()
    states = States(session)
    session.create("/e", ephemeral=True)
    gone = Seen()
    other.exists("/e", gone)
    getattr(session, end)()
    assert gone.await_events(1) == [WatchEvent(EventType.DELETED, "/e")]
    with pytest.raises(SessionExpired if end == "drop" else ConnectionLoss):
        session.exists("/e")
    if end == "pause":
        session.resume()
        assert states.next() is SessionState.SUSPENDED
        assert states.next() is SessionState.EXPIRED


def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    with socket.socket() as held:  # nobody else gets its port
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}/a"
        with pytest.raises(EmbedKafkaError, match=f"no ZooKeeper answers at {address}"):
            KazooZk(address, connect_timeout_ms=200, failures=Failures())
    with pytest.raises(ConfigError, match="HOST:PORT"):
        KazooZk("localhost:port", failures=Failures())


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"embedkafka\[zookeeper\]"):
        KazooZk("127.0.0.1:2181", failures=Failures())


def test_controllers_work_the_same_on_a_real_zookeeper(ensemble: ChrootEnsemble) -> None:
    brokers = Brokers(ensemble.connect)
    try:
        for broker_id in (1, 2, 3):
            brokers.start(broker_id)
        brokers.create_topic("orders", {n: [1 + n % 3, 1 + (n + 1) % 3] for n in range(20)})
        states = brokers.admin.partition_states([tp("orders", n) for n in range(20)])
        assert len(states) == 20
        brokers.stop(1)
        brokers.create_topic("next", {0: [2, 3]})
        assert brokers.admin.controller_epoch()[0] == 2

        def are_without_it() -> bool:
            survivors = brokers.admin.partition_states([tp("orders", n) for n in range(20)])
            return all(1 not in state.isr for state in survivors.values())

        eventually(are_without_it, "the dead broker is out of every in-sync set")
    finally:
        brokers.close()
