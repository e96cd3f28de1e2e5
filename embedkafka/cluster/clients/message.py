"""`Message`: a record as a test sees it."""

import json
from typing import Any, Final

from embedkafka.cluster.clients.decoding import Decode, reason_of, show_data
from embedkafka.runtime.failures import ConfigError, UndecodableMessage
from embedkafka.runtime.values import dataclass, field

_LONGEST: Final = 200
"""Characters of a value in an error."""


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
    decode: Decode | None = field(default=None, repr=False, compare=False)
    """The decoder of the topic's handle."""

    def __str__(self) -> str:
        """Where it is, with its key and its value, decoded if possible."""
        key, value = show_data(self.key), show_data(self.value, self.decode)
        return f"{self.topic}-{self.partition} at {self.offset}: key {key}, value {value}"

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

    def decoded(self) -> Any:  # Any: what the decoder makes of it
        """The value as the topic's decoder reads it; None for a tombstone.

        Raises:
            ConfigError: the handle has no decoder: `kafka.topic("orders", decode=...)`.
            UndecodableMessage: the decoder has raised; its error is the cause.
        """
        if self.decode is None:
            raise ConfigError(
                f"{self.topic} has no decoder: say `decode=` in `kafka.topic` or "
                "`kafka.existing_topic`"
            )
        if self.value is None:
            return None
        try:
            return self.decode(self.value)
        except Exception as error:  # of the user's function
            raise UndecodableMessage(
                f"{self.topic}-{self.partition} offset {self.offset} cannot be decoded: "
                f"{reason_of(error)}: {show_data(self.value, longest=_LONGEST)}"
            ) from error

    def _undecodable(self, kind: str) -> UndecodableMessage:
        return UndecodableMessage(
            f"{self.topic}-{self.partition} offset {self.offset} is not {kind}: "
            f"{show_data(self.value, longest=_LONGEST)}"
        )
