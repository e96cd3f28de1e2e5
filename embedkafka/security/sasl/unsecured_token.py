"""Unsecured JSON Web Signatures: Kafka's default for OAUTHBEARER, for tests and development.

Such a token has no signature: it says who its bearer is, and the broker believes it.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.security.sasl.oauth_bearer import BearerToken, IllegalToken
from embedkafka.security.sasl.token_claims import (
    find_seconds,
    in_milliseconds,
    parse_part,
    require_principal,
)

_OPTION: Final = "unsecuredValidator"
_SPLITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredTokenValidator:
    """Reads principal, scope and times of a token without a signature, and checks them."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: Sequence[str] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "UnsecuredTokenValidator":
        """From the `unsecuredValidator…` options of the login module."""
        skew = options.get(f"{_OPTION}AllowableClockSkewMs", "").strip() or "0"
        if not skew.isdigit():
            raise ConfigError(
                f"sasl.jaas.config: {_OPTION}AllowableClockSkewMs must be a number of "
                f"milliseconds, not {skew!r}"
            )
        return cls(
            principal_claim=options.get(f"{_OPTION}PrincipalClaimName", "").strip() or "sub",
            scope_claim=options.get(f"{_OPTION}ScopeClaimName", "").strip() or "scope",
            required_scope=options.get(f"{_OPTION}RequiredScope", "").split(),
            clock_skew_ms=int(skew),
        )

    def validate(self, token: str, *, now_ms: int) -> BearerToken:
        claims = _claims(token)
        scope = _scope(claims.get(self.scope_claim))
        expires_s = find_seconds(claims, "exp")
        if expires_s is None:
            raise IllegalToken("it has no expiration time")
        principal = require_principal(claims, self.principal_claim)
        self._check_times(find_seconds(claims, "iat"), expires_s, now_ms)
        for required in self.required_scope:
            if required not in scope:
                wanted = f"[{', '.join(self.required_scope)}]"
                raise IllegalToken(f"it lacks the scope {required}", scope=wanted)
        return BearerToken(
            principal=principal, expires_ms=in_milliseconds(expires_s), scope=frozenset(scope)
        )

    def _check_times(self, issued_s: float | None, expires_s: float, now_ms: int) -> None:
        if issued_s is not None and issued_s * 1000 > now_ms + self.clock_skew_ms:
            raise IllegalToken("it was issued in the future")
        if now_ms - self.clock_skew_ms >= expires_s * 1000:
            raise IllegalToken("it has expired")
        if issued_s is not None and expires_s <= issued_s:
            raise IllegalToken("it expires before it was issued")


def encode_unsecured_token(claims: Mapping[str, object]) -> str:
    """A token with these claims, as Kafka's unsecured login makes it."""
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


def _claims(token: str) -> Mapping[str, object]:
    splits = token.split(".")
    if len(splits) != _SPLITS or not all(splits[:-1]):
        raise IllegalToken("it has not three parts")
    header, claims = _decode(splits[0]), _decode(splits[1])
    if header.get("alg") != "none":
        raise IllegalToken("its algorithm is not 'none'")
    if splits[2]:
        raise IllegalToken("it has a signature, and this validator checks none")
    return claims


def _encode(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _decode(split: str) -> Mapping[str, object]:
    try:
        padded = split.rstrip("=") + "=" * (-len(split.rstrip("=")) % 4)
        part = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise IllegalToken("a part of it is not in Base64") from None
    return parse_part(part)


def _scope(claim: object) -> set[str]:
    if claim is None:
        return set()
    if not isinstance(claim, str | list):
        raise IllegalToken("its scope is neither a text nor a list")
    values = [claim] if isinstance(claim, str) else [str(value) for value in claim]
    return {value.strip() for value in values if value.strip()}
