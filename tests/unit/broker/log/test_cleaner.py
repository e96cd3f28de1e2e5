"""Compaction of whole logs keeps the newest value of each key and everything that must stay."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.log.cleaning.cleaner import Cleaner, CleanerConfig
from embedkafka.broker.log.files.checkpoints import CLEANER_CHECKPOINT, read_offsets
from embedkafka.broker.log.log import FetchIsolation, Log
from embedkafka.broker.log.log_state import MAX_OFFSET
from embedkafka.runtime.files import FileRegion, SystemFiles
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.record import Record
from tests.unit.broker.log.conftest import LogKit

COMPACT = frozenset({"compact"})
SMALL: dict[str, Any] = {  # the settings have many types
    "cleanup_policy": COMPACT,
    "segment_bytes": 200,
    "min_cleanable_dirty_ratio": 0.0,
}
DAY = 24 * 60 * 60 * 1000

T = TypeVar("T")


class Washing:
    """A log and its cleaner."""

    def __init__(self, kit: LogKit, log: Log, **config: object) -> None:
        self.kit = kit
        self.log = log
        self.failed: list[Path] = []
        self.cleaner = Cleaner(
            lambda: [self.log],
            clock=kit.clock,
            files=kit.files,
            config=CleanerConfig(**config),  # type: ignore[arg-type]  # each test knows its types
            on_storage_error=lambda directory, error: self.failed.append(directory),
        )
        self.cleaner.load_checkpoint(kit.root)

    def put(self, key: bytes, value: bytes | None, **batch: Any) -> None:
        built = self.kit.batch(value, key=key, **batch)  # passed on as they are
        self.log.append_as_leader(built, leader_epoch=0)

    def settle(self) -> None:
        """Replicates everything and leaves the active segment empty."""
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll()

    def wash(self) -> bool:
        self.settle()
        return self.cleaner.clean_filthiest()

    def content(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(r.offset, r.key, r.value) for r in self.kit.records(self.log)]


@pytest.fixture
def washing(kit: LogKit) -> Washing:
    return Washing(kit, kit.new(**SMALL))


# -- keys and tombstones


def test_only_the_newest_value_of_each_key_stays(washing: Washing) -> None:
    for number in range(12):
        washing.put(b"k%d" % (number % 3), b"%d" % number)
    assert washing.wash()
    assert washing.content() == [(9, b"k0", b"9"), (10, b"k1", b"10"), (11, b"k2", b"11")]
    assert washing.log.log_end_offset == 12
    assert not washing.wash(), "nothing should be dirty any more"


def test_offsets_that_are_gone_lead_to_the_next_that_is_there(washing: Washing) -> None:
    for number in range(9):
        washing.put(b"same", b"%d" % number)
    washing.wash()
    assert washing.kit.values(washing.log, start=2) == [b"8"]


def test_batches_lose_only_the_records_that_are_superseded(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(**SMALL))
    now = kit.clock.now_ms()
    for codec in (Compression.NONE, Compression.LZ4):
        records = [(now, b"k%d" % number, codec.name.encode(), ()) for number in range(4)]
        batch = build_batch(
            records if codec is Compression.NONE else records[1:3], compression=codec
        )
        washing.log.append_as_leader(batch, leader_epoch=5)
        washing.log.roll()
    washing.wash()
    assert washing.content() == [
        (0, b"k0", b"NONE"),
        (3, b"k3", b"NONE"),
        (4, b"k1", b"LZ4"),
        (5, b"k2", b"LZ4"),
    ]


def test_a_clean_log_loses_its_tombstones_when_it_is_compacted_on_demand(washing: Washing) -> None:
    washing.put(b"gone", b"v")
    washing.put(b"gone", None)
    washing.put(b"stays", b"v")
    washing.wash()
    for waited_ms, left in ((DAY - 1, 2), (1, 1)):
        washing.kit.clock.advance(waited_ms)
        washing.cleaner.clean_now(washing.log)
        assert len(washing.content()) == left
    assert washing.content() == [(2, b"stays", b"v")]
    offsets = read_offsets(SystemFiles(), washing.kit.root / CLEANER_CHECKPOINT)
    assert offsets == {washing.log.topic_partition: 3}


def test_tombstones_stay_until_their_delete_horizon(washing: Washing) -> None:
    kit = washing.kit
    washing.put(b"gone", b"v")
    washing.put(b"gone", None)
    washing.wash()
    assert washing.content() == [(1, b"gone", None)]
    kit.clock.advance(DAY - 1)
    washing.put(b"other", b"1")
    washing.wash()
    assert (1, b"gone", None) in washing.content()
    kit.clock.advance(1)
    washing.put(b"other", b"2")
    washing.wash()
    assert washing.content() == [(3, b"other", b"2")]


def test_what_is_in_the_active_segment_is_not_touched(washing: Washing) -> None:
    washing.put(b"k", b"1")
    washing.put(b"k", b"2")
    washing.settle()
    washing.put(b"k", b"3")
    washing.cleaner.clean_filthiest()
    assert washing.kit.values(washing.log) == [b"2", b"3"]


def test_small_segments_are_merged(washing: Washing) -> None:
    for number in range(30):
        washing.put(b"k%d" % (number % 2), b"%d" % number)
    before = len(washing.kit.names(".log"))
    washing.wash()
    washing.put(b"k0", b"last")
    washing.wash()
    washing.kit.tasks.run_pending()
    assert before > 10
    assert len(washing.kit.names(".log")) <= 3
    assert not [name for name in washing.kit.names() if name.endswith((".swap", ".cleaned"))]


def test_a_compacted_log_is_loaded_again(washing: Washing) -> None:
    for number in range(30):
        washing.put(b"k%d" % (number % 4), b"%d" % number)
    washing.wash()
    content = washing.content()
    washing.log.close()
    washing.kit.tasks.run_pending()
    for is_clean in (True, False):
        washing.log = washing.kit.load(is_clean=is_clean, **SMALL)
        assert washing.content() == content
        assert washing.log.log_end_offset == 30
        washing.log.kill()


@settings(max_examples=20)
@given(
    rounds=st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.none() | st.binary(min_size=1, max_size=3)),
            min_size=1,
            max_size=12,
        ),
        min_size=1,
        max_size=4,
    ),
    keys=st.sampled_from([2, 3, 1000]),
)
def test_compaction_keeps_what_a_map_would_keep(
    kit: LogKit, rounds: list[list[tuple[int, bytes | None]]], keys: int
) -> None:
    shutil.rmtree(kit.root)
    kit.root.mkdir()
    washing = Washing(
        kit,
        kit.new(**SMALL),
        log_cleaner_dedupe_buffer_size=24 * keys,
        log_cleaner_io_buffer_load_factor=1.0,
    )
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for round_number, puts in enumerate(rounds):
        for key, value in puts:
            offset = washing.log.log_end_offset
            washing.put(b"%d" % key, value)
            newest[b"%d" % key] = (offset, value)
        washing.settle()
        for _ in range(20):
            if not washing.cleaner.clean_filthiest():
                break
        kit.tasks.run_pending()
        content = washing.content()
        assert [row[0] for row in content] == sorted({row[0] for row in content})
        assert {(o, k, v) for o, k, v in content} >= {(o, k, v) for k, (o, v) in newest.items()}
        if keys == 1000:
            assert len(content) == len(newest), round_number
    washing.log.close()


# -- when to clean


def test_a_log_is_cleaned_when_its_dirty_share_is_large_enough(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(**{**SMALL, "min_cleanable_dirty_ratio": 0.5}))
    for number in range(20):
        washing.put(b"k%d" % number, b"%d" % number)
    assert washing.wash(), "the whole log is dirty"
    for number in range(6):
        washing.put(b"k%d" % number, b"%d" % number)
    assert not washing.wash(), "only about a quarter is dirty"
    for number in range(20):
        washing.put(b"k%d" % number, b"%d" % number)
    assert washing.wash()


def test_young_records_are_spared(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(**{**SMALL, "min_compaction_lag_ms": 1000}))
    washing.put(b"k", b"1")
    washing.put(b"k", b"2")
    assert not washing.wash()
    kit.clock.advance(1000)
    assert washing.wash()
    assert kit.values(washing.log) == [b"2"]


def test_old_dirt_is_cleaned_however_little_it_is(kit: LogKit) -> None:
    config = {**SMALL, "min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 5000}
    washing = Washing(kit, kit.new(**config))
    washing.put(b"k", b"1")
    washing.put(b"k", b"2")
    assert not washing.wash()
    kit.clock.advance(5001)
    assert washing.wash()
    assert kit.values(washing.log) == [b"2"]


def test_open_transactions_hold_compaction_back(washing: Washing) -> None:
    for number in range(4):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    washing.put(b"k", b"open", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    washing.settle()
    for number in range(4):
        washing.put(b"k", b"late %d" % number)
    washing.wash()
    assert washing.kit.values(washing.log) == [
        b"3",
        b"open",
        *[b"late %d" % number for number in range(4)],
    ]


def test_plain_logs_are_left_alone(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(segment_bytes=200))
    for number in range(10):
        washing.put(b"k", b"%d" % number)
    assert not washing.wash()


# -- transactions and producers


def transact(washing: Washing, sequence: int, key: bytes, *, commit: bool) -> None:
    washing.put(
        key,
        b"txn %d" % sequence,
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    washing.kit.end_transaction(washing.log, 1, commit=commit)


def markers(washing: Washing) -> list[int]:
    control_keys = (b"\x00\x00\x00\x00", b"\x00\x00\x00\x01")
    return [r.offset for r in washing.kit.records(washing.log) if r.key in control_keys]


def test_aborted_records_go_first_and_their_marker_after_the_horizon(washing: Washing) -> None:
    washing.put(b"k", b"before")
    transact(washing, 0, b"k", commit=False)
    transact(washing, 1, b"x", commit=True)
    washing.wash()
    assert (1, b"k", b"txn 0") not in washing.content()
    assert (0, b"k", b"before") in washing.content()
    assert markers(washing) == [2, 4]
    data = washing.log.read(0, max_bytes=10**6, isolation=FetchIsolation.TXN_COMMITTED)
    assert data.aborted_transactions is not None
    washing.put(b"more", b"1")
    washing.wash()
    assert 2 in markers(washing), "the horizon is only set now"
    washing.kit.clock.advance(DAY)
    washing.put(b"more", b"2")
    washing.wash()
    assert markers(washing) == [4], "only the marker of a transaction with records stays"


def test_the_last_batch_of_a_producer_leaves_its_sequence_behind(washing: Washing) -> None:
    washing.put(b"k", b"mine", producer_id=1, producer_epoch=0, base_sequence=0)
    washing.put(b"k", b"plain")
    washing.wash()
    assert washing.content() == [(1, b"k", b"plain")]
    washing.log.close()
    for name in washing.kit.names(".snapshot"):
        (washing.kit.directory / name).unlink()
    washing.log = washing.kit.load(is_clean=False, **SMALL)
    again = washing.kit.append(
        washing.log, b"mine", key=b"k", producer_id=1, producer_epoch=0, base_sequence=0
    )
    assert again.duplicate
    assert again.first_offset == 0


def test_the_last_marker_of_a_producer_leaves_an_empty_batch_behind(washing: Washing) -> None:
    producer = {"producer_id": 1, "base_sequence": 0, "transactional": True}
    washing.put(b"k", b"mine", producer_epoch=0, **producer)
    washing.kit.end_transaction(washing.log, 1, commit=False, producer_epoch=0)
    washing.kit.end_transaction(washing.log, 1, commit=False, producer_epoch=1)
    for value in (b"1", b"2", b"3"):
        washing.put(b"more", value)
        washing.wash()
        washing.kit.clock.advance(DAY)
    assert markers(washing) == []
    found = washing.log.read(0, max_bytes=10**6).records
    assert isinstance(found, FileRegion)
    kept = [(each.base_offset, each.producer_epoch) for each in read_batches(found.read())]
    assert kept[0] == (2, 1)


# -- checkpoints and interruptions


def test_cleaning_goes_on_where_it_ended(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k%d" % number, b"%d" % number)
    washing.wash()
    text = (washing.kit.root / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n1\norders 0 6\n"
    later = Washing(washing.kit, washing.log)
    assert later.cleaner.find_filthiest() is None
    later.cleaner.forget(washing.log)
    assert (washing.kit.root / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    assert later.cleaner.find_filthiest() is not None


def test_what_was_truncated_is_cleaned_again(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k%d" % number, b"%d" % number)
    washing.wash()
    washing.log.truncate_to(2)
    for number in range(6):
        washing.put(b"k1", b"again %d" % number)
    washing.wash()
    assert washing.kit.values(washing.log) == [b"0", b"again 5"]


def test_a_truncation_is_forgotten_when_its_log_is_clean_again(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k%d" % number, b"%d" % number)
    washing.wash()
    washing.log.truncate_to(2)
    assert washing.log.cleanable.view().lowest_truncation == 2
    for number in range(6):
        washing.put(b"k1", b"again %d" % number)
    assert washing.wash()
    assert washing.log.cleanable.view().lowest_truncation == MAX_OFFSET
    assert not washing.wash(), "nothing should be dirty any more"


def test_a_truncation_that_the_cleaner_did_not_see_is_remembered(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k%d" % number, b"%d" % number)
    washing.settle()
    seen = washing.log.cleanable.view()
    washing.log.truncate_to(2)
    washing.log.cleanable.forget_truncations(seen.truncations)
    assert washing.log.cleanable.view().lowest_truncation == 2


def test_a_log_that_changes_meanwhile_is_left_as_it_is(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    view = washing.log.cleanable.view()
    new = washing.log.cleanable.new_segment(0)
    washing.log.truncate_to(3)
    old = [part.segment for part in view.segments]
    assert not washing.log.cleanable.replace(new, old, truncations=view.truncations)
    assert washing.kit.values(washing.log) == [b"0", b"1", b"2"]


def test_a_log_truncated_during_its_compaction_waits_for_the_next_pass(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    steps = washing.cleaner.clean()
    next(steps)
    washing.log.truncate_to(3)
    for _ in steps:
        pass
    assert washing.kit.values(washing.log) == [b"0", b"1", b"2"]
    assert washing.wash()
    assert washing.kit.values(washing.log) == [b"2"]


def test_a_pass_has_no_effect_on_a_log_that_is_paused_meanwhile(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    steps = washing.cleaner.clean()
    next(steps)
    washing.log.cleanable.pause()
    for _ in steps:
        pass
    washing.log.cleanable.pause()
    washing.log.cleanable.resume()
    assert not washing.wash(), "one pause is left"
    assert len(washing.content()) == 6
    washing.log.cleanable.resume()
    assert washing.wash()
    assert washing.kit.values(washing.log) == [b"5"]


def test_a_full_disk_loses_nothing_that_compaction_would_keep(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    washing.kit.files.full_paths.add(".log.cleaned")
    assert not washing.cleaner.clean_filthiest()
    assert washing.failed == [washing.kit.root]
    washing.kit.files.full_paths.clear()
    assert washing.content()[-1] == (5, b"k", b"5")
    assert not washing.kit.names(".cleaned")
    assert washing.wash()
    assert washing.content() == [(5, b"k", b"5")]


def test_a_log_that_cannot_be_read_is_not_tried_again(washing: Washing) -> None:
    for number in range(6):
        washing.put(b"k", b"%d" % number)
    washing.settle()
    first = washing.kit.directory / washing.kit.names(".log")[0]
    data = bytearray(first.read_bytes())
    data[57:61] = b"\x00\x00\x00\x09"
    first.write_bytes(data)
    assert washing.cleaner.clean_filthiest()
    assert washing.cleaner.find_filthiest() is None
    assert washing.cleaner.uncleanable == {washing.kit.topic_partition}


def test_a_log_with_more_keys_in_a_batch_than_there_is_room_for_is_cleaned(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(**SMALL), log_cleaner_dedupe_buffer_size=48)
    for _ in range(3):
        records = [(kit.clock.now_ms(), b"k%d" % number, b"v", ()) for number in range(5)]
        washing.log.append_as_leader(build_batch(records), leader_epoch=0)
    washing.settle()
    for _ in range(3):
        assert washing.cleaner.clean_filthiest()
    assert washing.cleaner.find_filthiest() is None
    assert [offset for offset, _, _ in washing.content()] == [10, 11, 12, 13, 14]


def test_a_log_may_be_deleted_while_another_thread_notes_what_is_clean(
    washing: Washing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write the same file: the first thread must not find that the second took it away."""
    writing, may_go_on = threading.Event(), threading.Event()
    replace = os.replace

    def replace_slowly(source: Path, target: Path) -> None:
        if target.name == CLEANER_CHECKPOINT and not writing.is_set():
            writing.set()
            assert may_go_on.wait(30)
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_slowly)
    washing.put(b"k", b"1")
    washing.put(b"k", b"2")
    cleaning = threading.Thread(target=washing.wash)
    cleaning.start()
    assert writing.wait(30)
    deleting = threading.Thread(target=washing.cleaner.forget, args=(washing.log,))
    deleting.start()
    deleting.join(0.2)  # it would be done by now if it did not wait
    may_go_on.set()
    for thread in (cleaning, deleting):
        thread.join(30)
        assert not thread.is_alive()
    assert washing.failed == []
    assert read_offsets(washing.kit.files, washing.kit.root / CLEANER_CHECKPOINT) == {}


