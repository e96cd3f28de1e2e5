"""What a script sees of the process, and what the rest of the process sees of that."""

import atexit
import json
import operator
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedkafka.spark.scripts.inside import ScriptInside
from embedkafka.spark.scripts.membership import acting_for, current_script, join, leave
from embedkafka.spark.scripts.process_patches import process_patches
from embedkafka.spark.scripts.programs import require_program
from embedkafka.spark.scripts.redirections import Redirections


def script(*arguments: str, **environment: str) -> ScriptInside:
    return ScriptInside(
        require_program(len),
        lambda: None,
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
            assert sys.argv == ["len", "--one"]
            sys.argv.append("more")
            assert sys.argv[1:] == ["--one", "more"]
        with acting_for(other):
            assert (len(sys.argv), sys.argv.pop()) == (3, "2")
            assert repr(sys.argv) == "['len', '--other']"
            assert operator.add(["python"], sys.argv) == ["python", "len", "--other"]
            sys.argv += ["more"]
            assert json.loads(json.dumps(sys.argv)) == pickle.loads(pickle.dumps(sys.argv))
            assert sorted(sys.argv, reverse=True) == ["more", "len", "--other"]
        assert isinstance(sys.argv, list)
        assert json.dumps(sys.argv) == '["pytest", "-q"]'
        with acting_for(one):
            sys.argv = ["replaced"]
    assert sys.argv is outside
    assert outside == ["pytest", "-q"]


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
        ours.release()
        with pytest.raises(SystemExit):
            time.sleep(3600)


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
