"""Idempotent producers, batch by batch: duplicates, gaps and epochs."""

from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest
from tests.wire.clients import Cluster, Out, consume, values
from tests.wire.clients import produce as deliver
from tests.wire.one_partition import (
    LATEST,
    batch,
    each_version,
    fetch,
    list_offset,
    produce,
    values_of,
)
from tests.wire.raw_client import RawClient


class Sender:
    """A producer whose sequence numbers the test chooses."""

    def __init__(self, raw: RawClient, topic: str) -> None:
        self._raw = raw
        self._topic = topic
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.producer_id = raw.call(request, 4).producer_id

    def send(self, sequence: int, *values: bytes, epoch: int = 0) -> Any:
        records = batch(
            *(values or (f"s{sequence}".encode(),)),
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return produce(self._raw, self._topic, records)


@pytest.fixture
def sender(raw: RawClient, topic: str) -> Sender:
    return Sender(raw, topic)


def test_every_version_gives_a_new_producer_id_with_epoch_0(raw: RawClient) -> None:
    ids = []

    def check(version: int) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = raw.call(request, version)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
        ids.append(answer.producer_id)

    each_version(raw, InitProducerIdRequest, check)
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 0


def test_a_repeated_batch_gets_its_first_offset_and_is_not_written_again(
    raw: RawClient, topic: str, sender: Sender
) -> None:
    for sequence in range(3):
        assert sender.send(sequence).base_offset == sequence
    again = sender.send(2)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2)
    assert values_of(fetch(raw, topic, 0)) == [b"s0", b"s1", b"s2"]


def test_the_last_five_batches_are_remembered(topic: str, sender: Sender) -> None:
    for sequence in range(6):
        sender.send(sequence)
    for sequence in (5, 1):
        again = sender.send(sequence)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)
    assert sender.send(0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(raw: RawClient, topic: str, sender: Sender) -> None:
    sender.send(0)
    assert sender.send(2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert list_offset(raw, topic, LATEST).offset == 1
    assert sender.send(1).error_code == ErrorCode.NONE


def test_sequences_count_records_and_not_batches(topic: str, sender: Sender) -> None:
    sender.send(0, b"a", b"b", b"c")
    assert sender.send(1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.send(3).base_offset == 3


def test_a_producer_that_the_log_has_not_seen_may_start_anywhere(sender: Sender) -> None:
    assert sender.send(17).error_code == ErrorCode.NONE
    assert sender.send(18).error_code == ErrorCode.NONE


def test_what_was_lost_before_the_first_stored_batch_is_refused_when_it_comes(
    raw: RawClient, topic: str, sender: Sender
) -> None:
    assert sender.send(5, b"f", b"g").base_offset == 0
    again = sender.send(5, b"f", b"g")
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    for late in (0, 4, 5, 6, 8):
        refused = sender.send(late)
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (refused.base_offset, refused.log_start_offset) == (-1, 0)
    assert sender.send(7).base_offset == 2
    assert list_offset(raw, topic, LATEST).offset == 3


def test_a_new_epoch_starts_at_sequence_0(sender: Sender) -> None:
    sender.send(0)
    refused = sender.send(1, epoch=1)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.send(0, epoch=1).error_code == ErrorCode.NONE


def test_an_old_epoch_is_fenced(raw: RawClient, topic: str, sender: Sender) -> None:
    sender.send(0)
    sender.send(0, epoch=1)
    assert sender.send(1, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert list_offset(raw, topic, LATEST).offset == 2


def test_sequences_wrap_around_after_the_largest_int(sender: Sender) -> None:
    largest = 2**31 - 1
    assert sender.send(largest - 1, b"a", b"b").error_code == ErrorCode.NONE
    assert sender.send(0).error_code == ErrorCode.NONE


def test_two_producers_do_not_share_sequences(raw: RawClient, topic: str) -> None:
    one, two = Sender(raw, topic), Sender(raw, topic)
    assert one.producer_id != two.producer_id
    assert [sender.send(s).error_code for s in (0, 1) for sender in (one, two)] == [0, 0, 0, 0]


def test_an_idempotent_client_writes_each_record_once_and_in_order(
    cluster: Cluster, topic: str
) -> None:
    sent = [str(i).encode() for i in range(2000)]
    deliver(cluster, topic, [Out(value=value) for value in sent], enable_idempotence=True)
    assert values(consume(cluster, topic, len(sent))) == sent
