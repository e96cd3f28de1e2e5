"""Damages bytes as a broken or hostile client would, driven by one random number generator."""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

_NUMBERS: Final[Sequence[bytes]] = [
    struct.pack(form, number)
    for form, numbers in {
        ">b": (-128, -2, -1, 0, 1, 127),
        ">h": (-(2**15), -2, -1, 0, 1, 2**15 - 1),
        ">i": (-(2**31), -2, -1, 0, 1, 2**16, 2**31 - 1),
        ">q": (-(2**63), -2, -1, 0, 1, 2**31, 2**63 - 1),
    }.items()
    for number in numbers
]
_VARINTS: Final[Sequence[bytes]] = [
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80\x01",
    b"\xff\x7f",
    b"\x80\x80\x02",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff",
    b"\x80" * 10,
]
_LONGEST_INSERT: Final = 64


class Mutator:
    """Turns a valid input into an invalid one, or into another valid one."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._ways: Sequence[Callable[[bytearray, Sequence[bytes]], None]] = [
            self._flip_bit,
            self._set_byte,
            self._overwrite_number,
            self._overwrite_number,
            self._overwrite_varint,
            self._cut_end,
            self._remove,
            self._repeat,
            self._insert_noise,
            self._splice,
        ]

    def damaged(self, good: bytes, others: Sequence[bytes]) -> bytes:
        """Applies one to four changes to `good`, some with pieces of `others`."""
        data = bytearray(good)
        for _ in range(self._rng.choice((1, 1, 1, 2, 2, 4))):
            self._rng.choice(self._ways)(data, others)
        return bytes(data)

    def _position(self, data: bytearray) -> int:
        # Favour the front: the rest depends on it.
        size = len(data)
        return self._rng.randrange(min(size, 64) if self._rng.random() < 0.5 else size)

    def _flip_bit(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            data[self._position(data)] ^= 1 << self._rng.randrange(8)

    def _set_byte(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            data[self._position(data)] = self._rng.choice((0, 1, 0x7F, 0x80, 0xFF))

    def _overwrite_number(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            number, at = self._rng.choice(_NUMBERS), self._position(data)
            data[at : at + len(number)] = number

    def _overwrite_varint(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            at = self._position(data)
            data[at : at + 1] = self._rng.choice(_VARINTS)

    def _cut_end(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            del data[self._rng.randrange(len(data)) :]

    def _remove(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            at = self._position(data)
            del data[at : at + self._rng.randint(1, 16)]

    def _repeat(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data:
            at = self._position(data)
            piece = data[at : at + self._rng.randint(1, _LONGEST_INSERT)]
            data[at:at] = piece * self._rng.randint(1, 3)

    def _insert_noise(self, data: bytearray, others: Sequence[bytes]) -> None:
        at = self._rng.randint(0, len(data))
        data[at:at] = self._rng.randbytes(self._rng.randint(1, _LONGEST_INSERT))

    def _splice(self, data: bytearray, others: Sequence[bytes]) -> None:
        if data and others:
            other = self._rng.choice(others)
            at = self._position(data)
            data[at:] = other[min(at, len(other)) :]
