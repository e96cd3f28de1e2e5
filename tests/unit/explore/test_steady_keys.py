"""An output keeps its order only where the inputs do."""

from embedkafka.explore.inputs import read_inputs
from embedkafka.explore.schedule import Arrival
from embedkafka.explore.steady_keys import steady_keys

FEEDS = read_inputs(
    {"orders": [("a", "1"), ("b", "2"), ("a", "3"), (b"\xff", "4")], "prices": [("a", "5"), "6"]},
    seed=0,
)
PLAIN = [*(Arrival("orders", nth) for nth in range(4)), *(Arrival("prices", nth) for nth in (0, 1))]


def moved(first: int, second: int) -> list[Arrival]:
    """The plain order with two records in each other's place."""
    order = PLAIN.copy()
    order[first], order[second] = PLAIN[second], PLAIN[first]
    return order


def test_every_key_keeps_the_order_of_the_plain_schedule() -> None:
    is_steady = steady_keys(PLAIN, FEEDS)
    assert all(map(is_steady, ["a", "b", "of the job", str(b"\xff")]))


def test_keys_that_pass_each_other_keep_their_own_order() -> None:
    is_steady = steady_keys(moved(0, 1), FEEDS)
    assert is_steady("a")
    assert is_steady("b")
    assert not is_steady("of the job")


def test_a_late_record_takes_the_order_from_its_key_alone() -> None:
    is_steady = steady_keys(moved(0, 2), FEEDS)
    assert not is_steady("a")
    assert is_steady("b")
    assert is_steady(str(b"\xff"))


def test_inputs_that_mix_take_the_order_from_a_key_of_both() -> None:
    is_steady = steady_keys(moved(2, 4), FEEDS)
    assert not is_steady("a")
    assert is_steady("b")


def test_fewer_records_are_compared_among_themselves() -> None:
    is_steady = steady_keys([PLAIN[1], PLAIN[4]], FEEDS)
    assert is_steady("a")
    assert is_steady("of the job")
