"""Client quotas in Kafka's format: settings of users, client ids, pairs of both, and addresses.

The broker stores and describes quotas; it does not enforce them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import DEFAULT_ENTITY, desanitize, sanitize

USER, CLIENT, IP = "user", "client-id", "ip"

Entity = Mapping[str, str | None]
"""Names by entity type; None stands for the default of that type."""

_CLIENT_KEYS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_KEYS = frozenset({"connection_creation_rate"})
_KINDS: Final = frozenset(
    {frozenset({USER}), frozenset({CLIENT}), frozenset({USER, CLIENT}), frozenset({IP})}
)


class QuotaStore:
    """Reads and writes quotas in the store."""

    def __init__(self, zk: KafkaZk) -> None:
        self._zk = zk

    def alter(
        self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool
    ) -> None:
        """Sets or (None) removes quotas; raises ApiError before it changes anything."""
        folder, name = _place(entity)
        allowed = _IP_KEYS if IP in entity else _CLIENT_KEYS
        for key, value in changes.items():
            if key not in allowed:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
            if value is not None and value <= 0:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
        if validate_only:
            return
        settings = self._zk.config(folder, name)
        for key, value in changes.items():
            if value is None:
                settings.pop(key, None)
            else:
                settings[key] = repr(value)
        self._zk.set_config(folder, name, settings)

    def all(self) -> Iterator[tuple[Entity, dict[str, float]]]:
        """Every entity that has quotas."""
        for folder, kind in (("users", USER), ("clients", CLIENT), ("ips", IP)):
            for name in self._zk.configured_entities(folder):
                yield from self._found({kind: _plain(name)}, folder, name)
                if kind == USER:
                    yield from self._clients_of(name)

    def _clients_of(self, user: str) -> Iterator[tuple[Entity, dict[str, float]]]:
        for client in self._zk.configured_entities(f"users/{user}/clients"):
            entity = {USER: _plain(user), CLIENT: _plain(client)}
            yield from self._found(entity, "users", f"{user}/clients/{client}")

    def _found(
        self, entity: Entity, folder: str, name: str
    ) -> Iterator[tuple[Entity, dict[str, float]]]:
        keys = _CLIENT_KEYS | _IP_KEYS
        quotas = {k: float(v) for k, v in self._zk.config(folder, name).items() if k in keys}
        if quotas:
            yield entity, quotas


def _place(entity: Entity) -> tuple[str, str]:
    """The folder below `/config` and the name in it."""
    if frozenset(entity) not in _KINDS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid quota entity: {sorted(entity)}")
    if IP in entity:
        return "ips", _stored(entity[IP])
    if USER not in entity:
        return "clients", _stored(entity[CLIENT])
    user = _stored(entity[USER])
    return "users", f"{user}/clients/{_stored(entity[CLIENT])}" if CLIENT in entity else user


def _stored(name: str | None) -> str:
    if name == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "Empty quota entity name")
    return DEFAULT_ENTITY if name is None else sanitize(name)


def _plain(stored: str) -> str | None:
    return None if stored == DEFAULT_ENTITY else desanitize(stored)


def matches(entity: Entity, wanted: Iterable[tuple[str, int, str | None]], *, strict: bool) -> bool:
    """Whether an entity matches all components: type, match (0 exact, 1 default, 2 any), name."""
    components = list(wanted)
    if strict and set(entity) != {kind for kind, _, _ in components}:
        return False
    for kind, how, name in components:
        if kind not in entity:
            return False
        if (how == _EXACT and entity[kind] != name) or (
            how == _DEFAULT and entity[kind] is not None
        ):
            return False
    return True


_EXACT, _DEFAULT = 0, 1
