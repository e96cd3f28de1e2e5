from pathlib import Path
from typing import Any

import pytest

from embedkafka.spark.warm.fitness import (
    Candidate,
    choose,
    find_misfit,
    find_obstacle,
    gather_facts,
    launch_settings,
    launch_variables,
    session_variables,
)

SETTINGS = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.app.name": "tests"}
ENVIRON = {"HOME": "/home/a", "SPARK_CONF_DIR": "/etc/spark", "PATH": "/bin", "ORDERS": "5"}


def facts(tmp_path: Path, **changed: object) -> dict[str, str]:
    given: dict[str, Any] = {
        "java": "/usr/bin/java 17",
        "jars_dir": tmp_path,
        "class_path": ["a.jar", "b.jar"],
        "java_options": ["-Xmx1g"],
        "settings": SETTINGS,
        "environ": ENVIRON,
        "directory": "/work",
    }
    return dict(gather_facts(**{**given, **changed}))


@pytest.mark.parametrize(
    ("changed", "misfit"),
    [
        ({"java": "/usr/bin/java 21"}, "Java"),
        ({"class_path": ["b.jar", "a.jar"]}, "class path"),
        ({"java_options": ["-Xmx2g"]}, "Java options"),
        ({"directory": "/elsewhere"}, "working directory"),
        ({"settings": {**SETTINGS, "spark.driver.memory": "2g"}}, "setting spark.driver.memory"),
        ({"settings": {**SETTINGS, "spark.jars": "c"}}, "setting spark.jars"),
        ({"settings": {**SETTINGS, "spark.of.tomorrow": "c"}}, "setting spark.of.tomorrow"),
        ({"environ": {**ENVIRON, "HADOOP_CONF_DIR": "/h"}}, "variable HADOOP_CONF_DIR"),
        ({"environ": {"HOME": "/home/a"}}, "variable SPARK_CONF_DIR"),
        (
            {"java": "another", "environ": {**ENVIRON, "PYSPARK_PYTHON": "p"}},
            "Java, variable PYSPARK_PYTHON",
        ),
    ],
)
def test_what_a_jvm_reads_once_must_be_equal(
    tmp_path: Path, changed: dict[str, object], misfit: str
) -> None:
    assert find_misfit(facts(tmp_path, **changed), facts(tmp_path)) == misfit


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {**SETTINGS, "spark.sql.shuffle.partitions": "8", "spark.app.name": "b"}},
        {"settings": {**SETTINGS, "spark.master": "local[4]", "spark.ui.enabled": "true"}},
        {"environ": {**ENVIRON, "ORDERS": "6", "PATH": "/usr/bin"}},
        {"environ": {**ENVIRON, "SPARK_BUFFER_SIZE": "65536"}},
    ],
)
def test_what_a_session_brings_may_differ(tmp_path: Path, changed: dict[str, object]) -> None:
    assert find_misfit(facts(tmp_path, **changed), facts(tmp_path)) is None


def test_a_replaced_jar_is_another_class_path(tmp_path: Path) -> None:
    jar = tmp_path / "spark-core.jar"
    jar.write_bytes(b"old")
    before = facts(tmp_path, class_path=[str(jar)])
    jar.write_bytes(b"newer")
    assert find_misfit(facts(tmp_path, class_path=[str(jar)]), before) == "PySpark, class path"


def test_the_jvm_and_the_session_share_settings_and_variables() -> None:
    assert launch_settings(
        {**SETTINGS, "spark.driver.extraJavaOptions": "-Da=b", "spark.hadoop.fs.a": "b"}
    ) == {"spark.driver.memory": "1g", "spark.hadoop.fs.a": "b"}
    assert launch_variables(ENVIRON) == {"HOME": "/home/a", "SPARK_CONF_DIR": "/etc/spark"}
    assert session_variables(ENVIRON) == {"PATH": "/bin", "ORDERS": "5"}


@pytest.mark.parametrize(
    ("settings", "obstacle"),
    [
        ({"spark.master": "local[2]"}, None),
        ({"spark.master": "local"}, None),
        ({"spark.master": "local-cluster[1,1,512]"}, "the master is local-cluster[1,1,512]"),
        ({"spark.master": "yarn"}, "the master is yarn"),
        (
            {"spark.master": "local[2]", "spark.sql.catalogImplementation": "hive"},
            "Hive's tables would stay in the JVM",
        ),
        (
            {"spark.master": "local[2]", "spark.plugins": "a.Plugin"},
            "spark.plugins may keep something in the JVM",
        ),
    ],
)
def test_sessions_that_would_leave_something_are_cold(
    settings: dict[str, str], obstacle: str | None
) -> None:
    assert find_obstacle(settings) == obstacle


FREE = Candidate(name="JVM 1", is_free=True, facts={"Java": "17"}, state="free")
TAKEN = Candidate(name="JVM 2", is_free=False, facts={"Java": "17"}, state="in use by process 9")
OTHER = Candidate(name="JVM 3", is_free=True, facts={"Java": "21"}, state="free")
FOREIGN = Candidate(name="JVM 4", is_free=False, facts={}, state="of another release")


def test_free_jvms_that_fit_are_leased_first() -> None:
    assert choose([OTHER, FREE, TAKEN, FREE], {"Java": "17"}, most=2).fitting == (1, 3)


def test_another_is_started_while_there_are_fewer_than_cores() -> None:
    choice = choose([TAKEN], {"Java": "17"}, most=2)
    assert choice.fitting == ()
    assert choice.why_none == ""


def test_a_full_house_says_what_is_wrong_with_each() -> None:
    choice = choose([TAKEN, OTHER, FOREIGN], {"Java": "17"}, most=3)
    assert choice.fitting == ()
    assert choice.why_none == (
        "3 JVMs are kept, at most one per core, and none fits and is free (JVM 2: in use by "
        "process 9; JVM 3: another Java; JVM 4: of another release); `embedkafka spark-jvm stop` "
        "ends them"
    )
