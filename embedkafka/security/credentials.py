"""SCRAM credentials in ZooKeeper, where Kafka keeps them: settings of `/config/users`.

A login reads them from the store, so a change holds on every broker at once. While the store is
out of reach, a broker goes by what it has read before, as Kafka's brokers go by their caches.

Owner: `_lock` (leaf) guards the settings that were read.
Invariants: what is written keeps the other settings of the user, such as quotas.
"""

import logging
import random
from collections.abc import Iterator

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.security.sasl.exchange import Identity
from embedkafka.security.sasl.scram import ScramAccount
from embedkafka.security.sasl.scram_credentials import (
    HASHES,
    SALT_BYTES,
    ScramCredential,
    credential_of,
    decode_credential,
    encode_credential,
)
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import desanitize, sanitize
from embedkafka.zk.store import ConnectionLoss, SessionExpired

_LOG = logging.getLogger(__name__)

USERS = "users"


class ScramCredentials:
    """Reads and writes the credentials of users."""

    def __init__(self, zk: KafkaZk) -> None:
        self._zk = zk
        self._lock = ranked_lock("SCRAM credentials", LEAF_RANK)
        self._known: dict[str, dict[str, str]] = {}
        self.decoy_secret = b""

    def load(self, proposed_secret: bytes) -> None:
        """Reads all, in case the store gets out of reach; all brokers share the first secret."""
        self.decoy_secret = self._zk.create_or_get_decoy_secret(proposed_secret)
        for entity in self._zk.configured_entities(USERS):
            self._settings(desanitize(entity))

    def find_user(self, mechanism: str, name: str) -> ScramAccount | None:
        """The account of a user for a login with this mechanism."""
        text = self._settings(name).get(mechanism)
        if text is None:
            return None
        try:
            credential = decode_credential(text)
        except ValueError as error:
            _LOG.warning("%s of user %s: %s", mechanism, name, error)
            return None
        return ScramAccount(identity=Identity(name=name), credential=credential)

    def users(self) -> list[str]:
        """Users with a credential."""
        named = map(desanitize, self._zk.configured_entities(USERS))
        return [name for name in named if any(self.mechanisms(name))]

    def mechanisms(self, user: str) -> Iterator[tuple[str, ScramCredential]]:
        """The user's mechanisms, each with its credential."""
        stored = self._zk.config(USERS, sanitize(user))
        for mechanism in HASHES:
            if mechanism in stored:
                yield mechanism, decode_credential(stored[mechanism])

    def set(self, user: str, mechanism: str, credential: ScramCredential) -> None:
        settings = self._zk.config(USERS, sanitize(user))
        settings[mechanism] = encode_credential(credential)
        self._zk.set_config(USERS, sanitize(user), settings)

    def set_password(self, user: str, mechanism: str, password: str, rng: random.Random) -> None:
        """Stores the credential of a password, with a new salt."""
        salt = rng.randbytes(SALT_BYTES)
        self.set(user, mechanism, credential_of(mechanism, password, salt=salt))

    def delete(self, user: str, mechanism: str) -> bool:
        """Deletes a credential; False if there is none."""
        settings = self._zk.config(USERS, sanitize(user))
        if settings.pop(mechanism, None) is None:
            return False
        self._zk.set_config(USERS, sanitize(user), settings)
        return True

    def _settings(self, name: str) -> dict[str, str]:
        try:
            settings = self._zk.config(USERS, sanitize(name))
        except (ConnectionLoss, SessionExpired):
            with self._lock:
                return self._known.get(name, {})
        with self._lock:
            if settings:
                self._known[name] = settings
            else:
                self._known.pop(name, None)
        return settings
