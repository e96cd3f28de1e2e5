"""Requests that met a fault before its test ended, and are to be held after that."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from embedkafka.faults.links import CLIENTS, LinkFault, Links, Speed
from embedkafka.runtime.clock import ManualClock
from embedkafka.wire.net.request_channel import Request
from tests.doubles.scheduling import ManualScheduler

LINKS: dict[str, Callable[[Links], LinkFault]] = {
    "slow": lambda links: links.slow(CLIENTS, None, Speed(latency_ms=60_000)),
    "stalled": lambda links: links.stall(CLIENTS, None),
}


class Port:
    """A connection, which knows only whether it was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.id, self.listener, self.client_address = "here-there-1", "PLAINTEXT", "127.0.0.1"
        self.is_control_plane = False
        self.throttle_ms = 0.0
        self.watcher: Any = None
        self.principal: Any = None
        self.software: Any = None

    def reply(self, parts: Any) -> None: ...

    def no_reply(self) -> None: ...

    def close_for(self, reason: str) -> None:
        self.closed.append(reason)


@pytest.mark.parametrize("kind", LINKS)
def test_a_request_on_a_link_that_was_mended_for_the_next_test_loses_its_connection(
    kind: str,
) -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    links = Links(scheduler, clock, Random(7))
    port, arrived = Port(), list[Request]()
    request = Request(memoryview(bytearray(8)), port, 0.0)
    since, fault = links.held.round, LINKS[kind](links)
    fault.remove()
    links.held.hang_up()
    fault._carry(request, arrived.append, since)
    clock.advance(minutes=2)
    scheduler.run_due()
    assert len(port.closed) == 1
    assert arrived == []


def test_a_request_of_the_next_test_is_held() -> None:
    links = Links(ManualScheduler(ManualClock()), ManualClock(), Random(7))
    links.held.hang_up()
    port = Port()
    request = Request(memoryview(bytearray(8)), port, 0.0)
    links.held.hold(request, since=links.held.round)
    assert port.closed == []
    assert links.held.let_go(request)


def test_a_request_is_lost_with_its_connection() -> None:
    links = Links(ManualScheduler(ManualClock()), ManualClock(), Random(7))
    request = Request(memoryview(bytearray(8)), Port(), 0.0)
    links.held.hold(request, since=links.held.round)
    links.held.lose("elsewhere")
    assert links.held.let_go(request)
    links.held.hold(request, since=links.held.round)
    links.held.lose("there")
    assert not links.held.let_go(request)
