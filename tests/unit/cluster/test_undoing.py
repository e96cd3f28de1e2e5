"""What isolation undoes after a test, and in which order: decided from values alone."""

from typing import Any
from uuid import UUID

import pytest

from embedkafka.cluster.restoring.coordinated import Coordinated
from embedkafka.cluster.restoring.other_state import OtherState
from embedkafka.cluster.restoring.undoing import Aspect, Footprint, Health, plan, plan_mending
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import replace

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
MINE, MINE_AGAIN, MADE, KAFKAS = (UUID(int=each) for each in range(4))
OFFSETS, STATE = GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
FAULT: Any = object()
ALWAYS = [Aspect.PLACEMENTS, Aspect.LOGINS, Aspect.CLIENTS, Aspect.CONTROLLER, Aspect.LEADERS]
"""These are asked for whenever there is a topic: whether there is anything to do shows later."""

HEALTH = Health(
    topics={"mine": MINE},
    deletions=set(),
    placements={TopicPartition("mine", 0): (1, 2)},
    faults=frozenset(),
    has_disk_faults=False,
    sides=[],
    brokers=frozenset({ONE, TWO}),
    running=frozenset({ONE, TWO}),
    working=frozenset({ONE, TWO}),
    has_transacted=False,
)
OTHER = OtherState(
    revoked={},
    tokens={},
    zk_groups=frozenset(),
    levels={},
    has_metrics=False,
    snapshots={},
    pages=(),
    controller=1,
    log_dirs={},
)
BEFORE = Footprint(
    health=HEALTH,
    empty={"mine": 1},
    settings={("topics", "mine"): {"retention.ms": "1"}},
    acls=None,
    coordinated=Coordinated(),
    is_real_time=True,
    scratch=frozenset({"old"}),
    connections={},
    decoders={},
    other=OTHER,
)


def planned(before: Footprint = BEFORE, **now: Any) -> dict[Aspect, Any]:
    """The plan for a cluster in which this has changed."""
    health = {name: now.pop(name) for name in list(now) if name in Health.__annotations__}
    changed = replace(before, health=replace(before.health, **health), **now)
    return dict(plan(before, changed))


def mending(before: Footprint = BEFORE, **now: Any) -> dict[Aspect, Any]:
    return dict(plan_mending(before, replace(before.health, **now)))


def with_topic(name: str, *replicas: int) -> dict[str, Any]:
    """A cluster in which a test has made this topic."""
    return {
        "topics": {**HEALTH.topics, name: MADE},
        "placements": {**HEALTH.placements, TopicPartition(name, 0): replicas},
    }


def test_a_cluster_as_it_was_is_whole_and_needs_no_repair() -> None:
    assert mending() == {}
    assert [each for each in planned() if each not in ALWAYS] == [Aspect.OTHER]


def test_steps_come_in_the_order_of_their_aspects() -> None:
    order = list(Aspect)
    broken = mending(
        faults=frozenset({object()}),
        has_disk_faults=True,
        sides=[{ONE}],
        working=set(),
        running={TWO},
    )
    changed = planned(
        **with_topic("made", 1),
        brokers=HEALTH.brokers | {THREE},
        settings={},
        empty={},
        acls=frozenset(),
        coordinated=Coordinated(groups={"g": "Stable"}),
        is_real_time=False,
        scratch=frozenset({"old", "new"}),
        decoders={"mine": str},
    )
    assert list(broken) == order[: len(broken)]
    assert [*broken, *changed] == [each for each in order if each is not Aspect.ACLS]


@pytest.mark.parametrize(
    ("changed", "aspect", "what"),
    [
        ({"scratch": frozenset({"old", "new"})}, Aspect.SCRATCH, {"new"}),
        ({"is_real_time": False}, Aspect.CLOCK, True),
        ({"decoders": {"mine": str}}, Aspect.DECODERS, {}),
        ({"empty": {}}, Aspect.OWN_TOPICS, ["mine"]),
        ({"empty": {"mine": 2}}, Aspect.OWN_TOPICS, ["mine"]),
        ({"brokers": frozenset({ONE, TWO, THREE})}, Aspect.ADDED_BROKERS, {THREE}),
        ({"topics": {"mine": MINE_AGAIN}}, Aspect.TOPICS, {"mine"}),
        ({"topics": {"mine": MINE_AGAIN}}, Aspect.OWN_TOPICS, ["mine"]),
        ({"deletions": {"mine"}}, Aspect.TOPICS, {"mine"}),
        ({"settings": {}}, Aspect.SETTINGS, BEFORE.settings),
        (with_topic("made", 1), Aspect.TOPICS, {"made"}),
    ],
)
def test_a_change_is_undone(changed: dict[str, Any], aspect: Aspect, what: object) -> None:
    assert planned(**changed)[aspect] == what


