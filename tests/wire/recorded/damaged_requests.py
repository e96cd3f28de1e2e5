"""Requests with one thing wrong in their bytes, and what a cluster does with each.

Every request of every version is written from its declaration, with one element in each array. Then
each field is damaged in each way that its type knows: a null that may be none, a length below null
or beyond the end, a boolean of two, text that is not UTF-8; and likewise the tagged fields and the
end of the request. `python -m tests.wire.recorded.damaged_requests` asks Apache Kafka and writes
what it does to `damaged_answers.json`, which `test_damaged_requests.py` compares both kinds of
cluster with.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from embedkafka.broker.api_table import SERVED
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import decode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.headers import decode_response_header, encode_request_header
from embedkafka.wire.protocol.message import REQUIRED, Field, Schema, schema_of
from embedkafka.wire.protocol.messages.registry import request_type, response_type
from embedkafka.wire.protocol.varint import encode_uvarint
from embedkafka.wire.protocol.wire_types import BOOL, Array, Fixed, Struct, Variable, WireType
from tests.java_tools.oracle import ApacheKafka
from tests.wire.clients import Cluster, await_coordinators, eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.plain_messages import Plain, plain
from tests.wire.raw_client import RawClient

CONFIG: Final[Mapping[str, object]] = {**SHARED_CONFIG, "auto.create.topics.enable": False}
RECORDED: Final = Path(__file__).with_name("damaged_answers.json")
CLOSES: Final = "closes the connection"

NULL, BELOW_NULL, TOO_LONG = "null", "below null", "too long"
TWO, NOT_UTF_8 = "two", "not UTF-8"
AGAIN, WRONG_SIZE, CUT_OFF = "again", "of a wrong size", "cut off"
TRAILING, UNKNOWN_TAG = "trailing bytes", "an unknown tag"

#: Values without which a request would change the cluster, or wait.
_VALUES: Final[Mapping[str, object]] = {
    "acks": 1,
    "broker_id": 99,
    "max_wait_ms": 0,
    "member_epoch": -1,
    "replica_id": -1,
    "validate_only": True,
}
_UNKNOWN_TAGS: Final[Mapping[str, bytes]] = {
    UNKNOWN_TAG: b"\x01\x63\x02ab",
    f"{UNKNOWN_TAG} {AGAIN}": b"\x02\x63\x02ab\x63\x01c",
    f"{UNKNOWN_TAG} {CUT_OFF}": b"\x01\x63\xff\x7fab",
}
HEADER_TAGS: Final[Mapping[str, bytes]] = {
    f"{kind} in the header": section for kind, section in _UNKNOWN_TAGS.items()
}
_CLIENT_ID: Final = b"\0\x03raw"
CLIENT_IDS: Final[Mapping[str, bytes]] = {
    f"a client id that is {NULL}": b"\xff\xff",
    f"a client id that is {BELOW_NULL}": b"\xff\xfe",
    f"a client id that is {TOO_LONG}": b"\x7f\xffraw",
    f"a client id that is {NOT_UTF_8}": b"\0\x01\xff",
}


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with which field; without a field, with the request."""

    kind: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}" if self.path else self.kind


@dataclass(slots=True)
class Writer:
    """Writes one request, damaged or not, and notes how it could be damaged."""

    version: int
    is_flexible: bool
    damage: Damage | None = None
    found: list[Damage] = field(default_factory=list)

    def struct(self, schema: Schema, path: str = "") -> bytes:
        tagged: list[bytes] = []
        plain_fields: list[bytes] = []
        for one in schema.fields:
            if not one.is_in(self.version):
                continue
            name = f"{path}{one.name}"
            if one.tag is None:
                plain_fields.append(self._field(one, name))
            else:
                tagged.extend(self._tagged(one, name))
        if not self.is_flexible:
            return b"".join(plain_fields)
        return b"".join((*plain_fields, self._tags(tagged, path)))

    def _tags(self, tagged: list[bytes], path: str) -> bytes:
        if path:
            return b"".join((encode_uvarint(len(tagged)), *tagged))
        for kind, section in _UNKNOWN_TAGS.items():
            if self._is_damaged(kind, ""):
                return section
        return b"".join((encode_uvarint(len(tagged)), *tagged))

    def _tagged(self, one: Field, path: str) -> Iterator[bytes]:
        value = self._field(one, path)
        assert one.tag is not None
        head = encode_uvarint(one.tag)
        if self._is_damaged(WRONG_SIZE, path):
            yield head + encode_uvarint(len(value) + 1) + value
            return
        if self._is_damaged(AGAIN, path):
            yield head + encode_uvarint(len(value)) + value
        yield head + encode_uvarint(len(value)) + value

    def _field(self, one: Field, path: str) -> bytes:
        given = _VALUES.get(one.name, one.default)
        return self._value(
            one.type,
            path,
            nullable=one.is_nullable_in(self.version),
            given=None if given is REQUIRED else given,
            is_tagged=one.tag is not None,
        )

    def _value(
        self, kind: WireType, path: str, *, nullable: bool, given: object, is_tagged: bool = False
    ) -> bytes:
        match kind:
            case Fixed():
                return self._number(kind, path, given)
            case Variable():
                return self._run_of_bytes(kind, path)
            case Array():
                element = self._value(kind.element, f"{path}.", nullable=False, given=None)
                return self._long("i", 1, element, path)
            case Struct():
                schema = schema_of(kind.cls)
                if not nullable:
                    return self.struct(schema, f"{path}.")
                if self._is_damaged(NULL, path):
                    return b"\0" if is_tagged else b"\xff"
                return b"\1" + self.struct(schema, f"{path}.")

    def _number(self, kind: Fixed, path: str, given: object) -> bytes:
        if kind is BOOL:
            if self._is_damaged(TWO, path):
                return b"\2"
            return struct.pack(">?", bool(given))
        if kind.code == "16s":
            return bytes(16)
        number = given if isinstance(given, int | float) else 0
        return struct.pack(f">{kind.code}", number)

    def _run_of_bytes(self, kind: Variable, path: str) -> bytes:
        code = "h" if kind is Variable.STRING else "i"
        text = b"x"
        if kind is Variable.STRING and self._is_damaged(NOT_UTF_8, path):
            text = b"\xff"
        if kind is Variable.RECORDS:
            text = b""
        return self._long(code, len(text), text, path)

    def _long(self, code: str, count: int, content: bytes, path: str) -> bytes:
        """A length and what follows it."""
        if self._is_damaged(NULL, path):
            return b"\0" if self.is_flexible else struct.pack(f">{code}", -1)
        if self._is_damaged(TOO_LONG, path):
            long = encode_uvarint(30_001) if self.is_flexible else struct.pack(f">{code}", 30_000)
            return long + content
        if not self.is_flexible and self._is_damaged(BELOW_NULL, path):
            return struct.pack(f">{code}", -2)
        head = encode_uvarint(count + 1) if self.is_flexible else struct.pack(f">{code}", count)
        return head + content

    def _is_damaged(self, kind: str, path: str) -> bool:
        damage = Damage(kind, path)
        self.found.append(damage)
        return damage == self.damage


