"""Groups and transactional ids that a test has left."""

from embedkafka.cluster.restoring.coordinated import Coordinated


def test_a_transaction_that_is_ending_is_not_open() -> None:
    states = {"a": "Ongoing", "b": "PrepareAbort", "c": "PrepareCommit", "d": "CompleteCommit"}
    assert Coordinated(transactions=states).open_transactions == ["a"]


def test_an_empty_group_is_not_in_use() -> None:
    states = {"a": "Stable", "b": "Empty", "c": "Dead"}
    assert Coordinated(groups=states).groups_in_use == ["a"]
