"""`embedkafka topics | groups | tail | produce | doctor | --version`, as people use them."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka, Security, cli
from tests.cluster.traffic import PATIENT, make_consumer
from tests.presence import present


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=1) as kafka:
        yield kafka


def ask(kafka: EmbeddedKafka, *arguments: str) -> int:
    return cli.main([*arguments, "--bootstrap", kafka.bootstrap_servers])


def test_what_is_produced_is_listed_and_read(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.topic("orders", partitions=2)
    assert ask(kafka, "produce", "orders", "k:one", "k:two", "--key-separator", ":") == 0
    partition = capsys.readouterr().out.split()[0].removeprefix("orders-")
    assert ask(kafka, "topics") == 0
    assert ["orders", "2", "1"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ask(kafka, "topics", "orders") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["partition", "leader", "replicas", "isr", "end"]
    assert [partition, "1", "1", "1", "2"] in rows
    assert ask(kafka, "tail", "orders", "--from-start", "--count", "2") == 0
    assert capsys.readouterr().out == f"{partition}:0\tk\tone\n{partition}:1\tk\ttwo\n"
    assert ask(kafka, "tail", "orders", "--from-start", "--count", "1", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["key"], record["value"], record["offset"]) == ("k", "one", 0)


@pytest.mark.parametrize("where", ["-b", "--bootstrap-server", "--bootstrap"])
def test_options_may_be_spelled_as_other_tools_spell_them(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    topic = kafka.topic()
    topic.send("one")
    options = [where, kafka.bootstrap_servers, "--from-beginning", "--count", "1"]
    assert cli.main(["tail", *options, "--", topic.name]) == 0
    assert capsys.readouterr().out == "0:0\t-\tone\n"


def test_topics_are_created_described_and_deleted(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--partitions", "2", "--config", "retention.ms=7"]
    assert ask(kafka, "topics", "create", *shape, "made") == 0
    assert ask(kafka, "topics", "describe", "made", "-o", "json") == 0
    said, table = capsys.readouterr().out.splitlines()
    assert said == "made is created"
    second = {"partition": 1, "leader": 1, "replicas": [1], "isr": [1], "end": 0}
    assert json.loads(table)[1] == second
    assert ask(kafka, "topics", "create", "made") == 1
    assert "already exists" in capsys.readouterr().err
    assert ask(kafka, "topics", "create", "odd", "--config", "retention.ms=odd") == 1
    assert "retention.ms" in capsys.readouterr().err
    assert ask(kafka, "topics", "--output", "json") == 0
    assert {"topic": "made", "partitions": 2, "replicas": 1} in json.loads(capsys.readouterr().out)
    assert ask(kafka, "topics", "delete", "made") == 0
    assert ask(kafka, "topics", "made") == 2
    assert ask(kafka, "topics", "delete", "made", "--partitions", "2") == 2
    assert "--partitions is for `topics create`" in capsys.readouterr().err


def test_records_have_keys_headers_and_places(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.topic("placed", partitions=2)
    options = ["--key", "k", "--header", "shop=7", "--header", "at=x", "--partition", "1"]
    assert ask(kafka, "produce", "placed", "zero", "one", *options) == 0
    first = topic.read()[0]
    assert (first.key, first.headers) == (b"k", (("shop", b"7"), ("at", b"x")))
    assert (first.partition, first.offset) == (1, 0)
    capsys.readouterr()
    place = ["--partition", "1", "--offset", "1", "--count", "1", "--headers"]
    assert ask(kafka, "tail", "placed", *place) == 0
    assert capsys.readouterr().out == "1:1\tk\tone\tshop=7,at=x\n"
    assert ask(kafka, "tail", "placed", "--partition", "2") == 2
    assert "topic placed has 2 partitions, and none is 2" in capsys.readouterr().err
    assert ask(kafka, "tail", "placed", "--partition", "1", "--offset", "9", "--count", "1") == 1
    assert "cannot read topic placed" in capsys.readouterr().err


def test_what_tail_prints_can_be_written_again(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, copy = kafka.topic("origin"), kafka.topic("copy")
    origin.send("text", key=b"\xff", headers=[("h", None), ("h", "x")])
    origin.send(None, key="gone")
    assert ask(kafka, "tail", "origin", "--from-start", "--count", "2", "--json") == 0
    printed = capsys.readouterr().out + '{"value": {"sku": 1}}\n{"key": "no value"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert ask(kafka, "produce", "copy", "--json") == 2
    assert "line 4 is not a record as `tail --json` prints it" in capsys.readouterr().err
    first, second, third = copy.read()
    assert (first.key, first.value, first.headers) == (
        b"\xff",
        b"text",
        (("h", None), ("h", b"x")),
    )
    assert (second.key, second.value) == (b"gone", None)
    assert third.json() == {"sku": 1}


def test_all_of_stdin_is_written_although_no_one_reads_the_answers(kafka: EmbeddedKafka) -> None:
    written = kafka.topic("written")
    reader, writer = os.pipe()
    os.close(reader)
    lines = [b"line %d" % number for number in range(20)]
    done = subprocess.run(
        [sys.executable, "-m", "embedkafka.cli", "produce", "written"],
        env={**os.environ, "EMBEDKAFKA_BOOTSTRAP": kafka.bootstrap_servers},
        input=b"\n".join([*lines, b"not UTF-8 \xff\r", b""]),
        stdout=writer,
        stderr=subprocess.PIPE,
        check=True,
    )
    os.close(writer)
    assert done.stderr == b""
    assert [record.value for record in written.read()] == [*lines, b"not UTF-8 \xff"]


def test_a_value_may_begin_with_a_dash(kafka: EmbeddedKafka) -> None:
    numbers = kafka.topic("numbers")
    where = ["--bootstrap", kafka.bootstrap_servers]
    assert cli.main(["produce", "numbers", *where, "1", "--", "-5", "--", "x"]) == 0
    assert [record.text for record in numbers.read()] == ["1", "-5", "--", "x"]
    with pytest.raises(SystemExit, match="2"):
        cli.main(["produce", "numbers", *where, "-5"])


def test_a_line_without_its_key_separator_ends_it(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = kafka.topic("pairs")
    lines = io.TextIOWrapper(io.BytesIO(b"k=v=w\n=no key\nplain line\nk=never\n"))
    monkeypatch.setattr(sys, "stdin", lines)
    assert ask(kafka, "produce", "pairs", "--key-separator", "=") == 2
    assert "no key separator in line 3: 'plain line'" in capsys.readouterr().err
    assert [(record.key, record.text) for record in pairs.read()] == [
        (b"k", "v=w"),
        (b"", "no key"),
    ]


def test_groups_are_listed_with_their_lag(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = kafka.topic("prices")
    prices.send_many(["a", "b"])
    consumer = make_consumer(kafka, "readers", **PATIENT, **{"client.id": "shop"})
    consumer.subscribe(["prices"])
    consumer.commit(message=present(consumer.poll(30)), asynchronous=False)
    kafka.group("readers").await_stable()
    assert ask(kafka, "groups") == 0
    assert ["readers", "Stable", "1", "1"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]
    assert ask(kafka, "groups", "readers") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["prices-0", "1", "1", "shop"]
    assert ask(kafka, "groups", "readers", "-o", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {"partition": "prices-0", "committed": 1, "lag": 1, "client": "shop"}
    consumer.close()
    assert ask(kafka, "groups", "writers") == 1
    assert "there is no group 'writers'" in capsys.readouterr().err


def test_the_cluster_of_up_is_found_and_mistakes_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "embedkafka.cli"]
    listed = subprocess.run(
        [*command, "up", "--topic", "orders:3", "--", *command, "topics"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
    )
    assert listed.stdout.split() == ["topic", "partitions", "replicas", "orders", "3", "1"]
    monkeypatch.delenv("EMBEDKAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert cli.main(["topics"]) == 2
    assert "which cluster? Say --bootstrap" in capsys.readouterr().err
    assert cli.main(["tail", "x", "--bootstrap", "127.0.0.1:1"]) == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_a_client_file_of_serve_says_which_cluster_and_how_to_log_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    security = Security(protocol="SASL_SSL", users={"alice": "a-secret"})
    with EmbeddedKafka(security=security) as kafka:
        kafka.topic("orders", partitions=2)
        assert cli.main(["topics", "--client-config", str(kafka.java_properties("alice"))]) == 0
    assert "orders" in capsys.readouterr().out


def test_a_doctor_says_what_is_here_and_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "")
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "ok    cluster: starts, listened on 127.0.0.1:" in said
    assert "note  java: not found\n      -> only Spark needs it: install Java 17" in said
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert cli.main(["doctor"]) == 1
    assert "FAIL  cluster: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["ta"], {"tail"}),
        (["tail", "--off"], {"--offset"}),
        (["serve", "x", "--kafka-"], {"--kafka-defaults"}),
        (["tail", "ord"], set()),
    ],
)
def test_a_shell_completes_commands_and_options(
    words: list[str], completed: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert cli.main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.endswith(script)
    asked = f"COMP_WORDS=(embedkafka {' '.join(words)}); COMP_CWORD={len(words)}; _embedkafka"
    shell = ["bash", "-c", f'{script}\n{asked}\necho "${{COMPREPLY[@]}}"']
    said = subprocess.run(shell, check=True, capture_output=True, text=True)
    assert set(said.stdout.split()) == completed


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("embedkafka ")
