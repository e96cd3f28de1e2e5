"""Variable-length integers, seven bits a byte, lowest first, and tagged fields made of them."""

from embedkafka.wire.protocol.errors import ProtocolError


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The integer at `position` and the position after it; raises `IndexError` if the data ends."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a variable-length integer is longer than five bytes")


def skip_tagged_fields(data: bytes | memoryview, position: int) -> int:
    """Skips a section of tagged fields and returns the position after it.

    That position may be beyond the end of the data; the caller checks.
    """
    count, position = decode_uvarint(data, position)
    for _ in range(count):
        _, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        position += size
    return position
