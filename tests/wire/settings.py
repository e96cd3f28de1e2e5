"""One setting of one resource: described, altered, put back."""

from collections.abc import Iterator
from contextlib import contextmanager

from embedkafka.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain, plain, request
from tests.wire.raw_client import RawClient

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def alter(
    raw: RawClient,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = True,
) -> tuple[str, str | None]:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (answer,) = plain(
        raw.call(
            request(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                resources=[resource],
                validate_only=validate_only,
            )
        )
    )["responses"]
    return answer["error_code"], answer["error_message"]


def describe(raw: RawClient, kind: int, name: str, *keys: str) -> Plain:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    wanted = request(ApiKey.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=True)
    (answer,) = plain(raw.call(wanted))["results"]
    return answer


def entry(raw: RawClient, kind: int, name: str, key: str) -> Plain:
    """One setting as it is described; None if it is not."""
    return next(iter(describe(raw, kind, name, key)["configs"]), None)


@contextmanager
def settings(raw: RawClient, kind: int, name: str, **values: str) -> Iterator[None]:
    named = {key.replace("_", "."): value for key, value in values.items()}
    answer = alter(raw, kind, name, *((k, SET, v) for k, v in named.items()), validate_only=False)
    assert answer == ("NONE", None)
    yield
    alter(raw, kind, name, *((key, DELETE, None) for key in named), validate_only=False)
