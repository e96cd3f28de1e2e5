"""Keepers of JVMs, with a small process in place of the JVM."""

import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedkafka import ConfigError, cli
from embedkafka.cli import checkups
from embedkafka.spark.warm.home import TEMPORARY, ask, connect, find_kept
from embedkafka.spark.warm.lease import Lease, take_lease
from embedkafka.spark.warm.messages import PROTOCOL
from embedkafka.spark.warm.wish import wants_warm
from pytest_embedkafka.options import read_options
from pytest_embedkafka.sessions import describe_spark
from tests.doubles import spark_jvm
from tests.doubles.warm_home import await_keepers

FACTS = {"Java": "17"}


class Jvms:
    """A private directory, and what is said about it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []
        self.behaviour = "well"
        self.patience: dict[str, float] = {}
        self.leases: list[Lease] = []

    def take(self, facts: Mapping[str, str] = FACTS, **given: Any) -> Lease | None:
        lease = take_lease(self.home, facts, self.launch, self.said.append, **{"most": 2, **given})
        self.leases += [lease] if lease else []
        return lease

    def take_and_return(self) -> Lease:
        lease = self.take()
        assert lease.give_back({}) is None
        lease.drop()
        return lease

    def states(self) -> list[str]:
        return [kept.state for kept in find_kept(self.home)]

    def await_end(self) -> None:
        """Until every keeper has ended; then nothing is left of them."""
        await_keepers(self.home)
        assert list(self.home.glob("jvm-*")) == []

    def launch(self, folder: Path) -> dict[str, Any]:
        return {
            "command": [sys.executable, "-S", spark_jvm.__file__, self.behaviour],
            "environment": {},
            "directory": str(self.home),
            **self.patience,
        }


def await_end_of(process: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process).wait(60)


@pytest.fixture
def jvms(warm_home: Path) -> Iterator[Jvms]:
    jvms = Jvms(warm_home)
    yield jvms
    for lease in jvms.leases:
        lease.drop()


def test_two_sessions_have_one_jvm_in_turn(jvms: Jvms) -> None:
    first = jvms.take()
    assert first.secret == spark_jvm.SECRET
    assert jvms.states() == [f"in use by process {os.getpid()}"]
    assert first.give_back({}) is None
    first.drop()
    assert jvms.states() == ["free"]

    second = jvms.take()
    assert (second.jvm, second.session) == (first.jvm, 2)
    second.give_back({})
    second.drop()
    assert jvms.said == ["starting a Spark JVM that stays for later runs"]


def test_sessions_at_a_time_have_a_jvm_each_and_at_most_one_per_core(jvms: Jvms) -> None:
    leases = [jvms.take(), jvms.take()]
    assert leases[0].jvm != leases[1].jvm
    assert jvms.take() is None
    assert "Spark starts cold: 2 JVMs are kept, at most one per core" in jvms.said[-1]
    assert f"JVM {leases[0].jvm}: in use by process {os.getpid()}" in jvms.said[-1]
    for lease in leases:
        lease.drop()


def test_a_jvm_that_does_not_fit_is_left_alone(jvms: Jvms) -> None:
    first = jvms.take_and_return()
    other = jvms.take({"Java": "21"})
    assert other.jvm != first.jvm
    assert jvms.states().count("free") == 1
    other.drop()
    assert jvms.take({"Java": "11"}, most=1) is None
    assert f"JVM {first.jvm}: another Java" in jvms.said[-1]


def test_a_jvm_ends_with_a_session_that_does_not_give_it_back(jvms: Jvms) -> None:
    jvms.take().drop()
    jvms.await_end()


def test_a_jvm_ends_with_a_session_that_is_killed(jvms: Jvms) -> None:
    """Also if a child of the session's process goes on."""
    (heard, said), (until, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        lease = jvms.take()
        os.write(said, str(lease.jvm).encode())
        if os.fork() == 0:
            os.close(end)
            os.read(until, 1)  # until the test ends
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    await_end_of(int(os.read(heard, 20)))
    for descriptor in (heard, said, until, end):
        os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_jvm_ends_with_its_keeper(jvms: Jvms, number: int) -> None:
    lease = jvms.take()
    (kept,) = find_kept(jvms.home)
    os.kill(kept.description["keeper"], number)
    await_end_of(lease.jvm)
    await_keepers(jvms.home)
    lease.drop()
    again = jvms.take()
    assert again.session == 1
    assert any("left behind" in line for line in jvms.said) == (number == signal.SIGKILL)
    assert len(list(jvms.home.glob("jvm-*"))) == 1
    again.drop()


def test_a_jvm_that_dies_while_it_is_free_is_not_leased(jvms: Jvms) -> None:
    first = jvms.take_and_return()
    os.kill(first.jvm, signal.SIGKILL)
    jvms.await_end()
    assert jvms.take().session == 1


def test_what_a_session_leaves_in_the_directory_goes_and_the_jvms_own_stays(jvms: Jvms) -> None:
    first = jvms.take()
    first.log_file.write_text("a long log")
    left = first.log_file.with_name(TEMPORARY) / "spark-1"
    (left / "within").mkdir(parents=True)
    (left.parent / "file").write_text("")
    first.give_back({})
    assert list(left.parent.iterdir()) == []
    assert first.log_file.read_text() == ""
    first.drop()


def test_a_worn_jvm_is_not_kept(jvms: Jvms) -> None:
    lease = jvms.take()
    assert lease.give_back({"threads": 1000}) == "1000 threads"
    lease.drop()
    jvms.await_end()


def test_an_idle_jvm_ends(jvms: Jvms) -> None:
    jvms.patience = {"idle_seconds": 0}
    jvms.take_and_return()
    jvms.await_end()


def test_a_jvm_that_does_not_start_is_a_cold_start(jvms: Jvms) -> None:
    jvms.behaviour = "fails"
    assert jvms.take() is None
    assert jvms.said[-1] == (
        "Spark starts cold: the JVM ended with exit code 1. Its last output:\nno memory"
    )
    jvms.await_end()


def test_a_jvm_that_never_gets_ready_is_a_cold_start(jvms: Jvms) -> None:
    jvms.behaviour = "never"
    jvms.patience = {"start_seconds": 0}
    assert jvms.take() is None
    assert jvms.said[-1].startswith("Spark starts cold: the JVM was not ready in time")
    jvms.await_end()


def test_a_launcher_that_is_missing_is_a_cold_start(jvms: Jvms) -> None:
    def launch(folder: Path) -> dict[str, Any]:
        return {"command": ["/missing"], "environment": {}, "directory": "/"}

    assert take_lease(jvms.home, FACTS, launch, jvms.said.append) is None
    assert "Spark starts cold: Spark's launcher does not run: " in jvms.said[-1]


def test_a_jvm_that_hangs_is_thrown_away(jvms: Jvms, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jvms.take_and_return()
    monkeypatch.setattr("embedkafka.spark.warm.lease._ANSWER_S", 0.1)
    os.kill(first.jvm, signal.SIGSTOP)
    while psutil.Process(first.jvm).status() != psutil.STATUS_STOPPED:
        pass
    second = jvms.take()
    assert second.jvm != first.jvm
    assert f"JVM {first.jvm} is thrown away: it hangs" in jvms.said
    await_end_of(first.jvm)
    second.drop()


def test_a_keeper_of_another_release_is_left_alone(
    jvms: Jvms, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvms.take_and_return()
    monkeypatch.setattr("embedkafka.spark.warm.home.PROTOCOL", PROTOCOL + 1)
    assert jvms.take(most=1) is None
    assert "its keeper is of another release of embedkafka" in jvms.said[-1]


def test_a_keeper_drops_strangers_and_goes_on(jvms: Jvms) -> None:
    lease = jvms.take()
    for nonsense in (b"GET / HTTP/1.1\n", b"[]\n", b'{"ask": "returned"}\n', b"\xff\xfe\n"):
        with connect(lease.log_file.parent) as connection:
            connection.sendall(nonsense)
            assert connection.recv(10) == b""
    lease.give_back({})
    assert jvms.states() == ["free"]
    lease.drop()


def test_a_directory_of_others_is_a_cold_start(jvms: Jvms, tmp_path: Path) -> None:
    jvms.home.chmod(0o755)
    assert jvms.take() is None
    assert jvms.said == [f"Spark starts cold: {jvms.home} is open to other users: its mode is 755"]
    jvms.home.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(jvms.home)
    assert take_lease(link, FACTS, jvms.launch, jvms.said.append) is None
    assert jvms.said[-1] == f"Spark starts cold: {link} is not a directory of this user"


def test_a_directory_too_long_for_sockets_is_a_cold_start(jvms: Jvms) -> None:
    home = jvms.home / ("long" * 25)
    assert take_lease(home, FACTS, jvms.launch, jvms.said.append) is None
    assert "is too long for a socket" in jvms.said[-1]
    assert list(home.glob("jvm-*")) == []


def test_a_full_disk_is_a_cold_start(jvms: Jvms, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert jvms.take() is None
    assert "Spark starts cold: [Errno 28] No space left on device" in jvms.said[-1]


def test_stop_ends_a_free_jvm_now_and_another_with_its_session(jvms: Jvms) -> None:
    lease = jvms.take()
    ask(lease.log_file.parent, {"ask": "stop"})
    assert jvms.states() == [f"in use by process {os.getpid()}, and ends with it"]
    assert lease.give_back({}) is not None
    lease.drop()
    jvms.await_end()


def test_the_command_lists_and_stops(
    jvms: Jvms, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(jvms.home.parent))
    first, second = jvms.take(), jvms.take()
    first.give_back({})
    first.drop()
    assert cli.main(["spark-jvm", "list"]) == 0
    free, used = sorted(capsys.readouterr().out.splitlines(), key=lambda line: "in use" in line)
    assert re.fullmatch(
        rf"JVM {first.jvm}, .* old, 1 session, free, ends in .* if nothing uses it", free
    )
    assert f"JVM {second.jvm}, " in used
    assert len(list(checkups._warm_jvms({}))) == 2

    assert cli.main(["spark-jvm", "stop"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(
        [
            f"JVM {first.jvm} ends",
            f"JVM {second.jvm} ends with its session: in use by process {os.getpid()}",
        ]
    )
    second.drop()
    jvms.await_end()
    assert cli.main(["spark-jvm", "list"]) == 0
    assert capsys.readouterr().out == ""


def test_the_header_names_the_jvm(
    jvms: Jvms, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(jvms.home.parent))
    config = pytester.parseconfig("--spark-warm")
    assert describe_spark(config) == ["spark: no warm JVM yet; this run leaves one for ten minutes"]
    lease = jvms.take()
    (line,) = describe_spark(config)
    assert line.startswith(f"spark: warm JVM {lease.jvm}, ")
    assert describe_spark(pytester.parseconfig()) == []
    shared = pytester.parseconfig("--spark-warm", "--spark-xdist=shared")
    assert describe_spark(shared) == [
        "spark: not warm; only a local session of each process can be"
    ]
    jvms.home.chmod(0o755)
    assert describe_spark(config)[0].startswith("spark: not warm: ")
    jvms.home.chmod(0o700)


@pytest.mark.parametrize(
    ("ini", "environ", "arguments", "is_warm"),
    [
        ("no", {}, [], False),
        ("yes", {}, [], True),
        ("yes", {"CI": "true"}, [], False),
        ("no", {"CI": "true"}, ["--spark-warm"], True),
        ("no", {"CI": "true", "EMBEDKAFKA_SPARK_WARM": "1"}, [], True),
        ("yes", {"EMBEDKAFKA_SPARK_WARM": "0"}, [], False),
        ("no", {"EMBEDKAFKA_SPARK_WARM": "0"}, ["--spark-warm", "test_a_path.py"], True),
    ],
)
def test_who_decides(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    ini: str,
    environ: dict[str, str],
    arguments: list[str],
    is_warm: bool,
) -> None:
    for name in ("CI", "EMBEDKAFKA_SPARK_WARM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    pytester.makeini(f"[pytest]\nspark_warm = {ini}\n")
    assert read_options(pytester.parseconfig(*arguments)).spark_warm is is_warm


def test_a_word_that_is_neither_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDKAFKA_SPARK_WARM", "maybe")
    with pytest.raises(pytest.UsageError, match="EMBEDKAFKA_SPARK_WARM must be 1 or 0"):
        read_options(pytester.parseconfig())
    with pytest.raises(ConfigError, match="EMBEDKAFKA_SPARK_WARM must be 1 or 0"):
        wants_warm(None, {"EMBEDKAFKA_SPARK_WARM": "maybe"})
