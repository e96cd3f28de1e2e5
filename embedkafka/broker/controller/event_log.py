"""The events that controllers have handled, how long each waited, and how long it took.

Owner: `_lock` (leaf) guards the totals and listeners; `_events` is a deque that controllers append
to and any thread may copy.
Invariants: until `start` or `listen`, an event and a request cost one comparison each; at most
`_REMEMBERED` events are kept, and the totals count all.
Not here: what an event changes (`state_change_log`).
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from embedkafka.broker.controller.controller_state import ControllerState, kind_of
from embedkafka.broker.controller.events import Event
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple

_REMEMBERED: Final = 50_000


class ControllerEvent(NamedTuple):
    """One event that a controller, or a candidate for it, has handled."""

    number: int
    """Its place among the cluster's requests and other changes; `kafka.mark()` is one, too."""
    controller: int
    """The id of the broker that handled it."""
    controller_epoch: int
    """The epoch of the controller afterwards; 0 if the broker was none."""
    kind: str
    """Kafka's name of the event, such as "TopicChange"."""
    state: str
    """Kafka's name of the state that the controller was in, such as "TopicChange"."""
    about: str
    """The broker, topic or partitions that the event names, such as "broker 2"; may be empty."""
    started_ms: float
    """When it was taken from the queue, in milliseconds of the cluster's monotonic clock."""
    queued_ms: float
    """How long it had waited in the queue."""
    duration_ms: float
    """How long it took."""

    def __str__(self) -> str:
        about = f" of {self.about}" if self.about else ""
        return (
            f"controller {self.controller} epoch {self.controller_epoch}: {self.kind}{about}, "
            f"queued for {self.queued_ms:.1f} ms, took {self.duration_ms:.1f} ms"
        )


Listener = Callable[[ControllerEvent], None]


class QueuedEvent(NamedTuple):
    """An event on its way, while events are recorded."""

    event: Event
    posted_ms: float


class Question(NamedTuple):
    """Something to look up between two events."""

    answer: Callable[[], None]


class Timed(NamedTuple):
    """How many there were, and their milliseconds in all."""

    times: int = 0
    total_ms: float = 0.0

    def plus(self, ms: float) -> "Timed":
        return Timed(self.times + 1, self.total_ms + ms)


class ControllerEventLog:
    """The last events of a cluster, and totals by the broker that handled them."""

    def __init__(self, next_number: Callable[[], int] | None = None) -> None:
        """`next_number` places an event among others; it may be called on any thread."""
        self.is_on = False
        """Whether events have to be timed."""
        self.is_kept = False
        """Whether they are kept and counted."""
        self._listeners: tuple[Listener, ...] = ()
        self._next_number = next_number or count(1).__next__
        self._lock = ranked_lock("controller events", LEAF_RANK)
        self._events: deque[ControllerEvent] = deque(maxlen=_REMEMBERED)
        self._handled: dict[tuple[int, ControllerState], Timed] = {}
        self._queued: dict[int, Timed] = {}
        self._sent: dict[tuple[int, int], Timed] = {}

    def start(self) -> None:
        """Records from now on."""
        with self._lock:
            self.is_on = self.is_kept = True

    def stop(self) -> None:
        """Records no more, and forgets everything."""
        with self._lock:
            self.is_kept = False
            self.is_on = bool(self._listeners)
            self._events.clear()
            for totals in (self._handled, self._queued, self._sent):
                totals.clear()

    def listen(self, listener: Listener) -> None:
        """Tells each event to `listener`, on the thread that has handled it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            self.is_on = True

    def forget(self, listener: Listener) -> None:
        """Tells `listener` no more."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)
            self.is_on = self.is_kept or bool(self._listeners)

    def note(
        self,
        controller: int,
        epoch: int,
        queued: QueuedEvent,
        *,
        started_ms: float,
        ended_ms: float,
    ) -> None:
        """An event was handled."""
        name, state, about = kind_of(queued.event)
        event = ControllerEvent(
            number=self._next_number(),
            controller=controller,
            controller_epoch=epoch,
            kind=name,
            state=state.kafka_name,
            about=about,
            started_ms=started_ms,
            queued_ms=started_ms - queued.posted_ms,
            duration_ms=ended_ms - started_ms,
        )
        with self._lock:
            if self.is_kept:
                self._keep(event, state)
            listeners = self._listeners
        for listener in listeners:
            listener(event)

    def _keep(self, event: ControllerEvent, state: ControllerState) -> None:
        by = event.controller
        self._handled[by, state] = self._handled.get((by, state), Timed()).plus(event.duration_ms)
        self._queued[by] = self._queued.get(by, Timed()).plus(event.queued_ms)
        self._events.append(event)

    def note_sending(self, controller: int, broker: int, queued_ms: float) -> None:
        """A request to a broker has left the queue."""
        with self._lock:
            if self.is_kept:
                key = controller, broker
                self._sent[key] = self._sent.get(key, Timed()).plus(queued_ms)

    def since(self, number: int) -> list[ControllerEvent]:
        """The events after this number that are still kept, oldest first."""
        return [event for event in self._events.copy() if event.number > number]

    def handled(self, controller: int) -> dict[ControllerState, Timed]:
        """The events of each state, and the time that they took."""
        with self._lock:
            return {
                state: timed for (by, state), timed in self._handled.items() if by == controller
            }

    def queued(self, controller: int) -> Timed:
        """All events, and the time that they waited."""
        with self._lock:
            return self._queued.get(controller, Timed())

    def sent(self, controller: int) -> dict[int, Timed]:
        """The requests to each broker, and the time that they waited."""
        with self._lock:
            return {broker: timed for (by, broker), timed in self._sent.items() if by == controller}
