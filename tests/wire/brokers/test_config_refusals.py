"""Settings that cannot be, and odd ones as DescribeConfigs shows them, in Kafka's words."""

import pytest

from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.settings import (
    BROKER,
    SET,
    TOPIC,
    altered,
    entry,
    settings,
)

LIST, UNKNOWN = 7, 0


@pytest.mark.parametrize("key", ["num.network.threads", "num.io.threads", "metric.reporters"])
def test_brokers_refuse_what_they_cannot_become(raw: RawClient, key: str) -> None:
    code, message = altered(raw, BROKER, "", (key, SET, "1000"))
    assert code == "INVALID_REQUEST"
    assert key in str(message)


def test_a_limit_on_replication_can_be_set_for_all_brokers(raw: RawClient) -> None:
    key = "leader.replication.throttled.rate"
    assert altered(raw, BROKER, "", (key, SET, "100")) == ("NONE", None)
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
