"""Opening a log after a clean shutdown, after a crash, and after damage."""

import shutil
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.log.log import FetchIsolation, Log
from embedkafka.runtime.files import FileRegion
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.legacy import build_message_set
from embedkafka.wire.records.record import Record
from tests.unit.broker.log.conftest import LogKit

SMALL: dict[str, Any] = {"segment_bytes": 400, "index_interval_bytes": 100}
TOPIC_ID = uuid.UUID("b8d131c5-2a3d-4b3f-9f1e-0a0b0c0d0e0f")


def fill(kit: LogKit, log: Log, count: int = 30) -> None:
    for number in range(count):
        kit.append(log, b"%03d" % number, timestamp=1000 + number, epoch=number // 10)


def snapshot_of(kit: LogKit, log: Log) -> object:
    """Everything that must be the same after a restart."""
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.latest_epoch,
        kit.records(log),
        [log.end_offset_for_epoch(epoch) for epoch in range(4)],
        [log.search_timestamp(1000 + number).finish() for number in range(0, 32, 3)],
        [producer.producer_id for producer in log.active_producers()],
    )


def test_a_closed_log_is_opened_as_it_was(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    before = snapshot_of(kit, log)
    log.close()
    files = {path.name: path.read_bytes() for path in kit.directory.iterdir()}
    log = kit.load(is_clean=True, **SMALL)
    assert snapshot_of(kit, log) == before
    log.close()
    assert {path.name: path.read_bytes() for path in kit.directory.iterdir()} == files


def test_a_killed_log_is_recovered_whole(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    before = snapshot_of(kit, log)
    log.kill()
    log = kit.load(recovery_point=0, **SMALL)
    assert snapshot_of(kit, log) == before
    assert kit.append(log, b"more", epoch=3).first_offset == 30


def test_an_old_message_that_cannot_be_inflated_does_not_stop_recovery(kit: LogKit) -> None:
    """Its checksum is right. Such files come from elsewhere: from a disk, or from Kafka."""
    log = kit.new()
    kit.append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    first = log.size
    kit.append(log, b"b")
    log.roll()
    kit.append(log, b"c")
    log.kill()
    wrapper = bytearray(build_message_set([Record(1, 1000, None, b"not inflatable")], magic=1))
    wrapper[17] |= Compression.SNAPPY
    wrapper[12:16] = zlib.crc32(wrapper[16:]).to_bytes(4, "big")
    file = kit.directory / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:first] + wrapper)
    for snapshot in kit.directory.glob("*.snapshot"):
        snapshot.unlink()
    log = kit.load(recovery_point=2)
    assert log.log_end_offset == 3
    assert [producer.producer_id for producer in log.active_producers()] == [5]


def test_a_log_with_records_knows_its_topic_even_after_a_crash(kit: LogKit) -> None:
    log = kit.new()
    log.assign_topic_id(TOPIC_ID)
    kit.append(log, b"a")
    log.kill()
    assert kit.load().topic_id == TOPIC_ID


