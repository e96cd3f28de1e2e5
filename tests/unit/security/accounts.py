"""Accounts of SCRAM users."""

from embedkafka.security.sasl.exchange import Identity
from embedkafka.security.sasl.scram import ScramAccount
from embedkafka.security.sasl.scram_credentials import (
    credential_of,
)

SALT = b"some salt"


class Accounts:
    """Users and tokens by name, with credentials for one mechanism."""

    decoy_secret = b"secret"

    def __init__(self, **passwords: str) -> None:
        self.users = passwords
        self.tokens: dict[str, tuple[str, str]] = {}

    def find_user(self, mechanism: str, name: str) -> ScramAccount | None:
        password = self.users.get(name)
        if password is None:
            return None
        return ScramAccount(
            identity=Identity(name=name), credential=credential_of(mechanism, password, salt=SALT)
        )

    def find_token(self, mechanism: str, token_id: str) -> ScramAccount | None:
        found = self.tokens.get(token_id)
        if found is None:
            return None
        owner, hmac = found
        return ScramAccount(
            identity=Identity(name=owner, expires_ms=5, token_authenticated=True),
            credential=credential_of(mechanism, hmac, salt=SALT),
        )
