"""Values in Avro's binary encoding, decoded with their schema."""

from typing import Any

import pytest

from embedkafka.cluster.clients.avro import AvroError, avro_decoder

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "price", "type": ["null", "double"]},
        {"name": "next", "type": ["null", "com.example.Order"]},
    ],
}
ID, TAGS, PRICE, NEXT = b"\x54", b"\x02\x02a\x00", b"\x02\0\0\0\0\0\0\xf8\x3f", b"\0"
DATA = ID + TAGS + PRICE + NEXT
VALUE = {"id": 42, "tags": ["a"], "price": 1.5, "next": None}


def test_a_record_is_decoded_with_its_schema() -> None:
    assert avro_decoder(ORDER)(DATA) == VALUE


def test_the_header_of_a_registrys_client_is_skipped() -> None:
    assert avro_decoder(ORDER)(b"\0\0\0\0\x07" + DATA) == VALUE


def test_a_record_may_refer_to_its_own_type() -> None:
    assert avro_decoder(ORDER)(DATA[:-1] + b"\x02" + DATA)["next"] == VALUE


def test_a_type_may_be_named_in_a_branch_that_the_value_does_not_take() -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    fields = [{"name": "was", "type": ["null", kind]}, {"name": "now", "type": "Kind"}]
    decode = avro_decoder({"type": "record", "name": "Change", "fields": fields})
    assert decode(b"\0\x02") == {"was": None, "now": "B"}


@pytest.mark.parametrize("data", [DATA[:-3], DATA + b"x", b"", b"{}", b"\x54\x02\x02a\x00\x01"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(AvroError, match="these bytes are not of this schema"):
        avro_decoder(ORDER)(data)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("orders-value", "unknown type 'orders-value'"),
        ({"name": "Order"}, "a schema is a name, a list or an object with a type"),
        ({"type": "record", "name": "Order"}, "a type 'record' needs its fields"),
        ({"type": "record", "name": "O", "fields": ["id"]}, "a field needs a name and a type"),
        ({"type": "array"}, "a type 'array' needs its items"),
        ({"type": "enum", "name": "E", "symbols": "A"}, "a type 'enum' needs its symbols"),
        ({"type": {"type": {"type": "strin"}}}, "unknown type 'strin'"),
    ],
)
def test_a_schema_that_is_none_is_refused_at_once(schema: Any, fault: str) -> None:
    with pytest.raises(AvroError, match=fault):
        avro_decoder(schema)


def test_an_endless_schema_is_refused() -> None:
    schema: Any = "long"
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(AvroError, match="too deep"):
        avro_decoder(schema)
