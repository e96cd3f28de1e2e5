"""GSSAPI (RFC 4752): Kerberos tickets. Needs the package `gssapi` and MIT's Kerberos libraries."""

import struct
from collections.abc import Callable
from typing import Any, Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.exchange import Identity, InvalidCredentials
from embedkafka.security.sasl.kerberos_names import KerberosNames, NoMatchingRule

MECHANISM: Final = "GSSAPI"

# After the context, the two sides agree on a security layer. Kafka has none but TLS.
_NO_LAYER: Final = 1
_OFFER: Final = struct.pack(">I", _NO_LAYER << 24)


class KerberosExchange:
    """The broker's side: accepts a context, and then offers no security layer."""

    def __init__(self, context: Any, errors: type[Exception], names: KerberosNames) -> None:
        """`context` is an accepting `gssapi.SecurityContext`; Any: an optional package."""
        self._context = context
        self._errors = errors
        self._names = names
        self._has_offered = False
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes | None:
        try:
            return self._evaluate(token)
        except self._errors as error:  # its text names the principal and the reason, no secret
            raise InvalidCredentials(str(error)) from None
        except NoMatchingRule as error:
            raise InvalidCredentials(str(error)) from None

    def _evaluate(self, token: bytes) -> bytes | None:
        if self._has_offered:
            self._finish(token)
            return None
        if not self._context.complete:
            answer: bytes | None = self._context.step(token)
            if answer:
                return answer
        self._has_offered = True
        offer: bytes = self._context.wrap(_OFFER, False).message
        return offer

    def _finish(self, token: bytes) -> None:
        choice = self._context.unwrap(token).message
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise InvalidCredentials("the client wants a security layer")
        name = self._names.short_name(str(self._context.initiator_name))
        self.identity = Identity(name=name)


def new_kerberos_exchange(
    *, principal: str, keytab: str, names: KerberosNames
) -> Callable[[], KerberosExchange]:
    """Makes exchanges that accept tickets for `principal`; raises ConfigError."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise ConfigError(
            "GSSAPI needs the Kerberos libraries and the package gssapi: apt install libkrb5-dev, "
            "pip install gssapi"
        ) from error
    errors: type[Exception] = gssapi.exceptions.GSSError
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        accepting = gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except errors as error:
        raise ConfigError(f"the key of {principal} in keyTab {keytab}: {error}") from error
    return lambda: KerberosExchange(
        gssapi.SecurityContext(creds=accepting, usage="accept"), errors, names
    )
