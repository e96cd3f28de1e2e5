"""What the log of a stock client excuses."""

from tests.chaos.clients import GroupConsumer

BEGINS = "Partition orders [0] start fetching at offset 3 (leader epoch 1)"


def read_by(*lines: str | None) -> GroupConsumer:
    """A consumer with these lines in its log; None is an assignment."""
    consumer = GroupConsumer({"group.id": "g"})
    for line in lines:
        if line is None:
            consumer.note_assignment("orders", 0)
        else:
            consumer._recent.lines.append(line)
    return consumer


def test_a_client_that_begins_twice_in_one_assignment_went_back_by_itself() -> None:
    assert read_by(None, BEGINS, BEGINS).went_back_by_itself("orders", 0, 3)


def test_an_earlier_assignment_excuses_nothing() -> None:
    assert not read_by(None, BEGINS, None, BEGINS).went_back_by_itself("orders", 0, 3)


def test_a_client_that_a_broker_sent_back_did_not_go_by_itself() -> None:
    reset = "orders [0]: offset reset (at offset 9, broker 2) to BEGINNING"
    consumer = read_by(None, BEGINS, reset, BEGINS)
    assert consumer.last_reset_by("orders", 0) == 2
    assert not consumer.went_back_by_itself("orders", 0, 3)
