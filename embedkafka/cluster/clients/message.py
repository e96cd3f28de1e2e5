"""`Message`: a record as a test sees it."""

import json
from typing import Any

from embedkafka.runtime.failures import UndecodableMessage
from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record of a topic, read or just written."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition, from 0 on."""
    offset: int
    """The offset in the partition."""
    timestamp_ms: int
    """The record's time, in milliseconds since 1970."""
    key: bytes | None
    """The key; None if the record has none."""
    value: bytes | None
    """The value; None for a tombstone."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """The headers in their order, as pairs of name and value."""

    @property
    def text(self) -> str | None:
        """The value as UTF-8 text; None for a tombstone.

        Raises:
            UndecodableMessage: the value is not UTF-8.
        """
        try:
            return None if self.value is None else self.value.decode()
        except UnicodeDecodeError as error:
            raise self._undecodable("UTF-8 text") from error

    def json(self) -> Any:  # Any: JSON values have no common type
        """The value parsed as JSON; None for a tombstone.

        Raises:
            UndecodableMessage: the value is not JSON.
        """
        if self.value is None:
            return None
        try:
            return json.loads(self.value)
        except (ValueError, RecursionError) as error:
            raise self._undecodable("JSON") from error

    def _undecodable(self, kind: str) -> UndecodableMessage:
        return UndecodableMessage(
            f"{self.topic}-{self.partition} offset {self.offset} is not {kind}: {self.value!r}"
        )
