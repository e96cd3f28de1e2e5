"""Compares what one client was told by two clusters, field by field.

A tour is a dictionary: the name of a call -> everything its result tells. Known differences are a
table of patterns with reasons. It is strict in both directions: a difference that no row explains
fails, and so does a row that explains none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Told = Mapping[str, Any]

#: What differs between any two clusters: ids, times, ports and places.
_ALWAYS: Final = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"(?<![\w-])(?!\w*Exception)(?=[\w-]*[a-z])[\w-]{22}(?![\w-])"), "<id>"),
    (re.compile(r"\b1[78]\d{11}\b"), "<time>"),
    (re.compile(r"/tmp/[^\s,\"\])]*"), "<path>"),
    (re.compile(r"@[0-9a-f]{6,8}\b"), "@<hash>"),
    (re.compile(r"\bLocal controller \d"), "Local controller <id>"),
    (re.compile(r".*[Tt]imed out (waiting|at) .*"), "<timed out>"),
)

#: Fields that depend on chance: which broker has which role, which of several errors is first, and
#: whether a coordinator knew a new topic when a member of its group joined.
_CHANCE: Final = re.compile(
    r"(.*\.)?(coordinator|controller)\..*|all\.error\..*"
    r"|(.*\.)?(group|member|targetAssignment)Epoch"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A difference that is there on purpose, or that another part of the project owes."""

    call: str
    field: str
    reason: str

    def explains(self, difference: "Difference") -> bool:
        return bool(
            re.fullmatch(self.call, difference.call) and re.fullmatch(self.field, difference.field)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    call: str
    field: str
    kafka: object
    ours: object

    def __str__(self) -> str:
        return f"{self.call} / {self.field}\n    Kafka {self.kafka!r}\n    ours  {self.ours!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A tour of one cluster, and the names that only this cluster and this tour have."""

    told: Told
    prefix: str
    bootstrap_servers: str

    def fields(self) -> dict[tuple[str, str], object]:
        """Every value by call and path; without the names that are its own."""
        return {
            (call, self._plain(path)): self._told(value)
            for call, result in self.told.items()
            for path, value in _flat(result)
            if not _CHANCE.fullmatch(path)
        }

    def _told(self, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int):
            return value
        return self._plain(str(value))

    def _plain(self, text: str) -> str:
        text = text.replace(self.prefix, "")
        for number, address in enumerate(self.bootstrap_servers.split(","), 1):
            text = text.replace(address.rpartition(":")[2], f"<port {number}>")
        for pattern, stand_in in _ALWAYS:
            text = pattern.sub(stand_in, text)
        return text


def differences(kafka: Visit, ours: Visit) -> list[Difference]:
    """Every field that only one cluster told, or told otherwise."""
    theirs, mine = kafka.fields(), ours.fields()
    return [
        Difference(
            call=call, field=field, kafka=theirs.get(key, _NOTHING), ours=mine.get(key, _NOTHING)
        )
        for key in dict.fromkeys([*theirs, *mine])
        for call, field in [key]
        if theirs.get(key, _NOTHING) != mine.get(key, _NOTHING)
    ]


def check(found: Sequence[Difference], known: Sequence[Known]) -> None:
    """Fails unless the table explains every difference, and every row explains one."""
    new = [one for one in found if not any(row.explains(one) for row in known)]
    assert not new, "\n".join(map(str, new))
    idle = [row for row in known if not any(row.explains(one) for one in found)]
    assert not idle, f"these differences are gone; remove them from the table: {idle}"


_NOTHING: Final = "(not told)"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{_name(inner, index)}]")
    else:
        yield path, value


def _name(item: Any, index: int) -> object:
    """What tells an item from its neighbours: groups come in the order in which brokers answer."""
    named = item if isinstance(item, dict) else {}
    return named.get("name", named.get("groupId", index))
