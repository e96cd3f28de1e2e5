"""Sessions of the in-process ZooKeeper: pausing, expiring, renewing, and the order of events."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.zk.memory import MemoryZk
from embedkafka.zk.snapshot import decode_tree
from embedkafka.zk.store import (
    ConnectionLoss,
    EventType,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.unit.zk.contract import Seen


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def server(clock: ManualClock, failures: Failures) -> Iterator[MemoryZk]:
    server = MemoryZk(clock, failures)
    yield server
    server.close()


def test_a_session_lives_without_heartbeats(server: MemoryZk, clock: ManualClock) -> None:
    session = server.connect(session_timeout_ms=10)
    session.create("/e", ephemeral=True)
    clock.advance(3_600_000)
    assert session.exists("/e") is not None


def test_an_expired_session_loses_its_ephemerals_and_refuses_calls(server: MemoryZk) -> None:
    session, other = server.connect(), server.connect()
    states: list[SessionState] = []
    session.on_session_change(states.append)
    session.create("/e", ephemeral=True)
    seen = Seen()
    other.exists("/e", seen)
    session.expire()
    assert seen.events == [WatchEvent(EventType.DELETED, "/e")]
    assert states == [SessionState.EXPIRED]
    for call in (session.get, session.exists, session.children, session.create):
        with pytest.raises(SessionExpired):
            call("/x")
    with pytest.raises(SessionExpired):
        session.multi([])
    with pytest.raises(SessionExpired):
        session.get_many([])


def test_a_renewed_session_is_another_one(server: MemoryZk) -> None:
    session = server.connect()
    first = session.session_id
    seen = Seen()
    session.exists("/a", seen)
    session.expire()
    session.renew()
    assert session.session_id != first
    session.create("/a")
    assert seen.events == [], "a watch must end with its session"
    session.renew()
    assert session.session_id != first


def test_nobody_sees_an_ended_session_with_its_znodes(
    server: MemoryZk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may resume, renew and register anew as soon as the lock is free."""
    session = server.connect()
    session.create("/ephemeral", ephemeral=True)
    lock, left = server._lock, []

    class Watched:
        def __enter__(self) -> None:
            lock.__enter__()

        def __exit__(self, *error: Any) -> None:  # Any: of `with`
            left.append((session._lost, "/ephemeral" in server._tree.paths()))
            lock.__exit__(*error)

    session.pause()
    monkeypatch.setattr(server, "_lock", Watched())
    session.expire()
    assert (True, False) in left
    assert (True, True) not in left


def test_a_paused_session_cannot_call_and_hears_nothing_until_it_resumes(
    server: MemoryZk,
) -> None:
    session, other = server.connect(), server.connect()
    states: list[SessionState] = []
    session.on_session_change(states.append)
    seen = Seen()
    session.exists("/a", seen)
    session.pause()
    other.create("/a")
    assert seen.events == []
    with pytest.raises(ConnectionLoss):
        session.get("/a")
    session.resume()
    assert seen.events == [WatchEvent(EventType.CREATED, "/a")]
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert session.get("/a")[0] == b""


def test_a_paused_session_expires_by_the_clusters_clock(
    server: MemoryZk, clock: ManualClock
) -> None:
    session, other = server.connect(session_timeout_ms=6_000), server.connect()
    session.create("/e", ephemeral=True)
    gone = Seen()
    other.exists("/e", gone)
    session.pause()
    clock.advance(5_999)
    assert other.exists("/e") is not None
    clock.advance(1)
    gone.await_events(1)
    assert session.state is SessionState.SUSPENDED, "the client learns of it only when it resumes"
    session.resume()
    now: SessionState = session.state
    assert now is SessionState.EXPIRED


def test_a_session_that_resumes_in_time_goes_on(server: MemoryZk, clock: ManualClock) -> None:
    session, other = server.connect(session_timeout_ms=6_000), server.connect()
    session.create("/e", ephemeral=True)
    session.pause()
    clock.advance(5_000)
    session.resume()
    session.pause()
    gone = Seen()
    other.exists("/e", gone)
    clock.advance(5_999)
    assert other.exists("/e") is not None, "the second pause should have a new timeout"
    clock.advance(1)
    gone.await_events(1)


def test_closing_twice_is_closing_once(server: MemoryZk) -> None:
    session = server.connect()
    session.close()
    session.close()
    session.expire()
    assert session.state is SessionState.CLOSED


def test_a_watch_may_write_and_its_own_event_comes_after(server: MemoryZk) -> None:
    session = server.connect()
    order: list[str] = []

    def first(event: WatchEvent) -> None:
        session.exists("/b", lambda event: order.append(event.path))
        session.create("/b")
        order.append(event.path)

    session.exists("/a", first)
    session.create("/a")
    assert order == ["/a", "/b"]


def test_callbacks_run_on_the_executor(server: MemoryZk) -> None:
    queued: list[Callable[[], None]] = []
    session, other = server.connect(executor=queued.append), server.connect()
    seen = Seen()
    session.exists("/a", seen)
    other.create("/a")
    assert seen.events == []
    for run in queued:
        run()
    assert len(seen.events) == 1


def test_a_failing_watch_is_recorded_and_harms_nobody_else(
    server: MemoryZk, failures: Failures
) -> None:
    session, other = server.connect(), server.connect()
    seen = Seen()

    def broken(event: WatchEvent) -> None:
        raise ValueError("a bug")

    session.exists("/a", broken)
    session.exists("/a", seen)
    other.create("/a")
    assert len(seen.events) == 1
    with pytest.raises(BackgroundFailure, match="a bug"):
        failures.check()


def test_many_writers_and_every_event_once_and_in_order(server: MemoryZk) -> None:
    """Threads race to change one znode; its watcher re-arms and must see versions rise."""
    watcher = server.connect()
    watcher.create("/n")
    versions: list[int] = []

    def watch(event: WatchEvent) -> None:
        versions.append(watcher.get("/n", watch)[1].version)

    watcher.get("/n", watch)
    sessions = [server.connect() for _ in range(4)]

    def write(session: object) -> None:
        for _ in range(100):
            session.set("/n", b"")  # type: ignore[attr-defined]

    threads = [threading.Thread(target=write, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == sorted(versions)
    assert versions[-1] == 400


def test_a_tree_put_back_keeps_sessions_and_never_repeats_a_transaction_id(
    server: MemoryZk,
) -> None:
    session = server.connect()
    session.create("/kept", b"then")
    snapshot = server.snapshot()
    session.set("/kept", b"now")
    session.create("/new")
    session.create("/mine", ephemeral=True)
    latest = session.get("/mine")[1].czxid
    seen = Seen()
    session.exists("/new", seen)
    server.restore(decode_tree(snapshot))
    assert session.children("/") == ["kept"]
    assert session.get("/kept")[0] == b"then"
    session.create("/new")
    assert session.get("/new")[1].czxid > latest
    assert seen.events == [WatchEvent(EventType.CREATED, "/new")]
