"""Whatever stands on the command line, the answer is a result, or a sentence and exit code 1 or 2.

Commands and their options are found in the parser, not listed: a new one is met without a change
here. Each gets each text of `WRONG`, while the others have good ones. Code 1 is for a cluster that
does not have what was asked for; no input prints a traceback.
"""

import argparse
import io
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka import EmbeddedKafka, cli
from embedkafka.cli.entry import command_line

pytestmark = pytest.mark.timeout(120)  # nothing here waits: a command that hangs is a fault

WRONG = [
    "",
    " ",
    "no-such-thing",
    "0",
    "-1",
    "3.5",
    "99999",
    "999999999999",
    "9" * 5000,
    "a:999999999999",
    "a:b:c:d",
    "a=b",
    "=",
    ":",
    ",",
    "../../x",
    "x" * 70_000,
    "a\0b",
    "\udcff",  # a byte that is not UTF-8
    "--no-such-option",
]
GOOD = {"topic": "orders", "zookeeper": "127.0.0.1:1", "id": "-1", "path": "no/such/file"}
"""`id`: no broker has it, and so none starts and waits for ZooKeeper."""
WAITING = {("serve", "zookeeper"), ("up", "zookeeper"), ("tail", "count"), ("broker", "id")}
"""Those that wait, for a ZooKeeper or for records, if their argument can be used."""
UNCHECKED = {
    "audit": "starts Spark",
    "spark-jars": "may download",
    "doctor": "takes nothing",
}


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in command_line()._actions if isinstance(a, argparse._SubParsersAction))
    return {name: parser for name, parser in action.choices.items() if name not in UNCHECKED}


COMMANDS = subcommands()
FIRST = {"serve": ["--stay"], "tail": ["--count=0"], "ui": ["--no-browser"]}
LAST = {"up": ["--", "true"]}
FLAGS = sorted({flag for parser in COMMANDS.values() for flag in parser._option_string_actions})
OPTIONS = [
    (name, action)
    for name, parser in COMMANDS.items()
    for action in parser._actions
    if action.nargs != 0 and (name, action.dest) not in WAITING
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics={"orders": 2}) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: EmbeddedKafka) -> Path:
    """The current directory, two levels deep: nothing may be left in it or above it."""
    directory = tmp_path / "a" / "b"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("EMBEDKAFKA_BOOTSTRAP", kafka.bootstrap_servers)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    monkeypatch.setattr("embedkafka.cli.endings.await_end", lambda signals, *, stay: None)
    interrupted = SimpleNamespace(wait=lambda: signal.raise_signal(signal.SIGINT))
    waiting = SimpleNamespace(Event=lambda: interrupted)
    monkeypatch.setattr("embedkafka.cli.ui.threading", waiting)
    return directory


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "action"), OPTIONS, ids=[f"{name} {action.dest}" for name, action in OPTIONS]
)
def test_one_argument_is_wrong(
    name: str,
    action: argparse.Action,
    here: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if action.dest == "bootstrap":  # no broker will answer
        monkeypatch.setattr("embedkafka.cluster.clients.client_view._REQUEST_TIMEOUT_S", 0.05)
    before = lasting_threads()
    for wrong in WRONG:
        words = [*good_arguments(name, without=action), *spelled(action, wrong)]
        code = run([*words, *LAST.get(name, [])])
        said = "".join(capfd.readouterr())
        assert code in (0, 1, 2), f"{words} gave {code!r}"
        assert "Traceback" not in said
        assert code == 0 or said, f"{words} gave {code} without a word"
    left = {path.name for path in (*here.iterdir(), *here.parent.parent.iterdir())} - {"a"}
    assert action.dest == "data_dir" or left == set()
    assert lasting_threads() == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["serve", "--metrics-port", "99999"], "'99999' is not a port, from 0 to 65535"),
        (["serve", "--topic", "a:999999999999"], "partitions must be .* from 1 to 2147483647"),
        (["serve", "--data-dir", ""], "argument --data-dir: it must be a path, got ''"),
        (["ui", "--port", "99999"], "'99999' is not a port, from 0 to 65535"),
        (["tail", "orders", "--count", "-1"], "'-1' is not a whole number from 0 on"),
        (["topics", "a\0b"], "topic cannot contain NUL"),
        (["produce", "\udcff", "x"], "topic cannot be written as UTF-8"),
    ],
)
def test_misuse_is_named(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(given) == 2
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.gate
@given(st.lists(st.sampled_from(WRONG) | st.text() | st.sampled_from(FLAGS), max_size=5))
def test_several_arguments_are_wrong(words: list[str]) -> None:
    for name in ("topics", "groups", "produce", "dump-log"):
        assert run([name, *words]) in (0, 1, 2)


def lasting_threads() -> list[str]:
    """Those of clusters and pages; others come and go."""
    names = sorted(each.name for each in threading.enumerate())
    return [
        name for name in names if name.endswith("-processor-0") or name in ("ek-page", "ek-metrics")
    ]


def good_arguments(name: str, *, without: argparse.Action) -> list[str]:
    needed = [
        action
        for action in COMMANDS[name]._actions
        if action is not without and (action.required or not action.option_strings)
    ]
    values = [spelled(action, GOOD[action.dest]) for action in needed if action.dest in GOOD]
    return [name, *FIRST.get(name, []), *(word for each in values for word in each)]


def spelled(action: argparse.Action, value: str) -> list[str]:
    return [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]


def run(arguments: list[str]) -> object:
    try:
        return cli.main(arguments)
    except SystemExit as end:  # of argparse
        return end.code
