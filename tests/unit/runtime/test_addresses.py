"""Hosts and ports in one string."""

import pytest

from embedkafka.runtime.addresses import format_address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "127.0.0.1:9092"),
        ("broker", "broker:9092"),
        ("::1", "[::1]:9092"),
        ("fe80::1%eth0", "[fe80::1%eth0]:9092"),
    ],
)
def test_an_address_is_written_and_read(host: str, text: str) -> None:
    assert format_address(host, 9092) == text
    assert parse_address(text) == (host, 9092)


def test_loopback_is_told_from_addresses_that_others_reach() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.8.8", "localhost", "::1"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.5", "broker", ""]))
