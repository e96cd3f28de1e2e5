"""What a script sees of the process, and what the rest of the process sees of that."""

import atexit
import json
import operator
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedkafka.spark.scripts import inside
from embedkafka.spark.scripts.inside import ScriptInside
from embedkafka.spark.scripts.membership import acting_for, current_script, join, leave
from embedkafka.spark.scripts.process_patches import process_patches
from embedkafka.spark.scripts.programs import require_program
from embedkafka.spark.scripts.redirections import Redirections

TIMEOUT_S = 30


def no_session() -> Any:
    return None


def script(*arguments: str, **environment: str) -> ScriptInside:
    return ScriptInside(
        require_program(print),
        no_session,
        Redirections(directory=Path("/there"), addresses=str),
        arguments=arguments,
        environment=environment,
    )


@contextmanager
def running(*scripts: ScriptInside) -> Iterator[None]:
    for each in scripts:
        join(each, process_patches)
    try:
        yield
    finally:
        for each in scripts:
            leave(each)


def test_each_script_has_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "-q"])
    outside = sys.argv
    one, other = script("--one"), script("--other", "2")
    with running(one, other):
        with acting_for(one):
            assert sys.argv == ["print", "--one"]
            sys.argv.append("more")
            assert sys.argv[1:] == ["--one", "more"]
        with acting_for(other):
            assert (len(sys.argv), sys.argv.pop()) == (3, "2")
            assert repr(sys.argv) == "['print', '--other']"
            assert operator.add(["python"], sys.argv) == ["python", "print", "--other"]
            sys.argv += ["more"]
            assert json.loads(json.dumps(sys.argv)) == pickle.loads(pickle.dumps(sys.argv))
            assert sorted(sys.argv, reverse=True) == ["print", "more", "--other"]
        assert isinstance(sys.argv, list)
        assert json.dumps(sys.argv) == '["pytest", "-q"]'
        with acting_for(one):
            sys.argv = ["replaced"]
    assert sys.argv is outside
    assert outside == ["pytest", "-q"]


TYPED = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
from datetime import datetime
from typing import get_type_hints

@dataclass
class Order:
    at: datetime | None = None

