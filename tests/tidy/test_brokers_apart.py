"""Brokers meet in only three places: the store, the control plane, and `LeaderEndPoint`.

The test walks from the objects of a running broker to everything they refer to. It stops at the
store, at the replication seam and at the objects that the cluster holds around its brokers, and
must not reach another broker. The control plane consists of sockets, which refer to no broker.
"""

import gc
import types
from collections import deque

from embedkafka import EmbeddedKafka
from embedkafka.broker.broker import Broker
from embedkafka.broker.replica.local_leader import LocalLeader
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.zk.memory import MemoryZk

MEETING_PLACES = (MemoryZk, LocalLeader, PartitionNotifier)
"""The store; how a follower reads from its leader; how a leader notifies its followers."""

AROUND_BROKERS = ("embedkafka.cluster.", "embedkafka.faults.")
"""The user's handles and the injected faults: they refer to every broker but belong to none."""


def test_a_broker_reaches_no_other_broker() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.topic("orders", partitions=2, replication=2).send("a record that both have")
        brokers = [handle._lifecycle.require_broker() for handle in kafka.brokers]

        for broker in brokers:
            found = reachable(broker, kinds=(Broker, ReplicaManager))
            assert [known for known in found if isinstance(known, Broker)] == [broker]
            assert len(found) == 2


def test_the_walk_sees_what_it_should() -> None:
    """Without the stops, the walk finds the other broker."""
    with EmbeddedKafka(brokers=2) as kafka:
        broker = kafka.brokers[0]._lifecycle.require_broker()
        assert len(reachable(broker, kinds=(Broker,), meeting_places=(), around=())) == 2


def reachable(
    start: object,
    *,
    kinds: tuple[type, ...],
    meeting_places: tuple[type, ...] = MEETING_PLACES,
    around: tuple[str, ...] = AROUND_BROKERS,
) -> list[object]:
    """All objects of these kinds that `start` reaches, itself included."""
    seen = {id(start): start}
    ahead = deque([start])
    while ahead:
        current = ahead.popleft()
        for found in _referred_to(current):
            if id(found) in seen or isinstance(found, meeting_places):
                continue
            if _module(found).startswith(around or ("no such module",)):
                continue
            seen[id(found)] = found
            ahead.append(found)
    return [found for found in seen.values() if isinstance(found, kinds)]


def _referred_to(thing: object) -> list[object]:
    """Skips modules and types: globals belong to no broker."""
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_full(cell)]
        return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    skipped = (types.ModuleType, type, types.FrameType, types.CodeType)
    return [found for found in gc.get_referents(thing) if not isinstance(found, skipped)]


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _module(thing: object) -> str:
    owner = thing if isinstance(thing, types.FunctionType) else type(thing)
    return str(getattr(owner, "__module__", ""))
