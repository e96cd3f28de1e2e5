import pytest

from embedkafka.broker.settings.broker import BrokerConfig, parse_broker_settings
from embedkafka.broker.settings.group import parse_group_settings
from embedkafka.runtime.failures import ConfigError

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def broker(**settings: object) -> BrokerConfig:
    return BrokerConfig(parse_broker_settings(settings))


def test_settings_of_a_group_are_numbers_within_the_brokers_limits() -> None:
    limits = broker(**{"group.consumer.min.session.timeout.ms": 50_000})
    assert parse_group_settings({SESSION: "50000", HEARTBEAT: "6000"}, limits) == {
        SESSION: 50_000,
        HEARTBEAT: 6_000,
    }
    with pytest.raises(
        ConfigError, match=r"greater than or equal to group\.consumer\.min\.session"
    ):
        parse_group_settings({SESSION: "49999"}, limits)
    with pytest.raises(ConfigError, match=r"less than or equal to group\.consumer\.max\.heartbeat"):
        parse_group_settings({HEARTBEAT: "15001"}, limits)


def test_a_session_outlasts_a_heartbeat_interval() -> None:
    limits = broker(
        **{
            "group.consumer.min.session.timeout.ms": 100,
            "group.consumer.session.timeout.ms": 45_000,
        }
    )
    with pytest.raises(ConfigError, match=r"must be greater than consumer\.heartbeat\.interval"):
        parse_group_settings({SESSION: "4000"}, limits)
    assert parse_group_settings({}, limits) == {}
