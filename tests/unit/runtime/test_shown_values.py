"""How bytes and values look to people."""

import pytest

from embedkafka.runtime.shown_values import find_text, show_hex, show_value


@pytest.mark.parametrize("data", ["", "a\tb\r\nc", "naïve 🧪", "no\N{NO-BREAK SPACE}break"])
def test_utf_8_without_control_characters_is_text(data: str) -> None:
    assert find_text(data.encode()) == data


@pytest.mark.parametrize("data", [b"\xff", b"a\0", b"\x1b[31m", b"\x7f", "\x85".encode()])
def test_other_bytes_are_not_text(data: bytes) -> None:
    assert find_text(data) is None


def test_hex_has_a_length_and_is_cut() -> None:
    assert show_hex(b"\0\x02a") == "0x000261 (3 bytes)"
    assert show_hex(b"\xff") == "0xff (1 byte)"
    assert show_hex(b"\0\x02a" + b"\xff" * 14, longest=6) == "0x000261… (17 bytes)"
    assert show_hex(b"\0\x02a", longest=6) == "0x000261 (3 bytes)"
    assert show_hex(bytes(1000)) == f"0x{'0' * 200}… (1000 bytes)"
    assert show_hex(bytes(1000), None) == f"0x{'0' * 2000} (1000 bytes)"


class Order:
    def __repr__(self) -> str:
        return "id: 1\nsku: a"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "'a'"),
        (1, "1"),
        (b"a", "b'a'"),
        (b"\0", "0x00 (1 byte)"),
        ({"id": 1, "raw": b"\0", "é": None}, '{"id": 1, "raw": "0x00 (1 byte)", "é": null}'),
        ({b"key": 1}, "{b'key': 1}"),
        ([Order()], '["id: 1 sku: a"]'),
        (Order(), "id: 1 sku: a"),
    ],
)
def test_a_value_is_on_one_line(value: object, shown: str) -> None:
    assert show_value(value) == shown


def test_a_list_within_itself_is_shown() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert show_value(endless) == "[[...]]"
