"""Java's string hash, which maps a group or a transactional id to its coordinator."""


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in 32 signed bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of the coordinator's topic whose leader coordinates `key`.

    Kafka takes the absolute value of the hash, and 0 for the smallest integer, which has none.
    """
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