@pytest.mark.parametrize("step", ["cleaned", "swap", "deleted"])
def test_a_crash_while_segments_are_replaced_loses_nothing(washing: Washing, step: str) -> None:
    """After each step, the files hold either the old log or the compacted one."""
    for number in range(12):
        washing.put(b"k%d" % (number % 3), b"%d" % number)
    washing.settle()
    expected = [(9, b"k0", b"9"), (10, b"k1", b"10"), (11, b"k2", b"11")]
    log, kit = washing.log, washing.kit
    renames = 0
    real_rename = kit.files.rename

    def rename(old: Path, new: Path) -> None:
        nonlocal renames
        stops_at = {"cleaned": ".log.swap", "swap": ".log.deleted", "deleted": ".log"}[step]
        if new.name.endswith(stops_at) and old.name != new.name:
            renames += 1
            raise OSError("the process died")
        real_rename(old, new)

    kit.files.rename = rename
    washing.cleaner.clean_filthiest()
    assert renames == 1
    kit.files.rename = real_rename
    log.kill()
    washing.log = kit.load(is_clean=False, **SMALL)
    content = washing.content()
    newest: dict[bytes | None, tuple[int, bytes | None]] = {k: (o, v) for o, k, v in content}
    assert sorted((o, k, v) for k, (o, v) in newest.items()) == expected
    assert washing.log.log_end_offset == 12
    assert not [name for name in kit.names() if name.endswith((".cleaned", ".swap", ".deleted"))]


