"""The arguments of the command line, with a stand-in for the cluster."""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

import embedkafka
from embedkafka import cli
from embedkafka.cli import endings
from embedkafka.cli.entry import command_line, in_options
from embedkafka.cluster import broker_process, embedded
from embedkafka.runtime.failures import BackgroundFailure, ConfigError
from embedkafka.wire.records.builder import build_batch
from tests.presence import present

(ACTION,) = (a for a in command_line()._actions if isinstance(a, argparse._SubParsersAction))
SUBPARSERS: list[argparse.ArgumentParser] = list(ACTION.choices.values())


class StandIn:
    """Keeps the settings it was created with, and has a fixed address."""

    made: list["StandIn"] = []
    close_with: Exception | None = None
    bootstrap_servers = "127.0.0.1:1,127.0.0.1:2"
    listeners: ClassVar = {"PLAINTEXT": bootstrap_servers, "SAFE": "127.0.0.1:3"}
    advertised: ClassVar = {"PLAINTEXT": "proxy:1,proxy:2", "SAFE": "proxy:3"}
    certificates_dir = "/certificates"

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.closed = False
        StandIn.made.append(self)

    def java_properties(self, user: str) -> str:
        return f"/files/{user}"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self.closed = True
        if StandIn.close_with:
            raise StandIn.close_with


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    StandIn.made = []
    StandIn.close_with = None
    monkeypatch.setattr(embedkafka, "EmbeddedKafka", StandIn, raising=False)
    return StandIn


def python(program: Any) -> list[Any]:
    return ["--", sys.executable, "-c", program]


