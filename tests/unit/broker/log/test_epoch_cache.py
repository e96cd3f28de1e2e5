"""Leader epochs, by Kafka's rules for where logs diverge."""

from pathlib import Path

import pytest

from embedkafka.broker.log.epoch_cache import EpochCache
from embedkafka.runtime.files import SystemFiles

LOG_END = 100


@pytest.fixture
def cache(tmp_path: Path) -> EpochCache:
    return EpochCache(SystemFiles(), tmp_path)


def filled(cache: EpochCache, *entries: tuple[int, int]) -> EpochCache:
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def reloaded(tmp_path: Path) -> EpochCache:
    loaded = EpochCache(SystemFiles(), tmp_path)
    loaded.load()
    return loaded


def test_an_empty_cache_knows_no_epoch(cache: EpochCache) -> None:
    assert cache.latest_epoch == -1
    assert cache.end_offset_for(0, LOG_END) == (-1, -1)
    assert cache.find_epoch_at(0) is None


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (5, (4, 30)),
        (6, (6, LOG_END)),
        (7, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_larger_one_begins(
    cache: EpochCache, epoch: int, answer: tuple[int, int]
) -> None:
    filled(cache, (2, 10), (4, 20), (6, 30))
    assert cache.end_offset_for(epoch, LOG_END) == answer


def test_the_same_epoch_is_noted_once(cache: EpochCache) -> None:
    filled(cache, (2, 10), (2, 15))
    assert cache.entries == ((2, 10),)


def test_entries_that_contradict_a_new_one_are_dropped(cache: EpochCache) -> None:
    assert filled(cache, (2, 10), (3, 20), (4, 30), (3, 15)).entries == ((2, 10), (3, 15))
    assert filled(cache, (9, 15)).entries == ((2, 10), (9, 15))
    assert filled(cache, (10, 5)).entries == ((10, 5),)


def test_the_epoch_of_an_offset_is_that_of_the_last_start_before_it(cache: EpochCache) -> None:
    filled(cache, (2, 10), (4, 20))
    assert [cache.find_epoch_at(offset) for offset in (9, 10, 19, 20, 500)] == [None, 2, 2, 4, 4]


def test_truncation_from_the_end_forgets_epochs_that_began_there(
    cache: EpochCache, tmp_path: Path
) -> None:
    filled(cache, (2, 10), (4, 20), (6, 30))
    cache.truncate_from_end(20)
    assert cache.entries == ((2, 10),)
    assert cache.latest_epoch == 2
    cache.save()
    assert reloaded(tmp_path).entries == cache.entries


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (5, ((2, 10), (4, 20), (6, 30))),
        (10, ((2, 10), (4, 20), (6, 30))),
        (15, ((2, 15), (4, 20), (6, 30))),
        (20, ((4, 20), (6, 30))),
        (25, ((4, 25), (6, 30))),
        (99, ((6, 99),)),
    ],
)
def test_truncation_from_the_start_moves_the_first_epoch_along(
    cache: EpochCache, tmp_path: Path, start: int, entries: tuple[tuple[int, int], ...]
) -> None:
    filled(cache, (2, 10), (4, 20), (6, 30)).truncate_from_start(start)
    assert cache.entries == entries
    cache.save()
    assert reloaded(tmp_path).entries == entries


def test_the_checkpoint_is_kafkas_text(cache: EpochCache, tmp_path: Path) -> None:
    filled(cache, (0, 0), (3, 17))
    assert not (tmp_path / "leader-epoch-checkpoint").exists(), (
        "nothing should be written before `save`"
    )
    cache.save()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 17\n"
    cache.clear()
    cache.save()
    assert reloaded(tmp_path).latest_epoch == -1
