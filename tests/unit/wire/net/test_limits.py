"""Connection counts and limits."""

from embedkafka.wire.net.limits import ConnectionQuota, Limits, ListenerLimits


def never() -> None:
    raise AssertionError("this caller never waits for room")


def test_without_limits_everybody_is_admitted() -> None:
    quota = ConnectionQuota(Limits())
    assert all(quota.has_room(never) and quota.admit("10.0.0.1") for _ in range(1000))
    assert quota.count == 1000


def test_an_address_has_so_many_connections_and_no_more() -> None:
    quota = ConnectionQuota(Limits(max_connections_per_ip=2))
    assert [quota.admit("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert quota.admit("10.0.0.2")
    quota.release("10.0.0.1")
    assert quota.admit("10.0.0.1")


def test_an_address_may_have_a_limit_of_its_own() -> None:
    quota = ConnectionQuota(
        Limits(max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.9": 2})
    )
    assert [quota.admit("10.0.0.9") for _ in range(3)] == [True, True, False]
    assert [quota.admit("10.0.0.1") for _ in range(2)] == [True, False]


def test_who_found_the_broker_full_is_called_once_when_there_is_room() -> None:
    quota = ConnectionQuota(Limits(max_connections=1))
    calls = []
    quota.admit("10.0.0.1")
    assert not quota.has_room(lambda: calls.append("room"))
    quota.release("10.0.0.1")
    assert calls == ["room"]
    quota.admit("10.0.0.1")
    quota.release("10.0.0.1")
    assert calls == ["room"]


def test_addresses_without_connections_are_forgotten() -> None:
    quota = ConnectionQuota(Limits())
    for number in range(100):
        quota.admit(f"10.0.0.{number}")
        quota.release(f"10.0.0.{number}")
    assert quota.count == 0
    assert not quota._by_host


def test_an_address_has_a_rate_of_its_own_or_that_of_all_others() -> None:
    quota = ConnectionQuota(Limits())
    assert not any(quota.note_arrival_from("10.0.0.1", 0) for _ in range(100))
    quota.set_address_rates({"10.0.0.1": 2, None: 1})
    assert [quota.note_arrival_from("10.0.0.1", 0) for _ in range(22)] == [0.0] * 20 + [500.0] * 2
    assert [quota.note_arrival_from("10.0.0.2", 0) for _ in range(11)] == [0.0] * 10 + [1000.0]
    assert quota.note_arrival_from("10.0.0.1", 20_000) == 0.0, "old connections do not count"
    quota.set_address_rates({"10.0.0.1": 2})
    assert not any(quota.note_arrival_from("10.0.0.2", 0) for _ in range(100))


def test_a_listener_has_limits_beside_those_of_the_broker() -> None:
    own = {"SAFE": ListenerLimits(max_connections=1, max_connection_creation_rate=1)}
    quota = ConnectionQuota(Limits(of_listeners=own, max_connection_creation_rate=2))
    assert quota.admit("10.0.0.1", "SAFE")
    assert not quota.has_room(lambda: None, "SAFE")
    assert quota.has_room(never, "OTHER")
    waits = [quota.note_arrival(0, "SAFE") for _ in range(11)]
    assert waits == [0.0] * 10 + [1000.0]
    assert [quota.note_arrival(0, "OTHER") for _ in range(10)] == [0.0] * 9 + [500.0]
    quota.release("10.0.0.1", "SAFE")
    assert quota.has_room(never, "SAFE")


def test_brokers_find_room_at_their_own_listener() -> None:
    limits = Limits(max_connections=1, max_connection_creation_rate=1, spared_listener="INSIDE")
    quota = ConnectionQuota(limits)
    assert quota.admit("10.0.0.1", "CLIENTS")
    assert not quota.has_room(lambda: None, "CLIENTS")
    assert quota.has_room(never, "INSIDE")
    assert not any(quota.note_arrival(0, "INSIDE") for _ in range(100))
