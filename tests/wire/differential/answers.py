"""Answers of two clusters, compared field by field.

What a cluster makes up itself (ids, ports, the time) is bound: a value of one cluster goes with the
value at the same place in the other's answer, from then on.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.wire.records.batch import read_batches
from tests.wire.differential.steps import MARK, STRANGERS, Id
from tests.wire.plain_messages import Plain

_KINDS: Final[Mapping[str, str]] = {
    "member_id": "member",
    "leader": "member",
    "producer_id": "producer",
    "ongoing_txn_producer_id": "producer",
    "session_id": "session",
    "port": "port",
    "cluster_id": "cluster",
}
#: Values that clusters share, though the field is one of ids.
_SHARED: Final = frozenset({-1, 0, "", None, ZERO_UUID, *STRANGERS.values()})
#: How long and where is chance: each cluster places replicas as it likes.
_UNCOMPARED: Final = frozenset({"throttle_time_ms", "leader_id"})
_NOW: Final = "now"
_UUID: Final = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-")


@dataclass(slots=True)
class Ids:
    """Which id of our cluster goes with which one of Kafka's."""

    values: dict[Id, tuple[Plain, Plain]] = field(default_factory=dict)
    names: tuple[dict[Plain, Id], dict[Plain, Id]] = field(default_factory=lambda: ({}, {}))

    def copy(self) -> "Ids":
        return Ids(dict(self.values), (dict(self.names[0]), dict(self.names[1])))

    def knows(self, kind: str, pair: tuple[Plain, Plain]) -> bool:
        return any((kind, value) in names for names, value in zip(self.names, pair, strict=True))

    def bound(self, kind: str, pair: tuple[Plain, Plain], step: int) -> Id | None:
        """The name of two ids that belong together; None if one of them belongs elsewhere."""
        known = [names.get((kind, value)) for names, value in zip(self.names, pair, strict=True)]
        if known == [None, None]:
            new = Id(kind, step, sum(1 for each in self.values if each.step == step))
            self.values[new] = pair
            for names, value in zip(self.names, pair, strict=True):
                names[kind, value] = new
            return new
        return known[0] if known[0] == known[1] else None


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    ours: Plain
    theirs: Plain

    def __str__(self) -> str:
        return f"{self.path}: ours {_brief(self.ours)}, Apache Kafka's {_brief(self.theirs)}"


def _brief(value: Plain) -> str:
    """A value without fields that say nothing."""
    if isinstance(value, dict):
        told = [f"{name}={_brief(inner)}" for name, inner in value.items() if not _is_dull(inner)]
        return f"({' '.join(told)})"
    if isinstance(value, list):
        return f"[{', '.join(_brief(item) for item in value)}]"
    return repr(value)


def _is_dull(value: Plain) -> bool:
    if isinstance(value, dict):
        return all(_is_dull(inner) for inner in value.values())
    return value in (-1, "", None, [], ZERO_UUID, "NONE")


def shown(value: object, prefix: str, name: str = "") -> Plain:
    """An answer as plain values, with the names of its sequence and none of others."""
    if hasattr(type(value), "__schema__"):
        return {
            each.name: shown(getattr(value, each.name), prefix, each.name)
            for each in schema_of(type(value)).fields
            if each.name not in _UNCOMPARED
        }
    if name.endswith("error_code") and isinstance(value, int):
        return ErrorCode(value).name
    if name == "records":
        return None if value is None else _batches(bytes(value))  # type: ignore[call-overload]
    if isinstance(value, list | tuple):
        items = [shown(item, prefix) for item in value]
        return [item for item in items if not _is_foreign(item)]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).replace(prefix.encode(), MARK.encode()).hex()
    return value.replace(prefix, MARK) if isinstance(value, str) else value


def _is_foreign(item: Plain) -> bool:
    """Whether it is about a topic or group of another sequence, or one of Kafka's own topics.

    Also the setting that Kafka stores for all brokers, and we have by default.
    """
    if isinstance(item, dict) and item.get("name") == "min.insync.replicas":
        return True
    names = item.values() if isinstance(item, dict) else [item]
    return any(
        isinstance(name, str) and re.match(r"x[0-9a-z]+-|__|warm-up", name) for name in names
    )


def _batches(records: bytes) -> Plain:
    return {
        "size": len(records),
        "batches": [
            {
                "base_offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "leader_epoch": batch.partition_leader_epoch,
                "attributes": batch.attributes,
                "base_timestamp": batch.base_timestamp,
                "max_timestamp": batch.max_timestamp,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "base_sequence": batch.base_sequence,
                "all": [
                    f"{record.offset} {record.timestamp if not _is_now(record.timestamp) else _NOW}"
                    f" {record.key!r} {record.value!r} {record.headers!r}"
                    for record in batch.records()
                ],
            }
            for batch in read_batches(memoryview(records))
        ],
    }