def test_settings_of_what_goes_or_is_new_are_left_or_emptied() -> None:
    made = {("topics", "made"): {"a": "1"}, ("users", "u"): {"b": "1"}}
    found = planned(**with_topic("made", 1), settings={**BEFORE.settings, **made})
    assert found[Aspect.SETTINGS] == {("users", "u"): {}}


@pytest.mark.parametrize("acls", [frozenset(), frozenset({object()})])
def test_acls_are_restored_to_none_at_all_too(acls: Any) -> None:
    secured = replace(BEFORE, acls=acls)
    assert planned(secured, acls=frozenset({object()}))[Aspect.ACLS] == acls
    assert Aspect.ACLS not in planned(secured)


def test_a_clock_that_the_test_found_elsewhere_stays() -> None:
    assert Aspect.CLOCK not in planned(replace(BEFORE, is_real_time=False))


def test_new_groups_and_transactions_go_and_others_stay() -> None:
    before = replace(BEFORE, coordinated=Coordinated(groups={"old": "Empty"}))
    now = Coordinated(groups={"old": "Stable", "new": "Empty"}, transactions={"t": "Ongoing"})
    found = planned(before, coordinated=now)[Aspect.COORDINATED]
    assert found == Coordinated(groups={"new": "Empty"}, transactions={"t": "Ongoing"})


def test_leaders_stay_where_they_are_if_a_broker_was_already_broken() -> None:
    was_broken = replace(BEFORE, health=replace(HEALTH, working=frozenset({ONE})))
    assert Aspect.LEADERS not in planned(was_broken)
    assert mending(was_broken) == {}


def test_replicas_go_back_and_those_of_new_partitions_to_brokers_that_stay() -> None:
    new = TopicPartition("mine", 1)
    moved = {TopicPartition("mine", 0): (2, 3), new: (3, 1)}
    wanted = planned(placements=moved)[Aspect.PLACEMENTS]
    assert wanted == {TopicPartition("mine", 0): (1, 2), new: (1, 2)}


@pytest.mark.parametrize(("replicas", "goes"), [((1,), False), ((1, 3), True)])
def test_a_topic_of_kafkas_own_goes_only_if_it_is_on_a_broker_that_goes(
    replicas: tuple[int, ...], goes: bool
) -> None:
    found = planned(**with_topic(OFFSETS, *replicas))
    assert (OFFSETS in found.get(Aspect.TOPICS, ())) == goes


def test_a_paused_broker_is_resumed_and_a_dead_one_started_without_what_need_not_stay() -> None:
    assert mending(working={ONE}) == {Aspect.STALLED_BROKERS: {TWO}}
    topics = {**with_topic("made", 2)["topics"], OFFSETS: KAFKAS, STATE: KAFKAS}
    dead: dict[str, Any] = {"working": {ONE}, "running": {ONE}, "topics": topics}
    assert mending(**dead) == {Aspect.DEAD_BROKERS: ({TWO}, {"made", OFFSETS, STATE})}
    _, kept = mending(**dead, has_transacted=True)[Aspect.DEAD_BROKERS]
    assert kept == {"made", OFFSETS}, "a transaction would stay open"


@pytest.mark.parametrize("topic", ["mine", STATE])
def test_a_dead_broker_that_the_test_added_is_started_only_if_something_needs_it(
    topic: str,
) -> None:
    added: dict[str, Any] = {"brokers": HEALTH.brokers | {THREE}}
    assert mending(**added) == {}
    added["topics"] = {**HEALTH.topics, STATE: KAFKAS}
    added["placements"] = {TopicPartition(topic, 0): (1, 3)}
    found = mending(**added, has_transacted=True)
    assert found[Aspect.DEAD_BROKERS][0] == {THREE}


def test_what_a_longer_fixture_makes_stays() -> None:
    earlier = replace(BEFORE, health=replace(HEALTH, **with_topic("between", 1)))
    made = replace(
        earlier,
        health=replace(
            earlier.health,
            topics={**earlier.health.topics, "made": KAFKAS},
            faults=frozenset({FAULT}),
        ),
        scratch=frozenset({"old", "new"}),
    )
    kept = BEFORE.with_news(earlier, made)
    assert set(kept.health.topics) == {"mine", "made"}
    assert kept.health.faults == made.health.faults
    assert dict(plan(kept, made))[Aspect.TOPICS] == {"between"}
    assert Aspect.SCRATCH not in dict(plan(kept, made))
