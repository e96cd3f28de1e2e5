"""What happened to the offsets of all groups that a broker coordinates.

Owner: the `coordinator` loop; other threads may read the numbers.
"""


class OffsetTotals:
    """Counts what was stored; a broker's shards share one."""

    __slots__ = ("committed", "deleted", "expired", "expired_groups")

    def __init__(self) -> None:
        self.committed = 0
        self.expired = 0
        self.expired_groups = 0
        self.deleted = 0
        """Offsets that an admin has deleted, or that went with their partitions."""
