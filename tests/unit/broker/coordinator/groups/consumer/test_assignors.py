from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.groups.consumer.assignors import (
    MemberSpec,
    assign_range,
    assign_uniformly,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def spec(*topics: UUID, instance: str | None = None, current: Any = None) -> MemberSpec:
    return MemberSpec(instance_id=instance, topics=frozenset(topics), current=current or {})


def load(target: Any) -> Any:
    return sum(len(partitions) for partitions in target.values())


def test_range_cuts_each_topic_into_slices() -> None:
    targets = assign_range({"m1": spec(A, B), "m2": spec(A, B)}, {A: 3, B: 3})
    assert targets == {"m1": {A: {0, 1}, B: {0, 1}}, "m2": {A: {2}, B: {2}}}


def test_range_gives_only_to_subscribers() -> None:
    targets = assign_range({"m1": spec(A), "m2": spec(A, B), "m3": spec(B)}, {A: 3, B: 1})
    assert targets == {"m1": {A: {0, 1}}, "m2": {A: {2}, B: {0}}, "m3": {}}


def test_static_members_come_first_by_instance_id() -> None:
    members = {"z": spec(A, instance="i1"), "a": spec(A), "b": spec(A, instance="i2")}
    targets = assign_range(members, {A: 3})
    assert targets == {"z": {A: {0}}, "b": {A: {1}}, "a": {A: {2}}}


def test_uniform_spreads_all_partitions_evenly() -> None:
    targets = assign_uniformly({"m1": spec(A, B), "m2": spec(A, B)}, {A: 3, B: 3})
    assert [load(target) for target in targets.values()] == [3, 3]


def test_uniform_moves_no_more_than_it_must() -> None:
    members = {
        "m1": spec(A, current={A: frozenset({0, 1, 2})}),
        "m2": spec(A, current={A: frozenset({3, 4, 5})}),
        "m3": spec(A),
    }
    targets = assign_uniformly(members, {A: 6})
    assert targets["m1"][A] < {0, 1, 2}
    assert targets["m2"][A] < {3, 4, 5}
    assert [load(target) for target in targets.values()] == [2, 2, 2]


def test_uniform_makes_up_for_uneven_subscriptions() -> None:
    targets = assign_uniformly({"m1": spec(A, B), "m2": spec(A)}, {A: 2, B: 2})
    assert targets == {"m1": {B: {0, 1}}, "m2": {A: {0, 1}}}


def test_uniform_drops_what_is_gone() -> None:
    members = {"m1": spec(A, current={A: frozenset({0, 5}), B: frozenset({0})})}
    assert assign_uniformly(members, {A: 2}) == {"m1": {A: {0, 1}}}


@pytest.mark.parametrize("assign", [assign_range, assign_uniformly])
def test_no_topics_is_an_empty_assignment(assign: Any) -> None:
    assert assign({"m1": spec(), "m2": spec(A)}, {}) == {"m1": {}, "m2": {}}


topic_sets = st.frozensets(st.sampled_from([A, B, C]))
counts = st.fixed_dictionaries({A: st.integers(1, 8), B: st.integers(1, 8), C: st.integers(1, 8)})


@pytest.mark.parametrize("assign", [assign_range, assign_uniformly])
@settings(max_examples=40)
@given(subscriptions=st.lists(topic_sets, min_size=1, max_size=5), counts=counts)
def test_every_subscribed_partition_has_one_owner_who_subscribes(
    assign: Any, subscriptions: Any, counts: list[int]
) -> None:
    members = {f"m{i}": spec(*topics) for i, topics in enumerate(subscriptions)}
    targets = assign(members, counts)
    owned = [(t, p) for target in targets.values() for t, ps in target.items() for p in ps]
    subscribed = frozenset().union(*subscriptions)
    assert sorted(owned) == sorted((t, p) for t in subscribed for p in range(counts[t]))
    for member_id, target in targets.items():
        assert target.keys() <= members[member_id].topics


@settings(max_examples=40)
@given(
    subscriptions=st.lists(topic_sets, min_size=1, max_size=4),
    more=topic_sets,
    counts=counts,
)
def test_uniform_is_stable_and_balanced(subscriptions: Any, more: Any, counts: Any) -> None:
    members = {f"m{i}": spec(*topics) for i, topics in enumerate(subscriptions)}
    targets = assign_uniformly(members, counts)
    again = {m: spec(*members[m].topics, current=targets[m]) for m in members}
    assert assign_uniformly(again, counts) == targets
    again["new"] = spec(*more)
    grown = assign_uniformly(again, counts)
    for giver, target in grown.items():
        for topic in target:
            for taker, member in again.items():
                if topic in member.topics:
                    assert load(grown[giver]) - load(grown[taker]) < 2