seen = pickle.loads(pickle.dumps(Order(datetime.max))), get_type_hints(Order)["at"]
import __main__
__main__.known = Order
del __main__.pickle
"""


def test_each_script_is_the_main_module_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    ours, other = script(), script()
    ours.program = require_program(file)
    outside = sys.modules["__main__"]
    names = dir(outside)
    with running(ours, other):
        ours.run()
        assert ours.failure is None
        main = sys.modules["__main__"]
        with acting_for(ours):
            assert main.seen == (main.Order(datetime.max), datetime | None)
            assert main.known is main.Order
            assert "pickle" not in dir(main)
        for outsider in (None, other):
            with acting_for(outsider):
                assert vars(main) is vars(outside)
    assert sys.modules["__main__"] is outside
    assert dir(outside) == names


def test_each_script_has_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE", "prod")
    monkeypatch.setenv("REGION", "eu")
    before = dict(os.environ)
    ours = script(STAGE="test", EXTRA="1")
    with running(ours), acting_for(ours):
        assert (os.environ["STAGE"], os.getenv("EXTRA"), os.getenv("REGION")) == (
            "test",
            "1",
            "eu",
        )
        os.environ["NEW"] = "2"
        del os.environ["REGION"]
        assert os.environ.setdefault("NEW", "3") == "2"
        assert "REGION" not in os.environ
        with pytest.raises(KeyError):
            del os.environ["REGION"]
        with pytest.raises(TypeError, match="str expected, not int"):
            os.environ["NUMBER"] = 1  # type: ignore[assignment]  # as Python refuses it
        seen = {**before, "STAGE": "test", "EXTRA": "1", "NEW": "2"}
        del seen["REGION"]
        assert dict(os.environ) == seen
        assert len(os.environ) == len(seen)
        with acting_for(None):
            assert dict(os.environ) == before
    assert dict(os.environ) == before


def test_a_hook_for_the_end_of_the_process_runs_at_the_end_of_the_script(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main() -> None:
        atexit.register(print, "first")
        atexit.register(lambda: 1 // 0)
        atexit.register(print, "last", end="!\n")
        print("main")

    ours = script()
    ours.program = require_program(main)
    with running(ours):
        ours.run()
    output = capsys.readouterr()
    assert output.out == "main\nlast!\nfirst\n"
    assert "ZeroDivisionError" in output.err
    assert ours.failure is None


def test_the_end_of_the_test_ends_sleeps() -> None:
    ours = script()
    with running(ours), acting_for(ours):
        ours.terminate()
        with pytest.raises(SystemExit):
            time.sleep(3600)
        with pytest.raises(SystemExit):
            signal.pause()


def test_the_end_of_the_test_ends_waits_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_LAST_WAIT_S", 0.01)
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    ours, event = script(), threading.Event()
    with running(ours):
        with acting_for(ours):
            assert not event.wait(0.001)
            timer = threading.Timer(3600, print)
            timer.start()
            waiting = threading.Thread(target=event.wait)
            waiting.start()
        ours.terminate()
        for thread in (timer, waiting):
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
        with acting_for(ours):
            assert not event.wait(0)
            with pytest.raises(SystemExit):
                event.wait(0.001)
            event.set()
            assert event.wait()
    assert reported == []


def test_the_end_of_the_test_calls_the_handler_of_a_signal() -> None:
    called: list[int] = []

    def note(number: int, frame: object) -> None:
        called.append(number)
        sys.exit(0)

    first, second, third = script(), script(), script()
    with running(first, second, third):
        with acting_for(first):
            assert signal.signal(signal.SIGINT, note) is signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGTERM, note)
            assert signal.signal(signal.SIGTERM, note) is note
            signal.signal(signal.SIGHUP, note)
        first.terminate()
        assert called == [signal.SIGTERM]
        with acting_for(second):
            signal.signal(signal.SIGINT, note)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        second.terminate()
        assert called == [signal.SIGTERM, signal.SIGINT]
        with acting_for(third):
            signal.signal(signal.SIGTERM, lambda *_: 1 // 0)
        third.terminate()
    assert (first.failure, second.failure) == (None, None)
    assert isinstance(third.failure, ZeroDivisionError)
    assert [str(each) for each in first.redirections.found] == [
        "signal handler SIGINT -> called at the end of the test, without one for SIGTERM",
        "signal handler SIGTERM -> called at the end of the test",
        "signal handler SIGHUP -> ignored",
    ]


def test_a_wait_for_records_ends_with_the_test() -> None:
    ours = script()
    found: list[object] = [None, [], {}, b""]
    assert ours.await_records(lambda left_s: found.pop(0), -1) == b""
    assert ours.await_records(lambda left_s: None, 0) is None
    asked: list[float] = []
    assert ours.await_records(lambda left_s: asked.append(left_s), 0.06) is None
    assert max(asked) <= 0.05
    ours.terminate()
    with pytest.raises(SystemExit):
        ours.await_records(lambda left_s: b"more", -1)


def test_threads_of_a_pool_end_with_their_script() -> None:
    done: list[int] = []

    def main() -> None:
        pool = ThreadPoolExecutor(2)
        assert pool.submit(lambda: 7).result() == 7
        pool.submit(done.append, 1)

    ours = script()
    ours.program = require_program(main)
    with running(ours):
        thread = threading.Thread(target=ours.run, daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    assert done == [1]
    assert ours.failure is None


@pytest.mark.parametrize(
    ("is_daemon", "is_joined"),
    [
        pytest.param(False, True, id="joined"),
        pytest.param(True, True, id="daemon"),
        pytest.param(False, False, id="left alone"),
    ],
)
def test_a_script_has_settled_when_all_of_its_threads_wait(
    is_daemon: bool, is_joined: bool
) -> None:
    at_work, may_wait, may_end = threading.Event(), threading.Event(), threading.Event()
    is_waited_for = threading.Event()

    class Worker(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            is_waited_for.set()
            super().join(timeout)

    def work() -> None:
        at_work.set()
        while not may_wait.is_set():
            pass
        may_end.wait()

    def main() -> None:
        thread = Worker(target=work, daemon=is_daemon)
        thread.start()
        query: Any = SimpleNamespace(isActive=True, runId="run", id="id")
        session = SimpleNamespace(streams=SimpleNamespace(get=lambda id: None))
        with acting_for(None):
            ours.on_started(query, name="q", sink="s", checkpoint="c", session=session)
        if is_joined:
            thread.join()

    ours = script()
    ours.program = require_program(main)
    with running(ours):
        thread = threading.Thread(target=ours.run, daemon=True)
        thread.start()
        assert at_work.wait(TIMEOUT_S)
        assert is_waited_for.wait(TIMEOUT_S)
        assert not ours.is_settled
        may_wait.set()
        while thread.is_alive() and not ours.is_settled:
            pass
        assert not ours.has_ended.is_set()
        may_end.set()
        thread.join(TIMEOUT_S)
    assert ours.is_settled
    assert ours.failure is None


def test_nothing_is_replaced_once_the_last_script_has_left() -> None:
    originals = sys.argv, time.sleep, type(os.environ).__getitem__
    one, other = script(), script()
    with running(one):
        with running(other):
            assert time.sleep is not originals[1]
        assert time.sleep is not originals[1]
        with acting_for(other):
            assert current_script() is None, "it has left"
    assert (sys.argv, time.sleep, type(os.environ).__getitem__) == originals
