"""Behaviour that only a test which drives the processor itself can show."""

from typing import cast

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.limits import ConnectionQuota, Limits
from embedkafka.wire.net.processor import Phase, Processor
from embedkafka.wire.net.transport import Stream
from tests.unit.wire.net.conftest import open_descriptors


class EndedStream:
    """A stream that only records how it ended; the tests use nothing else."""

    local, peer, peer_host = "127.0.0.1:9092", "127.0.0.1:50000", "127.0.0.1"
    holds_input = holds_output = False
    ended = ""

    def reset(self) -> None:
        self.ended = "reset"


@pytest.fixture
def quota() -> ConnectionQuota:
    return ConnectionQuota(Limits())


@pytest.fixture
def processor(quota: ConnectionQuota) -> Processor:
    return Processor("ek-b1-processor-0", print, ManualClock(), Failures(), Limits(), quota)


def admitted(quota: ConnectionQuota) -> EndedStream:
    stream = EndedStream()
    assert quota.admit(stream.peer_host)
    return stream


def test_a_connection_handed_to_a_processor_that_has_ended_is_reset(
    processor: Processor, quota: ConnectionQuota
) -> None:
    processor.start()
    processor.stop(Phase.KILLED)
    processor.join()
    stream = admitted(quota)
    processor.adopt(cast(Stream, stream), listener="PLAINTEXT", number=0)
    assert stream.ended == "reset"
    assert quota.count == 0


def test_a_connection_handed_to_a_processor_that_never_started_is_reset(
    processor: Processor, quota: ConnectionQuota
) -> None:
    stream = admitted(quota)
    processor.adopt(cast(Stream, stream), listener="PLAINTEXT", number=0)
    processor.join()
    assert stream.ended == "reset"
    assert quota.count == 0


def test_a_processor_that_never_started_closes_its_descriptors(quota: ConnectionQuota) -> None:
    before = open_descriptors()
    processor = Processor("ek", print, ManualClock(), Failures(), Limits(), quota)
    assert open_descriptors() > before
    processor.join()
    assert open_descriptors() <= before


def test_pausing_or_waking_a_processor_that_has_ended_does_nothing(processor: Processor) -> None:
    processor.start()
    processor.stop(Phase.KILLED)
    processor.join()
    processor.pause()
    processor.wake()
