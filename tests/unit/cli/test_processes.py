"""`serve` and `up` as separate processes: standard input, signals and exit codes."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.presence import present

Start = Callable[..., subprocess.Popen[str]]

RUNNER = """
import sys
import embedkafka

class StandIn:
    bootstrap_servers = "127.0.0.1:1"
    listeners = advertised = {"PLAINTEXT": bootstrap_servers}
    certificates_dir = None
    def __init__(self, **settings): pass
    def __enter__(self): return self
    def __exit__(self, *error): print("closed", file=sys.stderr, flush=True)

embedkafka.EmbeddedKafka = StandIn
from embedkafka.cli import main
sys.exit(main())
"""

#: A command that reports when it is ready and which signal ended it. A blocked signal waits for
#: `sigwait`, whereas `signal.pause` would miss one that arrives just before it.
COMMAND = """
import signal, sys
numbers = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
print("got", signal.Signals(signal.sigwait(numbers)).name, flush=True)
sys.exit(40)
"""

#: Goes before RUNNER: a signal arrives when the command runs and `up` does not know it yet.
SIGNAL_DURING_THE_START = """
import os, signal, subprocess

class Popen(subprocess.Popen):
    def __init__(self, command, **settings):
        super().__init__(command, **settings)
        if command[0] == "sleep":
            os.kill(os.getpid(), signal.SIGUSR1)

subprocess.Popen = Popen
"""


@pytest.fixture
def start() -> Iterator[Start]:
    processes = []

    def start(
        *arguments: str, stdin: int = subprocess.PIPE, program: str = RUNNER
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_serve_prints_where_it_is_and_ends_when_stdin_closes(start: Start) -> None:
    process = start("serve")
    assert present(process.stdout).readline() == "BOOTSTRAP 127.0.0.1:1\n"
    assert present(process.stdout).readline() == "ADVERTISED 127.0.0.1:1\n"
    out, err = process.communicate("these words are not for us\n", timeout=30)
    assert out == ""
    assert "closed" in err
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_in_good_order_on_a_signal(start: Start, number: signal.Signals) -> None:
    process = start("serve")
    present(process.stdout).readline()
    process.send_signal(number)
    assert process.wait(30) == 0
    assert "closed" in present(process.stderr).read()


def test_serve_with_stay_goes_on_without_stdin(start: Start) -> None:
    process = start("serve", "--stay", stdin=subprocess.DEVNULL)
    present(process.stdout).readline()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.terminate()
    assert process.wait(30) == 0


def test_serve_started_without_any_stdin_ends_at_once() -> None:
    closed_stdin = f"exec {sys.executable} -c '{RUNNER}' serve <&-"
    done = subprocess.run(["sh", "-c", closed_stdin], capture_output=True, text=True, timeout=30)
    assert done.stdout == "BOOTSTRAP 127.0.0.1:1\nADVERTISED 127.0.0.1:1\n"
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_up_hands_signals_to_the_command_and_waits_for_it(
    start: Start, number: signal.Signals
) -> None:
    process = start("up", "--", sys.executable, "-c", COMMAND)
    assert present(process.stdout).readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert out == f"got {number.name}\n"
    assert "closed" in err
    assert process.returncode == 40


def test_up_hands_on_a_signal_that_comes_while_the_command_starts(start: Start) -> None:
    program = SIGNAL_DURING_THE_START + RUNNER
    process = start("up", "--", "sleep", "60", program=program)
    assert process.wait(30) == 128 + signal.SIGUSR1
    assert "closed" in present(process.stderr).read()


def test_up_gives_the_command_its_own_stdin(start: Start) -> None:
    process = start("up", "--", sys.executable, "-c", "print(input())")
    out, _ = process.communicate("hello\n", timeout=30)
    assert out == "hello\n"
    assert process.returncode == 0


def test_a_command_killed_by_a_signal_gives_128_and_its_number(start: Start) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    process = start("up", "--", sys.executable, "-c", program)
    assert process.wait(30) == 128 + signal.SIGTERM


#: A command that starts another process, and tells its id.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_the_command_has_started_does_not_outlive_up(
    start: Start, number: signal.Signals
) -> None:
    process = start("up", "--", sys.executable, "-c", PARENT, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    process.send_signal(number)
    process.wait(30)
    # The pipe of its standard output ends only when nothing of the group holds it open.
    assert process.stdout.read() == ""
    while is_alive(grandchild):
        pass


def is_alive(process: int) -> bool:
    """Whether it runs; one that has ended may wait for its parent to collect it."""
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
