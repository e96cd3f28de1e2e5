"""What `decode=` takes, and how values look with a decoder and without."""

import json
from pathlib import Path
from typing import Any

import pytest

from embedkafka.cluster.clients.decoding import require_decoder, show_data, shown_as
from embedkafka.cluster.clients.message import Message
from embedkafka.runtime.failures import ConfigError, UndecodableMessage


def parse(data: bytes) -> object:
    return {"id": data[0], "sku": data[1:].decode("ascii")}


def message(value: bytes | None, decode: Any = parse) -> Message:
    at: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 7, "timestamp_ms": 0}
    return Message(key=b"k", value=value, decode=decode, **at)


def test_a_function_is_a_decoder_and_so_is_an_avro_schema(tmp_path: Path) -> None:
    assert require_decoder(parse) is parse
    assert require_decoder(None) is None
    schema = {"type": "array", "items": "long"}
    file = tmp_path / "longs.avsc"
    file.write_text(json.dumps(schema))
    for given in (schema, json.dumps(schema), file):
        decode = require_decoder(given)
        assert decode is not None
        assert decode(b"\x04\x02\x04\0") == [1, 2]
    decode = require_decoder('"string"')
    assert decode is not None
    assert decode(b"\x02a") == "a"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("orders-value", "decode must be a function of the value's bytes, or an Avro schema"),
        (3, "decode must be a function .* got 3"),
        (Path("no.avsc"), "cannot read the Avro schema no.avsc: FileNotFoundError"),
        (Path(__file__), f"cannot read the Avro schema {__file__}: JSONDecodeError"),
        ('"strin"', "decode is not an Avro schema: unknown type 'strin'"),
        ({"name": "Order"}, "decode is not an Avro schema: .* with a type: {'name': 'Order'}"),
    ],
)
def test_anything_else_is_refused_at_once(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        require_decoder(given)


def test_a_value_is_decoded_or_text_or_hex() -> None:
    assert show_data(b"\x01a", parse) == '{"id": 1, "sku": "a"}'
    assert show_data(b"\x01a", parse, longest=8) == '{"id": 1...'
    assert show_data(None, parse) == "none"
    assert show_data(b"a\n") == r"'a\n'"
    assert show_data(b"abcdef", longest=3) == "'abc...'"
    assert show_data(b"\0" * 17, longest=6) == "0x000000… (17 bytes)"


def test_a_decoder_that_raises_leaves_the_bytes_and_says_why() -> None:
    assert show_data(b"\x01\xff", parse) == (
        "0x01ff (2 bytes), cannot be decoded: UnicodeDecodeError: 'ascii' codec can't decode byte "
        "0xff in position 0: ordinal not in range(128)"
    )
    assert show_data(b"", parse) == "'', cannot be decoded: IndexError: index out of range"


def test_a_value_that_cannot_be_shown_is_no_more_than_that() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("first\nsecond")

    shown = show_data(b"\0", lambda data: Broken())
    assert shown == "0x00 (1 byte), cannot be decoded: RuntimeError: first"


def test_a_message_offers_its_decoded_value() -> None:
    assert message(b"\x01a").decoded() == {"id": 1, "sku": "a"}
    assert message(None).decoded() is None
    assert str(message(b"\x01a")) == """orders-0 at 7: key 'k', value {"id": 1, "sku": "a"}"""


def test_a_message_that_cannot_be_decoded_says_where_it_is() -> None:
    said = "orders-0 offset 7 cannot be decoded: IndexError: index out of range: ''"
    with pytest.raises(UndecodableMessage, match=said) as raised:
        message(b"").decoded()
    assert isinstance(raised.value.__cause__, IndexError)


def test_a_message_without_a_decoder_says_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"orders has no decoder: say `decode=` in `kafka.topic`"):
        message(b"a", None).decoded()


def test_messages_are_equal_whatever_decodes_them() -> None:
    assert message(b"a") == message(b"a", None)
    assert hash(message(b"a")) == hash(message(b"a", None))
    assert "parse" not in repr(message(b"a"))


def test_values_that_another_process_has_decoded_look_the_same_here() -> None:
    decode = shown_as({b"\x01a": '{"id": 1}'})
    assert show_data(b"\x01a", decode) == '{"id": 1}'
    assert show_data(b"\0", decode) == "0x00 (1 byte)"