_STARTED: Final = time.time() * 1000


def _is_now(value: Plain) -> bool:
    """Whether it is a time of this run: sequences use older ones."""
    return isinstance(value, int) and abs(value - _STARTED) < 86_400_000


@dataclass(slots=True)
class Comparison:
    """Compares two answers to one step; `ids` grows on the way."""

    ids: Ids
    step: int
    differences: list[Difference] = field(default_factory=list)
    binds: bool = True

    def of(self, ours: Plain, theirs: Plain, name: str = "", path: str = "") -> Plain:
        """The answer, with names for ids; notes where the two are different."""
        if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
            return {key: self.of(ours[key], theirs[key], key, f"{path}.{key}") for key in ours}
        if isinstance(ours, list) and isinstance(theirs, list):
            return self._of_lists(ours, theirs, name, path)
        kind = "uuid" if isinstance(theirs, uuid.UUID) else _KINDS.get(name)
        if kind and not _is_shared(ours) and not _is_shared(theirs):
            if not self.binds and not self.ids.knows(kind, (ours, theirs)):
                return None
            found = self.ids.bound(kind, (ours, theirs), self.step)
            if found is None:
                self._differ(path, self._named(ours, 0, kind), self._named(theirs, 1, kind))
            return found
        if _is_now(ours) and _is_now(theirs):
            return _NOW
        if isinstance(ours, str) and isinstance(theirs, str):
            ours, theirs = self._told(ours, 0), self._told(theirs, 1)
        if ours != theirs:
            self._differ(path, ours, theirs)
        return theirs

    def _of_lists(self, ours: list[Plain], theirs: list[Plain], name: str, path: str) -> Plain:
        mine = sorted(ours, key=lambda item: self._order(item, 0))
        other = sorted(theirs, key=lambda item: self._order(item, 1))
        if len(ours) != len(theirs):
            self._differ(path, ours, theirs)
        merged = []
        for index in range(min(len(mine), len(other))):
            binds, self.binds = self.binds, self.binds and not self._is_ambiguous(mine, index)
            merged.append(self.of(mine[index], other[index], name, f"{path}[{index}]"))
            self.binds = binds
        return merged

    def _is_ambiguous(self, items: list[Plain], index: int) -> bool:
        """Whether an item has new ids and looks like its neighbour: the two could change places."""
        order = self._order(items[index], 0)
        near = [*items[max(0, index - 1) : index], *items[index + 1 : index + 2]]
        return "<new " in order and order in [self._order(item, 0) for item in near]

    def _order(self, item: Plain, side: int) -> str:
        return json.dumps(self._sortable(item, side, ""))

    def _sortable(self, item: Plain, side: int, name: str) -> Plain:
        if isinstance(item, dict):
            return {key: self._sortable(inner, side, key) for key, inner in item.items()}
        if isinstance(item, list):
            return [self._sortable(inner, side, name) for inner in item]
        kind = "uuid" if isinstance(item, uuid.UUID) else _KINDS.get(name)
        if kind and not _is_shared(item):
            return repr(self.ids.names[side].get((kind, item), f"<new {kind}>"))
        return _NOW if _is_now(item) else str(item) if isinstance(item, uuid.UUID) else item

    def _named(self, value: Plain, side: int, kind: str) -> Plain:
        return self.ids.names[side].get((kind, value), value)

    def _told(self, text: str, side: int) -> str:
        """A message with names for the ids that it has."""
        for pair in _ids_in_messages(self.ids):
            text = text.replace(pair[side], repr(pair))
        text = re.sub(
            r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z0-9])[\w-]{22}(?![\w-])", "<id>", text
        )
        text = re.sub(
            r"\b\d{13}\b", lambda found: _NOW if _is_now(int(found[0])) else found[0], text
        )
        return re.sub(r"/tmp/[^\s,\"\])]*", "<path>", text)

    def _differ(self, path: str, ours: Plain, theirs: Plain) -> None:
        self.differences.append(Difference(path, ours, theirs))


def _ids_in_messages(ids: Ids) -> list[tuple[str, str]]:
    return [pair for each, pair in ids.values.items() if each.kind == "member"]


def _is_shared(value: Plain) -> bool:
    """Whether clients made it; members' ids may begin with the name of an instance."""
    if isinstance(value, str) and value.startswith(MARK):
        return _UUID.search(value) is None
    return value in _SHARED
