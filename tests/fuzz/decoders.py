"""Feeds every decoder: each message in each version, and the headers."""

from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

from embedkafka.wire.protocol.codec import ProtocolError, decode, encode
from embedkafka.wire.protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from embedkafka.wire.protocol.message import schema_of
from tests.fuzz.mutations import Mutator
from tests.unit.wire.protocol.samples import full, sparse
from tests.unit.wire.protocol.values import ALL_MESSAGES


class Encoded(NamedTuple):
    """The bytes of a message, valid or damaged."""

    cls: type[Any]
    version: int
    data: bytes


class Decoders:
    """Decoding returns a message that survives a round trip, or raises `ProtocolError`."""

    name = "decoders"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._kinds = [
            (cls, version)
            for cls in ALL_MESSAGES
            for version in range(schema_of(cls).versions[0], schema_of(cls).versions[1] + 1)
        ]
        self._good: dict[tuple[type[Any], int], list[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def next_input(self) -> Encoded:
        cls, version = self._rng.choice(self._kinds)
        good = self._good.get((cls, version))
        if good is None:
            samples = (full(cls, version), sparse(cls, version))
            good = [encode(sample, version) for sample in samples]
            self._good[cls, version] = good
        return Encoded(cls, version, self._mutator.damaged(self._rng.choice(good), good))

    def feed(self, data: Encoded) -> None:
        self._decode_body(data)
        api = schema_of(data.cls).api
        if api is not None:
            self._decode_headers(api, data)

    def _decode_body(self, data: Encoded) -> None:
        try:
            message = decode(data.cls, data.version, data.data, surplus_allowed=True)
        except ProtocolError:
            return
        again = encode(message, data.version)
        assert encode(decode(data.cls, data.version, again), data.version) == again

    def _decode_headers(self, api: int, data: Encoded) -> None:
        request = encode_request_header(api, data.version, 7, "fuzz")
        response = encode_response_header(api, data.version, 7)
        for good, read in (
            (request, decode_request_header),
            (response, lambda bad: decode_response_header(api, data.version, bad)),
        ):
            try:
                read(self._mutator.damaged(good, (data.data,)))
            except ProtocolError:
                pass

    def check(self) -> None:
        pass

    def describe(self, data: Encoded) -> str:
        return f"{data.cls.__qualname__} v{data.version} {data.data.hex()}"