class Death:
    """Ends the process when it creates, renames, replaces or removes a file for the n-th time."""

    def __init__(self, files: SystemFiles, at: int) -> None:
        self._left = at
        self._files = files
        self.happened = False
        for name in ("create", "rename", "replace", "sync", "remove"):
            setattr(files, name, self._mortal(getattr(files, name)))

    def _mortal(self, act: Callable[..., T]) -> Callable[..., T]:
        def attempt(*arguments: object, **options: object) -> T:
            self._left -= 1
            if self._left < 0:
                self.happened = True
                raise OSError("the process died")
            return act(*arguments, **options)

        return attempt

    def undo(self) -> None:
        for name in ("create", "rename", "replace", "sync", "remove"):
            delattr(self._files, name)


def test_compaction_may_die_anywhere_and_so_may_what_repairs_it(kit: LogKit) -> None:
    """Repeats until a compaction completes. The repair dies at each of its steps as well."""
    compaction_died = True
    at = 0
    while compaction_died:
        shutil.rmtree(kit.directory, ignore_errors=True)
        washing = Washing(kit, kit.new(**SMALL))
        for number in range(4):
            washing.put(b"k%d" % (number % 2), b"%d" % number)
        transact(washing, 0, b"k0", commit=False)
        washing.settle()
        expected = {b"k0": b"2", b"k1": b"3"}
        compaction = Death(kit.files, at)
        washing.cleaner.clean_filthiest()
        washing.log.kill()
        compaction.undo()
        compaction_died, repair_died, step = compaction.happened, True, 0
        while repair_died:
            repair = Death(kit.files, step)
            try:
                washing.log = kit.load(**SMALL)
            except OSError:
                pass
            repair.undo()
            repair_died, step = repair.happened, step + 1
        log = washing.log
        log.update_high_watermark(log.log_end_offset)
        assert (log.log_end_offset, log.last_stable_offset) == (6, 6)
        assert len(log.cleanable.aborted_transactions()) <= 1
        aborted = {txn.first_offset for txn in log.cleanable.aborted_transactions()}
        newest = {
            record.key: record.value
            for record in kit.records(log)
            if record.offset < 4 and record.offset not in aborted
        }
        assert newest == expected
        assert not [name for name in kit.names() if name.endswith((".cleaned", ".swap"))]
        log.kill()
        at += 1
    assert at > 10


def test_compact_and_delete_do_both(kit: LogKit) -> None:
    both = frozenset({"compact", "delete"})
    washing = Washing(kit, kit.new(**{**SMALL, "cleanup_policy": both, "retention_ms": 1000}))
    washing.put(b"k", b"1")
    washing.put(b"k", b"2")
    washing.wash()
    assert kit.values(washing.log) == [b"2"]
    kit.clock.advance(1001)
    washing.log.delete_old_segments()
    assert washing.content() == []
    assert washing.log.log_start_offset == 2


def test_records_of_any_shape_survive(kit: LogKit) -> None:
    washing = Washing(kit, kit.new(**SMALL))
    now = kit.clock.now_ms()
    record = (now, b"\x00\xff", b"v", [("h", None), ("i", b"\x01")])
    washing.log.append_as_leader(build_batch([record, (now, b"x", b"1", ())]), leader_epoch=3)
    washing.put(b"x", b"2")
    washing.wash()
    first, _ = kit.records(washing.log)
    assert first == Record(0, now, b"\x00\xff", b"v", (("h", None), ("i", b"\x01")))
