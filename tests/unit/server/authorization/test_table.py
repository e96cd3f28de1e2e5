"""The table of rights is complete, and its guards exist."""

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.server.api_table import HANDLERS
from embedkafka.server.authorization.guarded import _load_guard
from embedkafka.server.authorization.table import FREE, RULES


def test_every_api_of_clients_has_a_row_or_is_free() -> None:
    of_clients = {api for api, row in HANDLERS.items() if row.for_clients}
    assert of_clients == RULES.keys() | FREE


@pytest.mark.parametrize("api", RULES, ids=lambda api: api.name)
def test_a_guard_exists_and_an_unguarded_api_says_what_its_handler_asks(api: ApiKey) -> None:
    assert callable(_load_guard(RULES[api].guard))
    assert RULES[api].needs or not RULES[api].guard
