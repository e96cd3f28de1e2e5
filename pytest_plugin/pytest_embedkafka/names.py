"""Readable names that no other test uses: `test_orders-3f2a`."""

import re
import uuid
from typing import Final

import pytest

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._]+")
_LENGTH: Final = 60
"""How much of a test's name is kept; a topic's may have 249 characters."""


def unique_name(item: pytest.Item) -> str:
    """The name of a test with four random digits, as Kafka allows it."""
    readable = _ILLEGAL.sub("-", item.name).strip("-")[:_LENGTH]
    return f"{readable or 'test'}-{uuid.uuid4().hex[:4]}"
