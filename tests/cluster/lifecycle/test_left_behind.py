"""However a cluster ends, it leaves nothing behind, or the next start removes it."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from embedkafka import ClusterClosed, EmbeddedKafka
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle
from embedkafka.runtime import temporary
from tests.cluster.footprint import our_directories, refuses
from tests.doubles.own_threads import OwnThreads
from tests.presence import present

PATIENCE_S = 60

NEVER_CLOSED = """
import sys
from embedkafka import EmbeddedKafka
kafka = EmbeddedKafka(brokers=2, data_dir=sys.argv[1] if sys.argv[1:] else None).start()
kafka.topic("orders").send("x")
"""

#: Python 3.12 and later start no threads at exit. This does the same on any Python, before our
#: `atexit` callback runs.
WITHOUT_NEW_THREADS = """
import atexit, threading

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

def start_no_more():
    threading.Thread.start = refuse

atexit.register(start_no_more)
"""

INSIDE_A_WITH = """
import signal
from embedkafka import EmbeddedKafka
with EmbeddedKafka() as kafka:
    kafka.topic("orders").send("x")
    print(kafka.scratch_dir("checkpoint"), flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def private_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out clusters that other processes start and end at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def await_end(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            # Its starter was interrupted before the thread had begun.
            thread._started.wait(PATIENCE_S)  # type: ignore[attr-defined]  # private
            thread.join(PATIENCE_S)


@pytest.mark.parametrize("at_exit", ["", WITHOUT_NEW_THREADS], ids=["as-it-is", "no-threads"])
def test_a_program_that_ends_without_close_leaves_nothing(at_exit: str, tmp_path: Path) -> None:
    program = NEVER_CLOSED + at_exit
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.glob("embedkafka-*")) == []


@pytest.mark.parametrize("at_exit", ["", WITHOUT_NEW_THREADS], ids=["as-it-is", "no-threads"])
def test_a_program_that_ends_without_close_leaves_its_data_in_order(
    at_exit: Any, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    program = NEVER_CLOSED + at_exit
    subprocess.run([sys.executable, "-c", program, data], check=True, timeout=PATIENCE_S)
    assert (data / "broker-1" / ".kafka_cleanshutdown").exists()
    assert not (data / "zookeeper.journal").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_start_removes_what_a_signal_left(number: int, tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", INSIDE_A_WITH], stdout=subprocess.PIPE, text=True
    )
    with program:
        scratch = present(program.stdout).readline().strip()
        temporary.sweep(tmp_path)
        assert os.path.isdir(scratch), "the directory of a live owner was removed"
        program.send_signal(number)
        assert program.wait(PATIENCE_S) == -number
    assert os.path.isdir(scratch)
    with EmbeddedKafka():
        assert not os.path.exists(scratch)
        assert len(our_directories()) == 1
    assert our_directories() == set()


def test_a_cluster_that_nothing_refers_to_is_closed() -> None:
    own_threads = OwnThreads()
    kafka = EmbeddedKafka().start()
    address = kafka.bootstrap_servers
    topic = kafka.topic("orders")
    del kafka
    gc.collect()
    assert topic.send("its handle keeps it").offset == 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del topic
        gc.collect()
    (warning,) = caught
    assert str(warning.message).startswith("an EmbeddedKafka was not closed: use it in a `with`")
    await_end("ek-abandoned")
    assert own_threads.names() == []
    assert our_directories() == set()
    assert refuses(address)


def test_a_close_during_the_start_on_another_thread_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_threads = OwnThreads()
    kafka = EmbeddedKafka(brokers=2)
    booting, closing = threading.Event(), threading.Event()
    boot_all = Brokers.boot_all

    def slow_boot(nodes: Any) -> None:
        booting.set()
        assert closing.wait(PATIENCE_S)
        boot_all(nodes)

    monkeypatch.setattr(Brokers, "boot_all", slow_boot)
    starter = threading.Thread(target=kafka.start)
    starter.start()
    assert booting.wait(PATIENCE_S)
    closer = threading.Thread(target=kafka.close)
    closer.start()
    closing.set()
    for thread in (starter, closer):
        thread.join(PATIENCE_S)
    assert own_threads.names() == []
    assert our_directories() == set()
    with pytest.raises(ClusterClosed):
        kafka.topic("orders")


def test_a_close_from_a_signal_handler_during_the_start_ends_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_threads = OwnThreads()
    kafka = EmbeddedKafka(brokers=2)
    closed = threading.Event()
    boot_all = Brokers.boot_all

    def close_and_return(number: int, frame: FrameType | None) -> None:
        kafka.close()
        closed.set()

    def interrupted(nodes: Brokers) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert closed.wait(PATIENCE_S)
        boot_all(nodes)

    monkeypatch.setattr(Brokers, "boot_all", interrupted)
    handler_before = signal.signal(signal.SIGUSR1, close_and_return)
    try:
        with pytest.raises(ClusterClosed):
            kafka.start()
    finally:
        signal.signal(signal.SIGUSR1, handler_before)
    assert own_threads.names() == []
    assert our_directories() == set()


def test_who_waits_for_a_fact_hears_that_the_cluster_was_closed() -> None:
    kafka = EmbeddedKafka(topics={"orders": 1}).start()
    raised, waiting = [], threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            kafka.existing_topic("orders").await_isr(size=2)
        except ClusterClosed as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waiting.wait(PATIENCE_S)
    kafka.close()
    waiter.join(PATIENCE_S)
    assert raised


class CtrlC:
    """Presses Ctrl-C at the main thread's n-th call of one of our functions."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.calls = 0

    def run(self, act: Callable[[], object]) -> None:
        sys.setprofile(self._on_event)
        try:
            act()
        except KeyboardInterrupt:
            assert self.calls == self.number
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/embedkafka/" in frame.f_code.co_filename:
            self.calls += 1
            if self.calls == self.number:
                sys.setprofile(None)
                raise KeyboardInterrupt


def test_ctrl_c_at_any_moment_of_the_start_leaves_nothing() -> None:
    with EmbeddedKafka(brokers=2):
        pass  # imports done
    own_threads = OwnThreads()
    once = EmbeddedKafka(brokers=2)
    counter = CtrlC()
    counter.run(once.start)
    once.close()
    assert counter.calls > 0
    for number in range(1, counter.calls + 1):
        kafka = EmbeddedKafka(brokers=2)
        CtrlC(number).run(kafka.start)
        kafka.close()
        await_end("ek-start")  # it may just find out that it must not start
        assert own_threads.names() == [], f"a thread is left after Ctrl-C at call {number}"
        assert our_directories() == set(), f"a directory is left after Ctrl-C at call {number}"
        kafka.check()


@pytest.fixture
def ctrl_c_counts() -> Iterator[None]:
    """Restores SIGINT: commands started in the background, and their children, ignore it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def test_ctrl_c_while_brokers_start_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, ctrl_c_counts: None
) -> None:
    own_threads = OwnThreads()
    boot = BrokerLifecycle.boot

    def interrupted(lifecycle: BrokerLifecycle) -> None:
        boot(lifecycle)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(BrokerLifecycle, "boot", interrupted)
    kafka = EmbeddedKafka(brokers=2)
    with pytest.raises(KeyboardInterrupt):
        kafka.start()
    assert own_threads.names() == []
    assert our_directories() == set()
    kafka.check()
