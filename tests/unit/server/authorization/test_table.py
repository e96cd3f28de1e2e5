"""The table of rights is complete."""

from embedkafka.server.api_table import HANDLERS
from embedkafka.server.authorization.table import FREE, RULES


def test_every_api_has_a_row_or_is_free() -> None:
    assert HANDLERS.keys() == RULES.keys() | FREE
    assert not RULES.keys() & FREE


def test_a_handler_serves_one_api_so_that_its_needs_are_those_of_the_api() -> None:
    handlers = [row.handler for row in HANDLERS.values()]
    assert len(set(handlers)) == len(handlers)
