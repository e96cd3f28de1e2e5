"""Groups and transactional ids that a test has left."""

from embedkafka.cluster.restoring.coordinated import Coordinated


def test_a_transaction_that_is_ending_is_not_open() -> None:
    states = {"a": "Ongoing", "b": "PrepareAbort", "c": "PrepareCommit", "d": "CompleteCommit"}
    assert Coordinated(transactions=states).open_transactions == ["a"]