def test_up_tells_the_command_where_the_cluster_is(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import os; print(os.environ['EMBEDKAFKA_BOOTSTRAP'])"
    program += "; print(os.environ['KAFKA_BOOTSTRAP_SERVERS'])"
    program += "; print(os.environ['EMBEDKAFKA_BOOTSTRAP_SAFE'])"
    assert cli.main(["up", *python(program)]) == 0
    addresses = [StandIn.bootstrap_servers] * 2 + ["127.0.0.1:3"]
    assert capfd.readouterr().out.split() == addresses
    assert StandIn.made[0].closed


def test_up_passes_every_option_to_the_cluster(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("# a comment\nlog.retention.ms = 5\nnum.partitions: 7\n")
    options = ["--brokers", "3", "--port", "9092", "--properties", str(properties)]
    options += ["--config", "num.partitions=2", "--data-dir", str(tmp_path)]
    options += ["--topic", "a:3:2", "--topic", "b:4", "--topic", "c"]
    options += ["--topic-config", "b:retention.ms=6", "--topic-config", "b:cleanup.policy=compact"]
    options += ["--host", "127.0.0.2", "--racks", "r1,r2, r3", "--zookeeper", "localhost:2181/here"]
    options += ["--log-dirs", "2", "--seed", "7", "--advertise", "proxy", "--kafka-defaults"]
    assert cli.main(["up", *options, *python("")]) == 0
    settings = StandIn.made[0].settings
    assert (settings["host"], settings["advertise"]) == ("127.0.0.2", "proxy")
    assert settings["racks"] == ["r1", "r2", "r3"]
    assert settings["zookeeper"] == "localhost:2181/here"
    assert (settings["log_dirs"], settings["seed"], settings["defaults"]) == (2, 7, "kafka")
    assert settings["topics"]["b"].config == {"retention.ms": "6", "cleanup.policy": "compact"}
    assert settings["brokers"] == 3
    assert settings["port"] == 9092
    assert settings["data_dir"] == tmp_path
    assert settings["config"] == {"log.retention.ms": "5", "num.partitions": "2"}
    topics = {name: (t.partitions, t.replication) for name, t in settings["topics"].items()}
    assert topics == {"a": (3, 2), "b": (4, None), "c": (1, None)}


def test_every_argument_of_a_cluster_can_be_given_and_has_the_same_default() -> None:
    assert cli.main(["up", *python("")]) == 0
    arguments = inspect.signature(embedded.EmbeddedKafka).parameters
    defaults = {name: argument.default for name, argument in arguments.items()}
    given = StandIn.made[0].settings
    assert set(given) == set(defaults)
    assert {name: given[name] or None for name in given} == {
        name: default or None for name, default in defaults.items()
    }


def test_a_setting_of_a_topic_needs_the_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["up", "--topic-config", "a:retention.ms=6", *python("")]) == 2
    assert "give --topic a too" in capsys.readouterr().err


def test_broker_passes_every_option_to_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Lone(StandIn):
        listeners = advertised = {"PLAINTEXT": "127.0.0.1:9"}

    monkeypatch.setattr(broker_process, "BrokerProcess", Lone)
    monkeypatch.setattr(endings, "await_end", lambda signals, stay: None)
    options = ["--zookeeper", "localhost:2181/here", "--id", "7"]
    options += ["--host", "127.0.0.2", "--port", "9", "--advertise", "proxy"]
    options += ["--config", "num.partitions=2", "--data-dir", str(tmp_path)]
    assert cli.main(["broker", *options]) == 0
    assert capsys.readouterr().out == "BOOTSTRAP 127.0.0.1:9\nADVERTISED 127.0.0.1:9\n"
    assert Lone.made[0].settings == {
        "zookeeper": "localhost:2181/here",
        "broker_id": 7,
        "host": "127.0.0.2",
        "port": 9,
        "advertise": "proxy",
        "config": {"num.partitions": "2"},
        "data_dir": tmp_path,
    }


def test_a_setting_without_effect_is_one_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Checking(StandIn):
        def __init__(self, **settings: Any) -> None:
            embedded.EmbeddedKafka(**settings)
            super().__init__(**settings)

    monkeypatch.setattr(embedkafka, "EmbeddedKafka", Checking, raising=False)
    options = ["--config", "ssl.provider=x", "--config", "background.threads=3"]
    assert cli.main(["up", *options, *python("")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" has no effect: ")[0] for line in lines] == [
        "embedkafka: warning: broker setting ssl.provider",
        "embedkafka: warning: broker setting background.threads",
    ]


def test_warnings_are_shown_as_before_when_the_command_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Some Pythons without the GIL leave `showwarning` as it is when this block ends.
    monkeypatch.setattr(warnings, "catch_warnings", nullcontext)
    before = warnings.showwarning
    assert cli.main(["up", *python("")]) == 0
    assert warnings.showwarning is before


def test_a_setting_that_must_not_be_ignored_is_misuse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embedkafka, "EmbeddedKafka", embedded.EmbeddedKafka, raising=False)
    assert cli.main(["up", "--config", "create.topic.policy.class.name=x", *python("")]) == 2
    assert "the policy would not be applied" in capsys.readouterr().err


def test_all_that_is_wrong_is_said_at_once_and_in_words_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embedkafka, "EmbeddedKafka", embedded.EmbeddedKafka, raising=False)
    options = ["--brokers", "0", "--port", "-1", "--log-dirs", "0", "--advertise", "a:9092"]
    options += ["--properties", "/no/such/file", "--mechanism", "plain"]
    options += ["--topic", "a:0", "--topic", "b", "--topic-config", "b:retention.ms=long"]
    options += ["--topic-config", "c:retention.ms=5", "--seed", "9" * 30]
    assert cli.main(["up", *options, *python("")]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "embedkafka: 10 problems with the configuration:"
    beginnings = [
        "cannot read --properties /no/such/file",
        "--topic-config c:retention.ms=5: give --topic c too",
        "--topic a: partitions must be",
        "--topic b: Invalid value long for configuration retention.ms",
        "users, --mechanism and --anonymous need --security",
        "--seed must be",
        "--brokers must be",
        "--log-dirs must be",
        "--port must be",
        "--advertise must be",
    ]
    assert [line.startswith(f"- {b}") for line, b in zip(lines, beginnings, strict=True)] == [
        True
    ] * 10, lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port 9092 is in use: choose another `port`, or 0", "choose another --port, or 0"),
        ("log.dirs has no effect: use `data_dir` and `log_dirs`", "--data-dir and --log-dirs"),
        ("node.id has no effect: use `broker_id`", "use --id"),
        ("- host must be text", "- --host must be"),
        ("`kafka.metrics()` and a port", "`kafka.metrics()` and a port"),
    ],
)
def test_messages_name_options_and_not_arguments(text: str, said: str) -> None:
    assert said in in_options(text)