def damages(api: ApiKey, version: int) -> list[Damage]:
    """Everything that can be wrong with a request of this version."""
    schema = schema_of(request_type(api))
    writer = Writer(version, schema.is_flexible_in(version))
    writer.struct(schema)
    headers = (*CLIENT_IDS, *(HEADER_TAGS if writer.is_flexible else ()))
    return [*writer.found, *map(Damage, (TRAILING, CUT_OFF, *headers))]


def body(api: ApiKey, version: int, damage: Damage | None) -> bytes:
    schema = schema_of(request_type(api))
    written = Writer(version, schema.is_flexible_in(version), damage).struct(schema)
    if damage == Damage(TRAILING):
        return written + b"abc"
    return written[:-1] if damage == Damage(CUT_OFF) else written


def frame(api: ApiKey, version: int, damage: Damage | None) -> bytes:
    kind = "" if damage is None else damage.kind
    header = encode_request_header(api, version, 7, "raw")
    header = header.replace(_CLIENT_ID, CLIENT_IDS.get(kind, _CLIENT_ID))
    if kind in HEADER_TAGS:
        header = header[:-1] + HEADER_TAGS[kind]
    return header + body(api, version, damage)


@dataclass(slots=True)
class Sender:
    """Sends damaged requests to one broker, over as few connections as that allows."""

    cluster: Cluster
    _raw: RawClient | None = None

    def spoken(self, api: ApiKey) -> list[int]:
        """The versions of an API that the cluster speaks."""
        with self.cluster.connect() as raw:
            return list(raw.supported_versions(api))

    def outcome(self, api: ApiKey, version: int, damage: Damage | None) -> str:
        """The error codes of the answer, or that there is none."""
        if self._raw is None:
            self._raw = self.cluster.connect()
        try:
            self._raw.send_frame(frame(api, version, damage))
            received = self._raw.receive_frame()
        except ConnectionError:
            self.close()
            return CLOSES
        _, response = decode_response_header(api, version, received)
        codes = set(_codes(plain(decode(response_type(api), version, response))))
        return ", ".join(sorted(codes - {"NONE"})) or ErrorCode.NONE.name

    def outcomes(self, api: ApiKey, version: int) -> dict[str, str]:
        every: list[Damage | None] = [None, *damages(api, version)]
        return {str(one or "intact"): self.outcome(api, version, one) for one in every}

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None


def _codes(value: Plain) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                yield inner
            else:
                yield from _codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _codes(inner)


def apis() -> list[ApiKey]:
    """The APIs of clients."""
    return [api for api, row in SERVED.items() if row.is_served(control_plane=False)]


def condensed(outcomes: Mapping[int, Mapping[str, str]]) -> dict[str, dict[str, list[int]]]:
    """What comes of each damage, with the versions in which it does."""
    told: dict[str, dict[str, list[int]]] = {}
    for version, rows in outcomes.items():
        for damage, outcome in rows.items():
            told.setdefault(damage, {}).setdefault(outcome, []).append(version)
    return told


def read_recorded() -> Mapping[str, Any]:  # Any: as JSON has it
    found: Mapping[str, Any] = json.loads(RECORDED.read_text())
    return found


def await_ready(cluster: Cluster) -> None:
    await_coordinators(cluster)
    with cluster.connect() as raw:
        eventually(raw.gives_producer_ids, "the broker gives producer ids")


def record() -> None:
    """Writes down what Apache Kafka does, one API to a line."""
    with ApacheKafka(config=CONFIG) as kafka:
        sender = Sender(Cluster(kind="apache", bootstrap_servers=kafka.bootstrap_servers))
        await_ready(sender.cluster)
        rows = []
        for api in apis():
            outcomes = {version: sender.outcomes(api, version) for version in sender.spoken(api)}
            rows.append(f"{json.dumps(api.name)}: {json.dumps(condensed(outcomes))}")
        sender.close()
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    record()
