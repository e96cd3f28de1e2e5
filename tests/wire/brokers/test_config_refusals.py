"""Settings that cannot be, and odd ones as DescribeConfigs shows them, in Kafka's words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from embedkafka.protocol.api_keys import ApiKey
from tests.wire.clients import eventually
from tests.wire.plain_messages import Plain, ask, plain, request
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
LIST, PASSWORD, UNKNOWN = 7, 9, 0
NO_SETTING = "Cannot update these configs dynamically: [{}]"


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


@pytest.mark.parametrize("broker", ["1", ""], ids=["one", "all"])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "log.retention.ms",
            "0",
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
            "to 1",
        ),
        ("log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        (
            "log.roll.jitter.ms",
            "-1",
            "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
        ),
        (
            "num.io.threads",
            "0",
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            "max.connections.per.ip",
            "0",
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set.",
        ),
        (
            "log.cleaner.dedupe.buffer.size",
            "10",
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread.",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and "
            "9 or equal to -1",
        ),
        (
            "log.cleanup.policy",
            "compact,burn",
            "Invalid value burn for configuration log.cleanup.policy: String must be one of: "
            "compact, delete",
        ),
        ("broker.id", "7", NO_SETTING.format("broker.id")),
    ],
)
def test_a_broker_setting_that_cannot_be_is_an_invalid_request(
    raw: RawClient, broker: str, key: str, value: str, message: str
) -> None:
    assert alter(raw, BROKER, broker, (key, SET, value)) == ("INVALID_REQUEST", message)


@pytest.mark.parametrize("key", ["num.network.threads", "num.io.threads", "metric.reporters"])
def test_brokers_refuse_what_they_cannot_become(raw: RawClient, key: str) -> None:
    code, message = alter(raw, BROKER, "", (key, SET, "1000"))
    assert code == "INVALID_REQUEST"
    assert key in str(message)


def test_a_limit_on_replication_can_be_set_for_all_brokers(raw: RawClient) -> None:
    key = "leader.replication.throttled.rate"
    assert alter(raw, BROKER, "", (key, SET, "100")) == ("NONE", None)
    assert entry(raw, BROKER, "1", key) is None


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (
            BROKER,
            "1",
            ("log.retention.ms", APPEND, "1"),
            "INVALID_CONFIG",
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (
            BROKER,
            "1",
            ("log.retention.ms", 9, "1"),
            "INVALID_REQUEST",
            "Unknown operations type 9",
        ),
        (
            BROKER,
            "9",
            ("log.retention.ms", SET, "1"),
            "INVALID_REQUEST",
            "Unexpected broker id, expected 1, but received 9",
        ),
        (
            BROKER,
            "one",
            ("log.retention.ms", SET, "1"),
            "INVALID_REQUEST",
            "Node id must be an integer, but it is: one",
        ),
        (
            TOPIC,
            "",
            ("retention.ms", SET, "1"),
            "INVALID_REQUEST",
            "Default topic resources are not allowed.",
        ),
        (3, "x", ("retention.ms", SET, "1"), "INVALID_REQUEST", "Unknown resource type 3"),
    ],
)
def test_a_bad_change_is_explained(
    raw: RawClient,
    kind: int,
    name: str,
    change: tuple[str, int, str | None],
    code: str,
    message: str,
) -> None:
    assert alter(raw, kind, name, change) == (code, message)


def test_an_empty_item_of_a_list_is_refused(raw: RawClient, topic: str) -> None:
    message = "Configuration 'cleanup.policy' values must not be empty."
    change = ("cleanup.policy", APPEND, "")
    assert alter(raw, TOPIC, topic, change) == ("INVALID_CONFIG", message)


def test_a_key_given_twice_is_an_invalid_request(raw: RawClient, topic: str) -> None:
    twice = [("retention.ms", SET, "1")] * 2
    message = "Error due to duplicate config keys"
    assert alter(raw, TOPIC, topic, *twice) == ("INVALID_REQUEST", message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"cleanup_policy": "compact,burn"},
            "Invalid value burn for configuration cleanup.policy: String must be one of: compact, "
            "delete",
        ),
        (
            {"leader_replication_throttled_replicas": "none"},
            "Invalid value [none] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas "
            "in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_a_bad_list_is_explained(
    raw: RawClient, topic: str, value: dict[str, str], message: str
) -> None:
    ((key, text),) = value.items()
    change = (key.replace("_", "."), SET, text)
    assert alter(raw, TOPIC, topic, change) == ("INVALID_CONFIG", message)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "missing", "UNKNOWN_TOPIC_OR_PARTITION", ""),
        (
            BROKER,
            "9",
            "INVALID_REQUEST",
            "Unexpected broker id, expected 1 or empty string, but received 9",
        ),
        (BROKER, "x", "INVALID_REQUEST", "Broker id must be an integer, but it is: x"),
        (BROKER, "1", "NONE", ""),
    ],
)
def test_a_description_has_a_message_that_may_be_empty(
    raw: RawClient, kind: int, name: str, code: str, message: str
) -> None:
    answer = describe(raw, kind, name, "log.retention.ms")
    assert (answer["error_code"], answer["error_message"]) == (code, message)


@pytest.mark.parametrize("kind", [0, 1, 3, 64])
def test_a_resource_of_an_unknown_type_fails_the_whole_description(
    raw: RawClient, topic: str, kind: int
) -> None:
    resources = [
        {"resource_type": resource_type, "resource_name": topic, "configuration_keys": None}
        for resource_type in (TOPIC, kind)
    ]
    found = ask(raw, ApiKey.DESCRIBE_CONFIGS, resources=resources)["results"]
    assert [(entry["error_code"], entry["configs"]) for entry in found] == [
        ("INVALID_REQUEST", [])
    ] * 2


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
