"""Calls that wait for the connection, and calls that give up."""

import threading
from collections.abc import Iterator

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.zk.memory import MemorySession, MemoryZk
from embedkafka.zk.retrying import RetryingStore
from embedkafka.zk.store import NoNode, SessionExpired


@pytest.fixture
def session() -> Iterator[MemorySession]:
    server = MemoryZk(ManualClock(), Failures())
    yield server.connect()
    server.close()


def in_thread(run: object) -> tuple[threading.Thread, list[object]]:
    outcome: list[object] = []

    def target() -> None:
        try:
            outcome.append(run())  # type: ignore[operator]
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread, outcome


def test_calls_go_through(session: MemorySession) -> None:
    store = RetryingStore(session)
    assert store.create("/a", b"1") == "/a"
    assert store.set("/a", b"2").version == 1
    assert store.get("/a")[0] == b"2"
    assert store.get_many(["/a", "/b"])[1] is None
    assert store.children("/") == ["a"]
    store.delete("/a")
    assert store.exists("/a") is None
    assert store.multi([]) == []
    with pytest.raises(NoNode):
        store.get("/a")
    assert store.session_id == session.session_id


def test_a_call_waits_until_the_session_resumes(session: MemorySession) -> None:
    store = RetryingStore(session)
    session.pause()
    thread, outcome = in_thread(lambda: store.create("/a"))
    session.resume()
    thread.join(10)
    assert outcome == ["/a"]


def test_a_call_ends_when_the_session_is_over(session: MemorySession) -> None:
    store = RetryingStore(session)
    session.pause()
    thread, outcome = in_thread(lambda: store.create("/a"))
    session.expire()
    session.resume()
    thread.join(10)
    assert isinstance(outcome[0], SessionExpired)


def test_giving_up_ends_waiting_calls(session: MemorySession) -> None:
    store = RetryingStore(session)
    session.pause()
    thread, outcome = in_thread(lambda: store.create("/a"))
    store.give_up()
    thread.join(10)
    assert isinstance(outcome[0], SessionExpired)
    store.close()
