import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.principals import ANONYMOUS, KafkaPrincipal


def test_a_principal_is_written_as_type_and_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    alice = KafkaPrincipal.parse("User:CN=alice,OU=a:b")
    assert (alice.type, alice.name) == ("User", "CN=alice,OU=a:b")


def test_a_token_makes_no_other_principal() -> None:
    assert KafkaPrincipal("User", "a", token_authenticated=True) == KafkaPrincipal("User", "a")
    assert KafkaPrincipal("User", "a") != KafkaPrincipal("User", "b")
    assert len({KafkaPrincipal("User", "a"), KafkaPrincipal("User", "a")}) == 1


@pytest.mark.parametrize("text", ["alice", "", ":alice"])
def test_a_principal_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="User:"):
        KafkaPrincipal.parse(text)
