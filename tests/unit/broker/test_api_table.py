"""The rows of APIs are where the table says, and what they need is found in requests."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from embedkafka.broker.api_table import SERVED, Need, load_api
from embedkafka.security.acl.operations import ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import request_type
from embedkafka.wire.protocol.wire_types import Array, Entity, Struct

NAMED = {
    ResourceType.TOPIC: {Entity.TOPIC_NAME, Entity.TOPIC_ID},
    ResourceType.GROUP: {Entity.GROUP_ID},
    ResourceType.TRANSACTIONAL_ID: {Entity.TRANSACTIONAL_ID},
}
ADDED = {(ApiKey.PRODUCE, ResourceType.TRANSACTIONAL_ID): 3}
"""Versions before these have no such field."""
ASKED = [
    (api, need) for api in SERVED for need in load_api(api).needs if not need.is_asked_by_handler
]


@pytest.mark.parametrize("module", sorted({row.module for row in SERVED.values()}))
def test_a_module_has_the_rows_of_the_apis_that_are_served_from_it(module: str) -> None:
    rows = import_module(f"embedkafka.broker.apis.{module}").APIS
    assert rows.keys() == {api for api, row in SERVED.items() if row.module == module}


@pytest.mark.parametrize(("api", "need"), ASKED, ids=lambda one: getattr(one, "name", ""))
def test_in_every_version_a_field_names_what_is_needed(api: ApiKey, need: Need) -> None:
    """Otherwise the request would pass unasked."""
    request = request_type(api)
    first, last = SERVED[api].versions
    for version in range(first, last + 1):
        if need.over is not None:
            (field,) = [one for one in schema_of(request).fields if one.name == need.over]
            assert field.is_in(version)
        elif (api, need.resource) in ADDED and version < ADDED[api, need.resource]:
            continue
        elif need.resource is not ResourceType.CLUSTER:
            assert NAMED[need.resource] & set(named(request, version)), f"v{version}"


def named(cls: Any, version: int) -> Iterator[Entity]:  # Any: a message's class
    """What is named by the fields of a message, and of the structs in its lists."""
    for field in schema_of(cls).fields:
        if field.is_in(version):
            yield from field.entities
            if isinstance(field.type, Array) and isinstance(field.type.element, Struct):
                yield from named(field.type.element.cls, version)
