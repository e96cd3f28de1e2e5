"""Decoders of a test's topics: the report below a red test and the page of the run use them."""

import re
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from pytest_embedkafka.run_cluster import RunCluster, RunReach
from tests.plugin.test_run_page import data_of

DECODED = """
import struct

def parse(data):
    order, quantity = struct.unpack(">ii", data)
    return {"id": order, "quantity": quantity}

def test_red(kafka):
    orders = kafka.topic("orders", decode=parse)
    orders.send(struct.pack(">ii", 1, 2))
    orders.send(b"\\x00\\x02a")
    assert False

def test_red_too(kafka):
    orders = kafka.topic("orders")
    orders.send(struct.pack(">ii", 1, 2))
    assert False
"""


@pytest.mark.parametrize("arguments", [(), ("-n1", "--kafka-xdist=shared")])
def test_a_red_tests_report_and_the_page_show_decoded_values(
    pytester: pytest.Pytester, run: Any, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(DECODED)
    result = run("--kafka-brokers=1", "--kafka-report=report.html", *arguments)
    result.assert_outcomes(failed=2)
    shown = [
        line.split(": ", 1)[1] for line in result.outlines if re.match(r"  orders\S* at", line)
    ]
    first, second, undecoded = shown
    assert first == 'key none, value {"id": 1, "quantity": 2}'
    failed = "key none, value 0x000261 (3 bytes), cannot be decoded: error: unpack"
    assert second.startswith(failed)
    assert undecoded == "key none, value 0x0000000100000002 (8 bytes)"
    (cluster,) = data_of(pytester.path / "report.html")["clusters"]
    values = {
        topic["owner"].rpartition("::")[2]: [record["value"] for record in topic["records"]]
        for topic in cluster["state"]["topics"]
    }
    one, broken = values["test_red"]
    assert one == {"text": '{"id": 1, "quantity": 2}', "format": "decoded"}
    assert broken["text"].startswith("0x000261 (3 bytes), cannot be decoded: error: unpack")
    text = "0x0000000100000002 (8 bytes)"
    assert values["test_red_too"] == [{"text": text, "format": "hex"}]


def test_topics_of_an_external_cluster_have_decoders_until_the_test_ends() -> None:
    with (
        EmbeddedKafka(brokers=1) as theirs,
        RunCluster(RunReach(theirs.bootstrap_servers)) as kafka,
    ):
        kafka.topic("orders", decode=len)
        isolation = kafka.isolated()
        isolation.begin()
        assert kafka.topic("of-a-test", decode=str).send("x").decoded() == "b'x'"
        assert kafka.existing_topic("orders").send("abc").decoded() == 3
        kafka.existing_topic("orders", decode=bytes.upper)
        assert kafka.existing_topic("orders").read()[0].decoded() == b"ABC"
        isolation.end(finds_clients=False)
        assert kafka.existing_topic("orders").read()[0].decoded() == 3
        assert kafka.topic("of-a-test").decode is None
