"""Client quotas in Kafka's format: settings of users, client ids, pairs of both, and addresses.

Not here: what quotas do to clients (`throttling`).
"""

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_INT, MAX_LONG
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import DEFAULT_ENTITY, desanitize, sanitize

USER, CLIENT, IP = "user", "client-id", "ip"

Entity = Mapping[str, str | None]
"""Names by entity type; None stands for the default of that type."""

_CLIENT_KEYS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_KEYS = frozenset({"connection_creation_rate"})
_WHOLE_KEYS = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
_EPSILON: Final = 1e-6
_KINDS: Final = (USER, CLIENT, IP)
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_MATCHES: Final = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}


class QuotaStore:
    """Reads and writes quotas in the store."""

    def __init__(self, zk: KafkaZk) -> None:
        self._zk = zk

    def alter(
        self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool
    ) -> None:
        """Sets or (None) removes quotas; raises ApiError before it changes anything."""
        folder, name = _place(entity)
        for key, value in changes.items():
            if value is not None:
                _check_quota(entity, key, value)
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


def _check_quota(entity: Entity, key: str, value: float) -> None:
    """Refuses a quota that the entity cannot have, in Kafka's words."""
    if key not in (_IP_KEYS if IP in entity else _CLIENT_KEYS):
        raise _refused(f"Invalid configuration key {key}")
    if value <= 0:
        raise _refused(f"Quota {key} must be greater than 0")
    if key in _WHOLE_KEYS:
        limit, kind = (MAX_INT, "an INT") if key in _IP_KEYS else (MAX_LONG, "a LONG")
        if value > limit:
            raise _refused(f"Proposed value for {key} is too large for {kind}.")
        if _is_fractional(value):
            raise _refused(f"{key} cannot be a fractional value.")


def _is_fractional(value: float) -> bool:
    """As Kafka computes it, but for NaN, which Kafka takes for a whole number."""
    return math.isnan(value) or value - int(value) > _EPSILON


def _place(entity: Entity) -> tuple[str, str]:
    """The folder below `/config` and the name in it."""
    _check_entity(entity)
    if IP in entity:
        return "ips", _stored(entity[IP])
    if USER not in entity:
        return "clients", _stored(entity[CLIENT])
    user = _stored(entity[USER])
    return "users", f"{user}/clients/{_stored(entity[CLIENT])}" if CLIENT in entity else user


def _check_entity(entity: Entity) -> None:
    if not entity:
        raise _refused("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in _KINDS:
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    if IP in entity and len(entity) > 1:
        raise _refused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    address = entity.get(IP)
    if address is not None and not _is_address(address):
        raise _refused(f"{address} is not a valid IP or resolvable host.")


def _is_address(text: str) -> bool:
    """Whether `text` is an IP address or this host: quotas look up no other names."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def check_filter(components: Sequence[tuple[str, int, str | None]]) -> None:
    """Refuses components of a description that cannot match, in Kafka's words."""
    kinds = [kind for kind, _, _ in components]
    for index, (kind, how, name) in enumerate(components):
        if not kind:
            raise _refused("Invalid empty entity type.")
        if kind in kinds[:index]:
            raise _refused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _KINDS:
            unknown = f"Unsupported entity type {kind}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, unknown)
        if how not in _MATCHES:
            raise _refused(f"Unknown match type {how}")
        if how == _EXACT and name is None:
            raise _refused("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if how != _EXACT and name is not None:
            raise _refused(
                f"Request specified MATCH_TYPE_{_MATCHES[how]}, but also specified a match string."
            )
    if IP in kinds and len(kinds) > 1:
        raise _refused(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def _refused(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def _stored(name: str | None) -> str:
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
