"""Topics whose values are bytes, read by people and assertions through `decode=`."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedkafka import AwaitTimeout, EmbeddedKafka, UndecodableMessage, cli
from embedkafka.page.source import EmbeddedSource
from embedkafka.spark import assert_topic_equals, latest_by_key
from tests.cluster.members import await_true

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
FORTY_TWO = b"\x54"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=1) as kafka:
        yield kafka


@pytest.fixture
def kafka(cluster: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    with cluster.isolated():
        yield cluster


def parse(data: bytes) -> dict[str, int]:
    """An order as two numbers."""
    order, quantity = struct.unpack(">ii", data)
    return {"id": order, "quantity": quantity}


def order(number: int, quantity: int) -> bytes:
    return struct.pack(">ii", number, quantity)


def test_records_are_decoded_wherever_they_come_from(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", decode=parse)
    sent = orders.send(order(1, 2), key="a")
    one = {"id": 1, "quantity": 2}
    assert sent.decoded() == one
    assert [each.decoded() for each in orders.read()] == [one]
    assert next(orders.follow()).decoded() == one
    assert orders.wait_for(lambda records: records[-1].decoded()["quantity"] == 2) == [sent]
    assert orders.decode is parse


def test_assertions_compare_decoded_values(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", decode=parse)
    orders.send_many([order(1, 2), order(2, 5), order(1, 3)], keys=["a", "b", "a"])
    one, two, three = ({"id": i, "quantity": n} for i, n in ((1, 2), (2, 5), (1, 3)))
    assert_topic_equals(orders, [one, two, three], ignore_order=False)
    assert latest_by_key(orders) == {"a": three, "b": two}
    with pytest.raises(AssertionError) as failed:
        assert_topic_equals(orders, [one, {"id": 2, "quantity": 6}, three])
    assert str(failed.value).splitlines() == [
        "topic orders differs: 2 rows equal, 1 missing, 1 not expected",
        '- {"id": 2, "quantity": 6}',
        '+ {"id": 2, "quantity": 5}  at orders-0 offset 1',
        "    quantity: expected 6, found 5",
    ]


def test_decoded_values_may_be_of_any_class(kafka: EmbeddedKafka) -> None:
    pairs = kafka.topic("pairs", decode=lambda data: struct.unpack(">ii", data))
    pairs.send(order(1, 2))
    assert_topic_equals(pairs, [(1, 2)])
    with pytest.raises(AssertionError, match=r"- \[1, 3\]\n\+ \[1, 2\]  at pairs-0 offset 0"):
        assert_topic_equals(pairs, [(1, 3)])


def test_a_value_that_cannot_be_decoded_fails_an_assertion_with_its_place(
    kafka: EmbeddedKafka,
) -> None:
    orders = kafka.topic("orders", decode=parse)
    orders.send_many([order(1, 2), b"\0\x02a"])
    said = "orders-0 offset 1 cannot be decoded: error: unpack .*: 0x000261 \\(3 bytes\\)"
    with pytest.raises(UndecodableMessage, match=said):
        assert_topic_equals(orders, [])


def test_without_a_decoder_bytes_are_hex(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    orders.send(b"\0\x02a", key=b"\xff")
    with pytest.raises(AssertionError, match=r"\+ 0x000261 \(3 bytes\)  at orders-0 offset 0"):
        assert_topic_equals(orders, [])
    last = "orders-0 at 0: key 0xff (1 byte), value 0x000261 (3 bytes)"
    assert f"  {last}\n" in kafka.report()
    with pytest.raises(AwaitTimeout) as late:
        orders.wait_for(2, timeout_s=0.1)
    assert f"saw 1; the last:\n  {last}" in str(late.value)
    with pytest.raises(UndecodableMessage, match=r"is not JSON: 0x000261 \(3 bytes\)"):
        orders.read_json()


def test_the_report_and_the_message_of_a_timeout_show_decoded_values(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", decode=parse)
    orders.send(order(1, 2))
    orders.send(b"\0\x02a")
    report = kafka.report()
    assert '  orders-0 at 0: key none, value {"id": 1, "quantity": 2}\n' in report
    assert "  orders-0 at 1: key none, value 0x000261 (3 bytes), cannot be decoded: e" in report
    with pytest.raises(AwaitTimeout, match=r'value \{"id": 1, "quantity": 2\}'):
        orders.wait_for(3, timeout_s=0.1)


def test_an_avro_schema_decodes(kafka: EmbeddedKafka) -> None:
    for name, schema in (("mapping", SCHEMA), ("text", json.dumps(SCHEMA))):
        orders = kafka.topic(name, decode=schema)
        orders.send(FORTY_TWO)
        assert_topic_equals(orders, [{"id": 42}])


def test_a_topic_keeps_its_decoder_until_another_one_is_named(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", decode=parse).send(order(1, 2))
    assert kafka.existing_topic("orders").read()[0].decoded()["id"] == 1
    assert kafka.existing_topic("orders", decode=len).read()[0].decoded() == 8
    assert "value 8\n" in kafka.report()
    kafka.existing_topic("orders").delete()
    assert kafka.topic("orders").decode is None


def test_what_a_test_decodes_is_forgotten_after_it(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", decode=parse)
    with kafka.isolated():
        kafka.existing_topic("orders", decode=len)
        assert orders.send(b"abc").decoded() == 3
    assert orders.decode is parse
    kafka.reset()
    assert orders.decode is None


def test_a_live_page_decodes(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", decode=parse).send(order(1, 2))
    source = EmbeddedSource(kafka)

    def values(schema: object = None) -> list[object]:
        return [record["value"] for record in source.records("orders", schema)["records"]]

    await_true(lambda: bool(values()), 30)
    assert values() == [{"text": '{"id": 1, "quantity": 2}', "format": "decoded"}]
    pasted = {"type": "fixed", "name": "Order", "size": 8}
    assert values(pasted) == [{"text": "0000000100000002", "format": "decoded"}]
    assert values("long")[0] == {
        "text": "0x0000000100000002 (8 bytes), cannot be decoded: AvroError: these bytes are not "
        "of this schema",
        "format": "hex",
    }
    source.close()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a user's module, as the current one."""
    code = (
        "import struct\n"
        "class Orders:\n"
        "    @staticmethod\n"
        "    def parse(data):\n"
        "        return dict(zip(('id', 'quantity'), struct.unpack('>ii', data)))\n"
    )
    (tmp_path / "orders_of_a_user.py").write_text(code)
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def tail(kafka: EmbeddedKafka, *arguments: str) -> int:
    where = ("--bootstrap", kafka.bootstrap_servers)
    return cli.main(["tail", "orders", "--from-start", *where, *arguments])


