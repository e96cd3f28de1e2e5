"""Zigzag variable-length integers, as records inside a v2 batch use them."""

from embedkafka.wire.protocol.errors import ApiError, ErrorCode


def encode_varint(value: int) -> bytes:
    """`value` as a zigzag varint; 32-bit and 64-bit values have the same form."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return _SINGLE[zigzag]
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def decode_varint(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """The zigzag varint at `position` and the position after it."""
    try:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position
        zigzag = byte & 0x7F
        shift = 7
        while True:
            byte = buffer[position]
            position += 1
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (zigzag >> 1) ^ -(zigzag & 1), position
            shift += 7
            if shift > 63:
                raise ApiError(ErrorCode.INVALID_RECORD, "a varint is longer than ten bytes")
    except IndexError:
        raise EndsEarly("a record ends inside a varint") from None


class EndsEarly(ApiError):
    """The data ends inside a record; more may follow."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


_SINGLE = tuple(bytes((value,)) for value in range(0x80))
