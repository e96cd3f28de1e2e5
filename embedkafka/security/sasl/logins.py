"""How a broker logs in to another one with PLAIN and OAUTHBEARER; `scram` has its own.

Secrets are not in any repr.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.security.sasl import oauth_bearer, plain
from embedkafka.security.sasl.unsecured_token import encode_unsecured_token
from embedkafka.wire.net.channel_authenticator import LoginRefused

_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_DEFAULT_LIFETIME_S: Final = 3600


class OneTokenLogin:
    """Sends one token, and expects nothing in return."""

    def __init__(self, mechanism: str, token: bytes) -> None:
        self.mechanism = mechanism
        self._token = token

    def respond(self, challenge: bytes | None) -> bytes | None:
        if challenge is None:
            return self._token
        if challenge:  # OAUTHBEARER sends the reason first
            raise LoginRefused(challenge.decode(errors="replace"))
        return None


def plain_login(user: str, password: str) -> OneTokenLogin:
    return OneTokenLogin(plain.MECHANISM, f"\0{user}\0{password}".encode())


def unsecured_bearer_login(options: Mapping[str, str], *, now_ms: int) -> OneTokenLogin:
    """From the `unsecuredLogin…` options of the login module."""
    lifetime_s = int(options.get(_LIFETIME, "").strip() or _DEFAULT_LIFETIME_S)
    claims: dict[str, object] = {
        name.removeprefix(_CLAIM): value
        for name, value in options.items()
        if name.startswith(_CLAIM)
    }
    claims |= {"iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime_s}
    token = encode_unsecured_token(claims)
    return OneTokenLogin(
        oauth_bearer.MECHANISM, oauth_bearer.encode_client_first(token, _extensions(options))
    )


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    prefix = "unsecuredLoginExtension_"
    return {
        name.removeprefix(prefix): value
        for name, value in options.items()
        if name.startswith(prefix)
    }
