"""A call of the raw tour: one request, in every version that can carry it."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain

TOPIC: Final = "raw-orders"
"""Two partitions; the first has three records."""
MISSING: Final = "raw-missing"
LONG: Final = "x" * 250
GROUP: Final = "raw-group"
"""A group without members, which has committed offsets of the topic."""
NAMELESS: Final = ""
"""Another such group."""
NO_GROUP: Final = "raw-no-group"
ID: Final = UUID(int=1)
"""Stands for the id of `TOPIC`."""
NO_ID: Final = UUID(int=12345)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    api: ApiKey
    fields: dict[str, Plain]
    versions: range | None = None
    """Only these versions; otherwise all."""


def call(api: ApiKey, versions: range | None = None, **fields: Plain) -> Call:
    return Call(api=api, fields=fields, versions=versions)
