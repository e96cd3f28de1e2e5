"""`kafka.quotas`: what clients may use, changed while they run.

Owner: none; the brokers' store has the quotas.
Not here: what quotas do to clients (`broker.throttling`).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from embedkafka.cluster.admin import Admin
from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.arguments import MAX_INT64, require_known, require_number, require_text
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
)
from embedkafka.zk.payloads import DEFAULT_ENTITY
from embedkafka.zk.store import ConnectionLoss, SessionExpired

_USER, _CLIENT, _IP = "user", "client-id", "ip"
_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_VERSION: Final = 1
_EXACT, _DEFAULT = 0, 1

_Entity = Mapping[str, str | None]
"""Names by type; None is the default of that type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """What a user, a client id, both together or an address may use.

    Args:
        user: the user; `"<default>"` is every user that no other quota names.
        client_id: the client id; `"<default>"` likewise.
        ip: the address; `"<default>"` likewise.
        limits: numbers by Kafka's names, such as `producer_byte_rate`.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    limits: Mapping[str, float]


class Quotas:
    """What clients may use. A change holds on every running broker when its call returns.

        kafka.quotas.set(client_id="job", producer_byte_rate=100_000)     # while the job runs

    A quota is for a `user`, a `client_id`, both together, or an `ip`. `"<default>"` is all
    that no other quota names. Only an embedded cluster has this: on another, a quota would slow
    down clients of other people.
    """

    def __init__(self, admin: Admin, brokers: Brokers) -> None:
        self._admin = admin
        self._brokers = brokers

    def all(self) -> list[ClientQuota]:
        """Every quota."""
        return self._find({}, strict=False)

    def describe(
        self, *, user: str | None = None, client_id: str | None = None, ip: str | None = None
    ) -> dict[str, float]:
        """The limits that were set for exactly this user, client id or address; none is `{}`.

        Args:
            user: the user, or `"<default>"`.
            client_id: the client id, or `"<default>"`.
            ip: the address, or `"<default>"`.
        """
        found = self._find(_require_entity(user, client_id, ip), strict=True)
        return {key: limit for quota in found for key, limit in quota.limits.items()}

    def set(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        producer_byte_rate: float | None = None,
        consumer_byte_rate: float | None = None,
        request_percentage: float | None = None,
        controller_mutation_rate: float | None = None,
        connection_creation_rate: float | None = None,
    ) -> None:
        """Sets limits, and leaves others as they are.

        Args:
            user: the user, or `"<default>"`; a client of a PLAINTEXT listener is `"ANONYMOUS"`.
            client_id: the client id, or `"<default>"`.
            ip: the address, or `"<default>"`.
            producer_byte_rate: bytes per second to each broker.
            consumer_byte_rate: bytes per second from each broker.
            request_percentage: time on each broker's threads; 100 is one thread.
            controller_mutation_rate: partitions per second that are created or deleted.
            connection_creation_rate: connections per second to each broker; for an `ip` alone.

        Raises:
            InvalidArgument: no client or no limit is named, or Kafka has no such quota.
        """
        entity = _require_entity(user, client_id, ip)
        given = {
            "producer_byte_rate": producer_byte_rate,
            "consumer_byte_rate": consumer_byte_rate,
            "request_percentage": request_percentage,
            "controller_mutation_rate": controller_mutation_rate,
            "connection_creation_rate": connection_creation_rate,
        }
        limits = {
            key: require_number(key, limit, most=MAX_INT64)
            for key, limit in given.items()
            if limit is not None
        }
        if not limits:
            raise InvalidArgument("name a limit, such as producer_byte_rate=100_000")
        self._alter(entity, limits)

    def remove(
        self,
        *limits: str,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
    ) -> None:
        """Removes limits.

        Args:
            limits: their names, such as `"producer_byte_rate"`; by default all.
            user: the user, or `"<default>"`.
            client_id: the client id, or `"<default>"`.
            ip: the address, or `"<default>"`.

        Raises:
            InvalidArgument: there is no such limit, so removing it would change nothing.
        """
        names = [require_known("limit", name, _KEYS) for name in limits]
        entity = _require_entity(user, client_id, ip)
        has = self.describe(user=user, client_id=client_id, ip=ip)
        if not has or not has.keys() >= set(names):
            wanted = f" {', '.join(names)}" if names else ""
            raise InvalidArgument(
                f"{_shown(entity)} has no quota{wanted}. It has: {', '.join(has) or 'none'}"
            )
        self._alter(entity, dict.fromkeys(names or has))

    def _alter(self, entity: _Entity, limits: Mapping[str, float | None]) -> None:
        """Sets limits, or removes those that are None."""
        _Entry = AlterClientQuotasRequest.Entry
        entry = _Entry(
            entity=[
                _Entry.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ],
            ops=[
                _Entry.Op(
                    key=key, value=0.0 if limit is None else float(limit), remove=limit is None
                )
                for key, limit in limits.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        response, _ = self._admin.call(lambda client: client.call(request, _VERSION))
        for result in response.entries:
            _check(entity, result.error_code, result.error_message)
        for broker in self._brokers.live():
            with suppress(ConnectionLoss, SessionExpired):  # it reads them when it is back
                broker.reload_quotas()

    def _find(self, entity: _Entity, *, strict: bool) -> list[ClientQuota]:
        request = DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasRequest.Component(
                    entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
                )
                for kind, name in entity.items()
            ],
            strict=strict,
        )
        response, _ = self._admin.call(lambda client: client.call(request, _VERSION))
        _check(entity, response.error_code, response.error_message)
        return [_quota(entry.entity, entry.values) for entry in response.entries]


def _quota(entity: Sequence[Any], values: Sequence[Any]) -> ClientQuota:
    """Any: parts of an answer."""
    named = {
        part.entity_type: DEFAULT_ENTITY if part.entity_name is None else part.entity_name
        for part in entity
    }
    return ClientQuota(
        user=named.get(_USER),
        client_id=named.get(_CLIENT),
        ip=named.get(_IP),
        limits={value.key: value.value for value in values},
    )


def _require_entity(user: object, client_id: object, ip: object) -> _Entity:
    given = {"user": user, "client_id": client_id, "ip": ip}
    named = {
        name.replace("_", "-"): require_text(name, value)
        for name, value in given.items()
        if value is not None
    }
    if not named:
        raise InvalidArgument('say whom the quota is for, such as user="job" or client_id="job"')
    if _IP in named and len(named) > 1:
        raise InvalidArgument("a quota is for an ip alone: name no user or client_id with it")
    return {kind: None if name == DEFAULT_ENTITY else name for kind, name in named.items()}


def _check(entity: _Entity, code: int, message: str | None) -> None:
    if not code:
        return
    error = ErrorCode(code)
    reason = f"the quota of {_shown(entity)} is refused: {error.name}: {message or error.message}"
    raise (InvalidArgument if error is ErrorCode.INVALID_REQUEST else EmbedKafkaError)(reason)


def _shown(entity: _Entity) -> str:
    named = (f"{kind} {DEFAULT_ENTITY if name is None else name}" for kind, name in entity.items())
    return " and ".join(named)
