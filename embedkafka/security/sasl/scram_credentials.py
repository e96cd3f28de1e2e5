"""SCRAM credentials: derived from a password, and in the form that Kafka stores.

The password cannot be recovered from a credential, but a stolen one allows offline guessing, so its
repr shows nothing of it.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.values import dataclass, field

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16_384
SALT_BYTES: Final = 20

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""

MECHANISM_NUMBERS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms as requests number them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a broker must know of a password (RFC 5802)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def can_log_in(user: str) -> bool:
    """Whether a client can send this name: Kafka's messages of SCRAM are ASCII."""
    return user.isascii()


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def derive(mechanism: str, salted: bytes, *, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    algorithm = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", algorithm),
        iterations=iterations,
    )


def credential_of(
    mechanism: str, password: str, *, salt: bytes, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """The credential of a password. Takes milliseconds, on purpose."""
    salted = salted_password(mechanism, password, salt, iterations)
    return derive(mechanism, salted, salt=salt, iterations=iterations)


def encode_credential(credential: ScramCredential) -> str:
    """The text that Kafka keeps as a setting of the user."""
    parts = (
        ("salt", credential.salt),
        ("stored_key", credential.stored_key),
        ("server_key", credential.server_key),
    )
    encoded = ",".join(f"{name}={base64.b64encode(data).decode()}" for name, data in parts)
    return f"{encoded},iterations={credential.iterations}"


def decode_credential(text: str) -> ScramCredential:
    """Reads `encode_credential`'s text; a ValueError does not repeat it."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return ScramCredential(
            salt=base64.b64decode(fields["salt"], validate=True),
            stored_key=base64.b64decode(fields["stored_key"], validate=True),
            server_key=base64.b64decode(fields["server_key"], validate=True),
            iterations=int(fields["iterations"]),
        )
    except (KeyError, ValueError, binascii.Error):
        raise ValueError("a stored SCRAM credential cannot be read") from None
