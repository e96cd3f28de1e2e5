"""`MemoryZk` under the contract of every store."""

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk.memory import MemoryZk

_spec = spec_from_file_location("zk_contract", Path(__file__).with_name("contract.py"))
assert _spec is not None
assert _spec.loader is not None
contract = module_from_spec(_spec)
_spec.loader.exec_module(contract)


class TestMemoryZk(contract.ZkStoreContract):
    @pytest.fixture
    def ensemble(self) -> Iterator[MemoryZk]:
        failures = Failures()
        zk = MemoryZk(ManualClock(), failures)
        yield zk
        zk.close()
        failures.check()
