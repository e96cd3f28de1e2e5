"""Which listeners the settings of a broker describe."""

from typing import Any

import pytest

from embedkafka.broker.settings.listeners import Placement, plan_listeners
from embedkafka.runtime.failures import ConfigError

THREE = {
    "listeners": "Internal://:19092,clients://0.0.0.0:0,CONTROL://[::1]:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "internal",
    "control.plane.listener.name": "CONTROL",
}


def planned(settings: dict[str, Any], **placement: Any) -> Any:
    ports = placement.pop("ports", None)
    return plan_listeners(settings, Placement(**placement), control_host="c", ports=ports)


def advertised(settings: dict[str, Any], **placement: Any) -> list[str]:
    return [str(one.advertised) for one in planned(settings, **placement).clients]


def test_without_settings_there_is_one_for_clients_and_one_for_the_controller() -> None:
    listeners = planned({}, port=9092)
    assert [(one.name, one.host, one.port) for one in listeners.all] == [
        ("PLAINTEXT", "127.0.0.1", 9092),
        ("CONTROLLER", "c", 0),
    ]
    assert listeners.inter_broker == "PLAINTEXT"


def test_names_addresses_and_roles_come_from_the_settings() -> None:
    listeners = planned(THREE, ports={"CLIENTS": 5, "INTERNAL": 6})
    assert [(one.name, one.host, one.port) for one in listeners.all] == [
        ("INTERNAL", "127.0.0.1", 19092),
        ("CLIENTS", "0.0.0.0", 5),
        ("CONTROL", "::1", 0),
    ]
    assert listeners.inter_broker == "INTERNAL"
    assert listeners.control.name == "CONTROL"


def test_a_listener_that_is_not_advertised_stays_unknown() -> None:
    listeners = planned({**THREE, "advertised.listeners": "INTERNAL://kafka.test:7"})
    internal, clients = listeners.clients
    assert str(internal.advertised) == "INTERNAL://kafka.test:7"
    assert clients.advertised is None


@pytest.mark.parametrize(
    ("told", "second"),
    [
        ("PLAINTEXT://kafka.test:29092", "PLAINTEXT://kafka.test:29093"),
        ("SSL://a:1,PLAINTEXT://b:2", "PLAINTEXT://b:3"),
        ("CLIENTS://a:1,INTERNAL://b:2", "PLAINTEXT://a:2"),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9093"),
        ("PLAINTEXT://:0", "PLAINTEXT://:0"),
    ],
)
def test_the_second_broker_advertises_the_next_port(told: str, second: str) -> None:
    settings = {"advertised.listeners": told}
    assert advertised(settings, port=9092, place=1) == [second]


def test_a_free_port_is_advertised_as_it_is() -> None:
    settings = {"advertised.listeners": "PLAINTEXT://kafka.test:9092"}
    assert advertised(settings) == ["PLAINTEXT://kafka.test:0"]


def test_fixed_ports_count_up() -> None:
    assert [one.port for one in planned(THREE, place=2).all] == [19094, 0, 0]
    control = {**THREE, "listeners": "INTERNAL://:1,CONTROL://:5"}
    assert [one.port for one in planned(control, place=2).all] == [3, 7]


@pytest.mark.parametrize(
    ("listeners", "told", "placement", "then"),
    [
        ("PLAINTEXT://:9", "PLAINTEXT://kafka.test:9", {"port": 5}, "PLAINTEXT://kafka.test:0"),
        ("PLAINTEXT://:9", "PLAINTEXT://:9", {"port": 5, "place": 1}, "PLAINTEXT://:0"),
        ("PLAINTEXT://:9", "PLAINTEXT://proxy:443", {"port": 9}, "PLAINTEXT://proxy:443"),
        ("PLAINTEXT://:9", "PLAINTEXT://proxy:443", {"port": 443}, "PLAINTEXT://proxy:443"),
        ("PLAINTEXT://:0", "PLAINTEXT://proxy:443", {"port": 5}, "PLAINTEXT://proxy:443"),
        ("", "PLAINTEXT://localhost:9092", {"port": 5}, "PLAINTEXT://localhost:0"),
        ("PLAINTEXT://a:9", "PLAINTEXT://a:9", {"host": "0.0.0.0"}, "PLAINTEXT://:9"),
        ("PLAINTEXT://:9", "PLAINTEXT://localhost:9", {"host": "::"}, "PLAINTEXT://localhost:9"),
        ("PLAINTEXT://:9", "PLAINTEXT://localhost:9", {"host": "10.0.0.1"}, "PLAINTEXT://:9"),
        ("PLAINTEXT://:9", "PLAINTEXT://proxy:9", {"host": "10.0.0.1"}, "PLAINTEXT://proxy:9"),
        ("PLAINTEXT://:9", "PLAINTEXT://proxy:443", {"advertise": "here"}, "PLAINTEXT://here:0"),
        ("PLAINTEXT://:9", "", {"advertise": "here"}, "PLAINTEXT://here:0"),
    ],
)
def test_what_is_advertised_follows_a_listener_that_moves(
    listeners: str, told: str, placement: dict[str, Any], then: str
) -> None:
    settings = {"listeners": listeners, "advertised.listeners": told}
    assert advertised(settings, **placement) == [then]


def test_a_host_moves_every_listener_and_a_port_the_first() -> None:
    moved = planned(THREE, host="10.0.0.1", port=7)
    assert [(one.host, one.port) for one in moved.all] == [
        ("10.0.0.1", 7),
        ("10.0.0.1", 0),
        ("::1", 0),
    ]


def test_a_port_that_leaves_a_proxy_behind_is_refused() -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "PLAINTEXT://kafka.test:443",
    }
    with pytest.raises(ConfigError, match=r"kafka\.test:443, which is not port 9092 .* 5 in list"):
        planned(settings, port=5)
    assert advertised(settings, port=5, advertise="here") == ["PLAINTEXT://here:0"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_that_no_client_can_use_is_not_advertised(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot use the nonroutable meta-address"):
        planned({"advertised.listeners": f"PLAINTEXT://{host}:9092"})


KRAFT = {
    "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
    "advertised.listeners": "PLAINTEXT://localhost:1,CONTROLLER://localhost:2",
    "controller.listener.names": "CONTROLLER",
}


def test_the_controllers_of_kraft_need_no_listener() -> None:
    assert [(one.name, one.port, str(one.advertised)) for one in planned(KRAFT).all] == [
        ("PLAINTEXT", 1, "PLAINTEXT://localhost:1"),
        ("CONTROLLER", 0, "CONTROLLER://:0"),
    ]


@pytest.mark.parametrize("name", ["CONTROLLER", "PLAINTEXT"])  # the latter in 2.8
def test_a_file_for_a_controller_of_kraft_gives_clients_the_default_listener(name: str) -> None:
    settings = {
        "listeners": f"{name}://:9093",
        "advertised.listeners": f"{name}://localhost:9093",
        "controller.listener.names": name,
    }
    assert [(one.name, one.port) for one in planned(settings, port=7, place=1).clients] == [
        ("PLAINTEXT", 8)
    ]
    assert advertised(settings) == ["PLAINTEXT://:0"]
    assert advertised(settings, advertise="here") == ["PLAINTEXT://here:0"]


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
