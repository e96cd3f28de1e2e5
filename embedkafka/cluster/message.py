"""A record as a test sees it."""

import json
from typing import Any

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record read from a topic, or the place where one was written."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str | None:
        """The value as UTF-8 text; None for a tombstone."""
        return None if self.value is None else self.value.decode()

    def json(self) -> Any:  # Any: JSON values have no common type
        """The value parsed as JSON; None for a tombstone."""
        if self.value is None:
            return None
        try:
            return json.loads(self.value)
        except ValueError as error:
            raise ValueError(
                f"{self.topic}-{self.partition} offset {self.offset} is not JSON: {self.value!r}"
            ) from error
