"""The state of idempotent and transactional producers in one log."""

import struct
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from embedkafka.broker.log.append_info import AppendInfo
from embedkafka.broker.log.log import FetchIsolation, Log
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.producers.snapshot import (
    CorruptSnapshot,
    SnapshotEntry,
    read_snapshot,
    write_snapshot,
)
from embedkafka.broker.log.producers.state import (
    CheckedProducers,
    ProducerState,
    ProducerStateConfig,
)
from embedkafka.broker.log.producers.verification import Verification
from embedkafka.runtime.files import FileRegion, SystemFiles
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import RecordBatch, read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from tests.presence import present
from tests.unit.broker.log.conftest import LogKit

LAST = 2**31 - 1


def send(
    kit: LogKit,
    log: Log,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer: int = 7,
    **more: Any,
) -> AppendInfo:
    return kit.append(
        log,
        *[b"v"] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        **more,
    )


def refused(kit: LogKit, log: Log, sequence: int, **options: Any) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(ApiError) as caught:
        send(kit, log, sequence, **options)
    assert log.log_end_offset == before
    return caught.value.code


# -- sequences


def test_batches_in_sequence_are_appended(kit: LogKit) -> None:
    log = kit.new()
    assert send(kit, log, 0, 3).first_offset == 0
    assert send(kit, log, 3, 2).first_offset == 3


