"""Chooses schedules, each from one seed.

Each schedule has a leading kind of step, in turn, so that a few schedules try every kind, and some
others by chance. A JVM is killed at each moment in turn. The first schedule that is for batches
parts two updates of one key, which the plain one has in one batch. A schedule that was there before
is drawn again. Pure: the same seed and terms give the same schedules.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import Final

from embedkafka.explore.places import in_turn
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Event,
    Expire,
    FailTask,
    FailWrite,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    LoseUnsent,
    Moment,
    MoveLeaders,
    Placed,
    Rebuild,
    Resend,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind, Terms, is_in_time
from embedkafka.runtime.values import replace

_MOST_CUTS: Final = 4
_MOST_OTHERS: Final = 2
_MOST_LIMITED_BATCHES: Final = 5
_MOST_STRAGGLERS: Final = 3
_MOST_STRIKES: Final = 3
_MOST_COPIES: Final = 4
_DRAWS_OF_ONE_KIND: Final = 100
_DRAWS_OF_ONE_NUMBER: Final = 1000
"""So many that none is left when they find nothing new: only a few records have few schedules."""

_STRIKES: Final = (Crash, CrashInside, FailTask, FailWrite, LoseUnsent)
"""Events that strike a batch which the queries take at that moment."""

_STARTS: Final = (*_STRIKES, Restart, Expire, KillJvm, Limit, Rebuild)
"""Events after which the queries start from their checkpoints."""

_BROKERS: Final = frozenset({StepKind.MOVE, StepKind.KILL})
"""Kinds that take a broker away: one of them in a schedule is enough, and slow enough."""

_REPEATS: Final = frozenset(
    {
        StepKind.CRASH,
        StepKind.INSIDE,
        StepKind.WRITE,
        StepKind.TASK,
        StepKind.UNSENT,
        StepKind.REBUILD,
        StepKind.EXPIRE,
        StepKind.JVM,
    }
)
"""Kinds that lose something, or make a batch run again, which may mend what another has done."""

_ALONE: Final = (StepKind.EXPIRE, StepKind.JVM)
"""Kinds that go with others only if they lead."""

_UNEVEN: Final = frozenset({StepKind.LIMIT, StepKind.GROW})
"""Limited batches take partitions unevenly, which makes records late for a watermark."""


def draw_schedules(seed: int, terms: Terms) -> Iterator[Schedule]:
    """The schedules of a seed, from number 1 on.

    Each is different from the plain one and from those before it. Ends when no other is found.
    """
    if not sum(terms.sizes.values()) or not terms.kinds:
        return
    seen = {tuple(plain(terms.sizes).steps())}
    for number in count(1):
        drawn = _drawn(Random(f"{seed}/{number}"), terms, number)
        found = next((each for each in drawn if tuple(each.steps()) not in seen), None)
        if found is None:
            return
        seen.add(tuple(found.steps()))
        yield found


def _drawn(rng: Random, terms: Terms, number: int) -> Iterator[Schedule]:
    """Candidates for a number: those that its own kind leads, then those of each kind in turn."""
    yield generate(rng, terms, number=number)
    for draw in range(1, _DRAWS_OF_ONE_NUMBER):
        leads = number + max(0, draw - _DRAWS_OF_ONE_KIND)
        yield generate(rng, terms, number=leads, is_again=True)


def generate(rng: Random, terms: Terms, *, number: int, is_again: bool = False) -> Schedule:
    """A schedule for this number, from 1 on; `is_again` allows rarer cuts."""
    turn, place = divmod(number - 1, len(terms.kinds))
    kinds = _company(rng, terms, terms.kinds[place])
    arrivals = _arrivals(rng, terms) if StepKind.ORDER in kinds else plain(terms.sizes).arrivals
    events = []
    if StepKind.LATE in kinds:
        arrivals, late = _delayed(rng, terms, arrivals)
        if late is None:  # a new order leaves no room
            arrivals, late = _delayed(rng, terms, plain(terms.sizes).arrivals)
        if late is not None and StepKind.BATCHES in terms.kinds:
            events.append(Placed(position=arrivals.index(late), event=Take()))
    events += [Placed(position=cut, event=Take()) for cut in _cuts(rng, kinds, arrivals, is_again)]
    if number == 1 and kinds[0] is StepKind.BATCHES:
        events += [_between(arrivals, *pair) for pair in terms.updates]
    if kinds[0] is StepKind.JVM:
        moments = list(Moment)
        killed = _somewhere(rng, arrivals, KillJvm(moment=moments[turn % len(moments)]))
        if killed.position > 1 and rng.random() < 0.5:  # not always the query's first batch
            events.append(Placed(position=rng.randint(1, killed.position - 1), event=Take()))
        events.append(killed)
    for kind in kinds:
        if strikes := _strikes(terms, kind, turn if kind is kinds[0] else rng.randrange(100)):
            some = strikes if kind is kinds[0] else [rng.choice(strikes)]
            events += _apart(rng, arrivals, some)
        if kind is StepKind.RESEND and kind is kinds[0]:
            events += _copies(rng, terms, arrivals, turn)
        elif (draw := _DRAWS.get(kind)) is not None:
            drawn = draw(rng, terms, arrivals)
            if kind is StepKind.CRASH and terms.has_watermark:  # both batches, in turn
                is_before = turn % 2 == 0 if kind is kinds[0] else rng.random() < 0.5
                drawn = replace(drawn, event=Crash(before_closing=is_before))
            if kind is StepKind.RESTART:  # queries that have taken nothing do not run yet
                events.append(replace(drawn, event=Take()))
            if kind is StepKind.EXPIRE:
                events.append(Placed(position=rng.randrange(drawn.position), event=Take()))
            events.append(drawn)
    # Before others at its place, so that records have come for the batch that it strikes.
    events.sort(key=lambda placed: not isinstance(placed.event, _STRIKES))
    schedule = Schedule(arrivals=arrivals).having(list(dict.fromkeys(events)))
    waits = terms.has_watermark and len(terms.sizes) > 1 and StepKind.ORDER in terms.kinds
    return _closed(schedule) if waits else schedule


def _strikes(terms: Terms, kind: StepKind, turn: int) -> list[Event]:
    """What happens in `foreachBatch` when a kind has its turn: the first places first."""
    if kind is StepKind.INSIDE:
        chosen = in_turn(terms.places, turn, _MOST_STRIKES)
        return [CrashInside(place=terms.places[index]) for index in chosen]
    if kind is StepKind.WRITE:  # each fails both ways before the next ones do
        way, has_written = divmod(turn, 2)
        chosen = in_turn(terms.writes, way, _MOST_STRIKES)
        return [
            FailWrite(write=terms.writes[index], has_written=bool(has_written)) for index in chosen
        ]
    return []


def _copies(rng: Random, terms: Terms, arrivals: Sequence[Arrival], turn: int) -> Iterator[Placed]:
    """Records that come again in a later batch: an old one, and the last few of an input, in turn.

    The old one comes after the newest of its key, as from a producer's late retry. The last few are
    what a connector sends that restarts from an earlier position.
    """
    if turn % 2 == 0 and terms.outdated:
        old, newest = rng.choice(terms.outdated)
        place, copies = arrivals.index(newest), [old]
    else:
        place = rng.choice(_resendable(terms, arrivals))
        source = arrivals[place].source
        sent = [each for each in arrivals[: place + 1] if each.source == source]
        copies = sent[-rng.randint(1 if turn % 2 == 0 else 2, _MOST_COPIES) :]
    if StepKind.BATCHES in terms.kinds:
        yield Placed(position=place + 1, event=Take())
    for copy in copies:
        yield Placed(position=place + 1, event=Resend(arrival=copy))


def _resendable(terms: Terms, arrivals: Sequence[Arrival]) -> list[int]:
    return [place for place, arrival in enumerate(arrivals) if arrival.source in terms.resends]


def _closed(schedule: Schedule) -> Schedule:
    """The same with the last record of each input behind the last start of the queries.

    After a restart Spark moves the watermark only once each input has had a record.
    """
    starts = [placed.position for placed in schedule.events if isinstance(placed.event, _STARTS)]
    last = {arrival.source: arrival for arrival in schedule.arrivals}
    before = schedule.arrivals[: max(starts, default=0)]
    closing = [arrival for arrival in before if arrival == last[arrival.source]]
    arrivals = [*(each for each in schedule.arrivals if each not in closing), *closing]

    def moved(placed: Placed) -> Placed:
        if isinstance(placed.event, Resend) and placed.event.arrival in closing:
            return replace(placed, position=arrivals.index(placed.event.arrival) + 1)
        passed = sum(arrival in closing for arrival in schedule.arrivals[: placed.position])
        return replace(placed, position=placed.position - passed)

    return Schedule(arrivals=tuple(arrivals)).having([moved(each) for each in schedule.events])


def _cuts(
    rng: Random, kinds: Sequence[StepKind], arrivals: Sequence[Arrival], is_again: bool
) -> list[int]:
    """Where batches end: in many places if that is what the schedule is for.

    Drawn again, it may be for few, and the queries may start before there is a record.
    """
    if StepKind.BATCHES not in kinds:
        return []
    places = range(0 if is_again else 1, len(arrivals))
    most = min(_MOST_CUTS, len(places))
    is_many = kinds[0] is StepKind.BATCHES and not is_again
    return rng.sample(places, most if is_many else rng.randint(1, most))


def _between(arrivals: Sequence[Arrival], first: Arrival, second: Arrival) -> Placed:
    """A cut right before the later of two records."""
    return Placed(position=max(map(arrivals.index, (first, second))), event=Take())


def _company(rng: Random, terms: Terms, leader: StepKind) -> list[StepKind]:
    """The leading kind and some others; cuts and a new order go with most of them."""
    if leader is StepKind.EXPIRE:  # others would take the records first
        return [leader, *({StepKind.ORDER} & {*terms.kinds})]
    others = [kind for kind in terms.kinds if kind not in (leader, *_ALONE)]
    for kinds in (_BROKERS, _REPEATS):
        if leader in kinds:
            others = [kind for kind in others if kind not in kinds]
    chosen = rng.sample(others, min(len(others), rng.randint(0, _MOST_OTHERS)))
    if set(chosen) >= _BROKERS:
        chosen.remove(StepKind.KILL)
    if _REPEATS.issuperset(chosen):
        chosen = chosen[:1]
    if terms.has_watermark and {leader, *chosen} >= _UNEVEN:
        chosen = [kind for kind in chosen if kind not in _UNEVEN]
    for usual in (StepKind.BATCHES, StepKind.ORDER):
        if usual in others and usual not in chosen and rng.random() < 0.5:
            chosen.append(usual)
    return [leader, *chosen]


def _arrivals(rng: Random, terms: Terms) -> tuple[Arrival, ...]:
    """A random order that keeps each lane's, and lets no record come later than it may."""
    waiting = {lane: list(lane.indexes) for lane in terms.lanes}
    left = {source: list(range(len(times))) for source, times in terms.times.items()}
    order: list[Arrival] = []
    while waiting:
        may_come = {source: set(_punctual(terms, source, left[source])) for source in left}
        lane = rng.choice(
            [
                lane
                for lane, (index, *_) in waiting.items()
                if lane.source not in left or index in may_come[lane.source]
            ]
        )
        index = waiting[lane].pop(0)
        order.append(Arrival(lane.source, index))
        if lane.source in left:
            left[lane.source].remove(index)
        if not waiting[lane]:
            del waiting[lane]
    return tuple(order)