def test_a_new_segment_takes_the_place_of_what_has_its_name(kit: LogKit) -> None:
    log = kit.new()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (kit.directory / f"{0:020d}{suffix}").write_bytes(b"left by somebody")
    kit.append(log, b"a")
    assert kit.values(log) == [b"a"]
    log.kill()
    log = kit.load()
    assert kit.values(log) == [b"a"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_empty_log_has_no_files_of_its_own_and_is_loaded_all_the_same(
    kit: LogKit, is_clean: bool
) -> None:
    log = kit.new()
    log.assign_topic_id(TOPIC_ID)
    log.assign_epoch_start(3, 0)
    log.flush()
    assert kit.names() == []
    log.close() if is_clean else log.kill()
    assert kit.names() == (["leader-epoch-checkpoint", "partition.metadata"] if is_clean else [])
    log = kit.load(is_clean=is_clean)
    assert log.topic_id == (TOPIC_ID if is_clean else None)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert kit.append(log, b"a").first_offset == 0


def test_epochs_that_were_not_written_are_found_in_the_batches(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    for number in range(12):
        kit.append(log, b"%d" % number, epoch=number)
    recovery_point = log.recovery_point
    log.truncate_to(10)
    kit.append(log, b"new", epoch=20)
    entries = [log.end_offset_for_epoch(epoch) for epoch in range(22)]
    log.kill()
    log = kit.load(recovery_point=recovery_point, **SMALL)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(22)] == entries


def test_segments_before_the_recovery_point_are_not_checked(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    kit.tasks.run_pending()
    recovery_point = log.recovery_point
    log.kill()
    first = kit.directory / kit.names(".log")[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    assert kit.load(recovery_point=recovery_point, **SMALL).log_end_offset == 30


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "short", "rubbish", "preallocated"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_bad_indexes_are_rebuilt(kit: LogKit, suffix: str, damage: str, is_clean: bool) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    before = snapshot_of(kit, log)
    log.close()
    whole = {path.name: path.read_bytes() for path in kit.directory.glob(f"*{suffix}")}
    for name, data in whole.items():
        path = kit.directory / name
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            path.write_bytes(data + b"\x00")
        elif damage == "rubbish":
            path.write_bytes(b"\xff" * 24)
        else:
            path.write_bytes(data + bytes(240))
    log = kit.load(is_clean=is_clean, **SMALL)
    assert snapshot_of(kit, log) == before
    log.close()
    assert {path.name: path.read_bytes() for path in kit.directory.glob(f"*{suffix}")} == whole


def test_orphaned_indexes_are_removed(kit: LogKit) -> None:
    log = kit.new()
    kit.append(log, b"a")
    log.close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        (kit.directory / f"{99:020d}{suffix}").write_bytes(b"")
    kit.load(is_clean=True)
    assert not [name for name in kit.names() if name.startswith(f"{99:020d}")]


def test_an_empty_directory_becomes_a_log_at_its_start_offset(kit: LogKit) -> None:
    kit.directory.mkdir()
    log = kit.load(log_start_offset=12)
    assert (log.log_start_offset, log.log_end_offset) == (12, 12)
    assert kit.append(log, b"a").first_offset == 12


def test_a_log_that_ends_before_its_start_is_emptied(kit: LogKit) -> None:
    log = kit.new()
    fill(kit, log, 5)
    log.close()
    log = kit.load(is_clean=True, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_the_log_start_checkpoint_is_honoured(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    log.close()
    log = kit.load(is_clean=True, log_start_offset=7, **SMALL)
    assert log.log_start_offset == 7
    assert kit.records(log)[0].offset == 7


# -- leftovers of interrupted work


def test_deleted_and_unfinished_files_are_removed(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    log.close()
    before = set(kit.names())
    for name in ("0.log.deleted", "0.log.cleaned", "0.index.cleaned", "0.timeindex.deleted"):
        (kit.directory / name.replace("0.", f"{0:020d}.")).write_bytes(b"half")
    kit.load(is_clean=True, **SMALL)
    assert set(kit.names()) == before


def swapped(kit: LogKit, log: Log) -> tuple[Sequence[str], bytes]:
    """Writes swap files that stand for the first two segments."""
    names = kit.names(".log")
    data = (kit.directory / names[0]).read_bytes() + (kit.directory / names[1]).read_bytes()
    stem = names[0].removesuffix(".log")
    (kit.directory / f"{stem}.log.swap").write_bytes(data)
    return names, data


def test_a_finished_replacement_takes_its_place(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    values = kit.values(log)
    log.close()
    names, data = swapped(kit, log)
    log = kit.load(is_clean=True, **SMALL)
    assert kit.values(log) == values
    assert kit.names(".log") == [names[0], *names[2:]]
    assert (kit.directory / names[0]).read_bytes() == data
    assert not kit.names(".swap")


def test_a_replacement_whose_siblings_are_unfinished_is_dropped(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    fill(kit, log)
    values = kit.values(log)
    log.close()
    names, _ = swapped(kit, log)
    (kit.directory / f"{0:020d}.index.cleaned").write_bytes(b"")
    log = kit.load(is_clean=True, **SMALL)
    assert kit.values(log) == values
    assert kit.names(".log") == names


# -- random damage, compared with a model


class StoredBatch(NamedTuple):
    path: Path
    position: int
    size: int
    values: tuple[bytes | None, ...]


def stored_batches(kit: LogKit) -> list[StoredBatch]:
    found = []
    for name in kit.names(".log"):
        position = 0
        for batch in read_batches((kit.directory / name).read_bytes()):
            values = tuple(record.value for record in batch.records())
            found.append(StoredBatch(kit.directory / name, position, batch.size_in_bytes, values))
            position += batch.size_in_bytes
    return found


@settings(max_examples=60)
@given(data=st.data())
def test_recovery_keeps_exactly_the_batches_before_the_first_damage(
    kit: LogKit, data: st.DataObject
) -> None:
    shutil.rmtree(kit.directory, ignore_errors=True)
    log = kit.new(**SMALL)
    for number in range(data.draw(st.integers(1, 15))):
        count = data.draw(st.integers(1, 4))
        kit.append(
            log,
            *[b"%d.%d" % (number, index) for index in range(count)],
            compression=data.draw(st.sampled_from([Compression.NONE, Compression.LZ4])),
            timestamp=1000 + data.draw(st.integers(0, 50)),
        )
    log.kill()
    batches = stored_batches(kit)
    victim_number = data.draw(st.integers(0, len(batches) - 1))
    victim = batches[victim_number]
    # The checksum does not cover base offset and leader epoch: the leader patches them in place.
    within = data.draw(
        st.integers(8, victim.size - 1).filter(lambda position: not 12 <= position < 16)
    )
    content = bytearray(victim.path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: victim.position + within]
    else:
        content[victim.position + within] ^= 1 << data.draw(st.integers(0, 7))
    victim.path.write_bytes(content)

    expected = [value for batch in batches[:victim_number] for value in batch.values]
    log = kit.load(recovery_point=0, **SMALL)
    assert kit.values(log) == expected
    assert log.log_end_offset == len(expected)
    for offset in range(len(expected)):
        region = log.read(offset, max_bytes=1).records
        assert isinstance(region, FileRegion)
        (batch,) = read_batches(region.read())
        assert batch.base_offset <= offset <= batch.last_offset
    assert kit.append(log, b"after").first_offset == len(expected)
    log.close()
    log = kit.load(is_clean=True, **SMALL)
    assert kit.values(log) == [*expected, b"after"]
    log.close()


def test_recovery_rebuilds_the_transaction_index(kit: LogKit) -> None:
    log = kit.new(**SMALL)
    for round_number in range(6):
        kit.append(
            log,
            b"x",
            producer_id=1,
            producer_epoch=0,
            base_sequence=round_number,
            transactional=True,
        )
        kit.append(
            log,
            b"y",
            producer_id=2,
            producer_epoch=0,
            base_sequence=round_number,
            transactional=True,
        )
        kit.end_transaction(log, 1, commit=False)
        kit.end_transaction(log, 2, commit=round_number % 2 == 0)
    log.kill()
    whole = {path.name: path.read_bytes() for path in kit.directory.glob("*.txnindex")}
    assert sum(map(len, whole.values())) == 9 * 34
    for path in kit.directory.glob("*.txnindex"):
        path.unlink()
    log = kit.load(recovery_point=0, **SMALL)
    rebuilt = {path.name: path.read_bytes() for path in kit.directory.glob("*.txnindex")}
    assert rebuilt == whole
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    data = log.read(0, max_bytes=10**6, isolation=FetchIsolation.TXN_COMMITTED)
    assert data.aborted_transactions


SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


def history_of(kit: LogKit, log: Log) -> object:
    """Everything that a log knows, from whichever files."""
    log.update_high_watermark(log.log_end_offset)
    return (
        snapshot_of(kit, log),
        log.last_stable_offset,
        list(log.cleanable.aborted_transactions()),
        sorted(log.active_producers(), key=lambda producer: producer.producer_id),
    )


@settings(max_examples=60)
@given(data=st.data())
def test_recovery_needs_nothing_but_the_batches(kit: LogKit, data: st.DataObject) -> None:
    """It restores indexes, snapshots and epochs, whichever of them are damaged or missing."""
    shutil.rmtree(kit.directory, ignore_errors=True)
    log = kit.new(**SMALL)
    sequences = {1: 0, 2: 0}
    open_transactions = set()
    epoch = 0
    for number in range(data.draw(st.integers(5, 25))):
        epoch += data.draw(st.integers(0, 1))
        producer_id = data.draw(st.sampled_from(sorted(sequences)))
        match data.draw(st.sampled_from(["plain", "transactional", "commit", "abort"])):
            case "plain":
                kit.append(log, b"%d" % number, epoch=epoch, timestamp=1000 + number)
            case "transactional":
                kit.append(
                    log,
                    b"%d" % number,
                    epoch=epoch,
                    timestamp=1000 + number,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequences[producer_id],
                    transactional=True,
                )
                sequences[producer_id] += 1
                open_transactions.add(producer_id)
            case end if producer_id in open_transactions:
                kit.end_transaction(log, producer_id, commit=end == "commit", epoch=epoch)
                open_transactions.discard(producer_id)
    before = history_of(kit, log)
    log.close() if data.draw(st.booleans()) else log.kill()
    side_files = [name for name in kit.names() if name.endswith(SIDE_FILES)]
    for name in data.draw(st.sets(st.sampled_from(side_files))) if side_files else ():
        damage(kit.directory / name, data)
    log = kit.load(recovery_point=0, **SMALL)
    assert history_of(kit, log) == before
    log.close()
    log = kit.load(is_clean=True, **SMALL)
    assert history_of(kit, log) == before
    log.close()


def damage(path: Path, data: st.DataObject) -> None:
    """Removes, cuts or bit-flips a file; checkpoints, always replaced whole, are only removed."""
    content = bytearray(path.read_bytes())
    kinds = ["gone"] if not content or path.suffix == "" else ["gone", "cut", "flipped"]
    match data.draw(st.sampled_from(kinds)):
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        case "flipped":
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(
                st.integers(0, 7)
            )
            path.write_bytes(content)
