"""The tree on disk: every change is there at once, whenever the process dies."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.runtime.files import File, SystemFiles
from embedkafka.zk import journal as journal_module
from embedkafka.zk.journal import JOURNAL_FILE, TREE_FILE, Journal
from embedkafka.zk.memory import MemoryZk
from embedkafka.zk.snapshot import BadSnapshot, decode_tree
from embedkafka.zk.store import CheckOp, CreateOp, DeleteOp, SetOp, ZkError
from tests.doubles.power import VolatileFiles
from tests.presence import present

Nodes = list[dict[str, object]]


@pytest.fixture
def failures() -> Iterator[Failures]:
    failures = Failures()
    yield failures
    failures.check()


def open_server(directory: Path, failures: Failures, files: SystemFiles | None = None) -> MemoryZk:
    journal = Journal(directory, files=files or SystemFiles(), failures=failures)
    return MemoryZk(ManualClock(), failures, journal)


def content(server: MemoryZk) -> Nodes:
    """Every persistent znode, with all its numbers."""
    return json.loads(server.snapshot())["nodes"]


def numbers_apart(nodes: Nodes) -> Nodes:
    """Leaves out the number that a crash may change: expiring ephemerals touch their parents."""
    return [{key: value for key, value in node.items() if key != "pzxid"} for node in nodes]


def reopened(directory: Path, failures: Failures) -> Nodes:
    """The content that the next process finds after this one was killed."""
    return numbers_apart(content(open_server(directory, failures)))


def test_every_change_is_found_by_the_next_process(tmp_path: Path, failures: Failures) -> None:
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/a", b'{"version":1}')
    session.create("/a/n-", b"\xff\x00", sequence=True)
    session.create("/a/n-", b"second", sequence=True)
    session.set("/a", b"changed", 0)
    session.create("/gone")
    session.delete("/gone")
    session.multi(
        [CheckOp("/a", 1), CreateOp("/b"), SetOp("/b", b"in one"), DeleteOp("/a/n-0000000000")]
    )
    with pytest.raises(ZkError):
        session.multi([CreateOp("/never"), SetOp("/missing", b"")])
    assert reopened(tmp_path, failures) == numbers_apart(content(server))


def test_ephemeral_znodes_end_with_the_process(tmp_path: Path, failures: Failures) -> None:
    server = open_server(tmp_path, failures)
    session, other = server.connect(), server.connect()
    session.create("/brokers")
    session.create("/brokers/1", ephemeral=True)
    other.create("/brokers/2", ephemeral=True)
    session.close()
    again = open_server(tmp_path, failures)
    assert again.paths() == ["/", "/brokers"]
    again.connect().create("/brokers/1", ephemeral=True)


def test_transaction_ids_rise_from_life_to_life(tmp_path: Path, failures: Failures) -> None:
    session = open_server(tmp_path, failures).connect()
    session.create("/a", ephemeral=True)
    before = present(session.exists("/a"))
    after = open_server(tmp_path, failures).connect()
    after.create("/a", ephemeral=True)
    assert present(after.exists("/a")).czxid > before.czxid


@pytest.mark.parametrize("kept", range(0, 60, 7))
def test_a_torn_last_line_is_dropped(tmp_path: Path, failures: Failures, kept: int) -> None:
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/a", b"acknowledged")
    path = tmp_path / JOURNAL_FILE
    size = path.stat().st_size
    expected = numbers_apart(content(server))
    session.set("/a", b"a line that is longer than sixty characters when it is whole")
    with path.open("r+b") as file:
        file.truncate(size + kept)
    assert reopened(tmp_path, failures) == expected
    assert path.read_bytes() == b"", "the torn line should be cut off"


def test_a_damaged_line_before_the_last_is_refused(tmp_path: Path, failures: Failures) -> None:
    session = open_server(tmp_path, failures).connect()
    session.create("/a")
    session.create("/b")
    path = tmp_path / JOURNAL_FILE
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first[:-3] + b"\n" + second + b"\n")
    with pytest.raises(BadSnapshot, match=r"zookeeper\.journal is damaged, line 1"):
        open_server(tmp_path, failures)
    path.write_bytes(second + b"\n")
    with pytest.raises(BadSnapshot, match=r"line 1: .*transaction 2 after 0"):
        open_server(tmp_path, failures)


def test_a_process_killed_between_tree_and_journal_repeats_nothing(
    tmp_path: Path, failures: Failures
) -> None:
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/a")
    session.create("/a/n-", sequence=True)
    lines = (tmp_path / JOURNAL_FILE).read_bytes()
    expected = reopened(tmp_path, failures)
    (tmp_path / JOURNAL_FILE).write_bytes(lines)  # the tree is written, but the journal not yet cut
    assert reopened(tmp_path, failures) == expected


@pytest.mark.parametrize("keeps_names", [True, False])
def test_a_power_loss_takes_no_change(
    tmp_path: Path, failures: Failures, monkeypatch: pytest.MonkeyPatch, keeps_names: bool
) -> None:
    monkeypatch.setattr(journal_module, "_SHORTEST_BYTES", 400)
    files, directory = VolatileFiles(), tmp_path / "before"
    directory.mkdir()
    server = open_server(directory, failures, files)
    session = server.connect()
    for number in range(8):  # in between, the journal gives way to the tree
        session.create(f"/n-{number}", b"some data")
        files.lose_power(directory, tmp_path / str(number), keeps_names=keeps_names)
        assert reopened(tmp_path / str(number), failures) == numbers_apart(content(server))
    server.close()
    files.lose_power(directory, tmp_path / "closed", keeps_names=keeps_names)
    assert reopened(tmp_path / "closed", failures) == numbers_apart(content(server))


def test_a_long_journal_gives_way_to_the_whole_tree(
    tmp_path: Path, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_SHORTEST_BYTES", 2_000)
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/live", ephemeral=True)
    chance, longest = random.Random(7), 0
    for number in range(300):
        session.create(f"/{number}", b"x" * chance.randrange(50))
        if number > 10:
            session.delete(f"/{number - 10}")
        longest = max(longest, (tmp_path / JOURNAL_FILE).stat().st_size)
    session.delete("/live")
    assert longest < 20_000
    assert reopened(tmp_path, failures) == numbers_apart(content(server))


def test_what_was_restored_is_kept(tmp_path: Path, failures: Failures) -> None:
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/a", b"then")
    then = server.snapshot()
    session.set("/a", b"later")
    session.create("/b")
    server.restore(decode_tree(then))
    session.create("/c")
    assert [node["path"] for node in reopened(tmp_path, failures)] == ["/", "/a", "/c"]


def test_a_closed_tree_is_whole_in_one_file(tmp_path: Path, failures: Failures) -> None:
    server = open_server(tmp_path, failures)
    session = server.connect()
    session.create("/a")
    session.create("/live", ephemeral=True)
    server.close()
    assert [path.name for path in tmp_path.iterdir()] == [TREE_FILE]
    session.create("/late")
    assert [path.name for path in tmp_path.iterdir()] == [TREE_FILE]
    assert open_server(tmp_path, failures).paths() == ["/", "/a"]


class FullDisk(SystemFiles):
    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device", str(path))
        super().replace(path, data)

    def open(self, path: Path) -> File:
        file, disk = super().open(path), self

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def write(self, data: BytesLike, position: int) -> None:
                if disk.is_full:
                    file.write(data[: len(data) // 2], position)
                    raise OSError(28, "No space left on device", str(path))
                file.write(data, position)

        return Full()


def test_a_full_disk_is_reported_and_made_up_for_when_there_is_room(tmp_path: Path) -> None:
    failures, disk = Failures(), FullDisk()
    server = open_server(tmp_path, failures, disk)
    session = server.connect()
    session.create("/a")
    disk.is_full = True
    session.create("/b")
    session.create("/c")
    with pytest.raises(BackgroundFailure, match=r"(?s)zookeeper\.journal: .*No space"):
        failures.check()
    disk.is_full = False
    session.create("/d")
    assert reopened(tmp_path, failures) == numbers_apart(content(server))
    failures.check()
