"""Whole audits on Spark clusters, and of as many records as need them."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from embedkafka import EmbeddedKafka, Topic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.timeout(3600),
]

REFUTED: Final = "REFUTED: 1 lost, 1 duplicated, 1 altered, 1 unexpected, 1 reordered, 1 scattered"


@pytest.fixture(scope="module")
def topics() -> Iterator[tuple[Topic, Topic]]:
    """A source and its sink, with one fault of each kind."""
    with EmbeddedKafka(brokers=2) as kafka:
        source, sink = kafka.topic("orders", partitions=2), kafka.topic("priced", partitions=2)
        keys = ("late", "late", "lost", "twice", "altered", "strewn", "strewn")
        for number, key in enumerate(keys):
            source.send(str(number), key=key, partition=0)
        for key, value in (("late", "1"), ("late", "0"), ("twice", "3"), ("twice", "3")):
            sink.send(value, key=key, partition=0)
        for key, value in (("altered", "four"), ("strewn", "5"), ("new", "7")):
            sink.send(value, key=key, partition=1)
        sink.send("6", key="strewn", partition=0)
        yield source, sink


@pytest.mark.parametrize("spark", ["standalone", "connect"])
def test_a_cluster_finds_every_kind_of_fault(
    request: pytest.FixtureRequest, topics: tuple[Topic, Topic], spark: str
) -> None:
    source, sink = topics
    where = request.getfixturevalue(spark)
    command = [sys.executable, "-m", "embedkafka.cli", "audit", *where]
    command += ["--bootstrap", source.bootstrap_servers]
    command += ["--source", source.name, "--sink", sink.name]

    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 1, done.stderr[-4000:]
    assert f"delivery from orders to priced: {REFUTED}" in done.stdout
    assert "orders-0 @ 2" in done.stdout, "the record that was lost"


def test_one_lost_record_of_ten_million_is_found_in_a_small_heap() -> None:
    """The benchmark fails unless it finds the one that it did not write."""
    command = [sys.executable, "-m", "benchmarks.audit", "--records", "10000000"]
    done = subprocess.run(
        [*command, "--heap", "640m"], capture_output=True, text=True, timeout=3500, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1].split()[0] == "19,999,999.0"
