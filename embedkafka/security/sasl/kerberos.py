"""GSSAPI (RFC 4752): Kerberos tickets. Needs the package `gssapi` and MIT's Kerberos libraries."""

import struct
from collections.abc import Callable
from typing import Any, Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.security.sasl.exchange import Identity, InvalidCredentials
from embedkafka.security.sasl.kerberos_names import KerberosNames, NoMatchingRule
from embedkafka.wire.net.channel_authenticator import LoginRefused

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


class KerberosLogin:
    """The client's side, used between brokers: shows a ticket, and wants no security layer."""

    mechanism = MECHANISM

    def __init__(self, context: Any, errors: type[Exception]) -> None:
        """`context` is an initiating `gssapi.SecurityContext`; Any: an optional package."""
        self._context = context
        self._errors = errors
        self._has_chosen = False

    def respond(self, challenge: bytes | None) -> bytes | None:
        """The answer to a challenge, or the first token for None; None at the end."""
        try:
            return self._respond(challenge)
        except self._errors as error:  # its text names principals and the reason, no secret
            raise LoginRefused(str(error)) from None

    def _respond(self, challenge: bytes | None) -> bytes | None:
        if not self._context.complete:
            token: bytes | None = self._context.step(challenge)
            return token or b""
        if self._has_chosen:
            return None
        offer = self._context.unwrap(challenge).message
        if not offer or not offer[0] & _NO_LAYER:
            raise LoginRefused("the broker wants a security layer")
        self._has_chosen = True
        choice: bytes = self._context.wrap(_OFFER, False).message
        return choice


def new_kerberos_exchange(
    *, principal: str, keytab: str, names: KerberosNames
) -> Callable[[], KerberosExchange]:
    """Makes exchanges that accept tickets for `principal`; raises ConfigError."""
    gssapi = _require_gssapi()
    errors: type[Exception] = gssapi.exceptions.GSSError
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        accepting = gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except errors as error:
        raise ConfigError(f"the key of {principal} in keyTab {keytab}: {error}") from error
    return lambda: KerberosExchange(
        gssapi.SecurityContext(creds=accepting, usage="accept"), errors, names
    )


def new_kerberos_login(
    *, principal: str, keytab: str, service: str
) -> Callable[[str], KerberosLogin]:
    """Makes logins as `principal` to the service on a host; raises ConfigError.

    The Kerberos library keeps the tickets in memory, and asks for new ones when they have expired.
    """
    gssapi = _require_gssapi()
    errors: type[Exception] = gssapi.exceptions.GSSError
    store = {"client_keytab": keytab, "ccache": f"MEMORY:embedkafka/{principal}"}

    def new_login(host: str) -> KerberosLogin:
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service),
                creds=gssapi.Credentials(name=name, usage="initiate", store=store),
                usage="initiate",
            )
        except errors as error:
            raise LoginRefused(str(error)) from None
        return KerberosLogin(context, errors)

    return new_login


def _require_gssapi() -> Any:  # Any: an optional package
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise ConfigError(
            "GSSAPI needs the Kerberos libraries and the package gssapi: apt install libkrb5-dev, "
            "pip install gssapi"
        ) from error
    return gssapi
