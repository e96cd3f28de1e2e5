"""Chooses schedules, each from one seed.

Each schedule has a leading kind of step, in turn, so that a few schedules try every kind, and some
others by chance. A JVM is killed at each moment in turn. Pure: the same generator and terms give
the same schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    Event,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    Moment,
    MoveLeaders,
    Placed,
    Resend,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.explore.terms import Lane, StepKind, Terms

_MOST_CUTS: Final = 4
_MOST_OTHERS: Final = 2
_MOST_LIMITED_BATCHES: Final = 5

_BROKERS: Final = frozenset({StepKind.MOVE, StepKind.KILL})
"""Kinds that take a broker away: one of them in a schedule is enough, and slow enough."""


def generate(rng: Random, terms: Terms, *, number: int) -> Schedule:
    """The schedule with this number, from 1 on, that the generator draws."""
    total = sum(terms.sizes.values())
    if not total or not terms.kinds:
        return plain(terms.sizes)
    turn, place = divmod(number - 1, len(terms.kinds))
    kinds = _company(rng, terms, terms.kinds[place])
    is_reordered = StepKind.ORDER in kinds
    arrivals = _arrivals(rng, terms) if is_reordered else plain(terms.sizes).arrivals
    events = [Placed(position=cut, event=Take()) for cut in _cuts(rng, kinds, total)]
    if kinds[0] is StepKind.JVM:
        moments = list(Moment)
        events.append(_somewhere(rng, arrivals, KillJvm(moment=moments[turn % len(moments)])))
    for kind in kinds:
        if (draw := _DRAWS.get(kind)) is not None:
            events.append(draw(rng, terms, arrivals))
    return Schedule(arrivals=arrivals).having(events)


def _cuts(rng: Random, kinds: Sequence[StepKind], total: int) -> list[int]:
    """Where batches end: in many places if that is what the schedule is for."""
    if StepKind.BATCHES not in kinds:
        return []
    most = min(_MOST_CUTS, total - 1)
    count = most if kinds[0] is StepKind.BATCHES else rng.randint(1, most)
    return rng.sample(range(1, total), count)


def _company(rng: Random, terms: Terms, leader: StepKind) -> list[StepKind]:
    """The leading kind and some others; cuts and a new order go with most of them."""
    others = [kind for kind in terms.kinds if kind not in (leader, StepKind.JVM)]
    if leader in _BROKERS:
        others = [kind for kind in others if kind not in _BROKERS]
    chosen = rng.sample(others, min(len(others), rng.randint(0, _MOST_OTHERS)))
    if set(chosen) >= _BROKERS:
        chosen.remove(StepKind.KILL)
    for usual in (StepKind.BATCHES, StepKind.ORDER):
        if usual in others and usual not in chosen and rng.random() < 0.5:
            chosen.append(usual)
    return [leader, *chosen]


def _arrivals(rng: Random, terms: Terms) -> tuple[Arrival, ...]:
    """A random order that keeps each lane's, and lets no record come later than it may."""
    waiting = {lane: list(lane.indexes) for lane in terms.lanes}
    order: list[Arrival] = []
    while waiting:
        left = {index for lane, rest in waiting.items() for index in _timed(terms, lane, rest)}
        lanes = [lane for lane in waiting if _may_come(terms, lane.source, waiting[lane][0], left)]
        lane = rng.choice(lanes)
        order.append(Arrival(lane.source, waiting[lane].pop(0)))
        if not waiting[lane]:
            del waiting[lane]
    return tuple(order)


def _timed(terms: Terms, lane: Lane, rest: Sequence[int]) -> list[Arrival]:
    return [Arrival(lane.source, index) for index in rest] if lane.source in terms.times else []


def _may_come(terms: Terms, source: str, index: int, left: set[Arrival]) -> bool:
    """Whether no earlier record that is left would come too late after this one.

    A record that the test itself gives later than `lateness_s` allows is the test's intention.
    """
    if source not in terms.times:
        return True
    times, lateness_s = terms.times[source], terms.lateness_s[source]
    return all(
        times[index] - times[other.nth] <= lateness_s
        for other in left
        if other.source == source and other.nth < index
    )


Draw = Callable[[Random, Terms, Sequence[Arrival]], Placed]


def _somewhere(rng: Random, arrivals: Sequence[Arrival], event: Event) -> Placed:
    """After at least one record."""
    return Placed(position=rng.randint(1, len(arrivals)), event=event)


def _crash(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, Crash())


def _restart(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, Restart())


def _limit(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    """At the start: a limit on fewer records is seldom felt."""
    most = max(terms.sizes.values())
    batches = rng.randint(2, _MOST_LIMITED_BATCHES)
    return Placed(position=0, event=Limit(records=max(1, -(-most // batches))))


def _resend(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    places = [place for place, arrival in enumerate(arrivals) if arrival.source in terms.resends]
    place = rng.choice(places)
    return Placed(position=place + 1, event=Resend(arrival=arrivals[place]))


def _reply(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    topic, api = rng.choice(terms.replies)
    return Placed(position=rng.randint(0, len(arrivals) - 1), event=LoseReply(topic=topic, api=api))


def _move(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, MoveLeaders(topic=rng.choice(_topics(terms))))


def _kill(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, KillLeader(topic=rng.choice(_topics(terms))))


def _grow(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    source = rng.choice(sorted(terms.sizes))
    return Placed(position=rng.randint(0, len(arrivals) - 1), event=Grow(source=source))


def _topics(terms: Terms) -> list[str]:
    return sorted({*terms.sizes, *(topic for topic, _ in terms.replies)})


_DRAWS: Final[Mapping[StepKind, Draw]] = {
    StepKind.CRASH: _crash,
    StepKind.RESTART: _restart,
    StepKind.LIMIT: _limit,
    StepKind.RESEND: _resend,
    StepKind.REPLY: _reply,
    StepKind.MOVE: _move,
    StepKind.KILL: _kill,
    StepKind.GROW: _grow,
}
