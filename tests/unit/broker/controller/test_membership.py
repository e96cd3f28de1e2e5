"""The differences between the known brokers and the registered ones."""

from embedkafka.broker.controller.membership import MembershipChange, compare


def test_brokers_join_go_and_bounce() -> None:
    change = compare({1: 10, 2: 11, 3: 12}, {2: 11, 3: 20, 5: 21, 4: 22})
    assert change == MembershipChange(joined=(4, 5), gone=(1,), bounced=(3,))
    assert not change.is_empty


def test_nothing_changed() -> None:
    assert compare({1: 10}, {1: 10}).is_empty
