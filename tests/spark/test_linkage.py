"""The scan of class files, on the real connector and a real Spark."""

from pathlib import Path

import pytest

from embedkafka.spark.connector.installed import InstalledSpark, require_installed_spark
from embedkafka.spark.connector.jar_cache import JarCache
from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.connector.linkage import find_missing_symbol

pytestmark = pytest.mark.gate


@pytest.fixture
def cache(tmp_path: Path) -> JarCache:
    return JarCache(home=tmp_path / "cache", key="spark")


def test_the_connector_that_these_tests_use_links(cache: JarCache) -> None:
    connector_jars = require_connector().jars[:2]
    assert find_missing_symbol(connector_jars, require_installed_spark(), cache) is None


def test_it_does_not_link_without_one_of_sparks_jars(tmp_path: Path, cache: JarCache) -> None:
    spark = require_installed_spark()
    some_jars = tmp_path / "jars"
    some_jars.mkdir()
    for jar in spark.jars_dir.glob("*.jar"):
        if not jar.name.startswith("spark-catalyst_"):
            (some_jars / jar.name).symlink_to(jar)
    smaller = InstalledSpark(release=spark.release, scala=spark.scala, jars_dir=some_jars)
    missing = find_missing_symbol(require_connector().jars[:2], smaller, cache)
    assert missing is not None
    assert missing.owner.startswith("org.apache.spark.")
