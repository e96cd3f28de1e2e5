"""The table of rights is complete, and its guards exist."""

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.server.api_table import HANDLERS
from embedkafka.server.authorization.guarded import _load_guard
from embedkafka.server.authorization.table import FREE, RULES


def test_every_api_has_a_row_or_is_free() -> None:
    assert HANDLERS.keys() == RULES.keys() | FREE
    assert not RULES.keys() & FREE


def test_a_handler_serves_one_api_so_that_its_guard_is_that_of_the_api() -> None:
    handlers = [row.handler for row in HANDLERS.values()]
    assert len(set(handlers)) == len(handlers)


@pytest.mark.parametrize("api", RULES, ids=lambda api: api.name)
def test_a_guard_exists_and_an_unguarded_api_says_what_its_handler_asks(api: ApiKey) -> None:
    assert callable(_load_guard(RULES[api].guard))
    assert RULES[api].needs or not RULES[api].guard
