"""Links that are slow, cut in one direction, or swallow everything.

A link joins a client or a broker to a broker. Requests over the wire are held up where they enter
the broker and where their answers leave it: a connection carries one request at a time, so that is
what a slow network looks like from both ends. Replication inside the process has no wire; the
leader's news of new records come late instead, or not at all.

Owner: `_lock` (leaf) guards the list of faults and each fault's queue.
Invariants: with no fault set, requests and fetches do not come here at all.
Not here: faults of single requests (`request_faults`), partitions into sides (`network`).
"""

import random
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Final, Self

from embedkafka.faults.held import HeldRequests
from embedkafka.faults.redirected_reply import diverted, size_of
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.protocol.wire_types import Part

Handle = Callable[[Request], None]

CLIENTS: Final = "clients"
"""Stands for everything that is not a broker of the cluster."""


class Way(Enum):
    """A direction on a link, as the broker at its target sees it."""

    IN = "in"
    OUT = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How slow a link is."""

    latency_ms: float = 0.0
    """In each direction."""
    jitter_ms: float = 0.0
    """A random addition of at most this."""
    bytes_per_s: float | None = None
    """What all connections of the link share, in each direction."""

    def __str__(self) -> str:
        said = [
            f"{self.latency_ms:g} ms" if self.latency_ms else "",
            f"jitter {self.jitter_ms:g} ms" if self.jitter_ms else "",
            "" if self.bytes_per_s is None else f"{self.bytes_per_s:g} bytes/s",
        ]
        return ", ".join(filter(None, said))


class LinkFault:
    """A fault of a link, which `kafka.faults` has set. Leaving its `with` block removes it."""

    def __init__(
        self, links: "Links", what: str, source: BrokerId | str, target: BrokerId | None
    ) -> None:
        self._links = links
        self._what = what
        self.source = source
        self.target = target

    def __repr__(self) -> str:
        return f"<LinkFault {self}>"

    def __str__(self) -> str:
        source = self.source if self.source == CLIENTS else f"broker {self.source}"
        target = "all brokers" if self.target is None else f"broker {self.target}"
        return f"{self._what}: {source} to {target}"

    def remove(self) -> None:
        """Mends the link. A second call does nothing."""
        self._links._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def _joins(self, source: BrokerId | None, target: BrokerId) -> bool:
        """Whether the fault is on the link from `source`, None for a client, to `target`."""
        if source is None:
            return self.source == CLIENTS and self.target in (None, target)
        return self.source == source and self.target in (None, target)

    def _carry(self, request: Request, go_on: Handle, since: int) -> None:
        """Does to a request from `source` to `target` what the link does to it.

        `since` is the round of `HeldRequests` in which it came.
        """
        raise NotImplementedError

    def _mend(self) -> None:
        """Lets go what is held."""


class CutLink(LinkFault):
    """Connections from `source` to `target` break and are refused; the other way they work."""

    def _carry(self, request: Request, go_on: Handle, since: int) -> None:
        request.close_connection("a fault cuts its link")


class StalledLink(LinkFault):
    """Everything is swallowed until the link is mended; connections stay open."""

    def __init__(
        self, links: "Links", what: str, source: BrokerId | str, target: BrokerId | None
    ) -> None:
        super().__init__(links, what, source, target)
        self._held: list[tuple[Request, Handle]] = []

    def _joins(self, source: BrokerId | None, target: BrokerId) -> bool:
        return super()._joins(source, target) or _reversed(self, source, target)

    def _carry(self, request: Request, go_on: Handle, since: int) -> None:
        self._links.held.hold(request, since=since)
        if not self._links._hold(self, self._held, (request, go_on)):
            self._go_on(request, go_on)

    def _mend(self) -> None:
        for request, go_on in self._held:
            self._links.late.once("mended link", 0, partial(self._go_on, request, go_on))

    def _go_on(self, request: Request, go_on: Handle) -> None:
        if self._links.held.let_go(request):
            go_on(request)


class SlowLink(LinkFault):
    """Everything arrives late, in both directions."""

    def __init__(
        self,
        links: "Links",
        what: str,
        source: BrokerId | str,
        target: BrokerId | None,
        speed: Speed,
        rng: random.Random,
    ) -> None:
        super().__init__(links, what, source, target)
        self._speed = speed
        self._rng = rng
        self._busy_until_ms = dict.fromkeys(Way, 0.0)

    def _joins(self, source: BrokerId | None, target: BrokerId) -> bool:
        return super()._joins(source, target) or _reversed(self, source, target)

    def delay_ms(self, way: Way, size: int, now_ms: float) -> float:
        """How long `size` bytes take that are sent now. One piece follows another."""
        speed = self._speed
        delay_ms = speed.latency_ms + self._rng.random() * speed.jitter_ms
        if speed.bytes_per_s is not None:
            start_ms = max(now_ms, self._busy_until_ms[way])
            self._busy_until_ms[way] = start_ms + size * 1000 / speed.bytes_per_s
            delay_ms += self._busy_until_ms[way] - now_ms
        return delay_ms

    def _carry(self, request: Request, go_on: Handle, since: int) -> None:
        def reply_late(parts: Sequence[Part]) -> None:
            self._later(Way.OUT, size_of(parts), request, lambda: request.reply(parts), since)

        def arrive() -> None:
            go_on(diverted(request, reply_late))

        self._later(Way.IN, len(request.frame), request, arrive, since)

    def _later(
        self, way: Way, size: int, request: Request, go_on: Callable[[], None], since: int
    ) -> None:
        def go_on_if_held() -> None:
            if self._links.held.let_go(request):
                go_on()

        self._links.held.hold(request, since=since)
        delay_ms = self._links._delay_ms(self, way, size)
        self._links.late.once("slow link", delay_ms, go_on_if_held)


class Links:
    """The link faults of one cluster."""

    def __init__(self, late: Scheduler, clock: Clock, rng: random.Random) -> None:
        self.late = late
        self._clock = clock
        self._rng = rng
        self.held = HeldRequests()
        self._lock = ranked_lock("link faults", LEAF_RANK)
        self.faults: tuple[LinkFault, ...] = ()
        self._hosts: list[Callable[[], None]] = []

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` whenever a fault was set or removed."""
        self._hosts.append(on_change)

    def cut(self, source: BrokerId | str, target: BrokerId | None) -> LinkFault:
        return self._add(CutLink(self, "cut link", source, target))

    def stall(self, source: BrokerId | str, target: BrokerId | None) -> LinkFault:
        return self._add(StalledLink(self, "stalled link", source, target))

    def slow(self, source: BrokerId | str, target: BrokerId | None, speed: Speed) -> LinkFault:
        rng = random.Random(self._rng.getrandbits(64))
        return self._add(SlowLink(self, f"slow link, {speed}", source, target, speed, rng))

    def clear(self) -> None:
        """Mends all links."""
        for fault in self.faults:
            self._remove(fault)

    def find(self, source: BrokerId | None, target: BrokerId) -> LinkFault | None:
        """The oldest fault on a link; `source` is None for clients."""
        return next((fault for fault in self.faults if fault._joins(source, target)), None)

    def _add(self, fault: LinkFault) -> LinkFault:
        with self._lock:
            self.faults = (*self.faults, fault)
        self._announce()
        return fault

    def _remove(self, fault: LinkFault) -> None:
        with self._lock:
            if fault not in self.faults:
                return
            self.faults = tuple(other for other in self.faults if other is not fault)
        fault._mend()
        self._announce()

    def _announce(self) -> None:
        for on_change in self._hosts:
            on_change()

    def _hold(
        self,
        fault: LinkFault,
        held: list[tuple[Request, Handle]],
        request: tuple[Request, Handle],
    ) -> bool:
        """Adds `request` to `held`, unless `fault` was removed."""
        with self._lock:
            if fault not in self.faults:
                return False
            held.append(request)
            return True

    def _delay_ms(self, fault: SlowLink, way: Way, size: int) -> float:
        with self._lock:
            return fault.delay_ms(way, size, self._clock.monotonic_ms())


def _reversed(fault: LinkFault, source: BrokerId | None, target: BrokerId) -> bool:
    """Whether a fault of a link between two brokers is on this one, seen from its other end."""
    return source is not None and fault.target == source and fault.source == target
