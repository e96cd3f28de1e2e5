"""Decides what to undo after a test, by what there was before and what there is now.

First the cluster is mended (`plan_mending`), because one that is broken cannot be asked about the
rest. Then `plan` compares everything else.

Owner: none. Its tests need no cluster.
Not here: looking and undoing (`isolation`).
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from embedkafka.broker.settings.dynamic import TOPICS
from embedkafka.cluster.clients.decoding import Decode, decoders_since
from embedkafka.cluster.restoring.coordinated import Coordinated
from embedkafka.cluster.restoring.other_state import OtherState
from embedkafka.cluster.restoring.placements import Placements, placed_among
from embedkafka.faults.links import LinkFault
from embedkafka.faults.request_faults import Fault
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.topic_names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
)
from embedkafka.runtime.values import NamedTuple, dataclass, replace
from embedkafka.wire.net.socket_server import Connection

if TYPE_CHECKING:
    from embedkafka.security.acl.acls import Acl

Entity = tuple[str, str]


class Aspect(Enum):
    """What a test may have changed, in the order of undoing, with the reason for its place."""

    FAULTS = "nothing that follows may meet one"
    DISKS = "a broker with a broken disk would not start"
    NETWORK = "brokers must reach each other to be mended"
    STALLED_BROKERS = "they work again in no time"
    DEAD_BROKERS = "what need not stay is deleted before they start, which is three times as quick"
    MEMBERSHIP = "after a cut, everything else asks brokers that know each other"
    PLACEMENTS = "replicas must leave the brokers that go"
    COORDINATED = "a broker that goes may coordinate groups"
    SETTINGS = "the coordinators are done with the test's"
    LOGINS = "as settings"
    ADDED_BROKERS = "nothing that stays is on them any more"
    CLIENTS = "they are looked for before their topics vanish"
    ACLS = "clients that are still there count as the test's"
    TOPICS = "no group or transaction needs them any more"
    OWN_TOPICS = "those that the test replaced have been deleted"
    CONTROLLER = "deletions were its last work"
    LEADERS = "the controller elects them"
    CLOCK = "no wait above depends on real time"
    OTHER = "it needs a clock that is right"
    SCRATCH = "nothing writes there any more"
    DECODERS = "at any time"


class Undo(NamedTuple):
    """One step: an aspect, and what it should be or what must go."""

    aspect: Aspect
    what: Any = None  # Any: each aspect has its own type


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What of a cluster can be seen at any moment, however broken it is."""

    topics: Mapping[str, UUID | None]
    deletions: Collection[str]
    """The topics whose deletion is not over."""
    placements: Placements
    faults: frozenset[Fault | LinkFault]
    has_disk_faults: bool
    sides: Collection[frozenset[BrokerId]]
    brokers: frozenset[BrokerId]
    running: frozenset[BrokerId]
    working: frozenset[BrokerId]
    """The brokers that run, are not paused and have all their disks."""
    has_transacted: bool
    """Whether producers that came since `begin` may have begun transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What there is in a cluster at one moment."""

    health: Health
    empty: Mapping[str, int]
    """The topics that the cluster was made with, if they hold no records: how many partitions."""
    settings: Mapping[Entity, Mapping[str, str]]
    acls: "frozenset[Acl] | None"
    """None if the cluster has no authorizer."""
    coordinated: Coordinated
    is_real_time: bool
    scratch: frozenset[str]
    connections: Mapping[str, Connection]
    decoders: Mapping[str, Decode]
    other: OtherState

    def with_news(self, earlier: "Footprint", now: "Footprint") -> "Footprint":
        """This footprint, with all that has come between `earlier` and `now`."""
        mine, new = self.health, now.health
        new_settings = {
            entity: values
            for entity, values in now.settings.items()
            if values != earlier.settings.get(entity)
        }
        return replace(
            self,
            health=replace(
                mine,
                topics={**mine.topics, **dict(new.topics.items() - earlier.health.topics.items())},
                placements={**new.placements, **mine.placements},
                faults=mine.faults | (new.faults - earlier.health.faults),
            ),
            settings={**self.settings, **new_settings},
            acls=self.acls if now.acls == earlier.acls else now.acls,
            coordinated=self.coordinated.with_all_of(now.coordinated.without(earlier.coordinated)),
            scratch=self.scratch | (now.scratch - earlier.scratch),
            connections={
                **self.connections,
                **dict(now.connections.items() - earlier.connections.items()),
            },
            decoders={**self.decoders, **decoders_since(earlier.decoders, now.decoders)},
            other=self.other.with_news(earlier.other, now.other),
        )


