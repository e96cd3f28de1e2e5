"""Requests that nobody answers."""

from collections.abc import Sequence

from embedkafka.wire.net.request_channel import ReplyWatcher, Request
from embedkafka.wire.protocol.client_software import UNKNOWN_SOFTWARE
from embedkafka.wire.protocol.wire_types import Part


class Port:
    """A connection that records the calls."""

    id = "127.0.0.1:9092-127.0.0.1:50000-0"
    listener = "PLAINTEXT"
    is_control_plane = False
    client_address = "127.0.0.1"
    principal = None
    throttle_ms = 0.0
    watcher: ReplyWatcher | None = None
    software = UNKNOWN_SOFTWARE

    def __init__(self) -> None:
        self.told: list[object] = []

    def reply(self, parts: Sequence[Part]) -> None:
        self.told.append(("reply", *parts))

    def no_reply(self) -> None:
        self.told.append("no reply")

    def close_for(self, reason: str) -> None:
        self.told.append(("close", reason))


def a_request(port: Port | None = None) -> Request:
    return Request(memoryview(bytearray(b"frame")), port or Port(), 5.0)


def never() -> None:
    raise AssertionError("this caller never waits for room")
