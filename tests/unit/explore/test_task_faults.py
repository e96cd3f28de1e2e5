"""A task fails once, after it has written, and only if it was asked to."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, cloudpickle
from pyspark.sql.streaming.readwriter import DataStreamWriter

from embedkafka.explore.task_faults import TaskFaults, wrap_partition, wrap_row


def test_a_partition_that_has_rows_fails_once_behind_them(tmp_path: Path) -> None:
    faults, written = TaskFaults(str(tmp_path)), list[int]()
    write = wrap_partition(written.extend, str(tmp_path / ".task-fails"))
    write([1])
    with faults.failing() as has_failed:
        write([])
        assert not has_failed()
        with pytest.raises(RuntimeError, match="after it has written its partition"):
            write([2, 3])
        assert has_failed()
        write([2, 3])
    write([4])
    assert written == [1, 2, 3, 2, 3, 4]


def test_a_row_fails_once_behind_it_and_none_fails_later(tmp_path: Path) -> None:
    faults, written = TaskFaults(str(tmp_path)), list[int]()
    write = wrap_row(written.append, str(tmp_path / ".task-fails"))
    with faults.failing() as has_failed:
        with pytest.raises(RuntimeError, match="after it has written a row"):
            write(1)
        assert has_failed()
    with faults.failing():
        pass
    write(2)
    assert written == [1, 2]


@pytest.mark.parametrize("wrap", [wrap_partition, wrap_row])
def test_wrapped_functions_can_be_sent_to_workers(tmp_path: Path, wrap: Any) -> None:
    dumps: Any = cloudpickle.dumps
    write = pickle.loads(dumps(wrap(list, str(tmp_path / "flag"))))
    assert write(["a", "b"]) == ["a", "b"]


class Writer:
    """An object for `DataStreamWriter.foreach`."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def process(self, row: int) -> None:
        self.rows.append(row)


def test_functions_are_counted_and_wrapped_only_in_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    for class_, name in [
        (RDD, "foreachPartition"),
        (RDD, "foreach"),
        (DataStreamWriter, "foreach"),
    ]:
        monkeypatch.setattr(class_, name, lambda self, f: given.append(f))
    before = RDD.foreach
    faults, writer = TaskFaults(str(tmp_path)), Writer()
    rdd: Any = object.__new__(RDD)
    stream: Any = object.__new__(DataStreamWriter)
    with faults.watched():
        rdd.foreachPartition(list)
        rdd.foreach(print)
        stream.foreach(writer)
        stream.foreach(print)
    assert RDD.foreach is before
    assert faults.count == len(given) == 4
    with faults.failing(), pytest.raises(RuntimeError):
        given[2].process(7)
    assert writer.rows == [7]
