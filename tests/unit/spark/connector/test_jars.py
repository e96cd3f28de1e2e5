"""Where the connector is found, in which order, and the message when it is not."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from embedkafka.spark.connector.installed import SparkNotFound, require_installed_spark
from embedkafka.spark.connector.jars import ConnectorNotFound, require_connector
from embedkafka.spark.connector.search import FoundJars
from tests.unit.spark.conftest import Machine

CONNECTOR = "spark-sql-kafka-0-10_2.13"
TOKENS = "spark-token-provider-kafka-0-10_2.13"
GONE = "org/apache/spark/Gone"


class Find:
    """Looks for the connector on the simulated machine and keeps the progress lines."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.said: list[str] = []

    def __call__(self, jars: Sequence[str | Path] | None = None, **environ: str) -> FoundJars:
        return require_connector(
            jars, progress=self.said.append, environ={**self.machine.environ, **environ}
        )


@pytest.fixture
def find(machine: Machine) -> Find:
    return Find(machine)


def names(connector: FoundJars) -> list[str]:
    return [jar.name for jar in connector.jars]


def test_spark_is_known_by_its_own_jars(machine: Machine) -> None:
    machine.install_spark("3.5.4", "2.12")
    spark = require_installed_spark(machine.environ)
    assert (spark.release, spark.scala) == ("3.5.4", "2.12")
    assert spark.jars_dir == machine.spark_jars


def test_the_pyspark_package_is_found_without_spark_home() -> None:
    spark = require_installed_spark({})
    assert "pyspark" in str(spark.jars_dir)
    assert spark.release[0] in "34"


def test_a_pyspark_without_jars_is_told_apart(machine: Machine) -> None:
    for jar in machine.spark_jars.iterdir():
        jar.unlink()
    with pytest.raises(SparkNotFound, match="not a full PySpark"):
        require_installed_spark(machine.environ)


def test_given_jars_are_used_before_anything_else(
    machine: Machine, find: Find, tmp_path: Path
) -> None:
    machine.fill_maven_store("4.0.0")
    given = machine.fill_flat(tmp_path / "given", "4.0.0")
    found = find(given)
    assert list(found.jars) == given
    assert find([str(tmp_path / "given")]).jars == tuple(sorted(given))


@pytest.mark.parametrize("separator", [os.pathsep, ","])
def test_the_environment_names_jars_too(
    machine: Machine, find: Find, tmp_path: Path, separator: str
) -> None:
    given = machine.fill_flat(tmp_path / "given", "4.0.0")
    found = find(EMBEDKAFKA_SPARK_JARS=separator.join(map(str, given)))
    assert list(found.jars) == given
    assert found.found_in == "EMBEDKAFKA_SPARK_JARS"


def test_one_jar_may_hold_all_four(machine: Machine, find: Find, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "everything.jar", "w") as jar:
        for artifact in machine.artifacts:
            jar.writestr(artifact.marker, b"")
    assert names(find([tmp_path / "everything.jar"])) == ["everything.jar"]


def test_given_jars_that_will_not_do_are_refused_with_every_reason(
    machine: Machine, find: Find, tmp_path: Path
) -> None:
    given = machine.fill_flat(tmp_path / "given", "4.0.0")
    with pytest.raises(ConnectorNotFound, match="kafka-clients is missing"):
        find([jar for jar in given if "clients" not in jar.name])
    given[-1].write_bytes(b"this is not a jar")
    with pytest.raises(ConnectorNotFound) as refused:
        find([*given, tmp_path / "absent.jar"])
    assert "commons-pool2-2.12.0.jar is not a readable jar" in str(refused.value)
    assert "absent.jar is not a readable jar" in str(refused.value)


def test_a_connector_newer_than_spark_is_refused(
    machine: Machine, find: Find, tmp_path: Path
) -> None:
    given = machine.fill_flat(tmp_path / "given", "4.1.0")
    with pytest.raises(ConnectorNotFound, match=r"newer than Spark 4\.0\.0"):
        find(given)


def test_a_connector_for_another_scala_is_refused(
    machine: Machine, find: Find, tmp_path: Path
) -> None:
    given = machine.fill_flat(tmp_path / "given", "4.0.0")
    machine.install_spark("4.0.0", "2.12")
    with pytest.raises(ConnectorNotFound, match=r"for Scala 2\.13, and Spark has Scala 2\.12"):
        find(given)