def test_tail_shows_hex_or_what_a_function_makes_of_it(
    kafka: EmbeddedKafka, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.topic("orders").send_many([order(1, 2), b"\x1b[31m", None, "text"])
    assert tail(kafka, "--count", "4") == 0
    assert capsys.readouterr().out.splitlines() == [
        "0:0\t-\t0x0000000100000002 (8 bytes)",
        "0:1\t-\t0x1b5b33316d (5 bytes)",
        "0:2\t-\t(tombstone)",
        "0:3\t-\ttext",
    ]
    assert tail(kafka, "--count", "2", "--decode", "orders_of_a_user:Orders.parse") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == '0:0\t-\t{"id": 1, "quantity": 2}'
    assert second.startswith("0:1\t-\t0x1b5b33316d (5 bytes), cannot be decoded: error: unpack")


def test_tail_prints_decoded_values_and_bytes_as_json(
    kafka: EmbeddedKafka, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.topic("orders").send_many([FORTY_TWO, b"\xff"])
    assert tail(kafka, "--count", "2", "--json", "--decode", "order.avsc") == 0
    values = [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()]
    reason = "AvroError: these bytes are not of this schema"
    assert values == [{"id": 42}, {"base64": "/w==", "error": reason}]
    assert tail(kafka, "--count", "2", "--json") == 0
    values = [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()]
    assert values == ["T", {"base64": "/w=="}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("parse", "--decode must be module:function, or the path of an Avro schema that ends in"),
        ("", "--decode must be module:function"),
        ("no_such_module:parse", "cannot use --decode no_such_module:parse: ModuleNotFoundError"),
        ("orders_of_a_user:prase", "AttributeError: module 'orders_of_a_user' has no attribute"),
        ("nowhere.avsc", "cannot read the Avro schema nowhere.avsc: FileNotFoundError"),
        ("sys:maxsize", "decode must be a function of the value's bytes, or an Avro schema"),
    ],
)
def test_tail_says_what_is_wrong_with_a_decoder(
    kafka: EmbeddedKafka,
    module: Path,
    capsys: pytest.CaptureFixture[str],
    given: str,
    said: str,
) -> None:
    kafka.topic("orders")
    assert tail(kafka, "--decode", given) == 2
    assert said in capsys.readouterr().err
