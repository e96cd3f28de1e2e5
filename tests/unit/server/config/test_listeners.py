"""Which listeners the settings of a broker describe."""

from typing import Any

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.server.config.listeners import count_up, plan_listeners

THREE = {
    "listeners": "Internal://:19092,clients://0.0.0.0:0,CONTROL://[::1]:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "internal",
    "control.plane.listener.name": "CONTROL",
}


def planned(settings: dict[str, Any], **where: Any) -> Any:
    return plan_listeners(settings, **{"host": "h", "control_host": "c", **where})


def test_without_settings_there_is_one_for_clients_and_one_for_the_controller() -> None:
    listeners = planned({}, port=9092)
    assert [(one.name, one.host, one.port) for one in listeners.all] == [
        ("PLAINTEXT", "h", 9092),
        ("CONTROLLER", "c", 0),
    ]
    assert listeners.inter_broker == "PLAINTEXT"


def test_names_addresses_and_roles_come_from_the_settings() -> None:
    listeners = planned(THREE, ports={"CLIENTS": 5, "INTERNAL": 6})
    assert [(one.name, one.host, one.port) for one in listeners.all] == [
        ("INTERNAL", "h", 19092),
        ("CLIENTS", "0.0.0.0", 5),
        ("CONTROL", "::1", 0),
    ]
    assert listeners.inter_broker == "INTERNAL"
    assert listeners.control.name == "CONTROL"


def test_the_controllers_of_kraft_need_no_listener() -> None:
    settings = {
        "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
        "controller.listener.names": "CONTROLLER",
    }
    assert [(one.name, one.port) for one in planned(settings).all] == [
        ("PLAINTEXT", 1),
        ("CONTROLLER", 0),
    ]


def test_a_listener_that_is_not_advertised_stays_unknown() -> None:
    listeners = planned({**THREE, "advertised.listeners": "INTERNAL://kafka.test:7"})
    internal, clients = listeners.clients
    assert str(internal.advertised) == "INTERNAL://kafka.test:7"
    assert clients.advertised is None


@pytest.mark.parametrize(
    ("advertised", "second"),
    [
        ("PLAINTEXT://kafka.test:29092", "PLAINTEXT://kafka.test:29093"),
        ("SSL://a:1,PLAINTEXT://b:2", "PLAINTEXT://b:3"),
        ("CLIENTS://a:1,INTERNAL://b:2", "PLAINTEXT://a:2"),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9093"),
        ("PLAINTEXT://:0", "PLAINTEXT://:0"),
    ],
)
def test_the_second_broker_advertises_the_next_port(advertised: str, second: str) -> None:
    config = {"advertised.listeners": advertised}
    assert count_up(config, 1, port=9092) == {"advertised.listeners": second}


def test_a_free_port_is_advertised_as_it_is() -> None:
    config = {"advertised.listeners": "PLAINTEXT://kafka.test:9092"}
    assert count_up(config, 0, port=0) == {"advertised.listeners": "PLAINTEXT://kafka.test:0"}


def test_fixed_ports_count_up() -> None:
    assert count_up(THREE, 2, port=0) == {
        "listeners": "INTERNAL://:19094,CLIENTS://0.0.0.0:0,CONTROL://[::1]:0"
    }


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "here"}, r"listeners: 'here' is not NAME://host:port"),
        ({"listeners": "A://:70000"}, r"'A://:70000' is not"),
        ({"listeners": "A://:1,A://:2"}, "different name, found two A"),
        ({"listeners": "A://:1,B://:1"}, "different port, found two 1"),
        ({"listeners": "SSL://:0"}, r"security\.inter\.broker\.protocol must be .* are SSL"),
        ({"listeners": "A://:0", "inter.broker.listener.name": "A"}, "No security protocol .* A"),
        ({"listener.security.protocol.map": "A:TLS"}, "'A:TLS' is not NAME:protocol"),
        ({**THREE, "inter.broker.listener.name": "X"}, "options .* are INTERNAL,CLIENTS"),
        ({**THREE, "control.plane.listener.name": "X"}, "control.* must be a listener name"),
        ({**THREE, "advertised.listeners": "X://a:1"}, "Found X. The valid options"),
        ({**THREE, "security.inter.broker.protocol": "PLAINTEXT"}, "Only one of"),
        ({"listeners": "PLAINTEXT://:0,CONTROLLER://:0"}, "choose another name"),
        ({"listeners": "A://:0", "control.plane.listener.name": "A"}, "none for clients"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        planned(settings)
