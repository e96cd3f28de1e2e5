"""The three indexes of a segment, compared with plain lists."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.log.files.index_file import CorruptIndex
from embedkafka.broker.log.files.offset_index import OffsetIndex, OffsetPosition
from embedkafka.broker.log.files.time_index import TimeIndex, TimestampOffset
from embedkafka.broker.log.files.txn_index import AbortedTransaction, TransactionIndex
from embedkafka.runtime.files import SystemFiles

BASE = 1_000_000

property_settings = settings(max_examples=50)


@st.composite
def rising_pairs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Pairs that rise in both parts, like the entries of an index."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(min_value=1, max_value=50), st.integers(1, 5000)), max_size=30
        )
    )
    pairs, first, second = [], 0, 0
    for first_step, second_step in steps:
        first, second = first + first_step, second + second_step
        pairs.append((first, second))
    return pairs


def new_offset_index(directory: Path, max_bytes: int = 8000) -> OffsetIndex:
    index = OffsetIndex(
        SystemFiles(), directory / "00.index", base_offset=BASE, max_bytes=max_bytes
    )
    index.create()
    return index


def new_time_index(directory: Path, max_bytes: int = 12000) -> TimeIndex:
    index = TimeIndex(
        SystemFiles(), directory / "00.timeindex", base_offset=BASE, max_bytes=max_bytes
    )
    index.create()
    return index


@property_settings
@given(entries=rising_pairs(), probes=st.lists(st.integers(-10, 1600)))
def test_offset_lookup_finds_the_last_entry_not_past_the_offset(
    tmp_path: Path, entries: list[tuple[int, int]], probes: list[int]
) -> None:
    index = new_offset_index(tmp_path)
    for relative, position in entries:
        index.append(BASE + relative, position)
    for probe in probes:
        below = [entry for entry in entries if entry[0] <= probe]
        relative, position = below[-1] if below else (0, 0)
        assert index.lookup(BASE + probe) == OffsetPosition(BASE + relative, position)


@property_settings
@given(entries=rising_pairs(), start=st.integers(0, 1600), size=st.integers(0, 200_000))
def test_upper_bound_is_the_first_entry_past_so_many_bytes(
    tmp_path: Path, entries: list[tuple[int, int]], start: int, size: int
) -> None:
    index = new_offset_index(tmp_path)
    for relative, position in entries:
        index.append(BASE + relative, position)
    found = index.find_upper_bound(OffsetPosition(BASE + start, 100), size)
    beyond = [entry for entry in entries if entry[0] > start and entry[1] >= 100 + size]
    assert found == (OffsetPosition(BASE + beyond[0][0], beyond[0][1]) if beyond else None)


@property_settings
@given(entries=rising_pairs(), cut=st.integers(-1, 1600))
def test_both_indexes_are_truncated_and_stored_as_lists_would_be(
    tmp_path: Path, entries: list[tuple[int, int]], cut: int
) -> None:
    offsets, times = new_offset_index(tmp_path), new_time_index(tmp_path)
    for relative, number in entries:
        offsets.append(BASE + relative, number)
        times.maybe_append(number, BASE + relative)
    offsets.truncate_to(BASE + cut)
    times.truncate_to(BASE + cut)
    kept = [entry for entry in entries if entry[0] < cut]
    offsets.save()
    times.save()
    assert (tmp_path / "00.index").read_bytes() == b"".join(
        relative.to_bytes(4, "big") + position.to_bytes(4, "big") for relative, position in kept
    )
    assert (tmp_path / "00.timeindex").read_bytes() == b"".join(
        timestamp.to_bytes(8, "big") + relative.to_bytes(4, "big") for relative, timestamp in kept
    )
    loaded = OffsetIndex(SystemFiles(), tmp_path / "00.index", base_offset=BASE, max_bytes=8000)
    loaded.check()
    last = kept[-1] if kept else (0, 0)
    assert (len(loaded), loaded.last()) == (len(kept), OffsetPosition(BASE + last[0], last[1]))


@property_settings
@given(entries=rising_pairs(), probe=st.integers(-5, 160_000))
def test_time_lookup_finds_the_last_entry_not_past_the_time(
    tmp_path: Path, entries: list[tuple[int, int]], probe: int
) -> None:
    index = new_time_index(tmp_path)
    for relative, timestamp in entries:
        index.maybe_append(timestamp, BASE + relative)
    below = [entry for entry in entries if entry[1] <= probe]
    expected = TimestampOffset(below[-1][1], BASE + below[-1][0]) if below else (-1, BASE)
    assert index.lookup(probe) == expected


def test_a_time_that_does_not_rise_is_no_entry(tmp_path: Path) -> None:
    index = new_time_index(tmp_path)
    index.maybe_append(100, BASE + 1)
    index.maybe_append(100, BASE + 2)
    index.maybe_append(90, BASE + 3)
    assert len(index) == 1


def test_indexes_are_full_at_their_limit_and_the_time_index_one_entry_before(
    tmp_path: Path,
) -> None:
    offsets, times = new_offset_index(tmp_path, 17), new_time_index(tmp_path, 25)
    assert not offsets.is_full
    assert not times.is_full
    offsets.append(BASE + 1, 10)
    times.maybe_append(10, BASE + 1)
    assert not offsets.is_full
    assert times.is_full
    offsets.append(BASE + 2, 20)
    assert offsets.is_full


@pytest.mark.parametrize("size", [1, 7, 9, 20])
def test_a_file_without_whole_entries_is_corrupt(tmp_path: Path, size: int) -> None:
    (tmp_path / "00.index").write_bytes(bytes(size))
    (tmp_path / "00.timeindex").write_bytes(bytes(size))
    (tmp_path / "00.txnindex").write_bytes(bytes(size))
    for index in (
        OffsetIndex(SystemFiles(), tmp_path / "00.index", base_offset=BASE, max_bytes=800),
        TimeIndex(SystemFiles(), tmp_path / "00.timeindex", base_offset=BASE, max_bytes=800),
        TransactionIndex(SystemFiles(), tmp_path / "00.txnindex", base_offset=BASE),
    ):
        with pytest.raises(CorruptIndex):
            index.check()


def test_a_preallocated_index_of_a_crashed_kafka_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "00.index").write_bytes(bytes(80))
    (tmp_path / "00.timeindex").write_bytes(bytes(120))
    with pytest.raises(CorruptIndex):
        OffsetIndex(SystemFiles(), tmp_path / "00.index", base_offset=BASE, max_bytes=800).check()
    with pytest.raises(CorruptIndex):
        TimeIndex(SystemFiles(), tmp_path / "00.timeindex", base_offset=BASE, max_bytes=800).check()


# -- aborted transactions

ABORTED = [
    AbortedTransaction(producer_id=1, first_offset=0, last_offset=10, last_stable_offset=2),
    AbortedTransaction(producer_id=2, first_offset=5, last_offset=15, last_stable_offset=16),
    AbortedTransaction(producer_id=3, first_offset=20, last_offset=30, last_stable_offset=31),
]


def new_txn_index(directory: Path) -> TransactionIndex:
    index = TransactionIndex(SystemFiles(), directory / "00.txnindex", base_offset=0)
    index.create()
    for txn in ABORTED:
        index.append(txn)
    return index


def test_aborted_transactions_are_stored_in_entries_of_34_bytes(tmp_path: Path) -> None:
    new_txn_index(tmp_path)
    data = (tmp_path / "00.txnindex").read_bytes()
    assert len(data) == 3 * 34
    assert data[:34] == b"\x00\x00" + b"".join(n.to_bytes(8, "big") for n in ABORTED[0])
    loaded = TransactionIndex(SystemFiles(), tmp_path / "00.txnindex", base_offset=0)
    assert list(loaded) == ABORTED


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        (0, 100, [0, 1, 2], False),
        (0, 32, [0, 1, 2], False),
        (0, 31, [0, 1, 2], True),
        (0, 3, [0], True),
        (11, 20, [1], True),
        (16, 20, [], True),
        (31, 40, [], False),
    ],
)
def test_collecting_stops_where_no_later_transaction_can_matter(
    tmp_path: Path, fetch_offset: int, upper_bound: int, found: list[int], is_complete: bool
) -> None:
    collected = new_txn_index(tmp_path).collect(fetch_offset, upper_bound)
    assert collected == ([ABORTED[number] for number in found], is_complete)


def test_truncation_drops_transactions_whose_marker_is_gone(tmp_path: Path) -> None:
    index = new_txn_index(tmp_path)
    index.truncate_to(15)
    assert list(index) == ABORTED[:1]
    assert (tmp_path / "00.txnindex").stat().st_size == 34
    index.append(ABORTED[2])
    assert list(index) == [ABORTED[0], ABORTED[2]]
    index.reset()
    assert (tmp_path / "00.txnindex").stat().st_size == 0


def test_markers_come_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    index = new_txn_index(tmp_path)
    with pytest.raises(ValueError):
        index.append(ABORTED[0])
