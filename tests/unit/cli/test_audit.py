"""`embedkafka audit`: its arguments and exit codes; Spark is a stand-in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedkafka import cli
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.spark.delivery import command, offsets
from embedkafka.spark.delivery.offsets import OffsetRange
from tests.unit.spark.delivery.deliveries import BAD, GOOD

ARGUMENTS = ["audit", "--bootstrap", "h:1", "--source", "orders", "--sink", "priced"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Collects the command's calls; "answer" holds what they return."""
    seen: dict[str, Any] = {"answer": GOOD}

    def audit_topics(**arguments: Any) -> Any:
        seen.update(arguments)
        if isinstance(seen["answer"], Exception):
            raise seen["answer"]
        return seen["answer"]

    monkeypatch.setattr(command, "audit_topics", audit_topics)
    return seen


def test_a_proof_exits_with_0(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(ARGUMENTS) == 0
    assert "all 1,200 records arrived once" in capsys.readouterr().out
    assert (asked["source"], asked["sink"]) == ("orders", "priced")
    assert (asked["key"], asked["value"], asked["ordered"]) == (["key"], ["value"], None)


def test_a_refutation_exits_with_1_and_writes_the_page(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked["answer"] = BAD
    page = tmp_path / "audit.html"
    more = ["--key", "id", "--key", "region", "--value", "$", "--unordered", "--html", str(page)]
    more += ["--option", "minPartitions=8", "--spark-config", "spark.driver.memory=4g"]
    assert cli.main([*ARGUMENTS, *more]) == 1
    assert "REFUTED: 2 lost, 1 altered" in capsys.readouterr().out
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert (asked["key"], asked["value"], asked["ordered"]) == (["id", "region"], ["$"], False)
    assert asked["options"] == {"minPartitions": "8"}
    assert asked["spark_config"] == {"spark.driver.memory": "4g"}


def test_spark_runs_on_a_master_or_on_a_connect_server(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    remote = ["--spark-remote", "sc://h:1"]
    assert cli.main([*ARGUMENTS, *remote]) == 0
    assert asked["spark_remote"] == "sc://h:1"
    with pytest.raises(SystemExit):
        cli.main([*ARGUMENTS, *remote, "--spark-master", "yarn"])
    assert "--spark-master: not allowed with argument --spark-remote" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ConfigError("no topic"), EmbedKafkaError("no topic")])
def test_what_cannot_be_compared_exits_with_2(
    asked: dict[str, Any], error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    asked["answer"] = error
    assert cli.main(ARGUMENTS) == 2
    assert capsys.readouterr().err == "embedkafka: no topic\n"


def test_a_page_that_cannot_be_written_exits_with_2(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main([*ARGUMENTS, "--html", str(tmp_path / "none" / "audit.html")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_client_s_file_becomes_options_of_the_connector(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism = PLAIN\n")
    assert command.client_options(file) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
    }
    assert command.client_options(None) == {}
    with pytest.raises(ConfigError, match="cannot read --client-config"):
        command.client_options(tmp_path / "missing")


def test_the_cluster_is_found_as_by_other_commands(
    asked: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topics = ["audit", "--source", "orders", "--sink", "priced"]
    for name in ("EMBEDKAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(topics) == 2
    assert "which cluster? Say --bootstrap" in capsys.readouterr().err
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nssl.truststore.location=trust.jks\n")
    with_file = [*topics, "--client-config", str(file), "--option", "minPartitions=8"]
    for given, servers in (
        (topics, "environment:1"),
        (with_file, "file:1"),
        ([*with_file, "--bootstrap", "h:1"], "h:1"),
    ):
        assert cli.main(given) == 0
        assert asked["bootstrap_servers"] == servers
    assert asked["options"]["kafka.ssl.truststore.location"] == "trust.jks"
    assert asked["options"]["minPartitions"] == "8"


@pytest.mark.parametrize(("records", "is_quick"), [(0, True), (200_000, True), (10**6, False)])
def test_few_records_are_audited_in_a_session_tuned_for_tests(
    monkeypatch: pytest.MonkeyPatch, records: int, is_quick: bool
) -> None:
    opened: list[tuple[dict[str, str], str]] = []

    @contextmanager
    def session(name: str, *, config: dict[str, str], archive: str) -> Iterator[None]:
        opened.append((config, archive))
        yield

    monkeypatch.setattr(command, "local_session", session)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("EMBEDKAFKA_SPARK_ARCHIVE", raising=False)
    with command.audit_session("local[3]", {"spark.a": "b"}, records=records):
        pass
    ((config, archive),) = opened
    own = {"spark.master": "local[3]", "spark.a": "b"}
    assert (config == own) is is_quick
    assert own.items() <= config.items()
    assert archive == "use", "one audit does not fill the cache"


def test_a_missing_topic_is_said_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"orders": 3, "priced": 4}

    def ask(settings: dict[str, str], topic: str, timeout_s: float) -> dict[int, OffsetRange]:
        if settings["bootstrap.servers"] == "h:2":
            raise EmbedKafkaError("no answer")
        if topic not in known:
            raise offsets.NoSuchTopic(topic)
        return {0: OffsetRange(start=1, end=known[topic])}

    monkeypatch.setattr(offsets, "_ask_librdkafka", ask)
    here, elsewhere = ({"kafka.bootstrap.servers": servers} for servers in ("h:1", "h:2"))
    assert offsets.find_record_count(here, ["orders", "priced"]) == 5
    assert offsets.find_record_count(elsewhere, ["orders", "gone"]) is None
    with pytest.raises(ConfigError, match="gone"):
        offsets.find_record_count(here, ["orders", "gone"])


def test_only_a_driver_that_does_all_the_work_is_local() -> None:
    assert [
        master
        for master in ("local", "local[*]", "local-cluster[2,1,512]", "spark://h:1")
        if command.is_local(master)
    ] == ["local", "local[*]"]
