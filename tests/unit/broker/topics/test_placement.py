"""Replica placement, compared with Kafka's own assignments."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.broker.topics.placement import (
    BrokerRack,
    assign_new_partitions,
    assign_replicas,
    rack_alternated,
    without_partial_racks,
)
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

FIVE = [BrokerRack(id=broker) for broker in range(5)]
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
SIX_IN_RACKS = [BrokerRack(id=broker, rack=rack) for broker, rack in RACKS.items()]


def test_without_racks_replicas_go_round_robin_with_a_growing_shift() -> None:
    assigned = assign_replicas(
        FIVE, partitions=10, replication_factor=3, rng=Random(0), fixed_start=0
    )
    assert assigned == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }


def test_racks_alternate() -> None:
    assert rack_alternated(RACKS) == [0, 3, 1, 5, 4, 2]
    assert rack_alternated({0: "a", 1: "a", 2: "b"}) == [0, 2, 1]


def test_with_racks_each_partition_is_in_every_rack() -> None:
    assigned = assign_replicas(
        SIX_IN_RACKS, partitions=7, replication_factor=3, rng=Random(0), fixed_start=0
    )
    assert assigned == {
        0: [0, 3, 1],
        1: [3, 1, 5],
        2: [1, 5, 4],
        3: [5, 4, 2],
        4: [4, 2, 0],
        5: [2, 0, 3],
        6: [0, 4, 2],
    }


def test_new_partitions_go_on_from_the_first_replica_of_the_first_partition() -> None:
    existing = {0: [2, 3], 1: [3, 4]}
    added = assign_new_partitions(existing, FIVE, partitions=4, rng=Random(0))
    assert added == {2: [4, 2], 3: [0, 3]}


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 6, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_requests_are_refused(partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        assign_replicas(FIVE, partitions=partitions, replication_factor=factor, rng=Random(0))
    assert refused.value.code is code


def test_partial_racks_are_refused_or_dropped() -> None:
    mixed = [BrokerRack(id=1, rack="a"), BrokerRack(id=0)]
    with pytest.raises(ApiError):
        assign_replicas(mixed, partitions=1, replication_factor=1, rng=Random(0))
    assert without_partial_racks(mixed) == [BrokerRack(id=0), BrokerRack(id=1)]


@given(
    brokers=st.integers(1, 9),
    partitions=st.integers(1, 40),
    seed=st.integers(0, 99),
    racks=st.none() | st.integers(1, 4),
    data=st.data(),
)
def test_replicas_are_distinct_and_leaders_are_even(
    brokers: int, partitions: int, seed: int, racks: int | None, data: st.DataObject
) -> None:
    listed = [
        BrokerRack(id=b, rack=None if racks is None else f"r{b % racks}") for b in range(brokers)
    ]
    factor = data.draw(st.integers(1, brokers))
    assigned = assign_replicas(
        listed, partitions=partitions, replication_factor=factor, rng=Random(seed)
    )
    assert list(assigned) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in assigned.values())
    leaders = [sum(r[0] == b for r in assigned.values()) for b in range(brokers)]
    assert max(leaders) - min(leaders) <= 1
    if racks is not None:
        count = len({b.rack for b in listed})
        for replicas in assigned.values():
            assert len({listed[b].rack for b in replicas}) == min(factor, count)
