"""Delegation tokens (KIP-48): short-lived credentials that a user passes on to its workers.

A token has an id and an HMAC of that id, made with the brokers' secret. A client logs in by SCRAM,
with the id as user and the HMAC as password. Tokens are znodes in Kafka's format. Brokers read them
from the store, so a change holds on all of them at once; while the store is out of reach, a broker
goes by what it has read before.

Owner: `_lock` (leaf) guards what was read and the SCRAM credentials made of it.
Not here: who may ask for which token (`broker.apis.tokens`).
"""

import base64
import hmac
import json
import random
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import format_uuid
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.values import dataclass, field, replace
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.sasl.exchange import Identity
from embedkafka.security.sasl.scram import ScramAccount
from embedkafka.security.sasl.scram_credentials import (
    HASHES,
    SALT_BYTES,
    ScramCredential,
    credential_of,
)
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG
from embedkafka.zk import paths
from embedkafka.zk.change_feed import ChangeFeed
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import desanitize, sanitize
from embedkafka.zk.store import ConnectionLoss, NoNode, SessionExpired
from embedkafka.zk.znodes import create_with_parents

_ALGORITHM: Final = "sha512"
_VERSION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """What a token stands for; its HMAC is not part of it."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: Sequence[KafkaPrincipal]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def may_be_renewed_by(self, principal: KafkaPrincipal) -> bool:
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: KafkaPrincipal) -> bool:
        """Whether it is among the principal's tokens when those are listed."""
        return principal == self.requester or self.may_be_renewed_by(principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """`delegation.token.*`."""

    delegation_token_secret_key: str = field(repr=False)
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int


class DelegationTokens:
    """The tokens of a cluster."""

    def __init__(
        self, settings: TokenSettings, zk: KafkaZk, clock: Clock, rng: random.Random
    ) -> None:
        self._settings = settings
        self._zk = zk
        self._clock = clock
        self._rng = rng
        self._lock = ranked_lock("delegation tokens", LEAF_RANK)
        self._known: dict[str, DelegationToken] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._changes: ChangeFeed | None = None

    def load(self, background: Scheduler) -> None:
        """Reads all tokens, in case the store gets out of reach, and follows their changes."""
        for path in (paths.DELEGATION_TOKENS, paths.DELEGATION_TOKEN_CHANGES):
            create_with_parents(self._zk.store, path, None, exist_ok=True)
        self._changes = self._zk.follow_changes(
            paths.DELEGATION_TOKEN_CHANGES,
            paths.DELEGATION_TOKEN_CHANGE_PREFIX,
            background,
            on_change=lambda data: self._look_again([data.decode()]),
            on_gap=self._look_at_all_again,
        )
        self.all()

    def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        max_lifetime_ms: int,
    ) -> DelegationToken:
        """A new token; without a positive lifetime it gets the longest one."""
        now_ms, longest_ms = self._clock.now_ms(), self._settings.delegation_token_max_lifetime_ms
        if max_lifetime_ms > 0:
            longest_ms = min(longest_ms, max_lifetime_ms)
        max_ms = _later(now_ms, longest_ms)
        token = DelegationToken(
            token_id=format_uuid(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            owner=owner,
            requester=requester,
            renewers=tuple(renewers),
            issued_ms=now_ms,
            expires_ms=min(max_ms, _later(now_ms, self._settings.delegation_token_expiry_time_ms)),
            max_ms=max_ms,
        )
        self._zk.store.create(paths.delegation_token(token.token_id), encode_token(token))
        self._announce(token.token_id)
        return token

    def renew(self, mac: bytes, principal: KafkaPrincipal, period_ms: int) -> int:
        """Extends a token; returns when it expires. Raises ApiError."""
        token, now_ms = self._require(mac), self._clock.now_ms()
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, principal)
        lifetime_ms = self._settings.delegation_token_expiry_time_ms
        if period_ms > 0:
            lifetime_ms = min(lifetime_ms, period_ms)
        return self._set_expiry(token, _later(now_ms, lifetime_ms))

    def expire(self, mac: bytes, principal: KafkaPrincipal, period_ms: int) -> int:
        """Changes when a token expires, which it returns; a negative period means now."""
        token, now_ms = self._require(mac), self._clock.now_ms()
        _check_renewer(token, principal)
        if period_ms < 0:
            self.remove(token.token_id)
            return now_ms
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return self._set_expiry(token, _later(now_ms, period_ms))

    def remove(self, token_id: str) -> None:
        """Ends a token. Connections that used it stay until their session ends."""
        with suppress(NoNode):  # another broker may do the same
            self._zk.store.delete(paths.delegation_token(token_id))
        self._announce(token_id)

    def restore(self, token: DelegationToken) -> None:
        """Makes a token what it was before it was changed or removed."""
        path, data = paths.delegation_token(token.token_id), encode_token(token)
        try:
            self._zk.store.set(path, data)
        except NoNode:
            self._zk.store.create(path, data)
        self._announce(token.token_id)

    def remove_expired(self) -> None:
        now_ms = self._clock.now_ms()
        for token in self.all():
            if token.is_expired(now_ms):
                self.remove(token.token_id)
        if self._changes is not None:
            self._changes.read()  # purges old announcements, though no new one may come

    def all(self) -> list[DelegationToken]:
        """All tokens, also those that have expired and await removal."""
        return [token for one in sorted(self.ids()) if (token := self._find(one)) is not None]

    def ids(self) -> frozenset[str]:
        """The ids of all tokens."""
        return frozenset(self._zk.store.children(paths.DELEGATION_TOKENS))

    def mac(self, token_id: str) -> bytes:
        """The HMAC of a token, its secret."""
        return hmac.digest(
            self._settings.delegation_token_secret_key.encode(), token_id.encode(), _ALGORITHM
        )

    def find_account(self, mechanism: str, token_id: str) -> ScramAccount | None:
        """The account that a token opens: its owner's."""
        token = self._find(token_id)
        if token is None:
            return None
        identity = Identity(
            name=token.owner.name, expires_ms=token.expires_ms, token_authenticated=True
        )
        return ScramAccount(identity=identity, credential=self._credential(mechanism, token_id))

    def _credential(self, mechanism: str, token_id: str) -> ScramCredential:
        key = (mechanism, token_id)
        with self._lock:
            known = self._credentials.get(key)
        if known is None:
            password = base64.b64encode(self.mac(token_id)).decode()
            # The same on all brokers, as the salt of an unknown token is.
            salt = hmac.digest(self.mac(token_id), mechanism.encode(), _ALGORITHM)[:SALT_BYTES]
            known = credential_of(mechanism, password, salt=salt)
            with self._lock:
                known = self._credentials.setdefault(key, known)
        return known

    def _require(self, mac: bytes) -> DelegationToken:
        for token in self.all():
            if hmac.compare_digest(self.mac(token.token_id), mac):
                return token
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def _find(self, token_id: str) -> DelegationToken | None:
        if not token_id or "/" in token_id:  # clients send any text
            return None
        try:
            data, _ = self._zk.store.get(paths.delegation_token(token_id))
        except (ConnectionLoss, SessionExpired):
            with self._lock:
                return self._known.get(token_id)
        except NoNode:
            self._forget(token_id)
            return None
        token = decode_token(data)
        with self._lock:
            self._known[token_id] = token
        return token

    def _forget(self, token_id: str) -> None:
        with self._lock:
            self._known.pop(token_id, None)
            for mechanism in HASHES:
                self._credentials.pop((mechanism, token_id), None)

    def _look_again(self, token_ids: Iterable[str]) -> None:
        for token_id in token_ids:
            self._find(token_id)

    def _look_at_all_again(self) -> None:
        with self._lock:
            known = list(self._known)
        self._look_again(known)

    def _set_expiry(self, token: DelegationToken, expires_ms: int) -> int:
        changed = replace(token, expires_ms=min(token.max_ms, expires_ms))
        self._zk.store.set(paths.delegation_token(token.token_id), encode_token(changed))
        self._announce(token.token_id)
        return changed.expires_ms

    def _announce(self, token_id: str) -> None:
        """Notifies brokers that keep tokens in memory, as Apache Kafka's do."""
        prefix = f"{paths.DELEGATION_TOKEN_CHANGES}/{paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
        self._zk.store.create(prefix, token_id.encode(), sequence=True)


def encode_token(token: DelegationToken) -> bytes:
    """A token as Kafka keeps it in ZooKeeper."""
    return json.dumps(
        {
            "version": _VERSION,
            "owner": sanitize(str(token.owner)),
            "tokenRequester": sanitize(str(token.requester)),
            "renewers": [sanitize(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.token_id,
        }
    ).encode()


def decode_token(data: bytes) -> DelegationToken:
    """Versions before 3 have no requester: it is the owner."""
    found = json.loads(data)
    return DelegationToken(
        token_id=found["tokenId"],
        owner=_principal(found["owner"]),
        requester=_principal(found.get("tokenRequester", found["owner"])),
        renewers=tuple(map(_principal, found["renewers"])),
        issued_ms=found["issueTimestamp"],
        expires_ms=found["expiryTimestamp"],
        max_ms=found["maxTimestamp"],
    )


def _principal(sanitized: str) -> KafkaPrincipal:
    return KafkaPrincipal.parse(desanitize(sanitized))


def _check_renewer(token: DelegationToken, principal: KafkaPrincipal) -> None:
    if not token.may_be_renewed_by(principal):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _later(now_ms: int, period_ms: int) -> int:
    return min(MAX_LONG, now_ms + period_ms)
