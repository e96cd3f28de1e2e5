"""The codecs of kio, an independent implementation, by our classes."""

import importlib.util
from functools import cache
from typing import Any

from embedkafka.wire.protocol.message import schema_of
from tests.unit.wire.protocol.values import versions_of


@cache
def kio_module(cls: Any, version: int) -> str | None:
    """The module in which kio declares the same message, if any."""
    api = schema_of(cls).api
    assert api is not None
    kind = "request" if cls.__name__.endswith("Request") else "response"
    package = f"kio.schema.{api.name.lower()}"
    if importlib.util.find_spec(package) is None:
        return None
    module = f"{package}.v{version}.{kind}"
    try:
        return module if importlib.util.find_spec(module) else None
    except ModuleNotFoundError:
        return None


def kio_versions(cls: Any) -> list[int]:
    return [version for version in versions_of(cls) if kio_module(cls, version)]
