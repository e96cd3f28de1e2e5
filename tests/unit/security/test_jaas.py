"""Login modules in JAAS's syntax."""

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.jaas import parse_login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return dict(parse_login_module(text, setting="sasl.jaas.config").options)


def test_a_module_with_quoted_and_bare_options() -> None:
    text = f"""
        {PLAIN} required   // the users
            username="admin" password='it''s'
            /* more
               users */
            user_alice = "a \\"secret\\" \\\\ ;=" serviceName=kafka useKeyTab=true user_é="ü\\n";
    """.replace("'it''s'", "'its'")
    module = parse_login_module(text, setting="sasl.jaas.config")
    assert (module.name, module.short_name) == (PLAIN, "PlainLoginModule")
    assert module.options == {
        "username": "admin",
        "password": "its",
        "user_alice": 'a "secret" \\ ;=',
        "serviceName": "kafka",
        "useKeyTab": "true",
        "user_é": "ü\n",
    }


def test_a_module_without_options() -> None:
    assert options("ScramLoginModule REQUIRED;") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Login module not specified"),
        ("  // nothing", "Login module not specified"),
        (PLAIN, "'required' must follow"),
        (f"{PLAIN} needed;", "'required' must follow"),
        (f"{PLAIN} required", "must end with a semicolon"),
        (f'{PLAIN} required password="s3cret"', "must end with a semicolon"),
        (f"{PLAIN} required a=b s3cret;", "option 2 is not key=value"),
        (f"{PLAIN} required password=;", "no value for key 'password'"),
        (f"{PLAIN} required s3cret", "option 1 is not key=value"),
        (f"{PLAIN} required password=12345;", "'password' is a number; put it in quotes"),
        (f'{PLAIN} required password="s3cret;', "malformed at character"),
        (f"{PLAIN} required password=s3cret!;", "malformed at character"),
        (f'{PLAIN} required; {PLAIN} required password="s3cret";', "more than one login module"),
    ],
)
def test_a_bad_text_is_refused_without_its_values(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        parse_login_module(text, setting="plain.sasl.jaas.config")
    assert str(refused.value).startswith("plain.sasl.jaas.config: ")
    assert "s3cret" not in str(refused.value)


def test_the_repr_of_a_module_hides_its_options() -> None:
    module = parse_login_module(f'{PLAIN} required password="s3cret";', setting="x")
    assert "s3cret" not in repr(module)
