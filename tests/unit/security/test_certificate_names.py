"""Names of clients that show certificates, as Kafka derives them."""

import ssl
from datetime import UTC, datetime

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.certificate_names import map_name, parse_rules, subject_of
from embedkafka.security.certificates import CertificateAuthority

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "short"),
    [
        ("DEFAULT", NAME, NAME),
        ("", NAME, NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", NAME, "duke@serviceusers"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", NAME, "DUKE"),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/,DEFAULT", NAME, NAME),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/", NAME, None),
        (r"RULE:^CN=(\w+),.*$/a\/$1/L", NAME, "a/duke"),
    ],
)
def test_the_first_rule_that_applies_makes_the_name(rules: str, name: str, short: str) -> None:
    assert map_name(parse_rules(rules), name) == short


@pytest.mark.parametrize("rules", ["RULE:a/b", "DEFAULT x", "RULE:(/x/", "nonsense"])
def test_anything_else_is_no_rule(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)


@pytest.mark.parametrize(
    ("common_name", "subject"),
    [
        ("alice", "CN=alice"),
        ("al, ice", r"CN=al\, ice"),
        (' #<a>"+;\\ ', r"CN=\ \#\<a\>\"\+\;\\\ "),
        ("Ærø 東京", "CN=Ærø 東京"),
        ("x" * 64, "CN=" + "x" * 64),
    ],
)
def test_a_subject_is_spelled_as_in_java(common_name: str, subject: str) -> None:
    pem = CertificateAuthority(datetime.now(UTC)).issue(common_name)
    certificate = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERT") :].split(END)[0] + END)
    assert subject_of(certificate) == subject


END = "-----END CERTIFICATE-----\n"


def test_attributes_are_reversed_and_unknown_ones_are_numbers() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Org"),
            x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
        ]
    )
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2027, 1, 1, tzinfo=UTC))
        .sign(key, SHA256())
    )
    assert subject_of(made.public_bytes(Encoding.DER)) == (
        "1.2.840.113549.1.9.1=#1603614062,CN=alice,O=Org,C=DE"
    )
