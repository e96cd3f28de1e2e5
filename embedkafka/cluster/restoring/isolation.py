"""Puts a cluster right after a test: what the test made goes, what it broke works again.

`begin` notes what there is; `end` compares. Most tests use topics and records only. For them `end`
deletes the new topics and looks at values in memory. The requests that came in between tell whether
groups or transactions may have changed too, and only then it asks for them.

Owner: the thread of the test.
Invariants: what was there at `begin` stays, and so does what was broken then. Records and
partitions that were added to a topic that stays are left, unless the cluster was made with it.
Not here: emptying a whole cluster (`reset`), earlier states (`snapshot`).
"""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.decoding import Decode, decoders_since
from embedkafka.cluster.reports.description import find_views
from embedkafka.cluster.resources import NOT_RUNNING
from embedkafka.cluster.restoring.connections import find_connections, find_left_connected
from embedkafka.cluster.restoring.coordinated import (
    Coordinated,
    find_coordinated,
    forget_coordinated,
)
from embedkafka.cluster.restoring.other_state import (
    OtherState,
    find_other_state,
    forget_refusals,
    restore_controller,
    restore_other_state,
)
from embedkafka.cluster.restoring.placements import (
    Placements,
    placed_among,
    placements_of,
    restore_placements,
)
from embedkafka.cluster.restoring.removal import removing_topics
from embedkafka.cluster.restoring.reset import delete_topics
from embedkafka.cluster.restoring.snapshot import Snapshots
from embedkafka.faults.links import LinkFault
from embedkafka.faults.request_faults import Fault
from embedkafka.net.socket_server import Connection
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.runtime.failures import AwaitTimeout, ClusterClosed, EmbedKafkaError
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.topic_names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
)
from embedkafka.runtime.values import dataclass, replace
from embedkafka.server.api_table import SERVED
from embedkafka.server.config.dynamic import TOPICS
from embedkafka.zk.payloads import TopicAssignment

if TYPE_CHECKING:
    from embedkafka.security.acl.acls import Acl

_LOG = logging.getLogger(__name__)

_HARMLESS: Final = frozenset(api for api, row in SERVED.items() if row.changes_topics_only)
"""Requests that change topics and records alone, or nothing."""

_NOT_TRANSACTIONAL: Final = frozenset(ApiKey) - {ApiKey.INIT_PRODUCER_ID}
"""All requests but the one that transactional and idempotent producers begin with."""

_SETTLING_S: Final = 10.0

