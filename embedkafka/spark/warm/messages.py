"""What keepers and their clients say to each other: lines of JSON over a Unix socket.

The first line of a connection asks: `describe`, `stop` or `lease`. A connection that was granted a
lease is the lease; it says `returned` before it closes.
"""

import json
import socket
from collections.abc import Mapping
from typing import Any, Final

PROTOCOL: Final = 1
"""Descriptions say it. Everything but `describe` and `stop` may change with it."""

_MOST_BYTES: Final = 1 << 22


class Ended(Exception):
    """The other side has closed the connection."""


class Line:
    """A connection, line by line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Any: values of JSON."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message; raises `Ended` or, after the connection's timeout, `TimeoutError`."""
        while (message := self.take()) is None:
            self.fill()
        return message

    def fill(self) -> None:
        """Takes what has arrived, or waits for it."""
        arrived = self.connection.recv(1 << 16)
        if not arrived or len(self._received) > _MOST_BYTES:
            raise Ended
        self._received += arrived

    def take(self) -> dict[str, Any] | None:
        """A message, if a whole one has arrived."""
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        try:
            message = json.loads(line)
        except ValueError:
            raise Ended from None  # no keeper and no client of ours
        if not isinstance(message, dict):
            raise Ended
        return message
