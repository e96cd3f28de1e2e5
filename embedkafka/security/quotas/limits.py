"""Which quota applies to a client: of its user, its client id, or both, in Kafka's order."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

DEFAULT: Final = None
"""In the place of a name: the quota of everyone who has none of their own."""

Owner = tuple[str, str]
"""User and client id who share a quota; empty for any."""

Pair = tuple[str | None, str | None]


class QuotaType(Enum):
    """What is limited, by the name of the setting."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


class QuotaLimits:
    """The quotas of one type."""

    def __init__(
        self,
        pairs: Mapping[Pair, float],
        users: Mapping[str | None, float],
        clients: Mapping[str | None, float],
    ) -> None:
        self._pairs = pairs
        self._users = users
        self._clients = clients

    @staticmethod
    def of(
        quota: QuotaType, entities: Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]]
    ) -> "QuotaLimits":
        """From entities such as `{"user": "alice"}` and their quotas."""
        pairs: dict[Pair, float] = {}
        users: dict[str | None, float] = {}
        clients: dict[str | None, float] = {}
        for entity, quotas in entities:
            limit = quotas.get(quota.value)
            if limit is None:
                continue
            if "user" in entity and "client-id" in entity:
                pairs[entity["user"], entity["client-id"]] = limit
            elif "user" in entity:
                users[entity["user"]] = limit
            elif "client-id" in entity:
                clients[entity["client-id"]] = limit
        return QuotaLimits(pairs, users, clients)

    def __bool__(self) -> bool:
        return bool(self._pairs or self._users or self._clients)

    def find(self, user: str, client: str) -> tuple[float, Owner] | None:
        """The limit of a client and who shares it; None if it has none.

        A user's own quota comes before the default for users, and any quota for users before those
        for client ids. A default applies to each name on its own.
        """
        pairs, users, clients = self._pairs, self._users, self._clients
        for name in (user, DEFAULT):
            for pair in ((name, client), (name, DEFAULT)):
                if pair in pairs:
                    return pairs[pair], (user, client)
            if name in users:
                return users[name], (user, "")
        for one in (client, DEFAULT):
            if one in clients:
                return clients[one], ("", client)
        return None
