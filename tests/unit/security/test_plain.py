"""PLAIN: user and password in one token."""

import pytest

from embedkafka.security.sasl.exchange import AuthenticationFailed
from embedkafka.security.sasl.plain import PlainExchange
from tests.presence import present

PASSWORDS = {"alice": "a-secret", "zoë": "ü"}


def exchange() -> PlainExchange:
    return PlainExchange(PASSWORDS.get)


@pytest.mark.parametrize("token", ["\0alice\0a-secret", "alice\0alice\0a-secret", "\0zoë\0ü"])
def test_the_right_password_is_accepted(token: str) -> None:
    login = exchange()
    assert login.evaluate(token.encode()) == b""
    assert present(login.identity).name == token.split("\0")[1]
    assert present(login.identity).expires_ms is None


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0a-secret", "Authentication failed: Invalid username or password"),
        (b"\0\0a-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0a-secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_a_refused_client_gets_kafkas_message(token: bytes, message: str) -> None:
    login = exchange()
    with pytest.raises(AuthenticationFailed) as refused:
        login.evaluate(token)
    assert str(refused.value) == message
    assert login.identity is None
