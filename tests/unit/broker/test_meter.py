from types import SimpleNamespace
from typing import Any, cast

import pytest

from embedkafka.broker.meter import Meter, Metered, _count_records
from embedkafka.runtime.clock import ManualClock
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest, MetadataResponse, ProduceRequest
from embedkafka.wire.records.builder import build_batch


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def begin(meter: Meter, clock: ManualClock, message: Any, api: ApiKey) -> Metered:
    request = SimpleNamespace(frame=memoryview(bytes(100)), received_ms=clock.monotonic_ms() - 2)
    metered = meter.begin(api, "a client", message, cast(Any, request), {})
    assert metered is not None
    return metered


def test_local_time_ends_when_the_handler_returns_and_remote_time_begins(
    clock: ManualClock,
) -> None:
    meter = Meter(clock)
    metered = begin(meter, clock, MetadataRequest(topics=[]), ApiKey.METADATA)
    clock.advance(3)
    metered.returned()
    clock.advance(5)
    metered.answered(MetadataResponse(brokers=[], topics=[]))
    clock.advance(1)
    metered.handed_over()
    clock.advance(7)
    metered.taken()
    clock.advance(2)
    metered.sent()
    totals = meter.apis()[ApiKey.METADATA]
    assert (totals.requests, totals.request_bytes) == (1, 100)
    times = (totals.queue_ms, totals.local_ms, totals.remote_ms, totals.send_ms)
    assert times == (2, 3, 5, 3)
    assert totals.response_queue_ms == 7
    assert totals.total_ms == 20


def test_errors_are_counted_wherever_they_are(clock: ManualClock) -> None:
    meter = Meter(clock)
    failed = [
        MetadataResponse.Topic(error_code=code, name="t", is_internal=False, partitions=[])
        for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)
    ]
    metered = begin(meter, clock, MetadataRequest(topics=[]), ApiKey.METADATA)
    metered.answered(MetadataResponse(brokers=[], topics=failed))
    assert meter.apis()[ApiKey.METADATA].errors["UNKNOWN_TOPIC_ID"] == 2


def test_records_without_an_acknowledgement_count_too(clock: ManualClock) -> None:
    meter = Meter(clock)
    batch = memoryview(bytearray(build_batch([(1, b"k", b"v", ()), (1, None, b"w", ())])))
    topic = ProduceRequest.Topic
    request = ProduceRequest(
        acks=0,
        timeout_ms=1,
        topic_data=[
            topic(name="t", partition_data=[topic.Partition(index=0, records=batch)]),
        ],
    )
    begin(meter, clock, request, ApiKey.PRODUCE).answered(None)
    totals = meter.topics()["t"]
    assert (totals.messages_in, totals.bytes_in, totals.produces) == (2, batch.nbytes, 1)


def test_requests_of_ignored_clients_are_not_counted(clock: ManualClock) -> None:
    meter = Meter(clock, ignored={"mine"})
    request = cast(Any, SimpleNamespace(frame=b"", received_ms=0.0))
    assert meter.begin(ApiKey.METADATA, "mine", object(), request, {}) is None


def test_an_old_message_set_has_as_many_records_as_entries() -> None:
    entry = bytes(8) + (20).to_bytes(4, "big") + bytes(20)
    assert _count_records(memoryview(entry * 3)) == 3
