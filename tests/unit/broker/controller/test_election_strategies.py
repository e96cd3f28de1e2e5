"""The four election strategies, and how a replica leaves an ISR."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.broker.controller.election_strategies import (
    Candidates,
    Strategy,
    elect,
    first_state,
    recipients,
    without_replica,
)
from embedkafka.runtime.ids import NO_LEADER
from embedkafka.zk.payloads import RECOVERED, RECOVERING, LeaderAndIsr, ReplicaAssignment


def candidates(
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    online: tuple[int, ...] = (1, 2, 3),
    shutting_down: tuple[int, ...] = (),
    unclean: bool = False,
    removing: tuple[int, ...] = (),
) -> Candidates:
    return Candidates(
        assignment=ReplicaAssignment(replicas=replicas, removing=removing),
        state=LeaderAndIsr(leader=isr[0], isr=isr, leader_epoch=4, zk_version=9),
        online=online,
        shutting_down=shutting_down,
        unclean=unclean,
    )


def outcome(strategy: Strategy, given_: Candidates) -> tuple[int, tuple[int, ...]] | None:
    elected = elect(strategy, given_)
    if elected is None:
        return None
    assert elected.leader_epoch == 5
    assert elected.zk_version == 9
    return elected.leader, elected.isr


def test_offline_takes_the_first_in_sync_replica_and_drops_dead_ones() -> None:
    given_ = candidates(isr=(3, 2, 1), online=(2, 3))
    assert outcome(Strategy.OFFLINE, given_) == (2, (3, 2))
    assert recipients(Strategy.OFFLINE, given_) == (2, 3)


def test_offline_leaves_the_partition_alone_when_no_isr_member_is_online() -> None:
    assert outcome(Strategy.OFFLINE, candidates(isr=(1,), online=(2, 3))) is None


def test_an_unclean_election_takes_any_replica_and_marks_it_recovering() -> None:
    given_ = candidates(isr=(1,), online=(3, 2), unclean=True)
    elected = elect(Strategy.OFFLINE, given_)
    assert elected is not None
    assert (elected.leader, elected.isr) == (2, (2,))
    assert elected.leader_recovery_state == RECOVERING


def test_unclean_permission_changes_nothing_while_an_isr_member_is_online() -> None:
    elected = elect(Strategy.OFFLINE, candidates(isr=(3,), online=(1, 2, 3), unclean=True))
    assert elected is not None
    assert (elected.leader, elected.leader_recovery_state) == (3, RECOVERED)


def test_nobody_leads_when_everybody_is_dead() -> None:
    assert outcome(Strategy.OFFLINE, candidates(online=(), unclean=True)) is None


def test_reassignment_elects_within_the_target() -> None:
    given_ = candidates(replicas=(4, 5, 1, 2), isr=(1, 2, 4, 5), online=(1, 2, 5), removing=(1, 2))
    assert outcome(Strategy.REASSIGN, given_) == (5, (1, 2, 4, 5))
    assert recipients(Strategy.REASSIGN, given_) == (4, 5)


def test_preferred_elects_the_first_replica_or_nobody() -> None:
    assert outcome(Strategy.PREFERRED, candidates(isr=(2, 1))) == (1, (2, 1))
    assert outcome(Strategy.PREFERRED, candidates(isr=(2, 3))) is None
    assert outcome(Strategy.PREFERRED, candidates(online=(2, 3))) is None
    assert recipients(Strategy.PREFERRED, candidates(online=(1,))) == (1, 2, 3)


def test_controlled_shutdown_moves_off_every_leaving_broker() -> None:
    given_ = candidates(isr=(1, 2, 3), shutting_down=(1, 2))
    assert outcome(Strategy.CONTROLLED_SHUTDOWN, given_) == (3, (3,))
    alone = candidates(isr=(1, 2), shutting_down=(1, 2))
    assert outcome(Strategy.CONTROLLED_SHUTDOWN, alone) is None


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    assignment = ReplicaAssignment(replicas=(3, 1, 2))
    state = first_state(assignment, [1, 2], controller_epoch=8)
    assert state == LeaderAndIsr(leader=1, isr=(1, 2), controller_epoch=8)
    assert first_state(assignment, [], controller_epoch=8) is None


@pytest.mark.parametrize(
    ("leader", "isr", "gone", "expected"),
    [
        (1, (1, 2), 2, (1, (1,))),
        (1, (1, 2), 1, (NO_LEADER, (2,))),
        (1, (1,), 1, (NO_LEADER, (1,))),
    ],
)
def test_the_last_isr_member_stays_in_the_isr(
    leader: int, isr: tuple[int, ...], gone: int, expected: tuple[int, tuple[int, ...]]
) -> None:
    state = without_replica(LeaderAndIsr(leader=leader, isr=isr, leader_epoch=4), gone)
    assert (state.leader, state.isr) == expected
    assert state.leader_epoch == 5


_BROKERS = st.lists(st.integers(1, 6), min_size=1, unique=True)


@given(_BROKERS, st.data(), st.sampled_from(Strategy), st.booleans())
def test_every_winner_is_online_assigned_and_in_its_isr(
    replicas: list[int], data: st.DataObject, strategy: Strategy, unclean: bool
) -> None:
    subset = st.lists(st.sampled_from(replicas), unique=True)
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    online, leaving = data.draw(subset), data.draw(subset)
    elected = elect(
        strategy,
        candidates(
            replicas=tuple(replicas),
            isr=tuple(isr),
            online=tuple(online),
            shutting_down=tuple(leaving),
            unclean=unclean,
        ),
    )
    if elected is None:
        return
    assert elected.leader in online
    assert elected.leader in replicas
    assert elected.leader in elected.isr
    if elected.leader not in isr:
        assert unclean
        assert elected.leader_recovery_state == RECOVERING
