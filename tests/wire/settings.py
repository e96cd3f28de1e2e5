"""One setting of one resource: described, altered, put back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from tests.wire.clients import eventually
from tests.wire.one_partition import Answer
from tests.wire.plain_messages import Plain, plain
from tests.wire.raw_client import RawClient

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def describe_all(
    raw: RawClient,
    kind: int,
    name: str,
    *,
    keys: Sequence[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
    version: int | None = None,
) -> Answer:
    wanted = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[wanted], include_synonyms=synonyms, include_documentation=documentation
    )
    (answer,) = raw.call(request, version).results
    return answer


def describe(raw: RawClient, kind: int, name: str, **fields: Any) -> dict[str, Answer]:
    answer = describe_all(raw, kind, name, **fields)
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, kind, name)
    return {config.name: config for config in answer.configs}


def alter(
    raw: RawClient,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int | None = None,
) -> Answer:
    wanted = IncrementalAlterConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.Resource.Config(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    (answer,) = raw.call(request, version).responses
    return answer


def replace(
    raw: RawClient, kind: int, name: str, *, validate_only: bool = False, **configs: str | None
) -> Answer:
    wanted = AlterConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.Resource.Config(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    request = AlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    (answer,) = raw.call(request).responses
    return answer


def await_value(raw: RawClient, kind: int, name: str, key: str, value: str) -> Answer:
    """Waits until the broker has applied a change and returns the whole entry."""

    def current() -> Answer | None:
        entry = describe(raw, kind, name, keys=[key], synonyms=True)[key]
        return entry if entry.value == value else None

    return eventually(current, f"{key} of {name} is {value}")


def altered(
    raw: RawClient,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = True,
) -> tuple[str, str | None]:
    """Code and message of the answer to a change."""
    answer = alter(raw, kind, name, *changes, validate_only=validate_only)
    return ErrorCode(answer.error_code).name, answer.error_message


def entry(raw: RawClient, kind: int, name: str, key: str) -> Plain:
    """One setting as it is described; None if it is not."""
    shown = plain(describe_all(raw, kind, name, keys=[key], synonyms=True))
    return next(iter(shown["configs"]), None)


@contextmanager
def settings(raw: RawClient, kind: int, name: str, **values: str) -> Iterator[None]:
    named = {key.replace("_", "."): value for key, value in values.items()}
    answer = altered(raw, kind, name, *((k, SET, v) for k, v in named.items()), validate_only=False)
    assert answer == ("NONE", None)
    yield
    altered(raw, kind, name, *((key, DELETE, None) for key in named), validate_only=False)
