"""Settings that cannot be, and odd ones as DescribeConfigs shows them, in Kafka's words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedkafka.protocol.api_keys import ApiKey
from tests.wire.clients import eventually
from tests.wire.plain_messages import Plain, plain, request
from tests.wire.raw_client import RawClient

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
LIST, UNKNOWN = 7, 0


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


@pytest.mark.parametrize("key", ["num.network.threads", "num.io.threads", "metric.reporters"])
def test_brokers_refuse_what_they_cannot_become(raw: RawClient, key: str) -> None:
    code, message = alter(raw, BROKER, "", (key, SET, "1000"))
    assert code == "INVALID_REQUEST"
    assert key in str(message)


def test_a_limit_on_replication_can_be_set_for_all_brokers(raw: RawClient) -> None:
    key = "leader.replication.throttled.rate"
    assert alter(raw, BROKER, "", (key, SET, "100")) == ("NONE", None)
    assert entry(raw, BROKER, "1", key) is None


def test_a_setting_that_a_broker_does_not_know_is_shown_as_a_secret(raw: RawClient) -> None:
    with settings(raw, BROKER, "1", made_up="hidden"):
        shown = eventually(lambda: entry(raw, BROKER, "1", "made.up"), "the setting is shown")
        dynamic_broker = 2
        assert shown == {
            "name": "made.up",
            "value": None,
            "read_only": True,
            "is_default": False,
            "config_source": dynamic_broker,
            "is_sensitive": True,
            "synonyms": [{"name": "made.up", "value": None, "source": dynamic_broker}],
            "config_type": UNKNOWN,
            "documentation": None,
        }


@pytest.mark.parametrize("key", ["listeners", "advertised.listeners", "log.dir", "log.dirs"])
def test_listeners_and_directories_are_lists(raw: RawClient, key: str) -> None:
    assert entry(raw, BROKER, "1", key)["config_type"] == LIST


def test_local_retention_is_the_brokers_unless_a_topic_sets_it(raw: RawClient, topic: str) -> None:
    default = 5
    for unit in ("bytes", "ms"):
        shown = entry(raw, TOPIC, topic, f"local.retention.{unit}")
        synonym = {"name": f"log.local.retention.{unit}", "value": "-2", "source": default}
        assert shown["synonyms"] == [synonym]


def test_a_topics_value_is_shown_without_its_spaces(raw: RawClient, topic: str) -> None:
    with settings(raw, TOPIC, topic, retention_ms=" 777 "):
        eventually(
            lambda: entry(raw, TOPIC, topic, "retention.ms")["value"] == "777", "the value is 777"
        )


def test_a_test_may_have_segments_of_any_size(raw: RawClient, topic: str) -> None:
    key = "internal.segment.bytes"
    assert entry(raw, TOPIC, topic, key) is None
    with settings(raw, TOPIC, topic, internal_segment_bytes="100"):
        shown = eventually(lambda: entry(raw, TOPIC, topic, key), "the setting is shown")
        assert shown["value"] == "100"
