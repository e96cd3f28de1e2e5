"""`MemoryZk` fulfils the contract of every store."""

from collections.abc import Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk.memory import MemoryZk
from tests.unit.zk.contract import ZkStoreContract


class TestMemoryZk(ZkStoreContract):
    @pytest.fixture
    def ensemble(self) -> Iterator[MemoryZk]:
        failures = Failures()
        zk = MemoryZk(ManualClock(), failures)
        yield zk
        zk.close()
        failures.check()
