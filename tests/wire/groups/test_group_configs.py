"""Settings of individual groups: described, altered, and in effect."""

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterConfigsRequest,
)
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.consumer_members import Member
from tests.wire.one_partition import Answer
from tests.wire.raw_client import RawClient
from tests.wire.settings import alter, describe_all

Unique = Callable[[str], str]

GROUP: Final = 32
SET, DELETE, APPEND = range(3)
# The source of a value, as on the wire.
STATIC_BROKER, DEFAULT, GROUP_CONFIG = 4, 5, 8
SESSION: Final = "consumer.session.timeout.ms"
ASSIGNMENT: Final = "consumer.assignment.interval.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"


def described(
    raw: RawClient, group: str, keys: Sequence[str] | None = (SESSION, HEARTBEAT)
) -> Answer:
    return describe_all(raw, GROUP, group, keys=keys, synonyms=True)


def shown(raw: RawClient, group: str) -> dict[str, tuple[str, int]]:
    """Values and their sources."""
    return {c.name: (c.value, c.config_source) for c in described(raw, group).configs}


def change(raw: RawClient, group: str, operation: int, **settings: str | None) -> Answer:
    changes = [(name.replace("_", "."), operation, value) for name, value in settings.items()]
    return alter(raw, GROUP, group, *changes)


@pytest.fixture(params=["group", "a/group %"])
def group(request: pytest.FixtureRequest, unique: Unique) -> str:
    return unique(request.param)


def test_a_group_shows_the_brokers_settings_until_it_has_its_own(
    raw: RawClient, group: str
) -> None:
    assert shown(raw, group) == {
        SESSION: ("45000", DEFAULT),
        HEARTBEAT: ("100", STATIC_BROKER),
    }
    answer = change(raw, group, SET, consumer_session_timeout_ms="50000")
    assert answer.error_code == ErrorCode.NONE
    eventually(
        lambda: shown(raw, group)[SESSION] == ("50000", GROUP_CONFIG), "the setting is shown"
    )
    (session,) = described(raw, group, [SESSION]).configs
    assert [(s.name, s.value, s.source) for s in session.synonyms] == [
        (SESSION, "50000", GROUP_CONFIG),
        (f"group.{SESSION}", "45000", DEFAULT),
    ]
    assert (session.read_only, session.is_sensitive) == (False, False)
    answer = change(raw, group, DELETE, consumer_session_timeout_ms=None)
    assert answer.error_code == ErrorCode.NONE
    eventually(lambda: shown(raw, group)[SESSION] == ("45000", DEFAULT), "the default is shown")


def test_a_group_has_every_setting_of_kafka_for_consumer_groups(raw: RawClient, group: str) -> None:
    names = {entry.name for entry in described(raw, group, keys=None).configs}
    assert {name for name in names if name.startswith("consumer.")} == {
        ASSIGNMENT,
        HEARTBEAT,
        SESSION,
    }
    (interval,) = described(raw, group, [ASSIGNMENT]).configs
    assert (interval.value, interval.config_source, interval.read_only) == ("1000", DEFAULT, False)
    answer = change(raw, group, SET, consumer_assignment_interval_ms="500")
    assert answer.error_code == ErrorCode.NONE
    eventually(lambda: described(raw, group, [ASSIGNMENT]).configs[0].value == "500", "it is shown")


def test_altering_replaces_all_settings_of_a_group(raw: RawClient, group: str) -> None:
    change(raw, group, SET, consumer_heartbeat_interval_ms="200")
    resource = AlterConfigsRequest.Resource(
        resource_type=GROUP,
        resource_name=group,
        configs=[AlterConfigsRequest.Resource.Config(name=SESSION, value="46000")],
    )
    (answer,) = raw.call(
        AlterConfigsRequest(resources=[resource], validate_only=False), 2
    ).responses
    assert answer.error_code == ErrorCode.NONE
    expected = {SESSION: ("46000", GROUP_CONFIG), HEARTBEAT: ("100", STATIC_BROKER)}
    eventually(lambda: shown(raw, group) == expected, "the other setting is gone")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"bogus": "1"}, ErrorCode.INVALID_CONFIG, "Unknown group config name: bogus"),
        ({"consumer_session_timeout_ms": "x"}, ErrorCode.INVALID_CONFIG, "Not a number of type"),
        ({"consumer_session_timeout_ms": "1"}, ErrorCode.INVALID_CONFIG, "must be greater than"),
        ({"consumer_session_timeout_ms": "9999999"}, ErrorCode.INVALID_CONFIG, "must be less than"),
        ({"consumer_heartbeat_interval_ms": "1"}, ErrorCode.INVALID_CONFIG, "must be greater than"),
        ({"consumer_session_timeout_ms": None}, ErrorCode.INVALID_REQUEST, "Null value"),
        ({"consumer_assignment_interval_ms": "-1"}, ErrorCode.INVALID_CONFIG, "must be at least 0"),
        ({"consumer_assignment_interval_ms": "20000"}, ErrorCode.INVALID_CONFIG, "max.assignment"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    raw: RawClient,
    unique: Unique,
    settings: dict[str, str | None],
    error: ErrorCode,
    message: str,
) -> None:
    answer = change(raw, unique("group"), SET, **settings)
    assert answer.error_code == error
    assert message in answer.error_message


def test_groups_have_names_and_their_settings_are_no_lists(raw: RawClient, unique: Unique) -> None:
    nameless = change(raw, "", SET, consumer_session_timeout_ms="50000")
    assert nameless.error_code == ErrorCode.INVALID_REQUEST
    assert described(raw, "").error_code == ErrorCode.INVALID_REQUEST
    appended = change(raw, unique("group"), APPEND, consumer_session_timeout_ms="1")
    assert appended.error_code == ErrorCode.INVALID_CONFIG


def test_members_obey_their_groups_settings(
    cluster: Cluster, raw: RawClient, unique: Unique, group: str
) -> None:
    member = Member(raw, group, create_topic(cluster, unique("topic")))
    assert member.join().heartbeat_interval_ms == 100
    change(raw, group, SET, consumer_heartbeat_interval_ms="250")
    eventually(
        lambda: member.beat().heartbeat_interval_ms == 250, "the interval reaches the member"
    )


def test_every_broker_hears_of_a_groups_settings(three_brokers: Cluster, unique: Unique) -> None:
    group = unique("group")
    member_topic = create_topic(three_brokers, unique("topic"))
    with three_brokers.connect() as any_broker:
        coordinator = any_broker.coordinator_of(group) - 1
    with (
        three_brokers.connect(coordinator) as raw,
        three_brokers.connect((coordinator + 1) % 3) as other,
    ):
        answer = change(other, group, SET, consumer_heartbeat_interval_ms="250")
        assert answer.error_code == ErrorCode.NONE
        eventually(
            lambda: shown(raw, group)[HEARTBEAT] == ("250", GROUP_CONFIG),
            "the coordinator knows it",
        )
        member = Member(raw, group, member_topic)
        member.join()
        eventually(lambda: member.beat().heartbeat_interval_ms == 250, "the coordinator obeys it")
