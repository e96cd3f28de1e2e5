"""A checkpoint without its last commit looks like that of a driver that died before it."""

from pathlib import Path

from embedkafka.explore.checkpoints import (
    find_checkpoints,
    has_data,
    has_watermark,
    last_watermark_ms,
    planned_batches,
    uncommit,
    uncommitted_batches,
)


def checkpoint(directory: Path, *watermarks_ms: int) -> Path:
    """A checkpoint as Spark leaves it, with a batch for each watermark."""
    commits = directory / "checkpoints" / "query" / "commits"
    commits.mkdir(parents=True)
    for batch, watermark_ms in enumerate(watermarks_ms):
        (commits / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}')
        (commits / f".{batch}.crc").write_bytes(b"crc")
    return commits.parent


def test_the_last_commit_is_taken_back_with_its_checksum(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, *[0] * 11)
    assert find_checkpoints(str(tmp_path)) == [found]

    assert uncommit(found) == 10  # not the last by name

    assert not (found / "commits" / "10").exists()
    assert not (found / "commits" / ".10.crc").exists()
    assert (found / "commits" / "9").exists()


def test_a_query_without_a_batch_has_nothing_to_take_back(tmp_path: Path) -> None:
    assert uncommit(checkpoint(tmp_path)) is None


def test_a_commit_tells_of_a_watermark(tmp_path: Path) -> None:
    assert has_watermark(checkpoint(tmp_path / "with", 0, 1000))
    assert not has_watermark(checkpoint(tmp_path / "without", 0, 0))


def test_a_batch_that_was_begun_and_not_committed_is_found(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 0, 0)
    (found / "offsets").mkdir()
    for batch in range(3):
        (found / "offsets" / str(batch)).touch()
    (found / "offsets" / ".3.1f2e.tmp").touch()

    assert sorted(planned_batches(found)) == [0, 1, 2]
    assert uncommitted_batches(found) == [2]


def test_a_batch_has_data_if_a_source_stands_elsewhere_after_it(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 0, 0, 0)
    (found / "offsets").mkdir()
    for batch, offset in enumerate([4, 4, 7]):
        plan = (
            f'v1\n{{"batchWatermarkMs":{batch}}}\n{{"orders":{{"0":{offset}}}}}\n{{"prices":{{}}}}'
        )
        (found / "offsets" / str(batch)).write_text(plan)

    assert last_watermark_ms(found) == 2
    assert [has_data(found, batch) for batch in range(3)] == [True, False, True]


def test_a_query_that_has_begun_nothing_has_no_batches(tmp_path: Path) -> None:
    found = checkpoint(tmp_path)
    assert planned_batches(found) == []
    assert last_watermark_ms(found) == 0
