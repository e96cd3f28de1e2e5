"""A schedule describes in words what it does, and does nothing else."""

import pytest

from embedkafka.explore.runner import stops_first
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
    Send,
    Step,
    Take,
    plain,
)


def orders(*numbers: int) -> tuple[Arrival, ...]:
    return tuple(Arrival("orders", number - 1) for number in numbers)


def at(position: int, event: Event) -> Placed:
    return Placed(position=position, event=event)


def test_the_plain_schedule_sends_everything_and_takes_it_once() -> None:
    schedule = plain({"orders": 3, "prices": 2})

    assert str(schedule) == ("1. orders 1-3, prices 1-2 arrive\n2. the queries take what is there")


def test_events_stand_between_the_records_they_come_after() -> None:
    schedule = plain({"orders": 4}).having([at(3, Crash()), at(1, Take())])

    assert schedule.steps() == [
        Send(arrivals=orders(1)),
        Take(),
        Send(arrivals=orders(2, 3)),
        Crash(),
        Send(arrivals=orders(4)),
        Take(),
    ]


def test_a_boundary_at_the_end_is_the_last_step() -> None:
    schedule = plain({"orders": 2}).having([at(2, Restart()), at(2, Take())])

    assert schedule.steps() == [Send(arrivals=orders(1, 2)), Restart(), Take()]


def test_records_out_of_their_order_are_listed_as_they_come() -> None:
    arrivals = (*orders(2, 3), Arrival("prices", 0), *orders(1, 5, 4))

    assert str(Schedule(arrivals=arrivals)).splitlines()[0] == (
        "1. orders 2-3, prices 1, orders 1 5 4 arrive"
    )


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Limit(records=2), "at most 2 of each input"),
        (Restart(), "start again from their checkpoints"),
        (Crash(), "dies after the sink's write and before the commit of the last batch, and"),
        (Crash(before_closing=True), "before the commit of the last batch with records, and"),
        (Resend(arrival=Arrival("orders", 2)), "orders 3 arrives again"),
        (
            LoseReply(topic="orders", api="FETCH"),
            "the reply to the next FETCH request for orders is lost",
        ),
        (MoveLeaders(topic="orders"), "its leaders move"),
        (KillLeader(topic="orders"), "the broker that leads orders dies"),
        (Grow(source="orders"), "orders gets one more partition"),
    ],
)
def test_every_event_has_words(event: Event, words: str) -> None:
    assert words in str(plain({"orders": 3}).having([at(3, event)]))


def test_queries_stop_before_records_are_sent_that_no_batch_takes() -> None:
    steps: list[Step] = [
        Send(arrivals=orders(1)),
        Take(),
        Send(arrivals=orders(2)),
        Restart(),
        Take(),
    ]

    assert [step for _, step in stops_first(steps)] == [
        Send(arrivals=orders(1)),
        Take(),
        Restart(),
        Send(arrivals=orders(2)),
        Take(),
    ]
    assert sorted(index for index, _ in stops_first(steps)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kill", [KillJvm(moment=Moment.WRITTEN), Crash(before_closing=True)])
def test_queries_stop_before_what_waits_for_a_driver_that_dies(kill: Event) -> None:
    sent = Send(arrivals=orders(1, 2))

    assert stops_first([Take(), sent, kill, Restart(), Take()]) == [
        (0, Take()),
        (2, Restart()),
        (1, sent),
        (2, kill),
        (3, Restart()),
        (4, Take()),
    ]
