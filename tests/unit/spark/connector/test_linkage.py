"""Which references of a connector link with a Spark, and how long the verdict is remembered."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from embedkafka.spark.connector import linkage
from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.linkage import MissingSymbol, find_missing_symbol
from tests.doubles.class_files import JavaClass, write_jar

CONNECTOR = "org/apache/spark/sql/kafka010/Source"


class Scan(Protocol):
    def __call__(
        self, connector: JavaClass, *of_spark: JavaClass, tokens: Sequence[JavaClass] = ()
    ) -> str | None: ...


@pytest.fixture
def spark(tmp_path: Path) -> InstalledSpark:
    return InstalledSpark(release="4.2.0", scala="2.13", jars_dir=tmp_path / "spark")


@pytest.fixture
def cache(tmp_path: Path) -> JarCache:
    return JarCache(home=tmp_path / "cache", key="spark-4.2.0_2.13")


@pytest.fixture
def scan(tmp_path: Path, spark: InstalledSpark, cache: JarCache) -> Scan:
    """Returns the reference that a connector of one class lacks in a Spark of these classes."""

    def scan(
        connector: JavaClass, *of_spark: JavaClass, tokens: Sequence[JavaClass] = ()
    ) -> str | None:
        write_jar(spark.jars_dir / "spark-core.jar", of_spark)
        jars = [
            write_jar(tmp_path / "connector.jar", [connector]),
            write_jar(tmp_path / "tokens.jar", tokens),
        ]
        missing = find_missing_symbol(jars, spark, cache)
        return str(missing) if missing else None

    return scan


def test_a_missing_class_is_named(scan: Scan) -> None:
    user = JavaClass(name=CONNECTOR, used_classes=["org/apache/spark/LogKeys$TOPIC$"])
    assert scan(user) == "connector.jar needs the class org.apache.spark.LogKeys$TOPIC$"


def test_a_class_of_spark_or_of_the_connector_is_found(scan: Scan) -> None:
    user = JavaClass(name=CONNECTOR, used_classes=["org/apache/spark/Conf", CONNECTOR])
    assert scan(user, JavaClass(name="org/apache/spark/Conf")) is None


def test_only_sparks_own_packages_count(scan: Scan) -> None:
    user = JavaClass(
        name=CONNECTOR,
        used_classes=["org/apache/kafka/Lost", "java/lang/Lost"],
        used_methods=[("scala/Lost", "get", "()I")],
    )
    assert scan(user) is None
    renamed = JavaClass(name=CONNECTOR, used_classes=["org/sparkproject/guava/Lost"])
    assert scan(renamed) == "connector.jar needs the class org.sparkproject.guava.Lost"


def test_a_method_of_another_type_is_missing(scan: Scan) -> None:
    conf = JavaClass(name="org/apache/spark/Conf", methods=[("get", "()I")])
    user = JavaClass(name=CONNECTOR, used_methods=[(conf.name, "get", "()J")])
    missing = "the method org.apache.spark.Conf.get of type ()J"
    assert scan(user, conf) == f"connector.jar needs {missing}"


def test_a_missing_field_is_named(scan: Scan) -> None:
    module = JavaClass(name="org/apache/spark/Conf$")
    user = JavaClass(name=CONNECTOR, used_fields=[(module.name, "MODULE$", "I")])
    missing = "the field org.apache.spark.Conf$.MODULE$ of type I"
    assert scan(user, module) == f"connector.jar needs {missing}"


@pytest.mark.parametrize(
    "heir",
    [
        JavaClass(name="org/apache/spark/Heir", superclass="scala/Base"),
        JavaClass(name="org/apache/spark/Heir", interfaces=["java/io/Serializable", "scala/Base"]),
    ],
    ids=["superclass", "interface"],
)
def test_inherited_members_are_found(scan: Scan, heir: JavaClass) -> None:
    top = JavaClass(name="org/apache/spark/Top", methods=[("get", "()I")], fields=[("size", "I")])
    base = JavaClass(name="scala/Base", superclass=top.name)
    user = JavaClass(
        name=CONNECTOR,
        used_methods=[(heir.name, "get", "()I"), (heir.name, "hashCode", "()I")],
        used_fields=[(heir.name, "size", "I")],
    )
    assert scan(user, heir, base, top) is None


def test_a_constructor_is_not_inherited(scan: Scan) -> None:
    top = JavaClass(name="org/apache/spark/Top", methods=[("<init>", "(I)V")])
    heir = JavaClass(name="org/apache/spark/Heir", superclass=top.name)
    user = JavaClass(name=CONNECTOR, used_methods=[(heir.name, "<init>", "(I)V")])
    assert "Heir.<init>" in str(scan(user, heir, top))


def test_a_method_that_no_java_parent_has_is_missing(scan: Scan) -> None:
    failure = JavaClass(
        name="org/apache/spark/Failure",
        superclass="java/lang/RuntimeException",
        interfaces=["java/io/Serializable"],
    )
    known = JavaClass(name=CONNECTOR, used_methods=[(failure.name, "getCause", "()X")])
    assert scan(known, failure) is None
    unknown = JavaClass(name=CONNECTOR, used_methods=[(failure.name, "getErrorClass", "()X")])
    assert "Failure.getErrorClass" in str(scan(unknown, failure))


def test_a_parent_that_is_out_of_sight_may_have_any_method(scan: Scan) -> None:
    queue = JavaClass(name="org/apache/spark/Queue", superclass="java/util/ArrayDeque")
    user = JavaClass(name=CONNECTOR, used_methods=[(queue.name, "push", "(I)V")])
    assert scan(user, queue) is None


def test_of_the_token_provider_only_reached_classes_count(scan: Scan) -> None:
    util = JavaClass(name="org/apache/spark/kafka010/Util", used_classes=["org/apache/spark/A"])
    provider = JavaClass(
        name="org/apache/spark/kafka010/Provider", used_classes=["org/apache/spark/B"]
    )
    user = JavaClass(name=CONNECTOR, used_classes=[util.name])
    assert scan(user, tokens=[util, provider]) == "tokens.jar needs the class org.apache.spark.A"
    assert scan(user, JavaClass(name="org/apache/spark/A"), tokens=[provider, util]) is None


@pytest.fixture
def count_scans(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    scans: list[object] = []
    real = linkage._missing_symbols

    def counted(*arguments: object) -> object:
        scans.append(arguments)
        return real(*arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(linkage, "_missing_symbols", counted)
    return lambda: len(scans)


@pytest.mark.parametrize("used", ["org/apache/spark/Conf", "org/apache/spark/Gone"])
def test_a_verdict_is_remembered_for_a_spark_and_its_jars(
    tmp_path: Path,
    spark: InstalledSpark,
    cache: JarCache,
    count_scans: Callable[[], int],
    used: str,
) -> None:
    write_jar(spark.jars_dir / "spark-core.jar", [JavaClass(name="org/apache/spark/Conf")])
    jar = write_jar(tmp_path / "c.jar", [JavaClass(name=CONNECTOR, used_classes=[used])])
    first = find_missing_symbol([jar], spark, cache)
    assert find_missing_symbol([jar], spark, cache) == first
    assert count_scans() == 1

    other_spark = JarCache(home=cache.home, key="spark-4.3.0_2.13")
    assert find_missing_symbol([jar], spark, other_spark) == first
    assert count_scans() == 2

    write_jar(jar, [JavaClass(name=CONNECTOR, used_classes=["org/apache/spark/Other"])])
    assert find_missing_symbol([jar], spark, cache) == MissingSymbol(
        jar="c.jar", owner="org.apache.spark.Other", symbol="the class org.apache.spark.Other"
    )
    assert count_scans() == 3


def test_a_cache_that_cannot_be_written_remembers_nothing_and_harms_nothing(
    tmp_path: Path, spark: InstalledSpark, cache: JarCache, count_scans: Callable[[], int]
) -> None:
    cache.home.write_text("a file, not a folder")
    write_jar(spark.jars_dir / "spark-core.jar", [])
    jar = write_jar(tmp_path / "c.jar", [JavaClass(name=CONNECTOR)])
    assert find_missing_symbol([jar], spark, cache) is None
    assert find_missing_symbol([jar], spark, cache) is None
    assert count_scans() == 2


def test_a_damaged_verdict_is_found_again(
    tmp_path: Path, spark: InstalledSpark, cache: JarCache, count_scans: Callable[[], int]
) -> None:
    write_jar(spark.jars_dir / "spark-core.jar", [])
    jar = write_jar(tmp_path / "c.jar", [JavaClass(name=CONNECTOR)])
    assert find_missing_symbol([jar], spark, cache) is None
    (verdict,) = (cache.home / "spark-4.2.0_2.13.links").iterdir()
    verdict.write_text("{")
    assert find_missing_symbol([jar], spark, cache) is None
    assert count_scans() == 2