def test_up_serves_metrics_and_tells_the_command_where(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "metrics", lambda self: None, raising=False)
    program = "import os; print(os.environ['EMBEDKAFKA_METRICS'])"
    assert cli.main(["up", "--metrics-port", "0", *python(program)]) == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics\n", capfd.readouterr().out)


def test_up_keeps_the_exit_code_of_the_command() -> None:
    assert cli.main(["up", *python("raise SystemExit(7)")]) == 7


def test_up_gives_128_and_the_signal_that_ended_the_command() -> None:
    assert cli.main(["up", *python("import os; os.kill(os.getpid(), 9)")]) == 137


def test_up_answers_as_a_shell_does_for_a_command_that_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "--", "no-such-command-anywhere"]) == 127
    plain = tmp_path / "plain"
    plain.write_text("")
    assert cli.main(["up", "--", str(plain)]) == 126
    assert "cannot run" in capsys.readouterr().err
    assert all(made.closed for made in StandIn.made)


def test_a_broken_cluster_fails_a_command_that_went_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    StandIn.close_with = BackgroundFailure("the fetcher died")
    assert cli.main(["up", *python("")]) == 1
    assert "the fetcher died" in capsys.readouterr().err


def test_a_broken_cluster_does_not_hide_how_the_command_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    StandIn.close_with = BackgroundFailure("the fetcher died")
    assert cli.main(["up", *python("raise SystemExit(7)")]) == 7
    assert "the fetcher died" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "print the records of a topic as they come"),
        (["up"], "needs a command"),
        (["up", "--"], "needs a command"),
        (["serve", "--", "true"], "only `up` takes a command"),
        (["serve", "--brokers", "many"], "invalid int"),
        (["serve", "--config", "no-equals-sign"], "KEY=VALUE"),
        (["serve", "--topic", "a:b"], "PARTITIONS"),
        (["serve", "--topic", "a:1:2:3"], "PARTITIONS"),
        (["serve", "--topic", ""], "PARTITIONS"),
        (["serve", "--nonsense"], "unrecognized"),
        (["broker", "--id", "1"], "--zookeeper"),
        (["broker", "--zookeeper", "localhost:2181"], "--id"),
    ],
)
def test_misuse_ends_with_code_2_and_says_why(
    arguments: Any, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_properties_file_that_is_not_there_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["up", "--properties", "/no/such/file", "--", "true"]) == 2
    assert "/no/such/file" in capsys.readouterr().err


def test_a_properties_file_may_hold_settings_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("confluent.support.metrics.enable=false\nnum.partitions=7\n")
    assert cli.main(["up", "--properties", str(properties), *python("")]) == 0
    assert StandIn.made[0].settings["config"] == {"num.partitions": "7"}
    assert "unknown broker setting confluent.support.metrics.enable" in caplog.text


def test_a_properties_file_has_the_encoding_that_kafka_reads(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_bytes("# für Köln\nbroker.rack=Köln\n".encode("iso-8859-1"))
    assert cli.main(["up", "--properties", str(properties), *python("")]) == 0
    assert StandIn.made[0].settings["config"] == {"broker.rack": "Köln"}


def test_settings_that_the_cluster_refuses_are_misuse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**settings: Any) -> None:
        raise ConfigError("no such setting: colour")

    monkeypatch.setattr(embedkafka, "EmbeddedKafka", refuse)
    assert cli.main(["up", "--config", "colour=red", "--", "true"]) == 2
    assert "colour" in capsys.readouterr().err


