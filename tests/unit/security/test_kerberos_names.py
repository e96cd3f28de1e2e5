"""From Kerberos principals to users."""

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.kerberos_names import KerberosNames, NoMatchingRule

REALM = "EXAMPLE.ORG"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@EXAMPLE.ORG", "alice"),
        (["DEFAULT"], "kafka/host.example.org@EXAMPLE.ORG", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@EXAMPLE.ORG", "bob"),
        (["RULE:[2:$1-$2]"], "app/host@OTHER", "app-host"),
        (["RULE:[1:$1]s/a/b/g"], "banana@X", "bbnbnb"),
        (["RULE:[1:$1]s/a/b/"], "banana@X", "bbnana"),
        (["RULE:[1:$1]s/(.)(.*)/$2$1/"], "abc@X", "bca"),
        (["RULE:[1:$1]/L"], "Alice@X", "alice"),
        (["RULE:[1:$1]/U"], "Alice@X", "ALICE"),
    ],
)
def test_the_first_rule_that_fits_makes_the_user(
    rules: list[str], principal: str, user: str
) -> None:
    assert KerberosNames(rules, default_realm=REALM).short_name(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        (["DEFAULT"], "alice@OTHER"),
        (["RULE:[1:$1]"], "a/b@X"),
        (["RULE:[1:$1@$0]"], "alice@X"),
        (["DEFAULT"], "a/b/c@EXAMPLE.ORG"),
    ],
)
def test_a_principal_without_a_rule_is_no_user(rules: list[str], principal: str) -> None:
    with pytest.raises(NoMatchingRule):
        KerberosNames(rules, default_realm=REALM).short_name(principal)


@pytest.mark.parametrize("rule", ["default", "RULE:", "RULE:[1:$2]", "RULE:[x:$1]"])
def test_a_bad_rule_is_named(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules"):
        KerberosNames([rule], default_realm=REALM)
