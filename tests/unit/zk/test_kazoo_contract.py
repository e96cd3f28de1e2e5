"""`KazooZk` on a real ZooKeeper, under the contract of every store."""

import itertools
from collections.abc import Iterator

import pytest

from embedkafka.runtime.failures import Failures
from embedkafka.zk.kazoo_store import KazooZk
from tests.java_tools.maven import MavenError
from tests.java_tools.zookeeper import ZooKeeperServer
from tests.unit.zk.contract import ZkStoreContract

pytestmark = [pytest.mark.java, pytest.mark.slow]

_numbers = itertools.count()


class ChrootEnsemble:
    """Sessions under a directory of their own, so that one server serves every test."""

    def __init__(self, hosts: str) -> None:
        self.failures = Failures()
        self._hosts = hosts
        self._root = f"/test{next(_numbers)}"
        self._sessions: list[KazooZk] = []
        maker = KazooZk(hosts, failures=self.failures)
        maker.create(self._root)
        maker.close()

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
    try:
        server = ZooKeeperServer().__enter__()
    except MavenError as missing:
        pytest.skip(f"no ZooKeeper: {missing}")
    yield server
    server.kill()


class TestKazooZk(ZkStoreContract):
    @pytest.fixture
    def ensemble(self, zookeeper: ZooKeeperServer) -> Iterator[ChrootEnsemble]:
        ensemble = ChrootEnsemble(zookeeper.connect_string)
        yield ensemble
        ensemble.close()
