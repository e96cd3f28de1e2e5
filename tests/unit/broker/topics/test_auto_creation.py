"""Which topics are created for clients that ask: not those that went under them, unless written."""

import threading
import uuid

import pytest

from embedkafka.broker.topics.auto_creation import AutoCreation
from tests.cluster.members import await_true

ID = uuid.UUID(int=7)


def may_create(creation: AutoCreation, name: str, client_id: str) -> bool:
    with creation.creating(name, client_id) as is_allowed:
        return is_allowed


def outlived_by(*clients: str) -> AutoCreation:
    creation = AutoCreation()
    creation.on_removed({"orders": ID}, dict.fromkeys(clients, lambda: True), clients)
    return creation


def test_a_client_that_a_topic_went_under_does_not_bring_it_back_by_asking() -> None:
    creation = outlived_by("old")

    assert not may_create(creation, "orders", "old")
    assert may_create(creation, "orders", "new")
    assert may_create(creation, "other", "old")


@pytest.mark.parametrize("topic", ["orders", ID])
def test_writing_brings_it_back(topic: str | uuid.UUID) -> None:
    creation = outlived_by("old")

    creation.on_write(uuid.UUID(int=8))
    creation.on_write("other")
    assert not may_create(creation, "orders", "old")
    creation.on_write(topic)

    assert may_create(creation, "orders", "old")


def test_a_client_that_is_gone_leaves_its_id_to_others() -> None:
    creation, is_there = AutoCreation(), [True]
    creation.on_removed({"orders": ID}, {"rdkafka": lambda: is_there[0]}, ["rdkafka"])
    assert not may_create(creation, "orders", "rdkafka")

    is_there[0] = False

    assert may_create(creation, "orders", "rdkafka")


def test_a_later_removal_keeps_the_clients_that_are_still_connected() -> None:
    creation = outlived_by("gone", "old")

    creation.on_removed({"other": None}, {}, ["old"])

    assert may_create(creation, "orders", "gone")
    assert not may_create(creation, "orders", "old")
    assert may_create(creation, "other", "old")


def test_nothing_is_created_while_it_is_suspended() -> None:
    creation = AutoCreation()

    with creation.suspended(["orders"]):
        assert not may_create(creation, "orders", "any")
        assert may_create(creation, "other", "any")
        with creation.suspended():
            assert not may_create(creation, "other", "any")

    assert may_create(creation, "orders", "any")


def test_a_suspension_waits_for_what_is_under_way() -> None:
    creation, order = AutoCreation(), []

    def suspend() -> None:
        with creation.suspended():
            order.append("suspended")

    with creation.creating("orders", "any"):
        thread = threading.Thread(target=suspend)
        thread.start()
        await_true(lambda: not may_create(creation, "other", "any"), 10)
        order.append("created")
    thread.join()

    assert order == ["created", "suspended"]


def test_it_knows_who_asked_for_a_topic() -> None:
    creation = AutoCreation()
    creation.on_created(ID, "shop")

    assert creation.maker_of(ID) == "shop"
    assert creation.maker_of(uuid.UUID(int=8)) is None
    assert creation.maker_of(None) is None

    creation.on_removed({"orders": ID}, {}, [])
    assert creation.maker_of(ID) is None