def test_the_order_is_cache_then_spark_then_maven_then_ivy(machine: Machine, find: Find) -> None:
    machine.fill_ivy_store("4.0.0")
    assert "Ivy" in find().found_in
    machine.fill_maven_store("4.0.0")
    assert "Maven" in find().found_in
    machine.fill_flat(machine.spark_jars, "4.0.0")
    assert "Spark's own" in find().found_in
    machine.fill_flat(machine.cache / "spark-jars" / "spark-4.0.0_2.13", "4.0.0")
    assert "cache" in find().found_in
    assert find.said == []


def test_jars_that_spark_retrieved_with_ivy_are_found(machine: Machine, find: Find) -> None:
    for jar in machine.fill_flat(machine.home / ".ivy2.5.2" / "jars", "4.0.0"):
        group = next(a.group for a in machine.artifacts if jar.name.startswith(a.name))
        jar.rename(jar.with_name(f"{group}_{jar.name}"))
    assert names(find())[0] == f"org.apache.spark_{CONNECTOR}-4.0.0.jar"


def test_the_pom_beside_the_connector_chooses_its_companions(machine: Machine, find: Find) -> None:
    machine.fill_maven_store("4.0.0")
    store = machine.home / ".m2" / "repository" / "org" / "apache"
    clients = store / "kafka" / "kafka-clients"
    newer = clients / "4.2.0"
    newer.mkdir()
    (newer / "kafka-clients-4.2.0.jar").write_bytes(
        (clients / "3.9.0" / "kafka-clients-3.9.0.jar").read_bytes()
    )
    assert "kafka-clients-3.9.0.jar" in names(find())
    (store / "spark" / CONNECTOR / "4.0.0" / f"{CONNECTOR}-4.0.0.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies><dependency>'
        "<groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>"
        "<version>4.2.0</version></dependency></dependencies></project>"
    )
    assert "kafka-clients-4.2.0.jar" in names(find())


def test_an_incomplete_store_is_passed_over(machine: Machine, find: Find) -> None:
    machine.fill_maven_store("4.0.0")
    pool = machine.home / ".m2" / "repository" / "org" / "apache" / "commons" / "commons-pool2"
    next(pool.rglob("*.jar")).unlink()
    machine.fill_ivy_store("4.0.0")
    assert "Ivy" in find().found_in


def test_maven_fetches_once_and_the_cache_serves_from_then_on(machine: Machine, find: Find) -> None:
    machine.install_maven(f"{CONNECTOR}-4.0.0", f"{TOKENS}-4.0.0")
    assert "Maven" in find().found_in
    assert len(find.said) == 1
    again = find(PATH="/nowhere")
    assert "cache" in again.found_in
    assert sorted(names(again)) == sorted(p.name for p in again.jars[0].parent.iterdir())
    assert machine.maven_calls == 1
    assert [
        p.name for p in (machine.cache / "spark-jars").iterdir() if "-4.0.0_2.13-" in p.name
    ] == []


def test_the_nearest_lower_release_stands_in_with_a_warning(
    machine: Machine, find: Find, caplog: pytest.LogCaptureFixture
) -> None:
    machine.install_spark("4.2.1")
    machine.install_maven(f"{CONNECTOR}-4.1.0", f"{TOKENS}-4.1.0")
    assert find().release == "4.1.0"
    assert f"using {CONNECTOR}-4.1.0.jar" in caplog.text
    assert find(PATH="/nowhere").release == "4.1.0"
    assert machine.maven_calls == 3, "one each for 4.2.1, 4.2.0 and 4.1.0"


