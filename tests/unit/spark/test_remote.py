"""Spark Connect in the releases of PySpark: its server, and its packages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.spark import remote
from embedkafka.spark.connector.installed import InstalledSpark


def test_a_server_of_pyspark_3_comes_as_a_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def session(name: str, **arguments: Any) -> Iterator[Any]:
        yield arguments["config"]["spark.jars.packages"]

    spark = InstalledSpark(release="3.5.9", scala="2.12", jars_dir=tmp_path)
    monkeypatch.setattr(remote, "require_installed_spark", lambda: spark)
    monkeypatch.setattr(remote, "local_session", session)
    monkeypatch.setattr(remote, "server_address", lambda opened: f"sc://{opened}")
    package = "org.apache.spark:spark-connect_2.12:3.5.9"
    with pytest.raises(ConfigError, match=package), remote.connect_server():
        pass
    with remote.connect_server(config={"spark.jars.packages": package}) as address:
        assert address == f"sc://{package}"


def lacks_for(module: str) -> None:
    raise ImportError(f"no pandas for {module}")


def lacks() -> None:
    raise ImportError("no pandas")


@pytest.mark.parametrize("check", [lacks_for, lacks])
def test_packages_are_checked_as_each_release_does_it(
    monkeypatch: pytest.MonkeyPatch, check: Callable[..., None]
) -> None:
    utils = pytest.importorskip("pyspark.sql.connect.utils")
    monkeypatch.setattr(utils, "check_dependencies", check)
    with pytest.raises(ConfigError, match="PySpark says: no pandas"):
        remote._require_connect_packages()
