"""The registry lists all messages and loads them only when needed."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from embedkafka.wire.protocol import messages
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import MetadataRequest, MetadataResponse
from embedkafka.wire.protocol.messages.registry import (
    FAMILIES,
    request_type,
    response_type,
    versions,
)


def test_classes_are_found_by_key() -> None:
    assert request_type(ApiKey.METADATA) is MetadataRequest
    assert response_type(3) is MetadataResponse
    assert versions(MetadataRequest) == (0, 13)


@pytest.mark.parametrize("api", [api for apis in FAMILIES.values() for api in apis])
def test_request_and_response_belong_together(api: ApiKey) -> None:
    request, response = schema_of(request_type(api)), schema_of(response_type(api))
    assert request.api is response.api is api
    assert request.versions == response.versions
    assert request.flexible == response.flexible


def test_every_api_is_in_one_family_only() -> None:
    apis = [api for family in FAMILIES.values() for api in family]
    assert len(apis) == len(set(apis))


@pytest.mark.parametrize("family", [info.name for info in pkgutil.iter_modules(messages.__path__)])
def test_every_declared_message_is_listed(family: str) -> None:
    module = importlib.import_module(f"{messages.__name__}.{family}")
    declared = [cls for cls in vars(module).values() if hasattr(cls, "__schema__")]
    apis = {schema_of(cls).api for cls in declared}
    assert apis - {None} == set(FAMILIES.get(family, ()))


def test_keys_without_messages_are_key_errors() -> None:
    for unknown in (ApiKey.VOTE, 999, -1):
        with pytest.raises(KeyError):
            request_type(unknown)


def loaded_families(statement: str) -> set[str]:
    """The message families that a fresh interpreter has imported after `statement`."""
    program = (
        f"{statement}\nimport sys\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules"
        " if name.startswith('embedkafka.wire.protocol.messages.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_codec_loads_no_family() -> None:
    assert loaded_families("import embedkafka.wire.protocol.codec") == set()
    assert loaded_families("import embedkafka.wire.protocol.headers") == {"registry"}


def test_asking_for_a_class_loads_its_family_only() -> None:
    statement = (
        "from embedkafka.wire.protocol.messages.registry import request_type\nrequest_type(12)"
    )
    assert loaded_families(statement) == {"registry", "groups"}