def test_only_the_token_provider_steps_down_when_only_it_is_absent(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.install_maven(f"{CONNECTOR}-4.2.0", f"{TOKENS}-4.0.0")
    assert names(find())[:2] == [f"{CONNECTOR}-4.2.0.jar", f"{TOKENS}-4.0.0.jar"]


def test_a_nearer_release_is_fetched_though_a_lower_one_is_at_hand(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.install_maven(f"{CONNECTOR}-4.1.0", f"{TOKENS}-4.1.0")
    machine.fill_maven_store("4.0.0")
    assert find().release == "4.1.0"


def test_a_lower_release_at_hand_is_kept_once_the_repository_lacks_nearer_ones(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.install_maven(f"{CONNECTOR}-4.0.0", f"{TOKENS}-4.0.0")
    machine.fill_maven_store("4.0.0")
    assert "Maven's store" in find().found_in
    assert find().release == "4.0.0"
    assert machine.maven_calls == 2, "one each for 4.2.0 and 4.1.0"


def test_a_release_at_hand_that_does_not_link_is_passed_over(machine: Machine, find: Find) -> None:
    machine.install_spark("4.3.0")
    machine.needs(f"{CONNECTOR}-4.1.0.jar", GONE)
    machine.fill_maven_store("4.1.0")
    machine.fill_ivy_store("4.0.0")
    machine.install_maven()
    assert find().release == "4.0.0"


def test_a_download_that_does_not_link_is_passed_over(machine: Machine, find: Find) -> None:
    machine.install_spark("4.2.0")
    machine.needs(f"{CONNECTOR}-4.1.0.jar", GONE)
    machine.install_maven(*(f"{n}-{r}" for n in (CONNECTOR, TOKENS) for r in ("4.1.0", "4.0.0")))
    assert find().release == "4.0.0"
    assert names(find(PATH="/nowhere"))[0] == f"{CONNECTOR}-4.0.0.jar"
    assert machine.maven_calls == 3


def test_a_jar_in_the_cache_that_does_not_link_is_replaced(machine: Machine, find: Find) -> None:
    machine.install_spark("4.2.0")
    machine.needs(f"{CONNECTOR}-4.0.0.jar", GONE)
    cached = machine.cache / "spark-jars" / "spark-4.2.0_2.13"
    machine.fill_flat(cached, "4.0.0")
    machine.install_maven(f"{CONNECTOR}-4.1.0", f"{TOKENS}-4.1.0")
    assert find().release == "4.1.0"
    assert not list(cached.glob("*-4.0.0.jar"))


def test_the_token_provider_steps_down_alone_when_only_it_does_not_link(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.needs(f"{TOKENS}-4.1.0.jar", GONE)
    machine.install_maven(f"{CONNECTOR}-4.1.0", f"{TOKENS}-4.1.0", f"{TOKENS}-4.0.0")
    assert names(find())[:2] == [f"{CONNECTOR}-4.1.0.jar", f"{TOKENS}-4.0.0.jar"]


def test_a_store_may_hold_several_token_providers(machine: Machine, find: Find) -> None:
    machine.install_spark("4.2.0")
    machine.needs(f"{TOKENS}-4.1.0.jar", GONE)
    machine.fill_maven_store("4.0.0")
    machine.fill_maven_store("4.1.0")
    assert names(find())[:2] == [f"{CONNECTOR}-4.1.0.jar", f"{TOKENS}-4.0.0.jar"]


def test_a_connector_that_needs_another_token_provider_gets_it(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.needs(f"{CONNECTOR}-4.1.0.jar", "org/apache/spark/kafka010/Lost")
    machine.install_maven(*(f"{n}-{r}" for n in (CONNECTOR, TOKENS) for r in ("4.1.0", "4.0.0")))
    assert find().release == "4.0.0"
    assert machine.maven_calls == 4, "4.2.0, 4.1.0 with either token provider, 4.0.0"


def test_the_exact_release_is_not_scanned(machine: Machine, find: Find) -> None:
    machine.needs(f"{CONNECTOR}-4.0.0.jar", GONE)
    machine.fill_maven_store("4.0.0")
    assert find().release == "4.0.0"
    assert not (machine.cache / "spark-jars").exists()


def test_given_jars_of_another_release_have_to_link(
    machine: Machine, find: Find, tmp_path: Path
) -> None:
    machine.install_spark("4.2.0")
    assert find(machine.fill_flat(tmp_path / "good", "4.1.0")).release == "4.1.0"
    machine.needs(f"{CONNECTOR}-4.0.0.jar", GONE)
    given = machine.fill_flat(tmp_path / "bad", "4.0.0")
    with pytest.raises(ConnectorNotFound, match=r"needs the class org\.apache\.spark\.Gone"):
        find(given)


def test_an_error_names_the_missing_symbols_and_the_pins_that_work(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.3.0")
    machine.needs(f"{CONNECTOR}-4.2.0.jar", "org/apache/spark/Lost$")
    machine.needs(f"{CONNECTOR}-4.0.0.jar", GONE)
    machine.install_maven(f"{CONNECTOR}-4.2.0", f"{CONNECTOR}-4.0.0", f"{TOKENS}-4.0.0")
    with pytest.raises(ConnectorNotFound) as failed:
        find()
    message = str(failed.value)
    lacks = "which Spark 4.3.0 (Scala 2.13) lacks"
    for line in (
        f"Maven for 4.2.0 with token provider 4.0.0: {CONNECTOR}-4.2.0.jar needs the class "
        f"org.apache.spark.Lost$, {lacks}",
        f"Maven for 4.0.0: {CONNECTOR}-4.0.0.jar needs the class org.apache.spark.Gone, {lacks}",
        "pip install 'pyspark==4.0.0'",
    ):
        assert f"  {line}" in message.splitlines()
    assert message.count("pip install") == 1


def test_a_jar_that_cannot_be_read_does_not_stand_in(machine: Machine, find: Find) -> None:
    machine.install_spark("4.2.0")
    given = machine.fill_flat(machine.root / "given", "4.1.0")
    with zipfile.ZipFile(given[0], "a") as jar:
        jar.writestr("org/apache/spark/Damaged.class", b"\xca\xfe\xba\xbe")
    with pytest.raises(ConnectorNotFound, match="cannot be checked: org/apache/spark/Damaged"):
        find(given)


def test_a_lower_release_at_hand_serves_only_until_the_network_is_back(
    machine: Machine, find: Find
) -> None:
    machine.install_spark("4.2.0")
    machine.fill_maven_store("4.0.0")
    machine.install_maven()
    assert find().release == "4.0.0"
    machine.install_maven(f"{CONNECTOR}-4.2.0", f"{TOKENS}-4.2.0")
    assert find().release == "4.2.0"


def test_another_major_line_never_stands_in(machine: Machine, find: Find) -> None:
    machine.install_spark("4.0.0")
    machine.fill_maven_store("3.5.4")
    machine.install_maven(f"{CONNECTOR}-3.5.4", f"{TOKENS}-3.5.4")
    with pytest.raises(ConnectorNotFound):
        find()


def test_without_a_network_older_releases_are_not_asked_for(machine: Machine, find: Find) -> None:
    machine.install_spark("4.2.0")
    machine.install_maven()
    with pytest.raises(ConnectorNotFound, match="Connection refused"):
        find()
    assert machine.maven_calls == 1


def test_a_failure_names_every_place_and_the_command_to_run(machine: Machine, find: Find) -> None:
    with pytest.raises(ConnectorNotFound) as failed:
        find()
    message = str(failed.value)
    for place in (
        "Spark 4.0.0 (Scala 2.13)",
        "jars= argument",
        "EMBEDKAFKA_SPARK_JARS",
        str(machine.cache),
        str(machine.spark_jars),
        str(machine.home / ".m2"),
        str(machine.home / ".ivy2"),
        "no mvn on the PATH",
        "no Java",
        "embedkafka spark-jars",
    ):
        assert place in message


def test_a_cache_that_cannot_be_written_is_told(machine: Machine, find: Find) -> None:
    machine.install_maven(f"{CONNECTOR}-4.0.0", f"{TOKENS}-4.0.0")
    machine.cache.write_text("a file, not a folder")
    with pytest.raises(ConnectorNotFound, match="EMBEDKAFKA_CACHE: should name another folder"):
        find()


def test_processes_that_race_fetch_once(machine: Machine) -> None:
    machine.install_maven(f"{CONNECTOR}-4.0.0", f"{TOKENS}-4.0.0")
    program = (
        "import json, sys; from embedkafka.spark.connector.jars import require_connector\n"
        "found = require_connector(environ=json.loads(sys.argv[1]))\n"
        "print(*found.jars, sep='\\n')"
    )
    command = [sys.executable, "-c", program, json.dumps(machine.environ)]
    racing = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = [process.communicate(timeout=60) for process in racing]
    assert all(process.returncode == 0 for process in racing), printed
    assert len({out for out, _ in printed}) == 1
    assert all(Path(jar).exists() for jar in printed[0][0].split())
    assert machine.maven_calls == 1


def test_looking_for_jars_does_not_import_pyspark_or_the_scan() -> None:
    program = (
        "import sys; from embedkafka.spark import frames, session\n"
        "assert not any(name.startswith('pyspark') for name in sys.modules)\n"
        "assert 'embedkafka.spark.connector.linkage' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
