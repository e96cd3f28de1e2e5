"""SCRAM (RFC 5802, RFC 7677) as a broker speaks it, and as one broker logs in to another.

An unknown user gets a challenge like any other and fails at the proof, so that neither the answers
nor the time tells which users exist. Kafka refuses one in its first answer; clients see the same
error in the end.
"""

import base64
import hashlib
import hmac
import random
import re
from typing import Final, Protocol

from embedkafka.runtime.values import dataclass
from embedkafka.security.sasl.exchange import (
    SASLNAME,
    AuthenticationFailed,
    Identity,
    InvalidCredentials,
)
from embedkafka.security.sasl.scram_credentials import (
    HASHES,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    salted_password,
)
from embedkafka.wire.net.channel_authenticator import LoginRefused

TOKEN_AUTH: Final = "tokenauth"
"""The extension that makes the user name the id of a delegation token."""

_NONCE_BITS: Final = 130
_MOST_ITERATIONS: Final = 1_000_000  # seconds of work, which a false broker could ask for

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASLNAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{SASLNAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramAccount:
    """Whom a credential lets in: a user, or the owner of a delegation token."""

    identity: Identity
    credential: ScramCredential


class ScramAccounts(Protocol):
    """Where an exchange looks users and delegation tokens up."""

    def find_user(self, mechanism: str, name: str) -> ScramAccount | None: ...

    def find_token(self, mechanism: str, token_id: str) -> ScramAccount | None: ...

    @property
    def decoy_secret(self) -> bytes:
        """What only the brokers know, and all of them."""
        ...


class ScramExchange:
    """The broker's side of `SCRAM-SHA-256` or `SCRAM-SHA-512`."""

    def __init__(self, mechanism: str, accounts: ScramAccounts, rng: random.Random) -> None:
        self._mechanism = mechanism
        self._algorithm = HASHES[mechanism]
        self._accounts = accounts
        self._rng = rng
        self._account: ScramAccount | None = None
        self._credential: ScramCredential | None = None
        self._client_first_bare = ""
        self._server_first = ""
        self._nonce = ""
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        if self._credential is None:
            return self._challenge(token)
        return self._verify(token, self._credential)

    def _challenge(self, token: bytes) -> bytes:
        first = _match(_CLIENT_FIRST, token, "first")
        user = _decode_name(first["user"])
        if first["authorization_id"] not in (None, first["user"]):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._account = self._find_account(user, first["extensions"])
        self._credential = self._account.credential if self._account else self._decoy(user)
        if self._credential.iterations < MIN_ITERATIONS:
            raise InvalidCredentials(f"the credential of {user} has too few iterations")
        self._client_first_bare = first["bare"]
        self._nonce = first["nonce"] + new_nonce(self._rng)
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first.encode()

    def _find_account(self, user: str, extensions: str) -> ScramAccount | None:
        given = dict(part.partition("=")[::2] for part in extensions.split(",") if part)
        if given.get(TOKEN_AUTH, "").lower() == "true":
            return self._accounts.find_token(self._mechanism, user)
        return self._accounts.find_user(self._mechanism, user)

    def _decoy(self, user: str) -> ScramCredential:
        """A credential that no password fits.

        Its salt is the same at every attempt, on every broker, like that of a user. A user whose
        credential was made by a client with another salt or count can still be told from it.
        """
        seed = f"{self._mechanism} {user}".encode()
        salt = hmac.digest(self._accounts.decoy_secret, seed, "sha256")[:SALT_BYTES]
        size = hashlib.new(self._algorithm).digest_size
        return ScramCredential(
            salt=salt,
            stored_key=self._rng.randbytes(size),
            server_key=self._rng.randbytes(size),
            iterations=MIN_ITERATIONS,
        )

    def _verify(self, token: bytes, credential: ScramCredential) -> bytes:
        final = _match(_CLIENT_FINAL, token, "final")
        if final["nonce"] != self._nonce:
            raise InvalidCredentials("the client's final message has another nonce")
        messages = f"{self._client_first_bare},{self._server_first},{final['without_proof']}"
        signature = hmac.digest(credential.stored_key, messages.encode(), self._algorithm)
        client_key = _xor(signature, base64.b64decode(final["proof"]))
        stored_key = hashlib.new(self._algorithm, client_key).digest()
        fits = hmac.compare_digest(stored_key, credential.stored_key)
        if not fits or self._account is None:
            raise InvalidCredentials("the client's proof does not fit a credential")
        self.identity = self._account.identity
        answer = hmac.digest(credential.server_key, messages.encode(), self._algorithm)
        return b"v=" + base64.b64encode(answer)


class ScramLogin:
    """The client's side, used between brokers: `respond` gives the next token to send."""

    def __init__(self, mechanism: str, user: str, password: str, rng: random.Random) -> None:
        self.mechanism = mechanism
        self._password = password
        self._nonce = new_nonce(rng)
        self._first_bare = f"n={_encode_name(user)},r={self._nonce}"
        self._signature = ""

    def respond(self, challenge: bytes | None) -> bytes | None:
        """The answer to a challenge, or the first token for None; None at the end."""
        if challenge is None:
            return f"n,,{self._first_bare}".encode()
        if self._signature:
            if not hmac.compare_digest(challenge, f"v={self._signature}".encode()):
                raise LoginRefused("the broker does not know the password")
            return None
        return self._prove(challenge)

    def _prove(self, challenge: bytes) -> bytes:
        first = _SERVER_FIRST.fullmatch(challenge.decode(errors="replace"))
        if first is None:
            raise LoginRefused("the broker's challenge is malformed")
        if not first["nonce"].startswith(self._nonce):
            raise LoginRefused("the broker's nonce does not begin with ours")
        if not MIN_ITERATIONS <= int(first["iterations"]) <= _MOST_ITERATIONS:
            asked = first["iterations"]
            raise LoginRefused(
                f"the broker asks for {asked} iterations, not {MIN_ITERATIONS} or more"
            )
        algorithm = HASHES[self.mechanism]
        salted = salted_password(
            self.mechanism,
            self._password,
            base64.b64decode(first["salt"]),
            int(first["iterations"]),
        )
        without_proof = f"c=biws,r={first['nonce']}"
        messages = f"{self._first_bare},{challenge.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        stored_key = hashlib.new(algorithm, client_key).digest()
        proof = _xor(client_key, hmac.digest(stored_key, messages, algorithm))
        server_key = hmac.digest(salted, b"Server Key", algorithm)
        self._signature = base64.b64encode(hmac.digest(server_key, messages, algorithm)).decode()
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def new_nonce(rng: random.Random) -> str:
    """130 random bits in digits and letters, as Kafka's clients and brokers make them."""
    number, digits = rng.getrandbits(_NONCE_BITS), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"


def _match(pattern: re.Pattern[str], token: bytes, which: str) -> re.Match[str]:
    match = pattern.fullmatch(token.decode(errors="replace"))
    if match is None:
        raise InvalidCredentials(f"the {which} SCRAM message is malformed")
    return match


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise InvalidCredentials("the client's proof has the wrong length")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _decode_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _encode_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")