Entity = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What there is in a cluster at one moment."""

    topics: Mapping[str, UUID | None]
    placements: Placements
    empty: Mapping[str, int]
    """The topics that the cluster was made with, if they hold no records: how many partitions."""
    settings: Mapping[Entity, Mapping[str, str]]
    acls: "frozenset[Acl] | None"
    """None if the cluster has no authorizer."""
    coordinated: Coordinated
    faults: frozenset[Fault | LinkFault]
    has_disk_faults: bool
    brokers: frozenset[BrokerId]
    working: frozenset[BrokerId]
    """The brokers that run, are not paused and have all their disks."""
    sides: Collection[frozenset[BrokerId]]
    is_real_time: bool
    scratch: frozenset[str]
    connections: Mapping[str, Connection]
    decoders: Mapping[str, Decode]
    other: OtherState


class Isolation:
    """What a test does to one cluster, undone: `with kafka.isolated():`."""

    def __init__(
        self,
        brokers: Brokers,
        snapshots: Snapshots,
        *,
        own_topics: Collection[str],
        create: Callable[[Collection[str]], None],
        forget: Callable[[str], None],
        scratch: Path,
    ) -> None:
        """`create` makes topics of the cluster's own again; `forget` hears of deleted ones."""
        self._brokers = brokers
        self._snapshots = snapshots
        self._own_topics = own_topics
        self._create = create
        self._forget = forget
        self._scratch = scratch
        self._files = brokers.files
        self._before: Footprint | None = None
        self._coordinated: Coordinated | None = None
        self._incarnation_count = brokers.incarnation_count

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(finds_clients=False)

    def begin(self) -> None:
        """Notes what there is. What comes from now on belongs to the test."""
        if self._brokers.is_closed:
            raise ClusterClosed(NOT_RUNNING)
        self._before = self.look()
        self._incarnation_count = self._brokers.incarnation_count
        self._brokers.request_log.forget()
        forget_refusals(self._brokers)

    def end(self, *, finds_clients: bool) -> list[str]:
        """Puts the cluster right, and returns what was still in use. A second call does nothing.

        `finds_clients` says whether clients that are still connected are the test's.
        """
        before, self._before = self._before, None
        if before is None or self._brokers.is_closed:
            return []
        with removing_topics(self._brokers):
            return self._put_right(before, finds_clients=finds_clients)

    def _put_right(self, before: Footprint, *, finds_clients: bool) -> list[str]:
        was_cut = self._end_faults(before)
        was_broken = self._mend_brokers(before) | was_cut
        if was_cut:
            self._await_membership()
        self._restore_placements(before)
        leaks: list[str] = []
        if was_broken or not self._used_only_topics():
            leaks = self._forget_coordinated(before)
        self._restore_settings(before)
        self._brokers.set_revoked(before.other.revoked)
        self._remove_brokers(before)  # only now, because they may be coordinators
        connected = self._left_connected(before) if finds_clients else []
        self._restore_acls(before)
        self._delete_topics(before)
        self._renew_topics(before)
        restore_controller(self._brokers, before.other)
        self._restore_leaders(before)
        if before.is_real_time and not self._is_real_time():
            self._brokers.clock.reset()
        restore_other_state(self._brokers, self._snapshots, before.other)
        for name in self._scratch_names() - before.scratch:
            self._files.remove_tree(self._scratch / name)
        self._brokers.decoders.restore(before.decoders)
        self._brokers.drop_held_requests()  # whose replies were dropped since the faults ended
        self._brokers.request_log.forget()
        return leaks + connected

    def keep(self) -> None:
        """Lets all that came since `begin` stay."""
        self._before = None

    def adopt(self, earlier: Footprint) -> None:
        """Lets what came after `earlier` stay: what made it outlives the test."""
        before, now = self._before, self.look()
        if before is None:
            return
        new_topics = now.topics.items() - earlier.topics.items()
        new_settings = {
            entity: values
            for entity, values in now.settings.items()
            if values != earlier.settings.get(entity)
        }
        self._before = replace(
            before,
            topics={**before.topics, **dict(new_topics)},
            placements={**now.placements, **before.placements},
            acls=before.acls if now.acls == earlier.acls else now.acls,
            settings={**before.settings, **new_settings},
            coordinated=before.coordinated.with_all_of(
                now.coordinated.without(earlier.coordinated)
            ),
            faults=before.faults | (now.faults - earlier.faults),
            scratch=before.scratch | (now.scratch - earlier.scratch),
            connections={
                **before.connections,
                **dict(now.connections.items() - earlier.connections.items()),
            },
            decoders={
                **before.decoders,
                **decoders_since(earlier.decoders, now.decoders),
            },
            other=before.other.with_news(earlier.other, now.other),
        )

    # -- looking

    def look(self) -> Footprint:
        """What there is now."""
        brokers = self._brokers
        topics = brokers.zk.topic_assignments(brokers.zk.topics())
        return Footprint(
            topics={name: topic.topic_id for name, topic in topics.items()},
            placements=placements_of(topics),
            empty=self._empty_topics(),
            settings=brokers.zk.overrides(),
            acls=self._find_acls(),
            coordinated=self._find_coordinated(),
            faults=frozenset(brokers.faults.standing),
            has_disk_faults=brokers.faults.has_disk_faults,
            brokers=frozenset(handle.id for handle in brokers.all()),
            working=self._working(),
            sides=brokers.network.sides,
            is_real_time=self._is_real_time(),
            scratch=self._scratch_names(),
            connections=find_connections(brokers),
            decoders=brokers.decoders.all(),
            other=find_other_state(brokers, self._snapshots),
        )

    def _used_only_topics(self) -> bool:
        """Since `begin`. A broker that started may have found earlier groups and settings."""
        return (
            self._brokers.incarnation_count == self._incarnation_count
            and self._brokers.request_log.has_only(_HARMLESS)
        )

    def _has_transacted(self) -> bool:
        """Whether producers that came since `begin` may have begun transactions."""
        return not self._brokers.request_log.has_only(_NOT_TRANSACTIONAL)

    def _find_coordinated(self) -> Coordinated:
        """The groups and transactional ids; as last time, if no request can have changed them."""
        known = self._coordinated
        if known is None or not self._used_only_topics():
            everyone = {handle.id for handle in self._brokers.all()}
            known = self._ask_coordinators(is_well=self._working() == everyone)
            self._coordinated = known
        return known

    def _ask_coordinators(self, *, is_well: bool) -> Coordinated:
        """All groups and transactional ids; in a broken cluster, those within reach.

        A coordinator that has just started, or been elected, must know that it is one.
        """
        brokers = self._brokers
        if is_well:
            led = brokers.state.led(INTERNAL_TOPICS)
            with suppress(AwaitTimeout):  # it is broken in another way
                brokers.waiting.await_state("all coordinators", led, _SETTLING_S)
        return find_coordinated(brokers)

    def _empty_topics(self) -> dict[str, int]:
        if not self._own_topics:
            return {}
        views = find_views(self._brokers.live())
        used = {view.topic_partition.topic for view, _ in views if view.log_end_offset}
        found = self._brokers.zk.topic_assignments(self._own_topics)
        return {name: len(topic.partitions) for name, topic in found.items() if name not in used}

    def _find_acls(self) -> "frozenset[Acl] | None":
        brokers = self._brokers.running()
        if not brokers or brokers[0].require_broker().authorizer is None:
            return None
        from embedkafka.cluster.access.acls import Acls  # most clusters have none

        return frozenset(Acls(self._brokers).all())

    def _working(self) -> frozenset[BrokerId]:
        return frozenset(
            handle.id
            for handle in self._brokers.running()
            if handle.has_all_disks and not handle.is_paused
        )

    def _is_real_time(self) -> bool:
        return self._brokers.clock.describe() is None

    def _scratch_names(self) -> frozenset[str]:
        exists = self._files.exists(self._scratch)
        return frozenset(self._files.names(self._scratch) if exists else ())

    # -- putting right

    def _left_connected(self, before: Footprint) -> list[str]:
        return find_left_connected(lambda: find_connections(self._brokers), before.connections)

    def _end_faults(self, before: Footprint) -> bool:
        """Returns whether brokers were cut off from each other."""
        brokers = self._brokers
        brokers.drop_held_requests()
        for fault in brokers.faults.standing:
            if fault not in before.faults:
                fault.remove()
        if brokers.faults.has_disk_faults and not before.has_disk_faults:
            brokers.faults.heal_disks()
        was_cut = brokers.network.sides != before.sides
        if was_cut:
            brokers.heal()
        return was_cut

    def _mend_brokers(self, before: Footprint) -> bool:
        """Brings brokers back; returns whether one was missing or out of reach.

        A broker that the test added is needed if it has replicas of a topic that stays, or may know
        of transactions there. What need not be kept goes first: a broker starts in a third of the
        time without it.
        """
        brokers = self._brokers
        topics = self._staying(before)
        if self._has_transacted():
            topics |= brokers.zk.topic_assignments([TRANSACTION_STATE_TOPIC])
        needed = {
            broker_id
            for topic in topics.values()
            for assignment in topic.partitions.values()
            for broker_id in map(BrokerId, assignment.replicas)
        }
        broken = (before.working | (needed - before.brokers)) - self._working()
        dead = broken - {handle.id for handle in brokers.running()}
        if broken - dead:
            brokers.revive(broken - dead)
        if dead:
            brokers.bury(dead, self._doomed(before, is_broken=True))
            if self._working():
                self._delete_topics(before, is_broken=True)
            brokers.revive(dead)
        return bool(broken)

    def _remove_brokers(self, before: Footprint) -> None:
        """Removes those that the test has added."""
        added = [handle.id for handle in self._brokers.all() if handle.id not in before.brokers]
        for broker_id in added:
            self._brokers.remove(broker_id)
        if added:
            self._await_membership()

    def _await_membership(self) -> None:
        brokers = self._brokers
        brokers.waiting.await_state("all brokers to know each other", brokers.state.membership())

    def _doomed(self, before: Footprint, *, is_broken: bool) -> set[str]:
        """The topics that the test has made, and those whose deletion is not over.

        Kafka's own stay, because making them takes longer than emptying them, unless they have
        replicas on a broker that the test added. If a broker must start, which is slower with them,
        those go that hold nothing.
        """
        now = self._brokers.zk.topic_ids()
        made = {name for name, _ in now.items() - before.topics.items()}
        deleted = self._brokers.zk.topic_deletions()
        if is_broken:
            return (made - INTERNAL_TOPICS) | (self._idle_topics(before) & now.keys()) | deleted
        return made - (INTERNAL_TOPICS - self._stranded(made, before.brokers)) | deleted

    def _idle_topics(self, before: Footprint) -> set[str]:
        """Those of Kafka's own topics that hold nothing which must be kept or ended.

        Without its state, a transaction would be open for ever in a topic that stays.
        """
        idle = set() if before.coordinated.groups else {GROUP_METADATA_TOPIC}
        if not before.coordinated.transactions and not self._has_transacted():
            idle.add(TRANSACTION_STATE_TOPIC)
        return idle

    def _stranded(self, topics: Collection[str], brokers: Collection[BrokerId]) -> set[str]:
        """Those of Kafka's own topics that have replicas on other brokers than these."""
        found = self._brokers.zk.topic_assignments(INTERNAL_TOPICS & set(topics))
        return {
            partition.topic
            for partition, replicas in placements_of(found).items()
            if not set(replicas) <= set(brokers)
        }

    def _forget_coordinated(self, before: Footprint) -> list[str]:
        """Returns the groups that had members, and the transactions that were open."""
        found = self._ask_coordinators(is_well=before.working == before.brokers)
        new = found.without(before.coordinated)
        if new.groups or new.transactions:
            forget_coordinated(self._brokers, new)
            self._coordinated = None
        else:
            self._coordinated = found
        return [
            *(f"group {group} has members" for group in new.stable_groups),
            *(f"transaction {name} is open" for name in new.open_transactions),
        ]

    def _restore_settings(self, before: Footprint) -> None:
        now, topics = self._brokers.zk.overrides(), self._staying(before)
        for entity_type, name in now.keys() | before.settings.keys():
            wanted = before.settings.get((entity_type, name), {})
            if now.get((entity_type, name), {}) == wanted:
                continue
            if entity_type == TOPICS and name not in topics:
                continue  # it goes, or has gone, with its topic
            for handle in self._brokers.running():
                handle.require_broker().config.set_overrides(entity_type, name, wanted)

    def _restore_acls(self, before: Footprint) -> None:
        if before.acls is not None and before.acls != self._find_acls():
            from embedkafka.cluster.access.acls import Acls  # most clusters have none

            Acls(self._brokers).replace(before.acls)

    def _restore_placements(self, before: Footprint) -> None:
        """Brings replicas of topics that stay back to their brokers.

        Those of partitions that the test has added go to brokers that stay.
        """
        wanted = {
            partition: before.placements.get(partition)
            or placed_among(before.working, partition, replicas)
            for partition, replicas in placements_of(self._staying(before)).items()
        }
        restore_placements(self._brokers, wanted)

    def _staying(self, before: Footprint) -> dict[str, TopicAssignment]:
        """The topics that were there before, but not those that are being deleted."""
        zk = self._brokers.zk
        topics = zk.topic_assignments(before.topics.keys() - zk.topic_deletions())
        return {
            name: topic for name, topic in topics.items() if topic.topic_id == before.topics[name]
        }

    def _delete_topics(self, before: Footprint, *, is_broken: bool = False) -> None:
        doomed = self._doomed(before, is_broken=is_broken)
        if not doomed:
            return
        for name in doomed:
            self._forget(name)
        try:
            delete_topics(self._brokers, doomed)
        except EmbedKafkaError as error:
            _LOG.warning("topics of the last test could not be deleted: %s", error)

    def _renew_topics(self, before: Footprint) -> None:
        """Makes the cluster's own topics as empty as they were."""
        if not before.empty:
            return
        now, empty = self._brokers.zk.topic_ids(), self._empty_topics()
        renewed = [name for name, count in before.empty.items() if empty.get(name) != count]
        if renewed:
            delete_topics(self._brokers, [name for name in renewed if name in now])
            self._create(renewed)

    def _restore_leaders(self, before: Footprint) -> None:
        """Waits until every replica is in sync, and lets the preferred ones lead.

        Leaders stay elsewhere if the test itself has brought back what it broke.
        """
        brokers = self._brokers
        if before.working != before.brokers:
            return  # some replicas are where the test found them
        brokers.waiting.await_state(
            "all replicas in sync", brokers.state.nothing_under_replicated()
        )
        displaced = [
            TopicPartition(status.topic, status.partition)
            for status in brokers.state.partitions()
            if status.leader != status.replicas[0]
        ]
        if displaced:
            brokers.zk.create_preferred_election(displaced)
            brokers.waiting.await_state("the preferred leaders", brokers.state.preferred_lead())