def plan_mending(before: Footprint, now: Health) -> list[Undo]:
    """What makes a cluster whole again: one that is has nothing to undo here.

    A broker that the test added is needed if it has replicas of a topic that stays, or may know
    of transactions there.
    """
    was = before.health
    topics = _staying(was, now) | ({TRANSACTION_STATE_TOPIC} if now.has_transacted else set())
    needed = {
        BrokerId(broker_id)
        for partition, replicas in now.placements.items()
        if partition.topic in topics
        for broker_id in replicas
    }
    broken = (was.working | (needed - was.brokers)) - now.working
    dead = broken - now.running
    was_cut = True if now.sides != was.sides else None
    steps = {
        Aspect.FAULTS: (now.faults - was.faults) or None,
        Aspect.DISKS: True if now.has_disk_faults and not was.has_disk_faults else None,
        Aspect.NETWORK: was_cut,
        Aspect.STALLED_BROKERS: (broken - dead) or None,
        Aspect.DEAD_BROKERS: (dead, _doomed(before, now, is_broken=True)) if dead else None,
        Aspect.MEMBERSHIP: was_cut,
    }
    return [Undo(aspect, what) for aspect, what in steps.items() if what is not None]


def plan(before: Footprint, now: Footprint) -> list[Undo]:
    """What puts a whole cluster right."""
    was, health = before.health, now.health
    staying, doomed = _staying(was, health), _doomed(before, health)
    new = now.coordinated.without(before.coordinated)
    steps = {
        Aspect.PLACEMENTS: {
            # The replicas of partitions that the test has added go to brokers that stay.
            partition: was.placements.get(partition)
            or placed_among(was.working, partition, replicas)
            for partition, replicas in health.placements.items()
            if partition.topic in staying
        }
        or None,
        Aspect.COORDINATED: new if new.groups or new.transactions else None,
        Aspect.SETTINGS: {
            entity: wanted
            for entity in now.settings.keys() | before.settings.keys()
            if (wanted := before.settings.get(entity, {})) != now.settings.get(entity, {})
            if entity[0] != TOPICS or entity[1] in staying  # others go with their topics
        }
        or None,
        Aspect.LOGINS: before.other.revoked,
        Aspect.ADDED_BROKERS: (health.brokers - was.brokers) or None,
        Aspect.CLIENTS: before.connections,
        Aspect.ACLS: before.acls if before.acls != now.acls else None,
        Aspect.TOPICS: doomed or None,
        Aspect.OWN_TOPICS: [
            name
            for name, count in before.empty.items()
            if name in doomed or now.empty.get(name) != count
        ]
        or None,
        Aspect.CONTROLLER: before.other,
        # Otherwise some replicas are where the test found them.
        Aspect.LEADERS: True if was.working == was.brokers else None,
        Aspect.CLOCK: True if before.is_real_time and not now.is_real_time else None,
        Aspect.OTHER: before.other,
        Aspect.SCRATCH: (now.scratch - before.scratch) or None,
        Aspect.DECODERS: before.decoders if before.decoders != now.decoders else None,
    }
    return [Undo(aspect, what) for aspect, what in steps.items() if what is not None]


def _staying(was: Health, now: Health) -> set[str]:
    """The topics that were there before, but not those that are being deleted."""
    return {name for name, _ in now.topics.items() & was.topics.items()} - set(now.deletions)


def _doomed(before: Footprint, now: Health, *, is_broken: bool = False) -> set[str]:
    """The topics that the test has made, and those whose deletion is not over.

    Kafka's own stay, because making them takes longer than emptying them, unless they have
    replicas on a broker that the test added. If a broker must start, which is slower with them,
    those go that hold nothing.
    """
    made = {name for name, _ in now.topics.items() - before.health.topics.items()}
    if is_broken:
        kept, others = INTERNAL_TOPICS, _idle_topics(before, now) & now.topics.keys()
        return (made - kept) | others | set(now.deletions)
    stranded = {
        partition.topic
        for partition, replicas in now.placements.items()
        if partition.topic in INTERNAL_TOPICS & made and not before.health.brokers >= {*replicas}
    }
    return made - (INTERNAL_TOPICS - stranded) | set(now.deletions)


def _idle_topics(before: Footprint, now: Health) -> set[str]:
    """Those of Kafka's own topics that hold nothing which must be kept or ended.

    Without its state, a transaction would be open for ever in a topic that stays.
    """
    idle = set() if before.coordinated.groups else {GROUP_METADATA_TOPIC}
    if not before.coordinated.transactions and not now.has_transacted:
        idle.add(TRANSACTION_STATE_TOPIC)
    return idle
