"""Steps of a sequence: requests that name what each cluster calls by an id of its own."""

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Protocol

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from tests.wire.plain_messages import Plain

#: Begins every name that a sequence makes; each run has another word for it.
MARK: Final = "@"


@dataclass(frozen=True, slots=True)
class Id:
    """Stands for an id that both clusters gave at the same place of an answer."""

    kind: str
    step: int
    place: int

    def __repr__(self) -> str:
        return f"<{self.kind} {self.step}.{self.place}>"


#: Stands in for an id of a step that was dropped.
STRANGERS: Final[Mapping[str, Plain]] = {
    "uuid": uuid.UUID(int=987654321),
    "member": "stranger",
    "producer": 987654321,
    "session": 987654321,
}

Resolve = Callable[[Plain], Plain]
"""Turns the names of a sequence into those of a cluster."""


class Blob(Protocol):
    """Bytes that contain names."""

    def built(self, resolve: Resolve) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of records, as a producer sends it."""

    values: Sequence[bytes | None]
    key: bytes | None = None
    timestamps: Sequence[int] = ()
    compression: Compression = Compression.NONE
    producer: Id | int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False
    broken: int | None = None
    """Flips the byte at this position, if there is one."""

    def __repr__(self) -> str:
        """The fields that are not as usual."""
        told = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if each.default is MISSING or getattr(self, each.name) != each.default
        ]
        return f"Batch({', '.join(told)})"

    def built(self, resolve: Resolve) -> bytes:
        times = [*self.timestamps, *([1_700_000_000_000] * len(self.values))]
        content = bytearray(
            build_batch(
                [(time, self.key, value, ()) for time, value in zip(times, self.values)],  # noqa: B905
                compression=self.compression,
                producer_id=resolve(self.producer),
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
                transactional=self.transactional,
                control=self.control,
            )
        )
        if self.broken is not None and self.broken < len(content):
            content[self.broken] ^= 1
        return bytes(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Several batches for one partition, which Kafka refuses from producers."""

    all: Sequence[Batch]

    def built(self, resolve: Resolve) -> bytes:
        return b"".join(batch.built(resolve) for batch in self.all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    api: ApiKey
    fields: Mapping[str, Plain]
    version: int
    connection: int = 0
    number: int = field(default=0, compare=False)

    def __str__(self) -> str:
        words = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.number:3} #{self.connection} {self.api.name} v{self.version} {words}"


def resolved(value: Plain, resolve: Resolve) -> Plain:
    """A field with the names of one cluster."""
    if isinstance(value, dict):
        return {name: resolved(inner, resolve) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(inner, resolve) for inner in value]
    if hasattr(value, "built"):
        return value.built(resolve)
    return resolve(value)


Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a consumer sends when it joins a classic group."""

    topics: Sequence[str]
    version: int = 0

    def built(self, resolve: Resolve) -> bytes:
        names = [resolve(topic).encode() for topic in self.topics]
        listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
        content = struct.pack(">hi", self.version, len(names)) + listed + struct.pack(">i", -1)
        return content + struct.pack(">i", 0) if self.version >= 1 else content
