from itertools import product

import pytest

from embedkafka.spark.warm.states import Event, State, find_wear, move

STARTING, IN_USE, FREE, RETIRING, ENDING = State
EXPECTED = {
    STARTING: {Event.READY: IN_USE, Event.LOST: ENDING, Event.STOP: ENDING},
    IN_USE: {
        Event.RETURNED: FREE,
        Event.WORN: ENDING,
        Event.LOST: ENDING,
        Event.STOP: RETIRING,
    },
    FREE: {Event.LEASE: IN_USE, Event.LOST: ENDING, Event.STOP: ENDING, Event.IDLE: ENDING},
    RETIRING: {
        Event.RETURNED: ENDING,
        Event.WORN: ENDING,
        Event.LOST: ENDING,
        Event.STOP: RETIRING,
    },
    ENDING: {Event.LOST: ENDING, Event.STOP: ENDING},
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_move(state: State, event: Event) -> None:
    following = EXPECTED[state].get(event)
    if following is None:
        with pytest.raises(ValueError, match=event.name):
            move(state, event)
    else:
        assert move(state, event) is following


@pytest.mark.parametrize(
    ("figures", "wear"),
    [
        ({"sessions": 100, "threads": 300, "open files": 2000}, None),
        ({"sessions": 101}, "101 sessions"),
        ({"sessions": 3, "threads": 301}, "301 threads"),
        ({"MB of classes": 600}, "600 MB of classes"),
        ({"percent of the heap": 80}, "80 percent of the heap"),
    ],
)
def test_a_jvm_that_holds_on_to_much_is_worn(figures: dict[str, int], wear: str | None) -> None:
    assert find_wear(figures) == wear