def test_spark_jars_prints_one_path_in_each_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from embedkafka.spark.connector import jars, search

    found = search.FoundJars(release="4.0.0", jars=(tmp_path / "a", tmp_path / "b"), found_in="x")
    monkeypatch.setattr(jars, "require_connector", lambda: found)
    assert cli.main(["spark-jars"]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_spark_jars_also_makes_the_class_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from embedkafka.cluster import spark_training
    from embedkafka.spark.connector import jars, packages, search

    found = search.FoundJars(release="4.0.0", jars=(tmp_path / "a",), found_in="x")
    made: list[str] = []
    monkeypatch.setattr(jars, "require_connector", lambda: found)
    monkeypatch.setattr(spark_training, "make_class_archive", made.extend)
    assert cli.main(["spark-jars"]) == 0
    assert made == []
    monkeypatch.setattr(packages, "require_packages", lambda names, given: ())
    assert cli.main(["spark-jars", "--archive", "--package", "spark-avro"]) == 0
    assert made == ["spark-avro"]


def test_help_needs_neither_pyspark_nor_a_client() -> None:
    program = "import sys; from embedkafka import cli\n"
    program += "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
    program += "assert not {'pyspark', 'confluent_kafka'} & set(sys.modules), 'too much'"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "spark-jars" in done.stdout
    assert os.linesep in done.stdout


def test_dump_log_tells_what_is_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = tmp_path / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    segment.write_bytes(build_batch([(0, b"k", b"hello", ())]))
    assert cli.main(["dump-log", str(segment.parent)]) == 0
    assert "value=hello" in capsys.readouterr().out
    assert cli.main(["dump-log", str(segment), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["file", "batch", "record"]


def test_dump_log_fails_when_a_log_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(b"not a batch")
    assert cli.main(["dump-log", str(segment)]) == 1
    assert "\n! " in capsys.readouterr().out


def test_dump_log_ends_in_silence_when_its_reader_has_seen_enough(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(b"".join(build_batch([(0, b"k", bytes(500), ())]) for _ in range(300)))
    command = [sys.executable, "-m", "embedkafka.cli", "dump-log", str(segment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dumping:
        present(dumping.stdout).readline()
        present(dumping.stdout).close()
        assert present(dumping.stderr).read() == b""


def test_serve_prints_where_the_files_of_a_secured_cluster_are(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "await_end", lambda signals, stay: None)
    options = ["--security", "sasl_ssl", "--user", "alice:a:secret", "--user", "job:j-secret"]
    options += ["--mechanism", "plain", "--mechanism", "scram-sha-256", "--anonymous"]
    assert cli.main(["serve", *options]) == 0
    security = StandIn.made[0].settings["security"]
    assert (security.protocol, security.anonymous) == ("SASL_SSL", True)
    assert security.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert security.users == {"alice": "a:secret", "job": "j-secret"}
    assert capfd.readouterr().out.splitlines() == [
        "BOOTSTRAP 127.0.0.1:1,127.0.0.1:2",
        "BOOTSTRAP.SAFE 127.0.0.1:3",
        "ADVERTISED proxy:1,proxy:2",
        "ADVERTISED.SAFE proxy:3",
        "CERTIFICATES /certificates",
        "CLIENT.alice /files/alice",
        "CLIENT.job /files/job",
    ]


def test_passwords_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "await_end", lambda signals, stay: None)
    users = tmp_path / "users"
    users.write_text("alice=a:secret\njob=j-secret\n")
    assert cli.main(["serve", "--security", "sasl_ssl", "--users-file", str(users)]) == 0
    assert StandIn.made[0].settings["security"].users == {"alice": "a:secret", "job": "j-secret"}


@pytest.mark.parametrize(
    "options",
    [["--user", "alice:x"], ["--users-file", "x"], ["--mechanism", "plain"], ["--anonymous"]],
)
def test_users_need_a_protocol(options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", *options]) == 2
    assert "need --security" in capfd.readouterr().err
