"""JSON Web Tokens signed with a key of a local key set (JWKS).

Needs PyJWT with cryptography: the extra `embedkafka[security]`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.oauth_bearer import BearerToken, IllegalToken
from embedkafka.security.sasl.token_claims import (
    find_seconds,
    in_milliseconds,
    require_principal,
)

# An algorithm belongs to a type of key. A public RSA key must not serve as a shared secret.
_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("HS256", "HS384", "HS512"), "oct"),
    "EdDSA": "OKP",
}


class SignedTokenValidator:
    """Checks signature, times, audience and issuer, as Kafka's secured validator does."""

    def __init__(
        self,
        key_set: str,
        *,
        principal_claim: str = "sub",
        scope_claim: str = "scope",
        audiences: Sequence[str] = (),
        issuer: str | None = None,
        clock_skew_s: int = 30,
    ) -> None:
        """`key_set` is the JSON text of a key set. Raises ConfigError if it is none."""
        self._jwt = _load_pyjwt()
        self._keys = _read_keys(self._jwt, key_set)
        self._principal_claim = principal_claim
        self._scope_claim = scope_claim
        self._audiences = list(audiences)
        self._issuer = issuer
        self._clock_skew_s = clock_skew_s

    def validate(self, token: str, *, now_ms: int) -> BearerToken:
        try:
            claims = self._verified_claims(token)
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise IllegalToken(f"{type(error).__name__}: it cannot be validated") from None
        return BearerToken(
            principal=require_principal(claims, self._principal_claim).strip(),
            expires_ms=in_milliseconds(self._checked_expiration(claims, now_ms / 1000)),
            scope=self._scope(claims.get(self._scope_claim)),
        )

    def _verified_claims(self, token: str) -> dict[str, Any]:  # Any: a claim is any JSON
        """Claims of a token with a valid signature; its times are compared with our own clock."""
        header = self._jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        key = self._keys.get(header.get("kid"))
        if key is None and "kid" not in header and len(self._keys) == 1:
            (key,) = self._keys.values()
        if key is None or key.key_type != _KEY_TYPES.get(algorithm):
            raise IllegalToken("no key of the key set fits it")
        claims: dict[str, Any] = self._jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=self._audiences or None,
            issuer=self._issuer,
            options={
                "require": ["exp", "iat"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_aud": bool(self._audiences),
            },
        )
        return claims

    def _checked_expiration(self, claims: Mapping[str, object], now_s: float) -> float:
        expires_s, issued_s = find_seconds(claims, "exp"), find_seconds(claims, "iat")
        if expires_s is None or issued_s is None:
            raise IllegalToken("it lacks a time")
        if now_s - self._clock_skew_s >= expires_s:
            raise IllegalToken("it has expired")
        if issued_s < 0:
            raise IllegalToken("it was issued before 1970")
        if now_s + self._clock_skew_s < (find_seconds(claims, "nbf") or 0):
            raise IllegalToken("it is not valid yet")
        return expires_s

    def _scope(self, claim: object) -> frozenset[str]:
        values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        scope = [value.strip() if isinstance(value, str) else "" for value in values]
        if not all(scope) or len(set(scope)) < len(scope):
            raise IllegalToken("a scope of it is empty or appears twice")
        return frozenset(scope)


def _load_pyjwt() -> Any:  # Any: an optional package
    try:
        import jwt
    except ImportError as error:
        raise ConfigError(
            "signed OAUTHBEARER tokens need PyJWT: pip install 'embedkafka[security]'"
        ) from error
    return jwt


def _read_keys(jwt: Any, key_set: str) -> dict[str | None, Any]:  # Any: as above
    try:
        keys = jwt.PyJWKSet.from_dict(json.loads(key_set)).keys
    except (ValueError, TypeError, KeyError, AttributeError, jwt.PyJWTError) as error:
        raise ConfigError(
            "the key set for OAUTHBEARER (sasl.oauthbearer.jwks.endpoint.url) is no JSON Web Key "
            f"Set: {type(error).__name__}"
        ) from None
    return {key.key_id: key for key in keys}
