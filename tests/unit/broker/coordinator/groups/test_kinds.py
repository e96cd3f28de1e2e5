from collections import Counter

from embedkafka.broker.coordinator.groups.decision import TimerKind
from tests.unit.broker.coordinator.groups.conftest import Coordinator


def test_every_timer_belongs_to_one_kind(coordinator: Coordinator) -> None:
    owners = Counter(timer for kind in coordinator.shard().kinds for timer in kind.timers)
    assert owners == Counter(TimerKind)


def test_an_unknown_group_would_be_a_classic_one(coordinator: Coordinator) -> None:
    shard = coordinator.shard()
    assert shard.kinds.find_group("g") is None
    assert shard.kinds.of_group("g") is shard.classic
