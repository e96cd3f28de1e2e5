from hypothesis import given
from hypothesis import strategies as st

from embedkafka.broker.replica.fetch import EpochEnd
from embedkafka.broker.replica.following.truncation import Truncation, truncation_for


def test_same_epoch_ends_where_the_shorter_log_ends() -> None:
    leader, own = EpochEnd(4, 30), EpochEnd(4, 40)
    assert truncation_for(leader, own, fetch_offset=40, log_end_offset=40) == Truncation(30, True)


def test_unknown_epoch_needs_another_comparison_from_the_end_of_the_earlier_one() -> None:
    leader, own = EpochEnd(3, 30), EpochEnd(2, 20)
    assert truncation_for(leader, own, fetch_offset=40, log_end_offset=40) == Truncation(20, False)


def test_leader_without_any_epoch_sends_the_follower_to_where_it_began() -> None:
    leader, own = EpochEnd(-1, -1), EpochEnd(4, 40)
    assert truncation_for(leader, own, fetch_offset=17, log_end_offset=40) == Truncation(17, True)


def test_follower_without_epochs_takes_the_leaders_end() -> None:
    leader, own = EpochEnd(4, 30), EpochEnd(-1, -1)
    assert truncation_for(leader, own, fetch_offset=40, log_end_offset=25) == Truncation(25, True)


@given(
    st.integers(0, 5), st.integers(0, 50), st.integers(0, 5), st.integers(0, 50), st.integers(0, 50)
)
def test_truncation_never_goes_past_the_log_end(
    leader_epoch: int, leader_end: int, own_epoch: int, own_end: int, log_end: int
) -> None:
    truncation = truncation_for(
        EpochEnd(leader_epoch, leader_end),
        EpochEnd(own_epoch, own_end),
        fetch_offset=log_end,
        log_end_offset=log_end,
    )
    assert truncation.offset <= log_end