def _punctual(terms: Terms, source: str, left: Sequence[int]) -> Iterator[int]:
    """The records after which no earlier record that is left would come too late.

    A record that the test itself gives later than `lateness_s` allows is the test's intention.
    """
    times, lateness_s = terms.times[source], terms.lateness_s[source]
    oldest = math.inf
    for index in left:
        if is_in_time(oldest, times[index], lateness_s):
            yield index
        oldest = min(oldest, times[index])


def _delayed(
    rng: Random, terms: Terms, arrivals: Sequence[Arrival]
) -> tuple[tuple[Arrival, ...], Arrival | None]:
    """The same with some records after newer ones of their lane, and the last one moved, if any."""
    order = list(arrivals)
    moved = None
    some = min(_MOST_STRAGGLERS, len(terms.stragglers))
    for late, newer in rng.sample(terms.stragglers, rng.randint(1, some)):
        first, last = order.index(newer) + 1, _latest(terms, order, late)
        if first <= last:
            place = rng.randint(first, last) - 1  # it leaves its own
            order.remove(late)
            order.insert(place, late)
            moved = late
    return tuple(order), moved


def _latest(terms: Terms, order: Sequence[Arrival], late: Arrival) -> int:
    """Before which place a record must come in order to come no later than it may."""
    times, lateness_s = terms.times[late.source], terms.lateness_s[late.source]
    return next(
        (
            place
            for place, (source, nth) in enumerate(order)
            if source == late.source and nth > late.nth
            if not is_in_time(times[late.nth], times[nth], lateness_s)
        ),
        len(order),
    )


