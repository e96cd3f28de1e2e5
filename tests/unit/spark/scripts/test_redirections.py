"""Where paths, addresses and options of a script lead."""

from pathlib import Path

import pytest

from embedkafka import ConfigError
from embedkafka.spark.scripts.addresses import require_addresses
from embedkafka.spark.scripts.redirections import Redirections


class Cluster:
    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


@pytest.fixture
def redirections(tmp_path: Path) -> Redirections:
    return Redirections(directory=tmp_path, addresses=require_addresses(Cluster("here:1")))


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ("/data/out", "data/out"),
        ("data/out/", "data/out"),
        ("./data/../out", "out"),
        ("../../out", "out"),
        ("s3a://lake/orders", "lake/orders"),
        ("hdfs://name:8020/lake", "name_8020/lake"),
        ("file:///data/out", "data/out"),
        ("dbfs:/out", "out"),
    ],
)
def test_a_path_keeps_its_name_below_the_directory(
    given: str, there: str, redirections: Redirections, tmp_path: Path
) -> None:
    assert redirections.path(given) == tmp_path / there


def test_a_path_in_the_directory_stays_and_none_leaves_it(
    redirections: Redirections, tmp_path: Path
) -> None:
    inside = tmp_path / "out"
    assert redirections.written(str(inside)) == str(inside)
    assert redirections.path(f"file://{inside}") == inside
    assert redirections.found == ()
    assert tmp_path in redirections.path(f"{tmp_path}/../elsewhere").parents


def test_what_is_read_is_in_the_directory_if_it_is_there(
    redirections: Redirections, tmp_path: Path
) -> None:
    for given in ("/lake/orders", "/lake/*.csv", "*.csv", "."):
        assert redirections.read(given) == given
    (tmp_path / "lake").mkdir()
    assert redirections.read("/lake/*.csv") == f"{tmp_path}/lake/*.csv"
    assert redirections.read("/lake/orders") == "/lake/orders"
    redirections.written("s3a://lake/orders")  # a query writes there as soon as it has something
    assert redirections.read("/lake/orders") == f"{tmp_path}/lake/orders"


def test_options_change_by_their_format(redirections: Redirections, tmp_path: Path) -> None:
    kafka = {"kafka.bootstrap.servers": "prod:9092", "topic": "out", "path": "/out"}
    assert redirections.source("kafka", kafka, streaming=True) == {
        "kafka.bootstrap.servers": "here:1"
    }
    assert redirections.sink("kafka", {**kafka, "checkpointlocation": "c"}) == {
        "kafka.bootstrap.servers": "here:1",
        "checkpointLocation": f"{tmp_path}/c",
    }
    assert redirections.sink(None, {"path": "/out"}) == {"path": f"{tmp_path}/out"}
    for other in ("jdbc", "foreachBatch"):
        assert redirections.sink(other, kafka) == {}
        assert redirections.source(other, kafka, streaming=False) == {}
    assert list(map(str, redirections.found)) == [
        "kafka.bootstrap.servers prod:9092 -> here:1",
        f"checkpointLocation c -> {tmp_path}/c",
        f"path /out -> {tmp_path}/out",
    ]


def test_a_mapping_names_the_addresses_that_lead_to_a_cluster() -> None:
    find = require_addresses({"a:1, b:1": Cluster("x:1"), "c:1": Cluster("y:1")})
    assert [find(given) for given in ("a:1", "d:1,b:1", "c:1", "d:1")] == [
        "x:1",
        "x:1",
        "y:1",
        "d:1",
    ]


@pytest.mark.parametrize("wrong", [None, {}, {"a:1": None}, {1: Cluster("x:1")}, "a:1"])
def test_what_is_no_cluster_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="kafka"):
        require_addresses(wrong)