def test_a_gap_is_out_of_order(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, 3)
    assert refused(kit, log, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(kit, log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_again_with_their_offsets(kit: LogKit) -> None:
    log = kit.new()
    for sequence in range(7):
        send(kit, log, sequence)
    for sequence in range(2, 7):
        again = send(kit, log, sequence)
        assert again.duplicate
        assert (again.first_offset, again.last_offset) == (sequence, sequence)
    assert log.log_end_offset == 7
    assert refused(kit, log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_part_of_a_known_batch_is_no_duplicate(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, 5)
    assert refused(kit, log, 0, count=3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(kit, log, 2, count=3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(kit: LogKit) -> None:
    log = kit.new()
    assert send(kit, log, 17).first_offset == 0
    assert send(kit, log, 18).first_offset == 1


def test_producer_0_is_a_producer_like_any_other(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, producer=0)
    assert send(kit, log, 0, producer=0).duplicate


def test_a_batch_without_a_producer_leaves_no_trace(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"plain")
    assert log.active_producers() == []


def test_sequences_wrap_around(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, LAST - 1, 2)
    assert send(kit, log, 0).first_offset == 2
    send(kit, log, LAST, 3, producer=8)
    assert send(kit, log, 2, producer=8).first_offset == 6
    assert send(kit, log, LAST, 3, producer=8).duplicate


def test_a_new_epoch_begins_with_sequence_0(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, 2, epoch=3)
    assert refused(kit, log, 2, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(kit, log, 0, epoch=4).first_offset == 2
    assert refused(kit, log, 2, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_follower_takes_what_its_leader_took(kit: LogKit) -> None:
    log = kit.new()
    for offset, (epoch, sequence) in enumerate([(5, 0), (4, 9), (5, 33)]):
        log.append_as_follower(
            build_batch(
                [(1, None, b"v", ())],
                base_offset=offset,
                leader_epoch=0,
                producer_id=7,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )
    assert log.log_end_offset == 3


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0)
    send(kit, log, 0, producer=8, transactional=True)
    kit.clock.advance(24 * 60 * 60 * 1000)
    log.remove_expired_producers()
    assert [producer.producer_id for producer in log.active_producers()] == [8]
    assert send(kit, log, 40).first_offset == 2


def test_a_producer_that_keeps_sending_is_not_forgotten(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0)
    kit.clock.advance(24 * 60 * 60 * 1000 - 1)
    send(kit, log, 1)
    kit.clock.advance(24 * 60 * 60 * 1000 - 1)
    log.remove_expired_producers()
    assert send(kit, log, 1).duplicate


# -- transactions


def test_readers_of_committed_records_stop_at_the_first_open_transaction(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"plain")
    send(kit, log, 0, transactional=True)
    kit.append(log, b"plain")
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    kit.end_transaction(log, 7, commit=True)
    assert log.last_stable_offset == 1, "the marker is not replicated yet"
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_the_first_of_several_open_transactions_counts(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, producer=1, transactional=True)
    send(kit, log, 0, producer=2, transactional=True)
    kit.end_transaction(log, 1, commit=True)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    kit.end_transaction(log, 2, commit=False)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_a_transaction_whose_marker_is_not_replicated_counts_beside_an_open_one(
    kit: LogKit,
) -> None:
    log = kit.new()
    send(kit, log, 0, producer=1, transactional=True)
    send(kit, log, 0, producer=2, transactional=True)
    kit.end_transaction(log, 1, commit=True)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0


def test_truncation_leaves_stable_what_was_stable(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, commit=True)
    log.update_high_watermark(2)
    kit.append(log, b"never replicated")
    log.truncate_to(2)
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("is_ended", [False, True])
def test_truncation_takes_transactions_back(kit: LogKit, is_ended: bool) -> None:
    log = kit.new()
    kit.append(log, b"plain")
    send(kit, log, 0, transactional=True)
    if is_ended:
        kit.end_transaction(log, 7, commit=True)
    log.truncate_to(1)
    kit.append(log, b"plain")
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_told_to_readers_of_committed_records(kit: LogKit) -> None:
    log = kit.new(segment_bytes=200)
    for round_number in range(4):
        send(kit, log, round_number, producer=1, transactional=True)
        kit.end_transaction(log, 1, commit=round_number % 2 == 0)
    log.update_high_watermark(log.log_end_offset)
    found = set()
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=10**6, isolation=FetchIsolation.TXN_COMMITTED)
        assert data.aborted_transactions is not None
        found.update((txn.producer_id, txn.first_offset) for txn in data.aborted_transactions)
        offset += 1
    assert found == {(1, 2), (1, 6)}


def content_of(log: Log) -> bytes:
    records = log.read(0, max_bytes=10**6).records
    assert isinstance(records, FileRegion)
    return bytes(records.read())


def follower_of(kit: LogKit, leader: Log) -> Log:
    """A replica that fetches the leader's whole log at once."""
    follower = type(kit)(kit.root / "follower").new(index_interval_bytes=1)
    follower.append_as_follower(content_of(leader))
    follower.update_high_watermark(leader.log_end_offset)
    leader.update_high_watermark(leader.log_end_offset)
    return follower


def test_the_first_open_transaction_counts_though_a_producer_began_another_before_it(
    kit: LogKit,
) -> None:
    leader = kit.new()
    send(kit, leader, 0, producer=1, transactional=True)
    kit.end_transaction(leader, 1, commit=True)
    send(kit, leader, 0, producer=2, transactional=True)
    send(kit, leader, 1, producer=1, transactional=True)
    follower = follower_of(kit, leader)
    assert follower.last_stable_offset == leader.last_stable_offset == 2


def test_a_follower_tells_of_the_same_aborted_transactions_as_its_leader(kit: LogKit) -> None:
    leader = kit.new(index_interval_bytes=1)
    send(kit, leader, 0, producer=1, transactional=True)
    send(kit, leader, 0, producer=2, transactional=True)
    kit.end_transaction(leader, 1, commit=False)
    kit.append(leader, b"plain")
    kit.end_transaction(leader, 2, commit=False)
    follower = follower_of(kit, leader)
    for offset in range(leader.log_end_offset):
        told = [
            log.read(offset, max_bytes=1, isolation=FetchIsolation.TXN_COMMITTED)
            for log in (leader, follower)
        ]
        assert told[0].aborted_transactions == told[1].aborted_transactions, (
            f"fetched from {offset}"
        )


def test_a_transaction_that_begins_later_does_not_hide_an_earlier_one_on_a_follower(
    kit: LogKit,
) -> None:
    leader = kit.new(index_interval_bytes=1)
    send(kit, leader, 0, producer=1, transactional=True)
    kit.end_transaction(leader, 1, commit=False)
    send(kit, leader, 1, producer=1, transactional=True)
    send(kit, leader, 0, producer=2, transactional=True)
    kit.end_transaction(leader, 1, commit=False)
    kit.end_transaction(leader, 2, commit=True)
    follower = follower_of(kit, leader)
    as_far_as_the_second = sum(map(len, batches_of(leader)[:3]))
    told = follower.read(0, max_bytes=as_far_as_the_second, isolation=FetchIsolation.TXN_COMMITTED)
    assert [txn.first_offset for txn in present(told.aborted_transactions)] == [0, 2]


def batches_of(log: Log) -> list[bytes]:
    if not log.log_end_offset:
        return []
    data = content_of(log)
    ends = list(accumulate(batch.size_in_bytes for batch in read_batches(data)))
    return [data[start:end] for start, end in pairwise([0, *ends])]


def transaction_index(kit: LogKit) -> bytes:
    names = kit.names(".txnindex")
    return kit.files.read(kit.directory / names[0]) if names else b""


def test_an_aborted_transaction_is_stored_with_the_last_stable_offset_of_that_moment(
    kit: LogKit,
) -> None:
    log = kit.new()
    send(kit, log, 0, producer=1, transactional=True)
    send(kit, log, 0, producer=2, transactional=True)
    kit.end_transaction(log, 2, commit=False)
    kit.end_transaction(log, 1, commit=False)
    entries = list(struct.iter_unpack(">hqqqq", transaction_index(kit)))
    assert entries == [(0, 2, 1, 2, 0), (0, 1, 0, 3, 4)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["send", "send", "commit", "abort"])),
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_leader_follower_and_recovery_write_the_same_transaction_index(
    new_kit: Callable[[], LogKit], events: list[tuple[int, str]], random: Random
) -> None:
    kit, copy = new_kit(), new_kit()
    leader, follower = kit.new(), copy.new()
    sequences = dict.fromkeys((1, 2, 3), 0)
    for producer, event in events:
        if event == "send":
            send(kit, leader, sequences[producer], producer=producer, transactional=True)
            sequences[producer] += 1
        else:
            kit.end_transaction(leader, producer, commit=event == "commit")
    batches = batches_of(leader)
    while batches:
        count = random.randint(1, len(batches))  # batches per fetch
        taken, batches = batches[:count], batches[count:]
        follower.append_as_follower(b"".join(taken))
    written = transaction_index(kit)
    assert transaction_index(copy) == written
    follower.kill()
    copy.load(is_clean=False)
    assert transaction_index(copy) == written


def test_plain_writes_within_a_transaction_are_refused(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    assert refused(kit, log, 1) is ErrorCode.INVALID_TXN_STATE


def test_a_control_record_of_an_unknown_type_ends_nothing(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    unknown_type = struct.pack(">hh", 0, 99)
    log.append_as_follower(
        build_batch(
            [(1, unknown_type, b"", ())],
            base_offset=1,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0


def test_a_marker_of_an_old_coordinator_is_fenced(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, commit=True, coordinator_epoch=5)
    send(kit, log, 1, transactional=True)
    with pytest.raises(ApiError) as caught:
        kit.end_transaction(log, 7, commit=True, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_an_old_producer_epoch_is_refused(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, epoch=3, transactional=True)
    with pytest.raises(ApiError) as caught:
        kit.end_transaction(log, 7, commit=True, producer_epoch=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_fences_the_epochs_before_it(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, epoch=3, transactional=True)
    kit.end_transaction(log, 7, commit=False, producer_epoch=4)
    assert refused(kit, log, 1, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(kit, log, 0, epoch=4, transactional=True).first_offset == 2


def test_a_marker_without_data_ends_nothing(kit: LogKit) -> None:
    log = kit.new()
    kit.end_transaction(log, 7, commit=False)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 1
    assert not kit.names(".txnindex")


def test_active_producers_are_described(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, 2, epoch=1, transactional=True)
    (producer,) = log.active_producers()
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 1, 1)
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (0, -1)
    assert producer.last_timestamp == kit.clock.now_ms()
    kit.clock.advance(5)
    kit.end_transaction(log, 7, commit=True, producer_epoch=1, coordinator_epoch=3)
    (producer,) = log.active_producers()
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, 3)
    assert producer.last_timestamp == kit.clock.now_ms()


def test_truncation_takes_producers_back(kit: LogKit) -> None:
    log = kit.new(segment_bytes=200)
    for sequence in range(8):
        send(kit, log, sequence, transactional=True)
    log.truncate_to(3)
    assert log.last_stable_offset == 0
    late = refused(kit, log, 4, transactional=True)
    assert late is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(kit, log, 2, transactional=True).duplicate
    assert send(kit, log, 3, transactional=True).first_offset == 3
    log.truncate_to(0)
    assert log.active_producers() == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_producers_survive_a_restart(kit: LogKit, is_clean: bool) -> None:
    log = kit.new(segment_bytes=200)
    for sequence in range(5):
        send(kit, log, sequence)
    send(kit, log, 0, producer=9, transactional=True)
    log.close() if is_clean else log.kill()
    log = kit.load(is_clean=is_clean, segment_bytes=200)
    log.update_high_watermark(6)
    assert log.last_stable_offset == 5
    assert send(kit, log, 4).duplicate
    assert refused(kit, log, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(kit, log, 5).first_offset == 6


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_coordinator_of_a_marker_is_known_after_a_restart(kit: LogKit, is_clean: bool) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, commit=True, coordinator_epoch=5)
    log.close() if is_clean else log.kill()
    log = kit.load(is_clean=is_clean)
    send(kit, log, 1, transactional=True)
    with pytest.raises(ApiError) as caught:
        kit.end_transaction(log, 7, commit=True, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_transaction_that_begins_with_the_log_is_open_after_a_restart(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    log.close()
    log = kit.load(is_clean=True)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 0


def test_a_producer_of_the_first_record_alone_is_known_after_a_restart(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0)
    log.close()
    log = kit.load(is_clean=True)
    again = send(kit, log, 0)
    assert (again.duplicate, again.first_offset) == (True, 0)


def test_a_producer_known_by_a_marker_alone_has_no_sequence_after_a_restart(kit: LogKit) -> None:
    log = kit.new()
    kit.end_transaction(log, 7, commit=False, producer_epoch=3)
    log.close()
    (stored,) = read_snapshot(SystemFiles(), kit.directory / kit.names(".snapshot")[-1])
    assert (stored.last_sequence, stored.last_offset, stored.offset_delta) == (-1, -1, 0)
    assert stored.current_txn_first_offset == -1
    (producer,) = kit.load(is_clean=True).active_producers()
    assert (producer.producer_epoch, producer.last_sequence) == (3, -1)


def test_compaction_must_leave_the_last_batch_of_a_producer(kit: LogKit) -> None:
    log = kit.new()
    for sequence in range(3):
        send(kit, log, sequence)
    assert log.cleanable.view().last_records[7].last_data_offset == 2


# -- verification (KIP-890)


def begin(
    log: Log, *, epoch: int = 0, sequence: int = 0, bumps_epochs: bool = False
) -> Verification | None:
    return log.begin_verification(
        7, producer_epoch=epoch, base_sequence=sequence, bumps_epochs=bumps_epochs
    )


def verify(log: Log, *, epoch: int = 0, sequence: int = 0, bumps_epochs: bool = False) -> None:
    verification = begin(log, epoch=epoch, sequence=sequence, bumps_epochs=bumps_epochs)
    assert verification is not None
    log.confirm_verification(verification, epoch)


def test_a_transaction_begins_only_after_its_coordinator_confirmed_it(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE
    verification = present(begin(log))
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE
    log.confirm_verification(verification, 0)
    assert send(kit, log, 0, transactional=True).first_offset == 0
    assert begin(log, sequence=1) is None, "an open transaction needs no verification"
    assert send(kit, log, 1, transactional=True).first_offset == 1


def test_a_marker_in_between_makes_a_verification_worthless(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    late = present(begin(log))
    verify(log)
    kit.end_transaction(log, 7, commit=False)
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE
    log.confirm_verification(late, 0)
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE
    begin(log)
    log.confirm_verification(late, 0)
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE


def test_coordinators_need_a_verification_for_offsets_but_not_for_markers(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    kit.end_transaction(log, 7, commit=True)
    offsets = build_batch(
        [(1, b"k", b"v", ())], producer_id=7, producer_epoch=0, transactional=True
    )
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(offsets, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    verify(log, sequence=-1)
    log.append_as_leader(offsets, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 2


def test_the_batch_that_was_asked_about_first_comes_first(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log, sequence=0)
    verify(log, sequence=3)
    late = refused(kit, log, 3, transactional=True)
    assert late is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(kit, log, 0, transactional=True).first_offset == 0


def test_an_open_transaction_of_an_older_epoch_vouches_for_nobody(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log)
    send(kit, log, 0, transactional=True)
    assert begin(log, epoch=1) is not None


def test_an_epoch_that_was_not_confirmed_begins_nothing(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log, epoch=0)
    begin(log, epoch=1)
    assert refused(kit, log, 0, epoch=1, transactional=True) is ErrorCode.INVALID_TXN_STATE
    assert send(kit, log, 0, transactional=True).first_offset == 0


def test_a_zombie_is_told_so_before_anybody_is_asked(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    kit.end_transaction(log, 7, producer_epoch=1, commit=True)
    with pytest.raises(ApiError) as caught:
        begin(log, epoch=0)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_plain_and_replicated_batches_need_no_verification(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    assert send(kit, log, 0).first_offset == 0
    log.append_as_follower(
        build_batch(
            [(1, None, b"v", ())],
            base_offset=1,
            leader_epoch=0,
            producer_id=8,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    assert log.log_end_offset == 2


def test_forgotten_verifications_are_worthless(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log)
    kit.clock.advance(24 * 60 * 60 * 1000)
    log.remove_expired_producers()
    assert refused(kit, log, 0, transactional=True) is ErrorCode.INVALID_TXN_STATE


def test_a_fresh_verification_is_not_forgotten(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log)
    kit.clock.advance(24 * 60 * 60 * 1000 - 1)
    log.remove_expired_producers()
    assert send(kit, log, 0, transactional=True).first_offset == 0


def test_a_verification_outlives_a_truncation(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    kit.append(log, b"never replicated")
    verify(log)
    log.truncate_to(0)
    assert send(kit, log, 0, transactional=True).first_offset == 0


# -- a new epoch for every transaction (KIP-890)


def test_a_transaction_with_its_own_epoch_begins_with_sequence_0(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log, sequence=3, bumps_epochs=True)
    first = refused(kit, log, 3, transactional=True)
    assert first is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verify(log, sequence=0, bumps_epochs=True)
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, producer_epoch=1, commit=True)
    verify(log, epoch=1, sequence=1, bumps_epochs=True)
    later = refused(kit, log, 1, epoch=1, transactional=True)
    assert later is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_transaction_in_the_epoch_of_the_one_before_goes_on_in_sequence(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log, bumps_epochs=True)
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, commit=True)
    verify(log, sequence=1, bumps_epochs=True)
    assert send(kit, log, 1, transactional=True).first_offset == 2


def test_the_first_batch_ends_its_verification(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    first = present(begin(log, bumps_epochs=True))
    log.confirm_verification(first, 0)
    send(kit, log, 0, transactional=True)
    verify(log, epoch=1, bumps_epochs=True)
    log.confirm_verification(first, 0)  # a late answer must not undo the one for epoch 1
    kit.end_transaction(log, 7, producer_epoch=1, commit=True)
    assert send(kit, log, 0, epoch=1, transactional=True).first_offset == 2


def test_a_marker_leaves_the_verification_of_the_next_epoch_alone(kit: LogKit) -> None:
    log = kit.new(verifies_transactions=True)
    verify(log, bumps_epochs=True)
    send(kit, log, 0, transactional=True)
    verify(log, epoch=1, bumps_epochs=True)
    kit.end_transaction(log, 7, producer_epoch=1, commit=True)
    assert send(kit, log, 0, epoch=1, transactional=True).first_offset == 2


@pytest.mark.parametrize("origin", [AppendOrigin.COORDINATOR, AppendOrigin.BUMPING_COORDINATOR])
def test_a_marker_of_the_open_transactions_epoch_is_that_of_the_one_before(
    kit: LogKit, origin: AppendOrigin
) -> None:
    log = kit.new()
    send(kit, log, 0, transactional=True)
    kit.end_transaction(log, 7, producer_epoch=1, commit=True, origin=origin)
    kit.end_transaction(
        log, 7, producer_epoch=1, commit=True, origin=origin
    )  # a repeated marker is harmless
    send(kit, log, 0, epoch=1, transactional=True)
    if origin is AppendOrigin.COORDINATOR:
        kit.end_transaction(log, 7, producer_epoch=1, commit=True, origin=origin)
        assert log.log_end_offset == 5
        return
    with pytest.raises(ApiError) as caught:
        kit.end_transaction(log, 7, producer_epoch=1, commit=True, origin=origin)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_greatest_epoch_ends_its_own_transaction(kit: LogKit) -> None:
    log = kit.new()
    send(kit, log, 0, epoch=2**15 - 1, transactional=True)
    bumping = AppendOrigin.BUMPING_COORDINATOR
    kit.end_transaction(log, 7, producer_epoch=2**15 - 1, commit=True, origin=bumping)
    assert log.log_end_offset == 2


# -- snapshots

ENTRIES = [
    SnapshotEntry(1, 0, 4, 100, 2, 1_700, -1, -1),
    SnapshotEntry(2**40, 9, 2**31 - 1, 2**41, 0, 1_800, 3, 77),
]


def test_a_snapshot_has_kafkas_layout(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000005.snapshot"
    write_snapshot(SystemFiles(), path, ENTRIES)
    data = path.read_bytes()
    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x02"
    assert len(data) == 10 + 2 * 46
    assert read_snapshot(SystemFiles(), path) == ENTRIES


@pytest.mark.parametrize("damage", ["cut", "flipped", "version", "empty"])
def test_a_damaged_snapshot_is_corrupt(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "0.snapshot"
    write_snapshot(SystemFiles(), path, ENTRIES)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[20] ^= 1
    elif damage == "version":
        data[1] = 9
    else:
        data = data[: {"cut": 50, "empty": 0}[damage]]
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshot):
        read_snapshot(SystemFiles(), path)


def test_a_corrupt_snapshot_gives_way_to_an_older_one(kit: LogKit) -> None:
    log = kit.new(segment_bytes=150)
    for sequence in range(6):
        send(kit, log, sequence)
    log.close()
    newest = kit.directory / kit.names(".snapshot")[-1]
    newest.write_bytes(b"rubbish")
    log = kit.load(is_clean=True, segment_bytes=150)
    assert send(kit, log, 5).duplicate
    assert send(kit, log, 6).first_offset == 6


def test_snapshots_of_no_segment_are_removed_but_for_one_at_the_end(tmp_path: Path) -> None:
    for offset in (10, 50, 100, 150):
        write_snapshot(SystemFiles(), tmp_path / f"{offset:020d}.snapshot", [])
    state = ProducerState("orders-0", SystemFiles(), tmp_path, ProducerStateConfig())
    state.find_snapshots([path.name for path in tmp_path.iterdir()], [0, 10, 100])
    assert snapshots_in(tmp_path) == [10, 100, 150]
    (tmp_path / f"{150:020d}.snapshot").unlink()
    write_snapshot(SystemFiles(), tmp_path / f"{50:020d}.snapshot", [])
    state.find_snapshots([path.name for path in tmp_path.iterdir()], [0, 10, 120])
    assert snapshots_in(tmp_path) == [10]


@pytest.fixture
def state(tmp_path: Path) -> ProducerState:
    return ProducerState("orders-0", SystemFiles(), tmp_path, ProducerStateConfig())


def note(state: ProducerState, offset: int, sequence: int, *, transactional: bool = False) -> None:
    """Adds a batch with one record of producer 1."""
    data = build_batch(
        [(1, None, b"v", ())],
        base_offset=offset,
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    batch = RecordBatch(memoryview(data))
    state.commit(state.check([batch], AppendOrigin.REPLICATION))
    state.map_end_offset = batch.next_offset


def last_sequences(state: ProducerState) -> dict[int, int]:
    return {known.producer_id: known.last_sequence for known in state.active_producers()}


def test_files_that_only_resemble_snapshots_are_left_alone(state: ProducerState) -> None:
    state.find_snapshots(["notes.snapshot", f"{5:020d}", f"{5:020d}.log"], [0])
    state.truncate_and_reload(0, 10, now_ms=1)
    assert state.map_end_offset == 0


def test_a_snapshot_is_written_once(state: ProducerState, tmp_path: Path) -> None:
    state.take_snapshot()
    assert snapshots_in(tmp_path) == [], "an empty log needs no snapshot"
    note(state, 4, 0)
    state.take_snapshot()
    assert snapshots_in(tmp_path) == [5]
    (tmp_path / f"{5:020d}.snapshot").unlink()
    state.take_snapshot()
    assert snapshots_in(tmp_path) == []


def test_truncation_returns_to_the_newest_snapshot_within_the_log(
    state: ProducerState, tmp_path: Path
) -> None:
    for sequence, offset in enumerate((9, 19, 29)):
        note(state, offset, sequence)
        state.take_snapshot()
    state.truncate_and_reload(10, 20, now_ms=1)
    assert snapshots_in(tmp_path) == [20]
    assert state.map_end_offset == 20
    assert last_sequences(state) == {1: 1}


def test_a_corrupt_snapshot_is_replaced_by_the_one_before_it(
    state: ProducerState, tmp_path: Path
) -> None:
    for sequence, offset in enumerate((9, 19)):
        note(state, offset, sequence)
        state.take_snapshot()
    (tmp_path / f"{20:020d}.snapshot").write_bytes(b"rubbish")
    state.truncate_and_reload(0, 25, now_ms=1)
    assert snapshots_in(tmp_path) == [10]
    assert state.map_end_offset == 10
    assert last_sequences(state) == {1: 0}


def test_without_a_snapshot_state_begins_with_the_log(state: ProducerState, tmp_path: Path) -> None:
    note(state, 9, 0)
    state.truncate_and_reload(5, 8, now_ms=1)
    assert state.map_end_offset == 5
    assert last_sequences(state) == {}
    state.take_snapshot()
    assert snapshots_in(tmp_path) == [], "nothing precedes the log"


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_state_follows_a_log_that_begins_later(
    state: ProducerState, tmp_path: Path, is_reloaded: bool
) -> None:
    note(state, 4, 0, transactional=True)
    marker = build_end_transaction_marker(
        EndTransactionMarker(control_type=ControlType.COMMIT, coordinator_epoch=0),
        timestamp=1,
        producer_id=1,
        producer_epoch=0,
        base_offset=5,
    )
    state.commit(state.check([RecordBatch(memoryview(marker))], AppendOrigin.REPLICATION))
    state.map_end_offset = 6
    assert state.first_unstable_offset == 4
    if is_reloaded:
        state.truncate_and_reload(50, 6, now_ms=1)
    else:
        state.on_log_start(50)
    assert state.first_unstable_offset is None
    assert state.map_end_offset == 50
    state.take_snapshot()
    assert snapshots_in(tmp_path) == [], "nothing precedes the log"


def test_state_that_starts_over_writes_snapshots_from_its_new_start(
    state: ProducerState, tmp_path: Path
) -> None:
    note(state, 99, 0)
    state.take_snapshot()
    state.truncate_fully_and_start_at(7)
    assert snapshots_in(tmp_path) == []
    assert state.map_end_offset == 7
    state.truncate_fully_and_start_at(0)
    note(state, 0, 0)
    state.take_snapshot()
    assert snapshots_in(tmp_path) == [1]


def test_snapshots_go_with_their_segments(state: ProducerState, tmp_path: Path) -> None:
    for sequence, offset in enumerate((9, 19)):
        note(state, offset, sequence)
        state.take_snapshot()
    state.remove_snapshots([0, 10])
    assert snapshots_in(tmp_path) == [20]


def test_snapshots_are_written_where_the_log_has_moved(
    state: ProducerState, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    state.move(moved)
    note(state, 0, 0)
    state.take_snapshot()
    assert snapshots_in(moved) == [1]


def test_state_moves_into_a_copy_of_its_log(state: ProducerState, tmp_path: Path) -> None:
    """The copy has separate segments, and so other snapshots."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    state.move(first)
    note(state, 0, 0)
    state.take_snapshot()
    for offset in (5, 10):
        write_snapshot(SystemFiles(), second / f"{offset:020d}.snapshot", [])
    state.settle_in(second, [path.name for path in second.iterdir()], [0, 10])
    assert snapshots_in(second) == [1, 10]
    assert snapshots_in(first) == [1]


def test_a_log_that_starts_over_has_no_snapshots(kit: LogKit) -> None:
    log = kit.new(segment_bytes=150)
    for sequence in range(6):
        send(kit, log, sequence)
    assert kit.names(".snapshot")
    log.truncate_fully_and_start_at(100)
    assert not kit.names(".snapshot")
    assert log.active_producers() == []


def snapshots_in(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.iterdir())


# -- compared with a model


class ProducerModel(RuleBasedStateMachine):
    """One producer's epochs and sequences, compared with the simplest form of the rules."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ProducerState(
            "model-0", SystemFiles(), Path("/nowhere"), ProducerStateConfig()
        )
        self.offset = 0
        self.epoch: int | None = None
        self.sent: list[tuple[int, int, int]] = []

    @rule(epoch=st.integers(0, 3), sequence=st.integers(0, 12), count=st.integers(1, 3))
    def send_anything(self, epoch: int, sequence: int, count: int) -> None:
        self.send(epoch, sequence, count)

    @rule(count=st.integers(1, 3))
    @precondition(lambda self: self.epoch is not None)
    def send_what_is_next(self, count: int) -> None:
        assert self.epoch is not None
        assert self.send(self.epoch, self.next_sequence(), count) == "appended"

    @rule(back=st.integers(1, 7))
    @precondition(lambda self: self.sent)
    def send_again(self, back: int) -> None:
        assert self.epoch is not None
        if back <= len(self.sent):
            first, count, _ = self.sent[-back]
            expected = "duplicate" if back <= 5 else None
            outcome = self.send(self.epoch, first, count)
            assert expected is None or outcome == expected

    def next_sequence(self) -> int:
        return self.sent[-1][0] + self.sent[-1][1] if self.sent else 0

    def send(self, epoch: int, sequence: int, count: int) -> str:
        batch = RecordBatch(
            memoryview(
                build_batch(
                    [(1, None, b"v", ())] * count,
                    base_offset=self.offset,
                    producer_id=1,
                    producer_epoch=epoch,
                    base_sequence=sequence,
                )
            )
        )
        expected = self.expected(epoch, sequence, count)
        outcome = "appended"
        checked = CheckedProducers()
        try:
            checked = self.state.check([batch], AppendOrigin.CLIENT)
        except ApiError as error:
            outcome = error.code.name
        if checked.duplicate is not None:
            outcome = "duplicate"
            assert (sequence, count, checked.duplicate.first_offset) in self.sent
        assert outcome == expected
        if outcome != "appended":
            return outcome
        self.state.commit(checked)
        if epoch != self.epoch:
            self.sent.clear()
        self.epoch = epoch
        self.sent.append((sequence, count, self.offset))
        self.offset += count
        return expected

    def expected(self, epoch: int, sequence: int, count: int) -> str:
        if self.epoch is None:
            return "appended"
        if epoch < self.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if epoch > self.epoch:
            return "appended" if sequence == 0 else "OUT_OF_ORDER_SEQUENCE_NUMBER"
        if any(known[:2] == (sequence, count) for known in self.sent[-5:]):
            return "duplicate"
        in_order = sequence == self.next_sequence()
        return "appended" if in_order else "OUT_OF_ORDER_SEQUENCE_NUMBER"

    @invariant()
    def five_batches_are_kept(self) -> None:
        known = self.state._entries.get(1)
        assert known is None or len(known.batches) == min(len(self.sent), 5)


ProducerModel.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestProducerModel = ProducerModel.TestCase