Draw = Callable[[Random, Terms, Sequence[Arrival]], Placed]


def _somewhere(rng: Random, arrivals: Sequence[Arrival], event: Event) -> Placed:
    """After at least one record."""
    return Placed(position=rng.randint(1, len(arrivals)), event=event)


def _apart(rng: Random, arrivals: Sequence[Arrival], events: Sequence[Event]) -> list[Placed]:
    """Each event after other records, as far as there are enough."""
    places = range(1, len(arrivals) + 1)
    chosen = rng.sample(places, min(len(events), len(places)))
    return [Placed(position=chosen[n % len(chosen)], event=event) for n, event in enumerate(events)]


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
    place = rng.choice(_resendable(terms, arrivals))
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


def _rebuild(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, Rebuild())


def _task(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, FailTask())


def _unsent(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    return _somewhere(rng, arrivals, LoseUnsent())


def _expire(rng: Random, terms: Terms, arrivals: Sequence[Arrival]) -> Placed:
    """Behind a record that the queries, which have run before, have not taken."""
    place = rng.randrange(len(arrivals))
    return Placed(position=place + 1, event=Expire(source=arrivals[place].source))


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
    StepKind.TASK: _task,
    StepKind.REBUILD: _rebuild,
    StepKind.GROW: _grow,
    StepKind.UNSENT: _unsent,
    StepKind.EXPIRE: _expire,
}
