"""The contract of every `ZkStore`, as one class of tests.

A test module subclasses `ZkStoreContract` and provides the fixture `ensemble`, an `Ensemble` whose
sessions share one tree. `test_memory_contract.py` runs it in process; a cluster test runs the same
body on a real ZooKeeper.
"""

import threading
from typing import Protocol

import pytest

from embedkafka.zk.store import (
    BadVersion,
    CheckOp,
    CreateOp,
    DeleteOp,
    EventType,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SetOp,
    WatchEvent,
    ZkStore,
)


class Ensemble(Protocol):
    """Opens sessions on one empty tree."""

    def connect(self) -> ZkStore: ...


class Seen:
    """A watch that keeps its events, which may arrive on another thread."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self._changed = threading.Condition()

    def __call__(self, event: WatchEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def await_events(self, count: int) -> list[WatchEvent]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= count, timeout=10)
            return list(self.events)


class ZkStoreContract:
    """The behaviour that Kafka relies on."""

    def test_a_created_znode_is_read_back_with_its_stat(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        assert zk.create("/a", b"one") == "/a"
        data, stat = zk.get("/a")
        assert data == b"one"
        assert (stat.version, stat.data_length, stat.num_children) == (0, 3, 0)
        assert stat.czxid == stat.mzxid
        assert stat.ephemeral_owner == 0

    def test_a_znode_without_data_reads_as_empty(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        assert zk.get("/a")[0] == b""
        assert zk.get_many(["/a"]) == [zk.get("/a")]

    def test_versions_count_writes_and_guard_them(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a", b"0")
        assert zk.set("/a", b"1", version=0).version == 1
        with pytest.raises(BadVersion):
            zk.set("/a", b"2", version=0)
        assert zk.set("/a", b"3").version == 2
        with pytest.raises(BadVersion):
            zk.delete("/a", version=1)
        zk.delete("/a", version=2)
        assert zk.exists("/a") is None

    def test_zxids_rise_and_a_recreated_znode_has_a_new_one(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        first = zk.get("/a")[1].czxid
        zk.delete("/a")
        zk.create("/a")
        assert zk.get("/a")[1].czxid > first

    def test_errors_name_what_is_wrong(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        zk.create("/a/b")
        with pytest.raises(NodeExists):
            zk.create("/a")
        with pytest.raises(NoNode):
            zk.create("/x/y")
        with pytest.raises(NotEmpty):
            zk.delete("/a")
        for call in (zk.get, zk.children, zk.delete):
            with pytest.raises(NoNode):
                call("/x")
        with pytest.raises(NoNode):
            zk.set("/x", b"")

    def test_children_are_names_in_any_order(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        for name in ("b", "c", "d"):
            zk.create(f"/a/{name}")
        assert sorted(zk.children("/a")) == ["b", "c", "d"]

    def test_get_many_reads_what_is_there_and_none_for_the_rest(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a", b"1")
        zk.create("/b", b"2")
        found = zk.get_many(["/a", "/x", "/b"])
        assert [None if node is None else node[0] for node in found] == [b"1", None, b"2"]
        assert zk.get_many([]) == []

    def test_sequential_znodes_count_creations_under_the_parent(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        assert zk.create("/a/n_", sequence=True) == "/a/n_0000000000"
        assert zk.create("/a/n_", sequence=True) == "/a/n_0000000001"
        zk.delete("/a/n_0000000001")
        assert zk.create("/a/m_", sequence=True) == "/a/m_0000000002"

    def test_child_versions_count_creations_and_deletions(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a")
        zk.create("/a/b")
        zk.create("/a/c")
        zk.delete("/a/b")
        assert zk.get("/a")[1].cversion == 3

    def test_ephemerals_belong_to_their_session_and_go_with_it(self, ensemble: Ensemble) -> None:
        owner, other = ensemble.connect(), ensemble.connect()
        owner.create("/e", b"", ephemeral=True)
        stat = other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == owner.session_id
        with pytest.raises(NoChildrenForEphemerals):
            owner.create("/e/child")
        gone = Seen()
        other.exists("/e", gone)
        owner.close()
        assert gone.await_events(1) == [WatchEvent(EventType.DELETED, "/e")]
        assert other.exists("/e") is None

    def test_a_data_watch_fires_once(self, ensemble: Ensemble) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        zk.create("/a")
        seen, after = Seen(), Seen()
        zk.get("/a", seen)
        other.set("/a", b"1")
        assert seen.await_events(1) == [WatchEvent(EventType.CHANGED, "/a")]
        zk.get("/a", after)
        other.set("/a", b"2")
        after.await_events(1)
        assert len(seen.events) == 1

    def test_an_exists_watch_sees_the_creation(self, ensemble: Ensemble) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        seen = Seen()
        assert zk.exists("/a", seen) is None
        other.create("/a")
        assert seen.await_events(1) == [WatchEvent(EventType.CREATED, "/a")]

    def test_a_failed_read_leaves_no_watch(self, ensemble: Ensemble) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        seen, sentinel = Seen(), Seen()
        with pytest.raises(NoNode):
            zk.get("/a", seen)
        with pytest.raises(NoNode):
            zk.children("/a", seen)
        zk.exists("/b", sentinel)
        other.create("/a")
        other.create("/b")
        sentinel.await_events(1)
        assert seen.events == []

    def test_a_child_watch_sees_children_come_and_go_but_not_change(
        self, ensemble: Ensemble
    ) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        zk.create("/a")
        seen = Seen()
        zk.children("/a", seen)
        other.create("/a/b")
        assert seen.await_events(1) == [WatchEvent(EventType.CHILD, "/a")]
        zk.children("/a", seen)
        other.set("/a/b", b"1")
        other.delete("/a/b")
        assert seen.await_events(2)[1:] == [WatchEvent(EventType.CHILD, "/a")]
        zk.children("/a", seen)
        other.delete("/a")
        assert seen.await_events(3)[2:] == [WatchEvent(EventType.DELETED, "/a")]

    def test_the_same_watch_twice_on_a_path_is_one(self, ensemble: Ensemble) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        zk.create("/a")
        seen, sentinel = Seen(), Seen()
        zk.get("/a", seen)
        zk.exists("/a", seen)
        other.set("/a", b"1")
        zk.exists("/b", sentinel)
        other.create("/b")
        sentinel.await_events(1)
        assert len(seen.events) == 1

    def test_events_come_in_the_order_of_the_changes(self, ensemble: Ensemble) -> None:
        zk, other = ensemble.connect(), ensemble.connect()
        seen = Seen()
        for index in range(20):
            zk.exists(f"/n{index}", seen)
        for index in range(20):
            other.create(f"/n{index}")
        assert [event.path for event in seen.await_events(20)] == [f"/n{i}" for i in range(20)]

    def test_multi_does_all_under_one_zxid(self, ensemble: Ensemble) -> None:
        zk = ensemble.connect()
        zk.create("/a", b"0")
        results = zk.multi(
            [
                CheckOp("/a", 0),
                CreateOp("/b", b"1"),
                CreateOp("/b/c"),
                SetOp("/a", b"1", 0),
                DeleteOp("/b/c"),
            ]
        )
        assert results[1] == "/b"
        stat = zk.get("/a")[1]
        assert results[3] == stat
        assert zk.get("/b")[1].czxid == stat.mzxid
        assert zk.exists("/b/c") is None

    @pytest.mark.parametrize(
        ("failing", "error"),
        [
            (CheckOp("/a", 7), BadVersion),
            (SetOp("/a", b"", 7), BadVersion),
            (SetOp("/x", b""), NoNode),
            (CreateOp("/a"), NodeExists),
            (DeleteOp("/full"), NotEmpty),
        ],
    )
    def test_multi_does_nothing_when_one_operation_fails(
        self, ensemble: Ensemble, failing: CheckOp, error: type[Exception]
    ) -> None:
        zk = ensemble.connect()
        zk.create("/a", b"0")
        zk.create("/full")
        zk.create("/full/child")
        zk.create("/gone", b"kept")
        before = [zk.get(path) for path in ("/a", "/full", "/gone")]
        seen = Seen()
        zk.get("/a", seen)
        with pytest.raises(error) as raised:
            zk.multi(
                [
                    SetOp("/a", b"1"),
                    DeleteOp("/gone"),
                    CreateOp("/full/n_", sequence=True),
                    failing,
                ]
            )
        assert raised.value.op_index == 3  # type: ignore[attr-defined]
        assert [zk.get(path) for path in ("/a", "/full", "/gone")] == before
        assert seen.events == []
